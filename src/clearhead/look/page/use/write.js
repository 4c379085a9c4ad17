/** Write: ghost text behind one's own, Tab takes it; or three ways to go on. */

import { events, post } from "../api.js";
import { bdi, h, percent, slider } from "../dom.js";
import { Tab, examples } from "./tab.js";

const PAUSE = 450;
const AHEAD = 24; // tokens of ghost text
const EXAMPLES = ["Once upon a time, there was a brave", "The next day"];

export class WriteTab extends Tab {
  static id = "write";
  static title = "Write";
  static ability = "write";
  static verb = "write";

  constructor(app, runs) {
    super(app, runs);
    this.ghost = "";
    this.heat = this.run.decode.temperature || 0.7;
    this.input = h("textarea", {
      rows: 9,
      "aria-label": "your text; Tab takes what is proposed, Escape drops it",
      placeholder: "Begin a text",
      spellcheck: "false",
      oninput: () => this.typed(),
      onkeydown: (event) => this.press(event),
      onscroll: () => (this.behind.scrollTop = this.input.scrollTop),
    });
    this.behind = h("div.behind.ghostly", { "aria-hidden": "true" });
    this.proposed = h("p.live", { role: "status" });
    this.ways = h("div.ways");
    this.empty = h("div");
    this.element = h(
      "section.use.write",
      h(
        "div.tools",
        this.runChoice(),
        slider(
          "Temperature",
          { min: 0, max: 1.5, step: 0.1, value: this.heat, text: (x) => x.toFixed(1) },
          (heat) => {
            this.heat = heat;
            this.typed();
          },
        ),
        h("button.pill", { onclick: () => this.three() }, "Three ways on"),
        h("button.pill", { onclick: () => this.take() }, "Take it (Tab)"),
      ),
      this.empty,
      h("div.typing.page-like", this.behind, this.input),
      this.ways,
      this.problem,
      this.proposed,
      h("div.foot", this.status),
    );
    this.input.value = EXAMPLES[0]; // something to look at from the first moment
    this.typed(0);
  }

  drawEmpty() {
    const pick = (text) => {
      this.input.value = text;
      this.typed(0);
      this.input.focus();
    };
    this.empty.replaceChildren(this.input.value ? "" : examples(EXAMPLES, pick));
  }

  press(event) {
    if (event.key === "Tab" && this.ghost && !event.shiftKey) {
      event.preventDefault();
      this.take();
    }
    if (event.key === "Escape") this.drop();
  }

  take() {
    if (!this.ghost) return;
    this.input.value += this.ghost;
    this.typed(0);
    this.input.focus();
  }

  drop() {
    this.stop();
    this.ghost = "";
    this.draw();
  }

  typed(wait = PAUSE) {
    this.ghost = "";
    this.draw();
    this.drawEmpty();
    this.ways.replaceChildren();
    this.aborter?.abort();
    if (this.input.value.trim()) this.soon(wait, () => this.propose());
  }

  asked() {
    const body = { run: this.run.name, text: this.input.value, temperature: this.heat };
    return { ...body, max_length: AHEAD };
  }

  propose() {
    const text = this.input.value;
    return this.ask(async (signal) => {
      for await (const [event, data] of events(
        "/api/write",
        { ...this.asked(), stream: true },
        signal,
      )) {
        if (text !== this.input.value) return;
        if (event === "reset") this.ghost = "";
        if (event === "piece") this.ghost += data.text;
        if (event === "done") {
          this.ghost = data.text;
          this.proposed.textContent = `proposed: ${data.text}`;
        }
        this.draw();
      }
    });
  }

  draw() {
    const ghost = h("span.ghost-text", this.ghost);
    this.behind.replaceChildren(this.input.value, ghost, "\n");
    this.input.style.minHeight = `${Math.min(560, this.behind.scrollHeight + 2)}px`;
  }

  /** Three continuations, with how likely the model finds each. */
  three() {
    this.ways.replaceChildren(h("p.hint", "Thinking of three …"));
    return this.ask(async (signal) => {
      const found = await post("/api/write", { ...this.asked(), n_best: 3 }, signal);
      const ways = [found, ...found.alternatives];
      this.ways.replaceChildren(
        h("h3", `Drawn at temperature ${this.heat.toFixed(1)}, each with a seed of its own`),
        h(
          "ul",
          ways.map((way) =>
            h(
              "li",
              h(
                "button",
                {
                  onclick: () => {
                    this.ghost = way.text;
                    this.take();
                  },
                },
                bdi(way.text),
                h("span.hint", `${percent(perToken(way.tokens))} per token · seed ${way.seed}`),
              ),
            ),
          ),
        ),
        this.insideLink({ run: this.run.name, text: this.input.value }),
      );
    });
  }
}

/** The geometric mean of the tokens' probabilities. */
function perToken(tokens) {
  const total = tokens.reduce((sum, { log_prob: logProb }) => sum + logProb, 0);
  return Math.exp(total / Math.max(1, tokens.length));
}
