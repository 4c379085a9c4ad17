/**
 * One layer for one token: heads joined, added to the stream, normalised; then the feed-forward
 * network.
 */

import { mean, norm, sum } from "../attention.js";
import { bdi, h, number, percent, select } from "../dom.js";
import { bars, check, line, step } from "../ledger.js";
import { Matrix } from "../matrix.js";
import { sublayers } from "../stream.js";
import { View } from "../view.js";
import { blockName, headName, labels, rowSays } from "../words.js";

const TITLES = { self: "Self-attention", cross: "Cross-attention", ff: "Feed-forward" };
const SAYS = {
  self:
    "Heads look at this stack's own tokens; " +
    "their outputs are joined and mixed by one matrix, W_O.",
  cross: "Heads look at the source; their outputs are joined and mixed by one matrix, W_O.",
  ff: "A small network reads this token alone: wide in the middle, with units that are on or off.",
};

export class BlockView extends View {
  static id = "block";
  static title = "Block";
  static lead =
    "One token on its way through one layer. Each sub-layer adds something to its vector.";

  static available(trace) {
    return trace.layers.length > 0 && !trace.recurs;
  }

  constructor(trace, state) {
    super(trace, state);
    this.cards = h("div.cards");
    this.strips = new Map();
    this.element = h("div.block", this.tools, this.cards);
  }

  tokens(now) {
    return this.trace.tokens(this.trace.segmentOf(now.layer));
  }

  row(now) {
    return Math.min(now.pos, this.tokens(now).length - 1);
  }

  update(now) {
    const { trace } = this;
    const row = this.row(now);
    const layers = trace.layers.map((layer) => [layer, blockName(layer)]);
    this.tools.replaceChildren(select("Layer", layers, now.layer, this.sets("layer")));
    this.cards.replaceChildren(...sublayers(trace, now.layer).map((sub) => this.card(sub, row)));
    for (const [id, { matrix, what }] of this.strips)
      if (id.startsWith(`${now.layer}.`)) matrix.show(what());
  }

  card(sub, row) {
    return h(
      "section.card",
      h("h2", TITLES[sub.part]),
      h("p.hint", SAYS[sub.part]),
      h(
        "div.halves",
        sub.part === "ff" ? this.units(sub, row) : this.heads(sub, row),
        this.adding(sub, row),
      ),
      this.strip(sub),
    );
  }

  heads({ id }, row) {
    const norms = this.trace.tensor(`${id}.head_norms`);
    if (!norms) return "";
    const [count, width] = norms.shape,
      list = Array.from({ length: count }, (_, head) => norms.data[head * width + row]);
    return h(
      "div",
      h("h3", "How much each head brings, after W_O"),
      bars(
        list.map((value, head) => ({
          text: headName(head),
          value,
          pick: () => this.go({ view: "attention", block: id, head, q: row, k: -1 }),
        })),
        { label: "length of each head's part" },
      ),
    );
  }

  units({ id }, row) {
    const units = this.trace.vector(`${id}.top_units`, row),
      values = this.trace.vector(`${id}.top_values`, row);
    if (!units) return "";
    const silent = this.trace.tensor(`${id}.zero_share`)?.data[row],
      width = this.meta.model.d_ff;
    const { activation } = this.meta.model;
    return h(
      "div",
      h("h3", "The most active units"),
      bars(
        Array.from(units, (unit, i) => ({ text: `unit ${unit}`, value: values[i] })),
        { label: "most active units" },
      ),
      silent === undefined
        ? ""
        : h(
            "p.hint",
            `${percent(silent)} of ${width} units `,
            activation === "relu" ? "are 0 after ReLU." : "are at or below 0.",
          ),
    );
  }

  /** How much came along the skip path, and where the norm moves mean and deviation. */
  adding({ id }, row) {
    const stats = this.trace.vector(`${id}.stats`, row);
    if (!stats) return "";
    const [skip, added, average, deviation] = stats,
      share = skip / (skip + added || 1),
      bar = h(
        "div.split",
        {
          role: "img",
          "aria-label":
            `${percent(share)} along the skip path, ` + `${percent(1 - share)} from the sub-layer`,
        },
        h("span.kept"),
        h("span.new"),
      );
    bar.firstChild.style.width = `${100 * share}%`;
    return h(
      "div",
      h("h3", this.meta.model.norm === "post" ? "Add, then normalise" : "Normalise, then add"),
      bar,
      h(
        "p.hint",
        h("span.key.kept"),
        ` as it was, length ${number(skip, 2)} `,
        h("span.key.new"),
        ` added, length ${number(added, 2)}`,
      ),
      h(
        "p.hint",
        `The norm ${this.meta.model.norm === "post" ? "after" : "before"} it moves the mean from `,
        `${number(average, 3)} to 0 and the deviation from ${number(deviation, 3)} to 1, `,
        "then scales each number.",
      ),
    );
  }

