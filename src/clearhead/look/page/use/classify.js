/** Classify: bars while one types, and what would become of them without each word. */

import { post } from "../api.js";
import { bdi, h, percent } from "../dom.js";
import { bars } from "../ledger.js";
import { Tab, examples } from "./tab.js";

const PAUSE = 220;
const EXAMPLES = [
  "The soup was lovely.",
  "The soup was not lovely.",
  "I can't say that it was bad.",
];

export class ClassifyTab extends Tab {
  static id = "classify";
  static title = "Classify";
  static ability = "classify";
  static verb = "classify texts";

  constructor(app, runs) {
    super(app, runs);
    this.input = h("textarea", {
      rows: 3,
      "aria-label": "text to classify",
      placeholder: "Type a text",
      spellcheck: "false",
      oninput: () => this.typed(),
    });
    this.empty = h("div");
    this.verdict = h("div", { "aria-live": "polite" });
    this.element = h(
      "section.use",
      h("div.tools", this.runChoice()),
      h("div.two", h("div.sheet-side", h("div.typing", this.input), this.empty), this.verdict),
      this.problem,
      h("div.foot", this.status),
    );
    this.verdict.classList.add("sheet-side");
    this.begin(EXAMPLES[1]);
  }

  typed(wait = PAUSE) {
    const pick = (text) => {
      this.input.value = text;
      this.typed(0);
    };
    const text = this.input.value;
    this.empty.replaceChildren(text ? "" : examples(EXAMPLES, pick));
    if (text.trim()) this.soon(wait, () => this.classify(text));
    else
      this.verdict.replaceChildren(
        h("p.hint", `It tells apart: ${this.run.labels.slice(0, 12).join(", ")}.`),
      );
  }

  classify(text) {
    return this.ask(async (signal) => {
      const found = await post("/api/classify", { run: this.run.name, text, words: true }, signal);
      this.draw(found, text);
    });
  }

  draw(found, text) {
    const order = Object.entries(found.probabilities).sort((a, b) => b[1] - a[1]);
    const [best, sure] = order[0];
    const list = h("div");
    const show = (probabilities, without) =>
      list.replaceChildren(
        bars(
          order.slice(0, 8).map(([label]) => ({
            text: label,
            value: probabilities[label],
            marked: label === best,
          })),
          { full: 1, shown: percent, label: "classes" },
        ),
        h(
          "p.hint",
          without ? ["without ", h("b", bdi(without))] : "point at a word to leave it out",
        ),
      );
    show(found.probabilities);
    this.verdict.replaceChildren(
      h(
        "div.verdict",
        h("span.verdict-name", bdi(found.labels.join(", ") || best)),
        h("span.verdict-share", percent(sure)),
      ),
      this.text(found, text, { best, sure, show }),
      list,
      this.notes(found.notes),
      this.insideLink({ run: this.run.name, text }),
    );
  }

  /** The text, its words marked by what the verdict would lose without them. */
  text({ words, probabilities }, text, { best, sure, show }) {
    const largest = Math.max(
      0.02,
      ...words.map((word) => Math.abs(sure - word.probabilities[best])),
    );
    const parts = [];
    let from = 0;
    for (const { word, begin, end, probabilities: without } of words) {
      const share = (sure - without[best]) / largest;
      const button = h(
        "button",
        {
          class: `word ${share >= 0 ? "carries" : "against"}`,
          title: `without it ${percent(without[best])} ${best}`,
          onpointerenter: () => show(without, word),
          onpointerleave: () => show(probabilities),
          onfocus: () => show(without, word),
          onblur: () => show(probabilities),
          onclick: () => show(without, word),
        },
        bdi(word),
      );
      button.style.setProperty("--share", Math.min(1, Math.abs(share)).toFixed(3));
      parts.push(text.slice(from, begin), button);
      from = end;
    }
    return h("p.running", { dir: "auto" }, parts, text.slice(from));
  }
}
