/** Translate as you type: streamed, with its sources, its doubts and its alternatives. */

import { events, post } from "../api.js";
import { bdi, h, number, percent } from "../dom.js";
import { Ribbons } from "../ribbons.js";
import { Tab, examples, spelledWords, wordButton, wordsOf } from "./tab.js";

const PAUSE = 220; // milliseconds without a key
const EXAMPLES = {
  en: ["Good morning!", "The old woman would like to buy a red bicycle.", "A man rides a bike."],
  de: ["Guten Morgen!", "Die alte Frau möchte ein rotes Fahrrad kaufen.", "Ein Mann fährt Rad."],
};

export class TranslateTab extends Tab {
  static id = "translate";
  static title = "Translate";
  static ability = "translate";
  static verb = "translate";

  constructor(app, runs) {
    super(app, runs);
    this.words = [];
    this.input = h("textarea", {
      rows: 4,
      "aria-label": "text to translate",
      placeholder: "Type here",
      spellcheck: "false",
      oninput: () => this.typed(),
      onscroll: () => (this.behind.scrollTop = this.input.scrollTop),
    });
    this.behind = h("div.behind", { "aria-hidden": "true" });
    this.output = h("p.output-text", { "aria-live": "polite", dir: "auto" });
    this.after = h("div.after");
    this.choices = h("div.choices", { hidden: true });
    this.languages = [h("h2.side-name"), h("h2.side-name")];
    this.glossary = h("textarea", {
      rows: 3,
      "aria-label": "glossary, one line for each term",
      placeholder: "bike = Velo",
      oninput: () => this.typed(600),
    });
    this.tools = h("div.tools");
    this.ribbons = new Ribbons({
      pick: (side, place) => side === "target" && this.offer(place),
      point: (over) => this.light(over?.side === "target" ? over.place : null),
    });
    this.picture = h("section.joined", { hidden: true }, this.ribbons.element);
    this.element = h(
      "section.use",
      this.tools,
      h(
        "div.two",
        h(
          "div.sheet-side",
          this.languages[0],
          h("div.typing", this.behind, this.input),
          (this.empty = h("div")),
        ),
        h(
          "div.sheet-side",
          this.languages[1],
          h("div.output-box", this.output),
          this.choices,
          this.after,
        ),
      ),
      this.problem,
      this.picture,
      h("div.foot", this.status),
    );
    this.choose();
    this.begin(EXAMPLES[this.run.languages.source]?.[1]);
  }

  choose() {
    const { source, target } = this.run.languages;
    this.languages[0].textContent = languageName(source) || "Source";
    this.languages[1].textContent = languageName(target) || "Translation";
    this.beam ??= this.run.decode.beam;
    const beam = h("select", {
      onchange: (event) => {
        this.beam = Number(event.target.value);
        this.typed(0);
      },
    });
    beam.append(
      ...[1, 2, 4, 5, 8].map((width) =>
        h(
          "option",
          { value: width, selected: width === this.beam },
          width === 1 ? "greedy" : width,
        ),
      ),
    );
    this.tools.replaceChildren(
      this.runChoice(() => this.choose()),
      h("label.field", h("span.label", "Beam"), beam),
      h("details.glossary", h("summary.pill", "Glossary"), this.glossary),
    );
    this.drawEmpty();
    if (this.input.value) this.typed(0);
  }

  drawEmpty() {
    const list = EXAMPLES[this.run.languages.source] ?? [];
    const pick = (text) => {
      this.input.value = text;
      this.typed(0);
    };
    this.empty.replaceChildren(this.input.value || !list.length ? "" : examples(list, pick));
  }

  /** {term: translation} from lines as "term = translation". */
  get terms() {
    const lines = this.glossary.value.split("\n").map((line) => line.split("="));
    return Object.fromEntries(
      lines
        .filter((parts) => parts.length === 2 && parts[0].trim() && parts[1].trim())
        .map((parts) => parts.map((part) => part.trim())),
    );
  }

  typed(wait = PAUSE) {
    this.input.style.height = "auto";
    this.input.style.height = `${this.input.scrollHeight + 2}px`;
    this.light(null);
    this.drawEmpty();
    this.choices.hidden = true;
    if (!this.input.value.trim()) {
      this.aborter?.abort();
      clearTimeout(this.timer);
      this.words = [];
      this.output.replaceChildren();
      this.after.replaceChildren();
      this.status.textContent = "";
      this.picture.hidden = true;
      return;
    }
    this.soon(wait, () => this.translate());
  }

  translate(prefix = []) {
    const text = this.input.value;
    const asked = { run: this.run.name, text, stream: true, align: true, beam: this.beam };
    const body = { ...asked, prefix_ids: prefix, glossary: this.terms };
    return this.ask(async (signal) => {
      let [tokens, said] = [[], ""];
      this.alignment = null;
      for await (const [event, data] of events("/api/translate", body, signal)) {
        if (event === "reset") [tokens, said] = [[], ""];
        if (event === "piece") {
          tokens.push(...data.tokens);
          said += data.text;
        }
        if (event === "done") {
          this.following = null;
          this.finish(data, text, prefix);
        } else {
          this.draw(tokens, said, true);
          this.follow({ text, said, signal });
        }
      }
    });
  }

