/** The wall of heads: every head of the model side by side, in an order of one's own choice. */

import { attentionOf, rollout } from "../attention.js";
import { dark } from "../colour.js";
import { choice, h, number, select } from "../dom.js";
import { Matrix, thumbnail } from "../matrix.js";
import { blockName, labels, rowLabels } from "../words.js";

const ORDERS = [["layer", "layer"], ["entropy", "broad first"], ["previous", "to the token before"],
  ["itself", "to itself"],
  ["special", "to special tokens"], ["norm", "most added to the stream"]];
const BADGES = { itself: "itself", previous: "token before", next: "token after", special: "special", broad: "broad",
  sharp: "sharp" };
const MIXES = [["", "one head"], ["mean", "mean"], ["max", "max"], ["rollout", "rollout"]];
const SAYS = {
  mean: "The mean of this block's heads.",
  max: "For each cell, the head that looks most.",
  rollout: "How much of each token has arrived here through all layers, if half of each layer is what was before.",
};

export const heads = {
  name: "heads",
  title: "Heads",
  lead: "All heads at once. A bright diagonal looks at itself or its neighbour; an even square looks everywhere.",
  available: (trace) => trace.attentions.length > 0,
  build: (trace, state) => new HeadsView(trace, state),
};

class HeadsView {
  constructor(trace, state) {
    Object.assign(this, { trace, state });
    this.tools = h("div", { class: "tools" });
    this.wall = h("div", { class: "wall" });
    this.name = h("h2", {});
    this.about = h("p", { class: "hint" });
    this.large = new Matrix({ cell: [14, 34, 26], pick: ({ row, column }, push) =>
      state.set({ q: row, k: column }, { push }), hover: (at) => state.point(at && { q: at.row, k: at.column }) });
    this.element = h("div", { class: "heads" }, this.tools, h("div", { class: "heads-body" }, this.wall,
      h("section", { class: "preview" }, this.name, this.about, this.large.element,
        h("button", { type: "button", class: "quiet", onclick: () => state.set({ view: "attention" }, { push: true }) },
          "its four stages and its arithmetic →"))));
    this.list = trace.attentions.flatMap((node) => {
      const made = attentionOf(trace, node.id);
      return Array.from({ length: made.nHeads }, (_, head) => ({ id: node.id, head, ...made.traits(head) }));
    });
  }

  update(now) {
    const { state } = this, orders = ORDERS.filter(([name]) => name !== "norm"
      || this.list.some((one) => one.norm !== undefined));
    this.tools.replaceChildren(select("Order", orders, now.sort, (sort) => state.set({ sort }, { push: true })),
      choice("Shown large", MIXES, now.mix, (mix) => state.set({ mix }, { push: true })));
    this.drawWall(now);
    this.drawLarge(now);
  }

  drawWall(now) {
    const key = `${now.sort} ${dark()}`;
    if (this.drawn !== key) {
      const kinds = [...new Set(this.list.map(({ id }) => kindOf(id)))];
      this.wall.replaceChildren(...kinds.map((kind) => this.group(kind, now.sort)));
      this.drawn = key;
    }
    for (const button of this.wall.querySelectorAll("button")) {
      button.setAttribute("aria-pressed",
        String(button.dataset.id === now.block && Number(button.dataset.head) === now.head));
    }
  }

  group(kind, sort) {
    const own = this.list.filter(({ id }) => kindOf(id) === kind);
    const title = h("h2", {}, kind === "decoder cross" ? "Cross-attention" : kind.startsWith("encoder") ? "Encoder"
      : "Decoder, masked");
    if (sort !== "layer") {
      const sorted = [...own].sort((a, b) => (b[sort] ?? 0) - (a[sort] ?? 0));
      return h("section", {}, title, h("div", { class: "thumbs" }, sorted.map((one) => this.thumb(one, sort))));
    }
    const ids = [...new Set(own.map(({ id }) => id))];
    return h("section", {}, title,
      ids.map((id) => h("div", { class: "thumb-row" }, h("span", { class: "label" }, id.split(".")[1]),
      h("div", { class: "thumbs" }, own.filter((one) => one.id === id).map((one) => this.thumb(one, sort))))));
  }

  thumb(one, sort) {
    const made = attentionOf(this.trace, one.id), values = made.weights(one.head);
    const value = sort === "layer" ? "" : number(one[sort] ?? 0, 2), badge = BADGES[one.badge] ?? "";
    return h("button", { type: "button", class: "thumb", "data-id": one.id, "data-head": one.head,
      title: `${blockName(one.id)}, head ${one.head}${badge && `: ${badge}`}`,
      "aria-label": `${blockName(one.id)}, head ${one.head}${badge && `, looks: ${badge}`}`,
      onclick: () => this.state.set({ block: one.id, head: one.head, mix: "" }, { push: true }) },
      thumbnail({ values, rows: made.nq, columns: made.nk }, "weight", made.nHeads > 4 || innerWidth < 500 ? 54 : 84),
      h("span", { class: "thumb-text" }, sort === "layer" ? `${one.head}`
        : `${one.id.split(".")[1]}·${one.head}  ${value}`, badge && h("span", { class: "badge" }, badge)));
  }

  values(now) {
    const made = attentionOf(this.trace, now.block);
    if (now.mix === "rollout") return rollout(this.trace, now.block);
    return now.mix ? made.mixed(now.mix) : made.weights(now.head);
  }

  drawLarge(now) {
    const made = attentionOf(this.trace, now.block), traits = made.traits(now.head);
    this.name.textContent = `${blockName(now.block)}, ${now.mix || `head ${now.head}`}`;
    this.about.textContent = SAYS[now.mix]
      ?? `Spread ${number(traits.entropy, 2)} of 1 · to itself ${number(traits.itself, 2)} · to the token before ` +
      `${number(traits.previous, 2)} · to special tokens ${number(traits.special, 2)}`;
    const masked = (i, j) => made.masked(i, j, now.head);
    this.large.show({ values: this.values(now), rows: made.nq, columns: made.nk, rowLabels: rowLabels(made.queries),
      columnLabels: labels(made.keys), kind: "weight",
      at: { row: now.q, column: now.k }, masked: now.mix ? undefined : masked, label: this.name.textContent });
  }

  point(hover) {
    const { q, k } = hover ?? this.state.now;
    this.large.mark({ row: q, column: k });
  }

  say(now) {
    const { badge } = attentionOf(this.trace, now.block).traits(now.head);
    return `${blockName(now.block)}, ${now.mix || `head ${now.head}`}${badge && !now.mix ? `: ${BADGES[badge]}` : ""}`;
  }

  table(now) {
    const made = attentionOf(this.trace, now.block);
    return { caption: this.name.textContent, rows: rowLabels(made.queries), columns: labels(made.keys),
      values: this.values(now), at: { row: now.q, column: now.k } };
  }

  picture() {
    return this.large.canvas;
  }

  matrix() {
    return this.large.shown;
  }
}

function kindOf(id) {
  const [stack, , part] = id.split(".");
  return `${stack} ${part}`;
}
