/** The wall of heads: every head of the model side by side, in an order of one's own choice. */

import { attentionOf, rollout } from "../attention.js";
import { dark } from "../colour.js";
import { bdi, choice, h, number, percent, select } from "../dom.js";
import { Matrix, thumbnail } from "../matrix.js";
import { View, beside } from "../view.js";
import { blockName, headName } from "../words.js";

const ORDERS = [
  ["cost", "what silencing costs"],
  ["layer", "layer"],
  ["entropy", "broad first"],
  ["previous", "to the token before"],
  ["itself", "to itself"],
  ["special", "to special tokens"],
  ["norm", "most added to the stream"],
];
const ROLES = {
  links: "links words",
  itself: "looks at itself",
  previous: "looks at the token before",
  next: "looks at the token after",
  special: "rests on start or end",
  near: "looks at its neighbours",
  broad: "looks everywhere",
  sharp: "picks one word",
  some: "looks at a few words",
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
    "Every head of the model on this sentence, and what it does. First come those that the " +
    "sentence needs most: each was silenced in turn, and the model asked again.";

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
      (this.body = h(
        "div.heads-body",
        this.wall,
        (this.preview = h(
          "section.preview",
          this.name,
          this.about,
          this.large.element,
          h(
            "button.quiet",
            { onclick: () => this.go({ view: "attention" }) },
            "step by step, and its arithmetic →",
          ),
        )),
      )),
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
    this.price();
  }

  /** What silencing cost, in the trace or soon from the server. */
  price() {
    const { attentions } = this.meta.heads ?? {};
    if (attentions)
      for (const one of this.list) {
        one.cost = attentions[one.id].lost[one.head];
        one.changed = attentions[one.id].changed[one.head];
      }
    this.walled = null;
  }

  get priced() {
    return this.list[0].cost !== undefined;
  }

  async opened() {
    if (this.priced || this.asked || !this.trace.silence) return;
    this.asked = true;
    this.about.textContent = "Silencing each head in turn …";
    this.meta.heads = await this.trace.silence().catch(() => undefined);
    this.price();
    this.update(this.state.now);
  }

  /** What a head does on this sentence, in words. */
  role(id, head) {
    if (this.meta.alignment?.head === `${id}.${head}`) return ROLES.links;
    const made = attentionOf(this.trace, id),
      { badge, favourite } = made.traits(head);
    return badge === "one" ? `rests on “${made.columnLabels[favourite]}”` : ROLES[badge];
  }

  update(now) {
    const orders = ORDERS.filter(
      ([name]) => !["norm", "cost"].includes(name) || this.list[0][name] !== undefined,
    );
    this.tools.replaceChildren(
      select("Order", orders, this.sort(now), this.sets("sort")),
      choice("Shown large", MIXES, now.mix, this.sets("mix")),
    );
    this.drawWall(now);
    this.drawLarge(now);
  }

  /** The order in force: by layers, where costs are not known. */
  sort({ sort }) {
    return sort === "cost" && !this.priced ? "layer" : sort;
  }

  drawWall(now) {
    const sort = this.sort(now),
      key = `${sort} ${dark()}`;
    if (this.walled !== key) {
      const kinds = [...new Set(this.list.map(({ id }) => kindOf(id)))];
      this.wall.replaceChildren(
        ...(sort === "cost" ? [this.ranking()] : kinds.map((kind) => this.group(kind, sort))),
      );
      this.walled = key;
    }
    for (const button of this.wall.querySelectorAll("button")) {
      button.setAttribute(
        "aria-pressed",
        String(button.dataset.id === now.block && Number(button.dataset.head) === now.head),
      );
    }
    beside(this.wall, this.preview, this.body);
  }

  /** All heads as cards, the dearest first. */
  ranking() {
    const sorted = [...this.list].sort((a, b) => b.cost - a.cost),
      most = Math.max(1e-9, sorted[0].cost);
    return h(
      "div.head-cards",
      sorted.map((one) => {
        const made = attentionOf(this.trace, one.id);
        const bar = h("span.bar");
        bar.style.width = `${Math.max(0, Math.min(100, (100 * one.cost) / most))}%`;
        return this.button(
          "button.head-card",
          one,
          thumbnail(
            { values: made.weights(one.head), rows: made.nq, columns: made.nk },
            "weight",
            60,
          ),
          h(
            "span.head-says",
            h("b", bdi(one.role)),
            h("span.hint", placeName(one)),
            h("span.track", bar),
            h("span.hint", this.loss(one)),
          ),
        );
      }),
    );
  }

  /** What becomes of the output without a head, in words. */
  loss({ cost, changed }) {
    const { classes } = this.meta,
      { of } = this.meta.heads;
    if (changed)
      return classes
        ? "without it, another verdict"
        : `without it, ${changed} of ${of} tokens change`;
    if (cost > 0.01) return `without it, ${percent(1 - Math.exp(-cost))} less likely`;
    return cost < -0.01 ? "surer without it" : "hardly missed";
  }

  button(tag, one, ...inside) {
    const name = `${blockName(one.id)}, ${headName(one.head)}: ${one.role}`;
    return h(
      tag,
      {
        "data-id": one.id,
        "data-head": one.head,
        title: name,
        "aria-label": this.priced ? `${name}; ${this.loss(one)}` : name,
        onclick: () => this.go({ block: one.id, head: one.head, mix: "" }),
      },
      ...inside,
    );
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
    return this.button(
      "button.thumb",
      one,
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
        h("span.badge", bdi(one.role)),
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
    const one = this.list.find(({ id, head }) => id === now.block && head === now.head);
    const cost = this.priced ? `${upper(this.loss(one))}. ` : "";
    this.about.textContent =
      SAYS[now.mix] ??
      `This head ${one.role}. ` +
        cost +
        `Spread ${traits.entropy.toFixed(2)} of 1 · to itself ${percent(traits.itself)} · ` +
        `to the token before ${percent(traits.previous)} · ` +
        `to special tokens ${percent(traits.special)}`;
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

function upper(text) {
  return text[0].toUpperCase() + text.slice(1);
}

/** Where a head is, briefly. */
function placeName({ id, head }) {
  const [stack, layer, part] = id.split(".");
  const to = part === "cross" ? " → source" : "";
  return `${stack} ${Number(layer) + 1}${to}, ${headName(head)}`;
}

function kindOf(id) {
  const [stack, , part] = id.split(".");
  return `${stack} ${part}`;
}
