/**
 * The sentence: what was read and what came of it, large; where each word looked, and what else it
 * might have been.
 */

import { sum } from "../attention.js";
import { bdi, h, percent } from "../dom.js";
import { bars } from "../ledger.js";
import { Ribbons } from "../ribbons.js";
import { View } from "../view.js";
import { guessed, inside, predicted, text } from "../words.js";
import { aligned } from "./alignment.js";

const PACE = 420; // milliseconds from word to word
const UNSURE = 0.5;
const LONG = 24; // letters of a word that may be broken

export class SentenceView extends View {
  static id = "sentence";
  static title = "The sentence";
  static ownWords = true;

  static leadFor({ meta }) {
    if (meta.classes) return "What it read, what it decided, and the words that carry the verdict.";
    if (meta.gaps) return "What it read, and what it would put into the gap.";
    if (meta.alignment)
      return (
        "It read the upper line and wrote the lower one, word by word. A ribbon leads from each " +
        "word it wrote to the words it was looking at. Point at a word, or choose one."
      );
    return (
      "The text that it was given, and how it went on. The stronger a word is marked, " +
      "the more it surprised the model itself."
    );
  }

  constructor(trace, state) {
    super(trace, state);
    this.panel = h("div.panel", { "aria-live": "off" });
    this.player = h("div.player");
    const { meta } = trace;
    this.face = meta.classes
      ? new Verdict(this)
      : meta.gaps
        ? new Gaps(this)
        : meta.alignment
          ? new Translation(this)
          : new Writing(this);
    this.element = h("div.sentence-view", this.face.element, this.player, this.panel, this.doors());
    this.until = Infinity;
    if (this.face.length > 1) this.drawPlayer();
  }

  /** Called when the view comes into sight for the first time: the words write themselves. */
  opened() {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (this.begun || still || this.face.length < 2 || this.face.length > 40) return;
    this.begun = true;
    this.play();
  }

  play() {
    if (this.until >= this.face.length) this.until = this.face.first;
    this.timer = setInterval(() => {
      this.until += 1;
      if (this.until >= this.face.length || !this.element.isConnected) this.pause();
      this.face.update(this.state.now, this.until);
    }, PACE);
    this.face.update(this.state.now, this.until);
    this.drawPlayer();
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    if (this.until >= this.face.length) this.until = Infinity;
    this.drawPlayer();
  }

  /** One word more or fewer. */
  nudge(by) {
    if (this.timer) this.pause();
    const now = Math.min(this.until, this.face.length);
    this.until = Math.max(this.face.first, Math.min(this.face.length, now + by));
    this.face.update(this.state.now, this.until);
    this.drawPlayer();
  }

  drawPlayer() {
    const [sign, name] = this.timer ? ["❚❚", "Pause"] : ["▶", "Play"];
    const held = this.player.contains(document.activeElement);
    const main = h(
      "button.pill.play",
      { "aria-label": `${name}: the words as they were written`, onclick: () => this.toggle() },
      h("span", { "aria-hidden": "true" }, sign),
      ` ${name}`,
    );
    this.player.replaceChildren(
      main,
      h("button.pill", { "aria-label": "a word back", onclick: () => this.nudge(-1) }, "‹"),
      h("button.pill", { "aria-label": "a word on", onclick: () => this.nudge(1) }, "›"),
    );
    if (held) main.focus();
  }

  toggle() {
    if (this.timer) this.pause();
    else this.play();
  }

  update(now) {
    this.face.update(now, this.until);
  }

  say() {
    return this.panel.textContent;
  }

  table() {
    return this.face.table();
  }

  drawn() {
    return this.element.querySelector("svg.ribbon-lines");
  }

  point() {}

