/** The wall of heads: every head of the model side by side, in an order of one's own choice. */

import { attentionOf, rollout } from "../attention.js";
import { dark } from "../colour.js";
import { choice, h, number, select } from "../dom.js";
import { Matrix, thumbnail } from "../matrix.js";
import { View } from "../view.js";
import { blockName, headName } from "../words.js";

const ORDERS = [
  ["layer", "layer"],
  ["entropy", "broad first"],
  ["previous", "to the token before"],
  ["itself", "to itself"],
  ["special", "to special tokens"],
  ["norm", "most added to the stream"],
];
const ROLES = {
  aligns: "links words",
  itself: "looks at itself",
  previous: "at the token before",
  next: "at the token after",
  special: "rests on start or end",
  broad: "looks everywhere",
  sharp: "picks one word",
};
const MIXES = [
  ["", "one head"],
  ["mean", "mean"],
  ["max", "max"],
  ["rollout", "rollout"],
];
const SAYS = {
  mean: "The mean of this block's heads.",
  max: "For each cell, the head that looks most.",
  rollout:
    "How much of each token has arrived here through all layers, " +
    "if half of each layer is what was before.",
};

export class HeadsView extends View {
  static id = "heads";
  static title = "Heads";
  static lead =
    "All heads at once. A bright diagonal looks at itself or its neighbour; " +
    "an even square looks everywhere.";

  static available(trace) {
    return trace.attentions.reduce((count, node) => count + node.n_heads, 0) > 1;
  }

  constructor(trace, state) {
    super(trace, state);
    this.wall = h("div.wall");
    this.name = h("h2");
    this.about = h("p.hint");
    this.large = new Matrix({ cell: [14, 34, 26], ...this.cells() });
    this.element = h(
      "div.heads",
      this.tools,
      h(
        "div.heads-body",
        this.wall,
        h(
          "section.preview",
          this.name,
          this.about,
          this.large.element,
          h(
            "button.quiet",
            { onclick: () => this.go({ view: "attention" }) },
            "step by step, and its arithmetic →",
          ),
        ),
      ),
    );
    this.list = trace.attentions.flatMap((node) => {
      const made = attentionOf(trace, node.id);
      return Array.from({ length: made.nHeads }, (_, head) => ({
        id: node.id,
        head,
        ...made.traits(head),
        role: this.role(node.id, head),
      }));
    });
  }

  /** What a head does, in words, where one thing stands out. */
  role(id, head) {
    if (this.meta.alignment?.head === `${id}.${head}`) return ROLES.aligns;
    return ROLES[attentionOf(this.trace, id).traits(head).badge] ?? "";
  }

  update(now) {
    const orders = ORDERS.filter(
      ([name]) => name !== "norm" || this.list.some((one) => one.norm !== undefined),
    );
    this.tools.replaceChildren(
      select("Order", orders, now.sort, this.sets("sort")),
      choice("Shown large", MIXES, now.mix, this.sets("mix")),
    );
    this.drawWall(now);
    this.drawLarge(now);
  }

  drawWall(now) {
    const key = `${now.sort} ${dark()}`;
    if (this.walled !== key) {
      const kinds = [...new Set(this.list.map(({ id }) => kindOf(id)))];
      this.wall.replaceChildren(...kinds.map((kind) => this.group(kind, now.sort)));
      this.walled = key;
    }
    for (const button of this.wall.querySelectorAll("button")) {
      button.setAttribute(
        "aria-pressed",
        String(button.dataset.id === now.block && Number(button.dataset.head) === now.head),
      );
    }
  }

  group(kind, sort) {
    const own = this.list.filter(({ id }) => kindOf(id) === kind);
    const title = h(
      "h2",
      kind === "decoder cross"
        ? "Cross-attention"
        : kind.startsWith("encoder")
          ? "Encoder"
          : "Decoder, masked",
    );
    if (sort !== "layer") {
      const sorted = [...own].sort((a, b) => (b[sort] ?? 0) - (a[sort] ?? 0));
      return h(
        "section",
        title,
        h(
          "div.thumbs",
          sorted.map((one) => this.thumb(one, sort)),
        ),
      );
    }
    const ids = [...new Set(own.map(({ id }) => id))];
    return h(
      "section",
      title,
      ids.map((id) =>
        h(
          "div.thumb-row",
          h("span.label", String(Number(id.split(".")[1]) + 1)),
          h(
            "div.thumbs",
            own.filter((one) => one.id === id).map((one) => this.thumb(one, sort)),
          ),
        ),
      ),
    );
  }

  thumb(one, sort) {
    const made = attentionOf(this.trace, one.id),
      values = made.weights(one.head);
    const value = sort === "layer" ? "" : number(one[sort] ?? 0, 2);
    const name = `${blockName(one.id)}, ${headName(one.head)}`;
    return h(
      "button.thumb",
      {
        "data-id": one.id,
        "data-head": one.head,
        title: name + (one.role && `: ${one.role}`),
        "aria-label": name + (one.role && `: ${one.role}`),
        onclick: () => this.go({ block: one.id, head: one.head, mix: "" }),
      },
      thumbnail(
        { values, rows: made.nq, columns: made.nk },
        "weight",
        made.nHeads > 4 || innerWidth < 500 ? 62 : 96,
      ),
      h(
        "span.thumb-text",
        sort === "layer"
          ? String(one.head + 1)
          : `${Number(one.id.split(".")[1]) + 1}·${one.head + 1}  ${value}`,
        one.role && h("span.badge", one.role),
      ),
    );
  }

  values(now) {
    const made = this.attention;
    if (now.mix === "rollout") return rollout(this.trace, now.block);
    return now.mix ? made.mixed(now.mix) : made.weights(now.head);
  }

  drawLarge(now) {
    const made = this.attention;
    const traits = made.traits(now.head);
    this.name.textContent = `${blockName(now.block)}, ${now.mix || headName(now.head)}`;
    this.about.textContent =
      SAYS[now.mix] ??
      (this.role(now.block, now.head)
        ? `This head ${said(this.role(now.block, now.head))}. `
        : "") +
        `Spread ${number(traits.entropy, 2)} of 1 · to itself ${number(traits.itself, 2)} · ` +
        `to the token before ${number(traits.previous, 2)} · ` +
        `to special tokens ${number(traits.special, 2)}`;
    const masked = (i, j) => made.masked(i, j, now.head);
    this.large.show({
      ...made.sheet(this.values(now), now),
      kind: "weight",
      masked: now.mix ? undefined : masked,
      label: this.name.textContent,
    });
  }

  say(now) {
    const role = now.mix ? "" : this.role(now.block, now.head);
    return `${blockName(now.block)}, ${now.mix || headName(now.head)}${role && `: ${role}`}`;
  }

  table(now) {
    return this.attention.table(this.name.textContent, this.values(now), now);
  }
}

function said(role) {
  return role.startsWith("at ") ? `looks ${role}` : role;
}

function kindOf(id) {
  const [stack, , part] = id.split(".");
  return `${stack} ${part}`;
}
