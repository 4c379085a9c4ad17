/** Meaning: sentences as vectors, and how close they lie to each other. */

import { post } from "../api.js";
import { h } from "../dom.js";
import { Matrix } from "../matrix.js";
import { cosine } from "../tour/stop.js";
import { short } from "../words.js";
import { Tab } from "./tab.js";

const FIRST = ["The soup was lovely.", "The food was excellent.", "The film was boring."];
const MOST = 24;

export class MeaningTab extends Tab {
  static id = "meaning";
  static title = "Meaning";
  static ability = "embed";
  static verb = "turn sentences into vectors";

  constructor(app, runs) {
    super(app, runs);
    this.input = h("textarea", {
      rows: 8,
      value: FIRST.join("\n"),
      "aria-label": "sentences to compare, one a line",
      oninput: () => this.typed(),
    });
    this.matrix = new Matrix({
      pick: ({ row, column }) => this.tell(row, column),
      cell: [20, 60, 40],
    });
    this.what = h("p.sentence", { "aria-live": "polite" });
    this.element = h(
      "section.use",
      h("div.tools", this.runChoice()),
      h(
        "div.two",
        h("div.sheet-side", h("p.hint", "One sentence a line."), h("div.typing", this.input)),
        h("div.sheet-side", h("h2", "How close they are"), this.matrix.element, this.what),
      ),
      this.problem,
      h("div.foot", this.status),
    );
    this.typed(0);
  }

  typed(wait = 400) {
    this.lines = this.input.value
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean)
      .slice(0, MOST);
    if (this.lines.length > 1) this.soon(wait, () => this.compare(this.lines));
  }

  compare(lines) {
    return this.ask(async (signal) => {
      const { vectors } = await post("/api/embed", { run: this.run.name, text: lines }, signal);
      this.alike = vectors.map((a) => vectors.map((b) => cosine(a, b)));
      this.show(lines, { row: 0, column: 1 });
    });
  }

  show(lines, at) {
    const names = lines.map((line) => short(line, 20));
    this.matrix.show({
      values: Float32Array.from(this.alike.flat()),
      rows: lines.length,
      columns: lines.length,
      rowLabels: names,
      columnLabels: names,
      kind: "weight",
      range: [Math.min(0, ...this.alike.flat()), 1],
      at,
      label: "likeness of each two sentences. Arrow keys move.",
    });
    const { row, column } = at;
    this.what.replaceChildren(
      `${this.alike[row][column].toFixed(3)} (1 is the same direction) between `,
      h("b", lines[row]),
      " and ",
      h("b", lines[column]),
    );
  }

  tell(row, column) {
    this.show(this.lines, { row, column });
  }
}