  /** Ways into the machine. */
  doors() {
    const { trace } = this;
    const door = (view, name, says, kind = "door") =>
      h(
        "a",
        {
          class: kind,
          href: `#/${view}`,
          onclick: (event) => {
            event.preventDefault();
            this.go({ view, stop: "" });
          },
        },
        h("b", name),
        h("span.hint", says),
      );
    const crosses = trace.meta.alignment;
    return h(
      "section.doors",
      trace.recurs
        ? door("gates", "Gates", "what each layer lets in, keeps and shows, word after word")
        : door(
            "tour",
            "Take the tour →",
            "this sentence through the whole machine, one step at a time",
            "door first",
          ),
      door(
        "map",
        "Map",
        `${trace.layers.length} layer${trace.layers.length === 1 ? "" : "s"}` +
          (trace.recurs ? "" : ", drawn as the paper draws them"),
      ),
      trace.attentions.length
        ? door("attention", "Attention", "from queries and keys to weights, every number checked")
        : "",
      trace.recurs ? "" : door("heads", "Heads", "each has learned to look at something else"),
      crosses
        ? door("alignment", "Alignment", "which word came from which, as a matrix")
        : trace.recurs
          ? ""
          : door("block", "Block", "one word on its way through one layer"),
      door("output", "Output", "what else it could have said"),
    );
  }
}

/** The three parts of the panel: a word, where it looked, what else there was. */
function told(panel, title, ...columns) {
  panel.replaceChildren(
    h("div.panel-word", title),
    ...columns.filter(Boolean).map(([name, content]) => h("div", h("h3", name), content)),
  );
}

/** The most likely words of a step that were not taken. */
function others(step, count = 3) {
  return step.top
    .filter(({ id }) => id !== step.chosen.id)
    .slice(0, count)
    .map((guess) => ({ text: guessed(guess), value: guess.prob }));
}

function surely(share) {
  return `${percent(share)} sure`;
}

/** Source above, output below, ribbons between. */
class Translation {
  constructor(view) {
    this.view = view;
    const { trace } = view;
    this.made = aligned(trace, { aligner: "auto", words: true, specials: false });
    this.first = 0;
    this.length = this.made.rows.length;
    this.rows = this.made.rows.map((row) => ({ ...row, prob: this.prob(row) }));
    this.ribbons = new Ribbons({
      pick: (side, place) =>
        view.go({
          segment: side,
          pos: (side === "source" ? this.made.columns : this.made.rows)[place].places[0],
        }),
      point: (hover) => this.tell(hover ?? this.chosen),
    });
    this.element = this.ribbons.element;
  }

  prob(row) {
    return Math.exp(sum(row.places.map((i) => this.view.meta.steps[i].chosen.log_prob)));
  }

  update(now, until) {
    const list = now.segment === "source" ? this.made.columns : this.rows;
    const place = list.findIndex((one) => one.places.includes(now.pos));
    this.until = until;
    const hidden = now.segment === "target" && place >= until;
    this.chosen = place < 0 || hidden || until < this.length ? null : { side: now.segment, place };
    if (until < this.length && until > 0)
      this.chosen = { side: "target", place: Math.min(until, this.length) - 1 };
    this.ribbons.show({
      columns: this.made.columns,
      rows: this.rows.map(({ text: name, prob }) => ({ text: name, doubt: prob < UNSURE })),
      weights: this.made.weights,
      chosen: this.chosen,
      until,
    });
    this.tell(this.chosen);
  }

  tell(what) {
    if (!what) return this.view.panel.replaceChildren(h("p.hint", "Choose a word."));
    const { rows, columns, weights } = this.made;
    if (what.side === "source") {
      const used = rows
        .map((row, i) => ({ text: row.text, value: weights[i][what.place] }))
        .filter(({ value }, i) => i < this.until && value > 0.005)
        .sort((a, b) => b.value - a.value);
      return told(
        this.view.panel,
        [h("b", bdi(columns[what.place].text)), h("span.hint", "was read")],
        ["Looked at while writing", bars(used.slice(0, 3), { full: 1, shown: percent })],
      );
    }
    const { place } = what;
    const row = this.rows[place];
    const looked = columns
      .map(({ text: name }, j) => ({ text: name, value: weights[place][j] }))
      .sort((a, b) => b.value - a.value)
      .filter(({ value }, i) => !i || value > 0.005);
    const steps = this.view.meta.steps;
    return told(
      this.view.panel,
      [h("b", bdi(row.text)), h("span.hint", surely(row.prob))],
      ["Where it looked", bars(looked.slice(0, 3), { full: 1, shown: percent })],
      [
        row.places.length > 1 ? "It could have begun with" : "It could have said",
        bars(others(steps[row.places[0]]), { full: 1, shown: percent }),
      ],
    );
  }

