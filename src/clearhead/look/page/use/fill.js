/** Fill in: choose a word to make a gap of it, and see what else would fit. */

import { post } from "../api.js";
import { bdi, h, percent } from "../dom.js";
import { bars } from "../ledger.js";
import { Tab } from "./tab.js";

const GAP = "____";

export class FillTab extends Tab {
  static id = "fill";
  static title = "Fill in";
  static ability = "fill";
  static verb = "fill gaps";

  constructor(app, runs) {
    super(app, runs);
    this.input = h("textarea", {
      rows: 3,
      value: `The ____ was cold.`,
      "aria-label": "text with gaps, each written as four underscores",
      oninput: () => this.typed(),
    });
    this.words = h("p.running", { dir: "auto" });
    this.gaps = h("div.sheet-side", { "aria-live": "polite" });
    this.element = h(
      "section.use",
      h("div.tools", this.runChoice()),
      h(
        "div.two",
        h(
          "div.sheet-side",
          h("div.typing", this.input),
          h("p.hint", "Choose a word to make a gap of it, or a gap to close it."),
          this.words,
        ),
        this.gaps,
      ),
      this.problem,
      h("div.foot", this.status),
    );
    this.closed = new Map();
    this.typed(0);
  }

  typed(wait = 250) {
    const parts = this.input.value.split(/(\s+)/);
    this.words.replaceChildren(
      ...parts.map((part, i) =>
        part.trim()
          ? h(
              "button",
              {
                class: part.includes(GAP) ? "word gap" : "word",
                onclick: () => this.flip(parts, i),
              },
              bdi(part),
            )
          : part,
      ),
    );
    if (this.input.value.includes(GAP)) this.soon(wait, () => this.fill());
    else this.gaps.replaceChildren(h("p.hint", "There is no gap yet."));
  }

  flip(parts, i) {
    const end = /[.,!?;:]*$/.exec(parts[i])[0];
    if (parts[i].includes(GAP)) parts[i] = (this.closed.get(i) ?? "…") + end;
    else {
      this.closed.set(i, parts[i].slice(0, parts[i].length - end.length));
      parts[i] = GAP + end;
    }
    this.input.value = parts.join("");
    this.typed(0);
  }

  fill() {
    const text = this.input.value;
    return this.ask(async (signal) => {
      const found = await post("/api/fill", { run: this.run.name, text, n_best: 10 }, signal);
      this.gaps.replaceChildren(
        h("p.running", { dir: "auto" }, found.text),
        ...found.gaps.map((gap, i) =>
          h(
            "section",
            h("h3", found.gaps.length > 1 ? `Gap ${i + 1}` : "What fits"),
            bars(
              gap.map(({ word, probability }) => ({ text: word, value: probability })),
              { full: 1, shown: percent, label: "words for the gap" },
            ),
          ),
        ),
        this.notes(found.notes),
        this.insideLink({ run: this.run.name, text }),
      );
    });
  }
}
