/** Gates: what each recurrent layer lets in, keeps and shows, word after word. */

import { bdi, h, number, select } from "../dom.js";
import { check, line, step } from "../ledger.js";
import { Matrix } from "../matrix.js";
import { View } from "../view.js";
import { blockName, labels } from "../words.js";

const NAMES = {
  input: ["Input gate i", "how much of the new is let in"],
  forget: ["Forget gate f", "how much of the old is kept"],
  candidate: ["Candidate", "what could be taken in"],
  output: ["Output gate o", "how much of the cell is shown"],
  reset: ["Reset gate r", "how much of the old the candidate sees"],
  update: ["Update gate z", "how much of the old stays"],
  cell: ["Cell c", "what is remembered"],
  state: ["State h", "what the next word and the next layer see"],
};
const SIGNED = ["candidate", "cell", "state"];

export class GatesView extends View {
  static id = "gates";
  static title = "Gates";
  static lead =
    "A recurrent layer reads word by word. At each word, every unit decides between 0 and 1 what " +
    "to let in, what to keep and what to show. Words go down, units across.";

  static available(trace) {
    return trace.recurs;
  }

  constructor(trace, state) {
    super(trace, state);
    this.wall = h("div.gates-wall");
    this.element = h("div.gates", this.tools, this.wall);
  }

  node(now) {
    return this.trace.nodes.get(now.layer);
  }

  tokens(now) {
    return this.trace.tokens(this.trace.segmentOf(now.layer));
  }

  row(now) {
    return Math.min(now.pos, this.tokens(now).length - 1);
  }

  update(now) {
    const layers = this.trace.layers.map((layer) => [layer, blockName(layer)]);
    this.tools.replaceChildren(select("Layer", layers, now.layer, this.sets("layer")));
    if (this.built !== now.layer) this.build(now);
    const list = this.tokens(now);
    for (const [name, matrix] of Object.entries(this.matrices)) {
      const { shape, data } = this.trace.tensor(`${now.layer}.${name}`);
      matrix.stripe = Math.max(2, Math.min(18, 420 / list.length));
      matrix.show({
        values: data,
        rows: shape[0],
        columns: shape[1],
        kind: SIGNED.includes(name) ? "signed" : "weight",
        range: SIGNED.includes(name) ? undefined : [0, 1],
        at: { row: this.row(now), column: now.dim },
        rowLabels: labels(list),
        label: `${NAMES[name][0]}, ${shape[1]} units for each word. Arrow keys move.`,
      });
    }
  }

  build(now) {
    this.built = now.layer;
    const pick = ({ row, column }, push) =>
      this.state.set(
        { segment: this.trace.segmentOf(now.layer), pos: row, dim: column, layer: now.layer },
        { push },
      );
    const { gates, ways } = this.node(now);
    this.matrices = Object.fromEntries(
      gates.map((name) => [name, new Matrix({ cell: [0.1, 12, 18], stripe: 1, pick })]),
    );
    this.wall.replaceChildren(
      ways.length > 1
        ? h("p.hint", "The first half of the units reads forwards (→), the second backwards (←).")
        : "",
      ...gates.map((name) =>
        h(
          "section",
          h("h2", NAMES[name][0]),
          h("p.hint", NAMES[name][1]),
          this.matrices[name].element,
        ),
      ),
    );
  }

  at(now, name, row = this.row(now)) {
    return this.trace.vector(`${now.layer}.${name}`, row)[now.dim];
  }

  /** The same number one word before: where a unit reads backwards, that is the next word. */
  before(now, name) {
    const [stack, layer] = now.layer.split(".");
    const half = this.meta.model.d_model / 2;
    const back = this.node(now).ways.length > 1 && now.dim >= half;
    const row = this.row(now) + (back ? 1 : -1);
    if (row >= 0 && row < this.tokens(now).length) return this.at(now, name, row);
    const starts = name === "state" && this.trace.vector(`${stack}.start`, Number(layer));
    return starts ? starts[now.dim] : 0;
  }

  ledger(now) {
    const at = (name) => this.at(now, name);
    // a long sentence in a wide model is stored in half precision
    const half = this.trace.header[`${now.layer}.state`].dtype === "F16";
    const agreed = (made, name) =>
      check(made, at(name), (half ? 4e-3 : 2e-6) * Math.max(1, Math.abs(made)), this.edited);
    const steps = this.node(now).gates.includes("cell")
      ? this.lstm(now, at, agreed)
      : this.gru(now, at, agreed);
    return h(
      "div",
      h(
        "p.cell-name",
        bdi(labels(this.tokens(now))[this.row(now)] ?? ""),
        h("small", `${blockName(now.layer)}, unit ${now.dim}`),
      ),
      steps,
    );
  }

  lstm(now, at, agreed) {
    const before = this.before(now, "cell"),
      kept = at("forget") * before,
      cell = kept + at("input") * at("candidate"),
      shown = Math.tanh(at("cell")),
      state = at("output") * shown;
    return [
      step(
        "1  The cell: some of the old is kept, some of the new is let in",
        line`f × c before: ${at("forget")} × ${before} = ${kept}`,
        line`+ i × candidate: ${at("input")} × ${at("candidate")} = ${cell}`,
        agreed(cell, "cell"),
      ),
      step(
        "2  The state: some of the cell is shown",
        line`o × tanh(c): ${at("output")} × ${shown} = ${state}`,
        agreed(state, "state"),
      ),
    ];
  }

  gru(now, at, agreed) {
    const z = at("update"),
      before = this.before(now, "state"),
      taken = (1 - z) * at("candidate"),
      state = taken + z * before;
    return step(
      "The state: between the new and the old",
      line`(1 − z) × candidate: ${1 - z} × ${at("candidate")} = ${taken}`,
      line`+ z × h before: ${z} × ${before} = ${state}`,
      agreed(state, "state"),
    );
  }

  say(now) {
    const word = labels(this.tokens(now))[this.row(now)];
    const told = this.node(now).gates.map((name) => `${name} ${number(this.at(now, name), 2)}`);
    return `${blockName(now.layer)}, ${word}, unit ${now.dim}: ${told.join(", ")}`;
  }

  table(now) {
    const { gates } = this.node(now);
    const rows = gates.map((name) => this.trace.vector(`${now.layer}.${name}`, this.row(now)));
    return {
      caption: `${blockName(now.layer)}: ${labels(this.tokens(now))[this.row(now)]}`,
      rows: gates.map((name) => NAMES[name][0]),
      columns: Array.from(rows[0], (_, unit) => String(unit)),
      values: rows.flatMap((row) => [...row]),
      at: { row: 0, column: now.dim },
    };
  }

  point() {}

  picture() {
    return this.matrices.state.canvas;
  }
}