  table() {
    const { rows, columns, weights } = this.made;
    return {
      caption: "how much each output word looked at each source word",
      rows: rows.map((row) => row.text),
      columns: columns.map((column) => column.text),
      values: weights.flat(),
    };
  }
}

/** Words with spaces between them; the parts of a word that was too long follow without one. */
function joinedWords(words, tokens) {
  let place = 0;
  return words.flatMap((word) => {
    const space = place > 0 && !inside(tokens, place) ? " " : "";
    place += word.childElementCount;
    return [space, word];
  });
}

/** A text of tokens to choose from, each marked in its own way. */
function running(tokens, { mark, pick }) {
  const words = []; // pieces of a word stay on one line, unless it is long
  tokens.forEach((token, i) => {
    const kind = `word${token.special ? " special" : ""}`;
    const piece = mark(h("button", { class: kind, onclick: () => pick(i) }, bdi(text(token))), i);
    const last = words.at(-1);
    if (inside(tokens, i) && last.textContent.length < LONG) last.append(piece);
    else words.push(h("span.piece-word", piece));
  });
  return h("p.running", { dir: "auto" }, joinedWords(words, tokens));
}

/** A class, and what becomes of it without each word. */
class Verdict {
  constructor(view) {
    this.view = view;
    this.length = 0;
    const { meta, trace } = view;
    this.tokens = trace.tokens("source");
    const [best] = meta.classes;
    this.effects = new Map(
      (meta.removal ?? []).flatMap((word) => word.places.map((place) => [place, word])),
    );
    this.largest = Math.max(
      0.02,
      ...[...this.effects.values()].map(({ prob }) => Math.abs(best.prob - prob)),
    );
    this.text = h("div");
    this.element = h(
      "div.verdict-view",
      this.text,
      h(
        "p.hint.legend-words",
        h("span.key.carries"),
        " without it, the verdict would be less sure ",
        h("span.key.against"),
        " without it, more sure",
      ),
      h(
        "div.verdict",
        h("span.verdict-name", bdi(best.label)),
        h("span.verdict-share", percent(best.prob)),
      ),
      bars(
        meta.classes.slice(0, 5).map(({ label, prob }) => ({ text: label, value: prob })),
        { full: 1, shown: percent, label: "classes" },
      ),
    );
  }

  update(now) {
    const { meta } = this.view;
    const [best] = meta.classes;
    const mark = (word, i) => {
      const effect = this.effects.get(i);
      const share = effect ? (best.prob - effect.prob) / this.largest : 0;
      word.classList.add(share >= 0 ? "carries" : "against");
      word.style.setProperty("--share", Math.min(1, Math.abs(share)).toFixed(3));
      word.setAttribute("aria-pressed", String(i === now.pos));
      return word;
    };
    const pick = (pos) => this.view.go({ segment: "source", pos });
    this.text.replaceChildren(running(this.tokens, { mark, pick }));
    const effect = this.effects.get(now.pos);
    if (!effect)
      return this.view.panel.replaceChildren(
        h("p.hint", "Choose a word to see what the verdict would be without it."),
      );
    return told(
      this.view.panel,
      [h("b", bdi(effect.text)), h("span.hint", "taken out")],
      [
        `How sure of ${best.label}`,
        bars(
          [
            { text: "with it", value: best.prob, marked: true },
            { text: "without", value: effect.prob },
          ],
          { full: 1, shown: percent },
        ),
      ],
    );
  }