  /** Ribbons to what is written so far; the newest state is asked for when the last has come. */
  async follow(state) {
    const waits = this.following;
    this.following = state;
    if (waits) return;
    for (let asked = null; this.following && this.following !== asked; ) {
      asked = this.following;
      const body = { run: this.run.name, text: asked.text, target: asked.said };
      const { alignment } = await post("/api/align", body, asked.signal).catch(() => ({}));
      // by now it may be done, or another text be asked for
      if (alignment && this.following?.signal === asked.signal) this.join(alignment, true);
    }
    this.following = null;
  }

  finish(found, text, prefix) {
    this.draw(found.tokens, found.text, false);
    this.join(found.alignment, false);
    this.after.replaceChildren(
      this.notes(found.notes),
      found.score === null || found.score === undefined
        ? ""
        : h("span.hint", `score ${number(found.score, 2)} · `),
      this.insideLink(
        { run: this.run.name, text, prefix: prefix.join(" ") },
        "Look inside this translation →",
      ),
    );
  }

  /** Both texts with ribbons between them, where they are not too long. */
  join(alignment, growing) {
    this.alignment = alignment;
    this.picture.hidden = !alignment || !this.words.length || this.words.length > 40;
    if (this.picture.hidden) return;
    const { source, target, weights } = alignment;
    const rows = target.map((word, i) => ({ text: word, doubt: this.words[i]?.prob < 0.5 }));
    const columns = source.map((word) => ({ text: word }));
    this.ribbons.show({ columns, rows, weights, growing });
  }

  draw(tokens, text, growing) {
    this.output.classList.toggle("growing", growing && tokens.length > 0);
    this.tokens = tokens;
    this.words = spelledWords(tokens, text);
    if (!this.words.length) return this.output.replaceChildren(bdi(text));
    return this.output.replaceChildren(
      ...this.words.flatMap((word, i) => [
        wordButton(word, {
          onpointerenter: () => this.light(i),
          onpointerleave: () => this.light(null),
          onfocus: () => this.light(i),
          onblur: () => this.light(null),
          onclick: () => this.offer(i),
        }),
        " ",
      ]),
      growing ? h("span.caret", { "aria-hidden": "true" }) : "",
    );
  }

  /** Lights up the source words that an output word was made from. */
  light(place) {
    const text = this.input.value;
    const weights = place === null ? null : this.alignment?.weights[place];
    if (!weights) return this.behind.replaceChildren(text, "\n");
    const parts = [];
    let from = 0;
    this.alignment.source.forEach((word, j) => {
      const begin = text.indexOf(word, from);
      if (begin < 0) return;
      const mark = h("mark", word);
      mark.style.setProperty("--share", weights[j].toFixed(3));
      parts.push(text.slice(from, begin), mark);
      from = begin + word.length;
    });
    return this.behind.replaceChildren(...parts, text.slice(from), "\n");
  }

  /** What else could stand at a word, and how the sentence would go on. */
  async offer(place) {
    const word = this.words[place];
    const before = this.words.slice(0, place).flatMap(({ ids }) => ids);
    const text = this.input.value;
    this.choices.hidden = false;
    this.choices.replaceChildren(h("p.hint", "Asking for others …"));
    await this.ask(async (signal) => {
      const body = { run: this.run.name, text, prefix_ids: before, n: 5 };
      const { alternatives } = await post("/api/alternatives", body, signal);
      const options = alternatives
        .map(({ tokens }) => optionOf(tokens, before.length, this.words[place - 1]?.text))
        .filter(Boolean);
      const fresh = options.filter(
        (one, i) => options.findIndex(({ name }) => name === one.name) === i,
      );
      this.choices.replaceChildren(
        h("h3", "Instead of ", bdi(word.text)),
        h(
          "ul",
          fresh.map(({ name, prob, rest, prefix }) =>
            h(
              "li",
              h(
                "button",
                {
                  "aria-pressed": String(name === word.text),
                  onclick: () => this.goOn(prefix),
                },
                h("span.value", percent(prob)),
                h("b", bdi(name)),
                h("span.hint", bdi(rest.join(" "))),
              ),
            ),
          ),
        ),
        h("button.quiet", { onclick: () => (this.choices.hidden = true) }, "keep it as it is"),
      );
    });
  }

  /** Goes on from a chosen word. */
  goOn(prefix) {
    this.choices.hidden = true;
    return this.translate(prefix);
  }
}

/** The word that begins at a token, what follows it, and the tokens to go on from. */
function optionOf(tokens, from, before = "") {
  if (!tokens[from]) return null;
  const goesOn = from > 0 && !/^[▁Ġ]/.test(tokens[from].text); // a piece of the word before
  let end = from + 1;
  while (end < tokens.length && !/^[▁Ġ]/.test(tokens[end].text)) end += 1;
  const [word] = wordsOf(tokens.slice(from, end));
  return {
    name: (goesOn ? before : "") + word.text,
    prob: word.prob,
    rest: wordsOf(tokens.slice(end, end + 12)).map(({ text }) => text),
    prefix: tokens.slice(0, end).map(({ id }) => id),
  };
}

function languageName(code) {
  if (!code) return "";
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}