  strip(sub) {
    const rows = [
      ["before", sub.before],
      ["added", sub.added],
      ["after", sub.after],
    ].filter(([, tensor]) => tensor);
    if (rows.length < 2)
      return h(
        "p.hint",
        "The vectors between these two sub-layers were left out to keep this file small.",
      );
    const width = rows[0][1].shape.at(-1);
    const what = () => {
      const at = this.state.now,
        place = this.row(at),
        values = new Float32Array(rows.length * width);
      rows.forEach(([, tensor], i) =>
        values.set(tensor.data.subarray(place * width, (place + 1) * width), i * width),
      );
      return {
        values,
        rows: rows.length,
        columns: width,
        rowLabels: rows.map(([name]) => name),
        kind: "signed",
        at: { row: -1, column: at.dim },
        label:
          `the vector before and after ${TITLES[sub.part]}: ${width} numbers. ` +
          "Arrow keys move.",
      };
    };
    if (!this.strips.has(sub.id)) {
      const pick = ({ column }, push) => this.state.set({ dim: column }, { push });
      this.strips.set(sub.id, { matrix: new Matrix({ pick, stripe: 18, cell: [0.1, 12, 18] }) });
    }
    this.strips.get(sub.id).what = what;
    return this.strips.get(sub.id).matrix.element;
  }

  say(now) {
    return `${blockName(now.layer)}, ${labels(this.tokens(now))[this.row(now)]}, number ${now.dim}`;
  }

  table(now) {
    const found = sublayers(this.trace, now.layer).filter((sub) => sub.after),
      row = this.row(now),
      width = this.meta.model.d_model;
    return {
      caption:
        `${blockName(now.layer)}: the vector of ${labels(this.tokens(now))[row]} ` +
        "after each sub-layer",
      rows: found.map((sub) => TITLES[sub.part]),
      columns: Array.from({ length: width }, (_, i) => String(i)),
      values: found.flatMap((sub) =>
        Array.from(sub.after.data.subarray(row * width, (row + 1) * width)),
      ),
      at: { row: 0, column: now.dim },
    };
  }

  picture() {
    return [...this.strips].find(([id]) => id.startsWith(`${this.state.now.layer}.`))?.[1].matrix
      .canvas;
  }

  /** Add and norm for one number of one token, sub-layer by sub-layer. */
  ledger(now) {
    const row = this.row(now),
      width = this.meta.model.d_model,
      post = this.meta.model.norm === "post";
    const at = (tensor) => tensor.data[row * width + now.dim],
      whole = (tensor) => tensor.data.subarray(row * width, (row + 1) * width);
    return h(
      "div",
      h(
        "p.cell-name",
        bdi(labels(this.tokens(now))[row] ?? ""),
        h(
          "small",
          `${blockName(now.layer)}${rowSays(this.tokens(now)[row])}; ` +
            `position ${row}, number ${now.dim} of ${width}`,
        ),
      ),
      sublayers(this.trace, now.layer).map((sub) => {
        const adding = sub.added && [
          line`${at(sub.before)} + ${at(sub.added)} = ${at(sub.sum)}`,
          this.length(sub.id, row, whole(sub.added), whole(sub.sum)),
        ];
        const entering = post ? sub.sum : sub.before;
        const norming =
          entering && sub.normed && this.norming(sub.id, whole(entering), at(sub.normed), now.dim);
        return step(
          TITLES[sub.part],
          post ? [adding, norming] : [norming, adding],
          !adding && !norming ? line`left out to keep this file small` : "",
        );
      }),
    );
  }

  /**
   * What is added is the difference of two stored vectors; its length must be that of the sub-
   * layer's own output.
   */
  length(id, row, added, sum) {
    const stats = this.trace.vector(`${id}.stats`, row);
    return (
      stats && [
        line`length of all that is added`,
        check(norm(added), stats[1], 1e-5 * Math.max(1, norm(sum)), this.edited),
      ]
    );
  }

  norming(id, vector, model, dim) {
    const gain = this.trace.tensor(`${id}.norm_weight`),
      shift = this.trace.tensor(`${id}.norm_bias`);
    if (!gain) return "";
    const average = mean(vector),
      variance = sum(Array.from(vector, (x) => (x - average) ** 2)) / vector.length;
    const deviation = Math.sqrt(variance + (this.meta.model.norm_eps ?? 1e-5)),
      bias = shift ? shift.data[dim] : 0;
    const made = ((vector[dim] - average) / deviation) * gain.data[dim] + bias;
    return [
      line`norm: (${vector[dim]} − mean ${average}) ÷ deviation ${deviation}`,
      line` × ${gain.data[dim]} + ${bias} = ${made}`,
      check(made, model, 2e-5 * Math.max(1, Math.abs(made)), this.edited),
    ];
  }
}