  table() {
    const words = this.view.meta.removal ?? [];
    return {
      caption: "probability of the verdict without each word",
      rows: words.map((word) => word.text),
      columns: ["probability"],
      values: words.map((word) => word.prob),
    };
  }
}

/** A text that goes on; each word marked by how little it was expected. */
class Writing {
  constructor(view) {
    this.view = view;
    const { trace, meta } = view;
    this.tokens = trace.tokens("target").map(predicted);
    this.first = meta.n_given ?? 0;
    this.length = this.tokens.length;
    this.text = h("div");
    this.element = h("div.writing-view", this.text);
  }

  bits(i) {
    return -this.view.meta.steps[i].chosen.log_prob / Math.LN2;
  }

  update(now, until) {
    const { meta } = this.view;
    const chosen =
      until < this.length
        ? Math.max(this.first, until) - 1
        : now.segment === "target"
          ? now.pos
          : now.step;
    const mark = (word, i) => {
      word.classList.add(i < (meta.n_given ?? 0) ? "given" : "surprise");
      word.classList.toggle("unwritten", i >= until);
      word.style.setProperty("--share", Math.min(1, this.bits(i) / 8).toFixed(3));
      word.setAttribute("aria-pressed", String(i === chosen));
      return word;
    };
    const pick = (pos) => this.view.go({ segment: "target", pos });
    this.text.replaceChildren(running(this.tokens, { mark, pick }));
    const step = meta.steps[chosen];
    if (!step) return;
    const given = chosen < (meta.n_given ?? 0);
    const top = step.top.slice(0, 4).map((guess) => ({
      text: guessed(guess),
      value: guess.prob,
      marked: guess.id === step.chosen.id,
    }));
    told(
      this.view.panel,
      [
        h("b", bdi(text(this.tokens[chosen]))),
        h(
          "span.hint",
          given ? "was given, not chosen" : `${percent(Math.exp(step.chosen.log_prob))} likely`,
          ` · a surprise of ${this.bits(chosen).toFixed(1)} bits`,
        ),
      ],
      ["What it expected here", bars(top, { full: 1, shown: percent })],
    );
  }

  table() {
    return {
      caption: "how much each word surprised the model",
      rows: this.tokens.map(text),
      columns: ["bits"],
      values: this.tokens.map((_, i) => this.bits(i)),
    };
  }
}

/** A text with gaps, and what would go into them. */
class Gaps {
  constructor(view) {
    this.view = view;
    this.length = 0;
    this.tokens = view.trace.tokens("source");
    this.text = h("div");
    this.element = h("div.writing-view", this.text);
  }

  update(now) {
    const { gaps } = this.view.meta;
    const here = gaps.find((gap) => gap.row === now.pos) ?? gaps[0];
    const filled = this.tokens.map((token, i) => {
      const gap = gaps.find(({ row }) => row === i);
      return gap ? { ...token, text: gap.top[0].text, special: false } : token;
    });
    const mark = (word, i) => {
      if (gaps.some(({ row }) => row === i)) word.classList.add("gap");
      word.setAttribute("aria-pressed", String(i === here?.row));
      return word;
    };
    const pick = (pos) => this.view.go({ segment: "source", pos });
    this.text.replaceChildren(running(filled, { mark, pick }));
    if (!here) return;
    const top = here.top
      .slice(0, 5)
      .map((guess, i) => ({ text: text(guess), value: guess.prob, marked: !i }));
    told(
      this.view.panel,
      [h("b", "the gap"), h("span.hint", `at place ${here.row + 1}`)],
      ["What fits into it", bars(top, { full: 1, shown: percent })],
    );
  }

  table() {
    const { gaps } = this.view.meta;
    const top = gaps[0]?.top ?? [];
    return {
      caption: "what fits into the first gap",
      rows: top.map((guess) => text(guess)),
      columns: ["probability"],
      values: top.map(({ prob }) => prob),
    };
  }
}
