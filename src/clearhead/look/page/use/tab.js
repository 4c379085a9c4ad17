/** What the tabs of Use share: asking while one types, saying what goes on, and showing words. */

import { bdi, h, percent, select } from "../dom.js";
import { bare } from "../words.js";

const UNSURE = 0.5;

export class Tab {
  constructor(app, runs) {
    this.app = app;
    this.runs = runs;
    this.run = runs[0];
    this.status = h("p.status", { role: "status" });
    this.problem = h("p.notice", { role: "alert", hidden: true });
    addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.element.isConnected) this.stop();
    });
  }

  /** A choice between runs, where there is one; `after` follows it. */
  runChoice(after = () => this.typed(0)) {
    if (this.runs.length < 2) return "";
    return select(
      "Model",
      this.runs.map(({ name }) => [name, name]),
      this.run.name,
      (name) => {
        this.run = this.runs.find((run) => run.name === name);
        after();
      },
    );
  }

  /** Something to look at from the first moment; the first key replaces it. */
  begin(example = "") {
    this.input.value = example;
    if (example) this.input.addEventListener("focus", () => this.input.select(), { once: true });
    this.typed(0);
  }

  entered() {
    if (!this.input.value) this.input.focus({ preventScroll: true });
  }

  /** Does something after a pause; what was under way is given up. */
  soon(wait, act) {
    clearTimeout(this.timer);
    this.timer = setTimeout(act, wait);
  }

  /** Runs `act(signal)`; a newer one ends it, and so does `stop`. */
  async ask(act) {
    clearTimeout(this.timer);
    this.aborter?.abort();
    const aborter = (this.aborter = new AbortController());
    const begun = performance.now();
    this.problem.hidden = true;
    this.element.classList.add("asking");
    try {
      await act(aborter.signal);
      this.status.textContent = `${Math.round(performance.now() - begun)} ms`;
    } catch (error) {
      if (error.name !== "AbortError") this.fail(error);
    } finally {
      if (this.aborter === aborter) {
        this.aborter = null;
        this.element.classList.remove("asking");
      }
    }
  }

  stop() {
    if (!this.aborter) return;
    this.aborter.abort();
    this.status.textContent = "stopped; what had come stays";
  }

  fail(error) {
    this.problem.replaceChildren(h("b", error.message), " ", error.advice ?? "");
    this.problem.hidden = false;
    this.status.textContent = "";
    if (error.status === undefined) throw error;
  }

  notes(list) {
    return list?.length ? h("p.hint", list.join(" ")) : "";
  }

  /** A way from what stands here into the model. */
  insideLink(recipe, name = "Look inside →") {
    return h("a.quiet", { href: this.app.inside.link(recipe) }, name);
  }
}

/** Tokens as words: [{text, ids, tokens, prob, from}]; a word begins with the mark of a space. */
export function wordsOf(tokens) {
  const words = [];
  tokens.forEach((token, place) => {
    if (!words.length || /^[▁Ġ]/.test(token.text))
      words.push({ text: "", ids: [], prob: 1, from: place });
    const word = words.at(-1);
    word.text += bare(token.text);
    word.ids.push(token.id);
    word.prob *= Math.exp(token.log_prob);
  });
  return words;
}

/** The words, where they spell the text: a glossary or bytes may say what no word does. */
export function spelledWords(tokens, text) {
  const words = wordsOf(tokens);
  const joined = words.map((word) => word.text).join("");
  return joined.replace(/\s/g, "") === text.replace(/\s/g, "") ? words : [];
}

/** A word of the output: quietly underlined where the model was not sure. */
export function wordButton(word, more = {}) {
  return h(
    "button",
    {
      class: `said${word.prob < UNSURE ? " doubt" : ""}`,
      title: `${percent(word.prob)} sure`,
      ...more,
    },
    bdi(word.text),
  );
}

/** Sentences to begin with. */
export function examples(list, pick) {
  return h(
    "div.examples",
    h("span.label", "Try"),
    list.map((text) => h("button.pill", { onclick: () => pick(text) }, bdi(text))),
  );
}
