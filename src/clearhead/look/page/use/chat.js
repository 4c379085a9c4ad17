/** Chat: turns that stream in, can be stopped, asked for anew and taken back. */

import { events } from "../api.js";
import { h, slider } from "../dom.js";
import { Tab, examples, spelledWords, wordButton } from "./tab.js";

const EXAMPLES = ["Hi, how are you?", "My name is Nora.", "Do you like penguins?"];

export class ChatTab extends Tab {
  static id = "chat";
  static title = "Chat";
  static ability = "chat";
  static verb = "chat";

  constructor(app, runs) {
    super(app, runs);
    this.turns = [];
    this.answers = [];
    this.seed = 0;
    this.list = h("ol.turns", { "aria-live": "polite" });
    this.empty = h("div");
    this.input = h("input", {
      type: "text",
      "aria-label": "your turn",
      placeholder: "Say something",
    });
    this.heat = this.run.decode.temperature;
    this.element = h(
      "section.use.talk",
      h(
        "div.tools",
        this.runChoice(() => this.begin()),
        slider(
          "Temperature",
          { min: 0, max: 1.5, step: 0.1, value: this.heat, text: (x) => x.toFixed(1) },
          (heat) => (this.heat = heat),
        ),
        h("button.pill", { onclick: () => this.begin() }, "Begin anew"),
      ),
      this.empty,
      this.list,
      h(
        "form.say",
        {
          onsubmit: (event) => {
            event.preventDefault();
            this.say(this.input.value);
          },
        },
        this.input,
        h("button.pill.strong", { type: "submit" }, "Say"),
      ),
      this.problem,
      h("div.foot", this.status),
    );
    this.begin();
  }

  begin() {
    this.aborter?.abort();
    this.turns = [];
    this.answers = [];
    this.draw();
  }

  say(text) {
    if (!text.trim()) return;
    this.input.value = "";
    this.turns.push(text.trim());
    this.seed = 0;
    this.answer();
  }

  /** Answers the last turn; another seed is another answer. */
  answer() {
    const place = this.turns.length;
    const decoding = { temperature: this.heat, seed: this.seed };
    const body = { run: this.run.name, turns: [...this.turns], stream: true, ...decoding };
    this.answers[place] = { tokens: [], text: "" };
    this.draw();
    return this.ask(async (signal) => {
      for await (const [event, data] of events("/api/chat", body, signal)) {
        if (event === "reset") this.answers[place] = { tokens: [], text: "" };
        if (event === "piece") {
          this.answers[place].tokens.push(...data.tokens);
          this.answers[place].text += data.text;
        }
        if (event === "done") {
          this.answers[place] = { ...data, done: true };
          this.turns[place] = data.text;
        }
        this.draw();
      }
    });
  }

  retry() {
    this.turns.length -= 1;
    this.seed += 1;
    this.answer();
  }

  /** Takes the last turn back, to say it in another way. */
  edit() {
    const own = this.turns.length - (this.turns.length % 2 ? 1 : 2);
    this.input.value = this.turns[own];
    this.turns.length = own;
    this.answers.length = own;
    this.draw();
    this.input.focus();
  }

  draw() {
    const count = Math.max(this.turns.length, this.answers.length);
    this.empty.replaceChildren(count ? "" : examples(EXAMPLES, (text) => this.say(text)));
    this.list.replaceChildren(
      ...Array.from({ length: count }, (_, i) =>
        i % 2 ? this.drawAnswer(i, i === count - 1) : h("li.mine", { dir: "auto" }, this.turns[i]),
      ),
    );
    this.list.lastChild?.scrollIntoView({ block: "nearest" });
  }

  drawAnswer(i, last) {
    const answer = this.answers[i] ?? { text: this.turns[i], tokens: [] };
    const words = spelledWords(answer.tokens ?? [], answer.text ?? "");
    return h(
      "li.theirs",
      { dir: "auto" },
      words.length
        ? words.flatMap((word) => [wordButton(word, { tabindex: -1 }), " "])
        : (answer.text ?? ""),
      answer.done ? "" : h("span.caret", { "aria-hidden": "true" }),
      this.notes(answer.notes),
      last && answer.done
        ? h(
            "div.turn-tools",
            h("button.quiet", { onclick: () => this.retry() }, "another answer"),
            h("button.quiet", { onclick: () => this.edit() }, "say it differently"),
            this.insideLink({ run: this.run.name, text: this.turns[i - 1] }, "look inside"),
            h("span.hint", `seed ${answer.seed}`),
          )
        : "",
    );
  }
}
