/** What all stops of the tour share: the word that is followed, and small pictures of vectors. */

import { attentionOf, norm, sum } from "../attention.js";
import { bdi, h, number, percent } from "../dom.js";
import { strip } from "../strip.js";
import { labels, text } from "../words.js";

/** A stop has a static `id` and `title`, `says`, `picture`, `tries`, `update`, `door`, `table`. */
export class Stop {
  static available() {
    return true;
  }

  constructor(trace, state) {
    this.trace = trace;
    this.state = state;
    this.meta = trace.meta;
    this.picture = h("div.drawing");
    this.tries = h("div");
  }

  /** The stack in which the tour looks closely: the one that reads. */
  get stack() {
    return this.trace.stacks[0];
  }

  get segment() {
    return this.trace.segmentOf(this.stack);
  }

  get layer() {
    return `${this.stack}.0`;
  }

  get tokens() {
    return this.trace.tokens(this.segment);
  }

  get attention() {
    return attentionOf(this.trace, `${this.layer}.self`);
  }

  /** The place of the followed word: itself, or what it looked at while it was written. */
  follow(now) {
    if (now.segment === this.segment) return now.pos;
    const cross = this.trace.attentions.find((node) => node.keys === this.segment);
    if (!cross) return 0;
    const made = attentionOf(this.trace, favouriteCross(this.trace));
    return made.strongest(favouriteHead(this.trace, made), Math.min(now.step, made.nq - 1)).k;
  }

  /** The head that is looked at in the first layer. */
  head(now) {
    return now.block === this.attention.id ? now.head : this.attention.clearest();
  }

  pickWord = (pos) => this.state.set({ segment: this.segment, pos }, { push: true });

  pickHead = (head) => {
    const { id } = this.attention;
    this.state.set({ block: id, head, segment: this.segment, pos: this.followed }, { push: true });
  };

  /** The followed word, set apart. */
  word(now) {
    return h("b.followed", bdi(text(this.tokens[this.follow(now)])));
  }

  told() {
    return "";
  }

  door() {
    return { to: { view: "map" }, name: "The whole map" };
  }
}

export function favouriteCross(trace) {
  const aligns = trace.meta.alignment?.head.split(".").slice(0, 3).join(".");
  const all = trace.attentions.filter((node) => node.keys !== node.queries);
  return (all.find((node) => node.id === aligns) ?? all.at(-1))?.id;
}

export function favouriteHead(trace, attention) {
  const head = Number(trace.meta.alignment?.head.split(".")[3] ?? NaN);
  return Number.isInteger(head) ? head : attention.clearest();
}

/** A line of the picture: a name, a strip, and what is said of it. */
export function vector(name, values, { note = "", range, tall, kind = "" } = {}) {
  return h(
    "div",
    { class: `vector ${kind}` },
    h("span.vector-name", name),
    strip(values, { range, tall }),
    h("span.vector-note", note),
  );
}

/**
 * A line for each word: its bar, from the middle where values may be negative. `ghost` are values
 * as they were before something was tried.
 */
export function wordBars(tokens, values, options = {}) {
  const { shown = percent, chosen = -1, pick, signed = false, full, ghost, off, note } = options;
  const largest = full ?? Math.max(...Array.from(values, (x) => finite(x)), 1e-9);
  const wide = (x) => `${((signed ? 50 : 100) * Math.min(1, finite(x) / largest)).toFixed(2)}%`;
  const names = Array.isArray(tokens) && typeof tokens[0] === "string" ? tokens : labels(tokens);
  return h(
    "ul",
    { class: `word-bars${signed ? " signed" : ""}` },
    names.map((name, i) => {
      const bar = h("span", { class: `bar${values[i] < 0 ? " negative" : ""}` });
      bar.style.setProperty("--wide", wide(values[i]));
      const was = ghost && h("span.ghost");
      if (was) was.style.setProperty("--wide", wide(ghost[i]));
      const content = [
        h("span.name", bdi(name)),
        h("span.track", was, bar),
        h("span.value", shown(values[i], i)),
        note && h("span.note", note(i)),
      ];
      return h(
        "li",
        {
          class: `${i === chosen ? "chosen" : ""}${off?.(i) ? " off" : ""}`.trim() || null,
          "data-value": String(values[i]),
        },
        pick
          ? h("button", { "aria-pressed": String(i === chosen), onclick: () => pick(i) }, content)
          : h("div", content),
      );
    }),
  );
}

const finite = (x) => (Number.isFinite(x) ? Math.abs(x) : 0);

/** A switch that says what it does. */
export function toggle(name, on, flip) {
  return h(
    "button.switch",
    { role: "switch", "aria-checked": String(on), onclick: () => flip(!on) },
    h("span.knob", { "aria-hidden": "true" }),
    name,
  );
}

export function cosine(a, b) {
  return sum(Array.from(a, (x, i) => x * b[i])) / (norm(a) * norm(b) || 1);
}

/** A number worth looking at, with what it is. */
export function figure(value, name, data = value) {
  return h("div.figure", { "data-figure": String(data) }, h("b", value), h("span.hint", name));
}

/** Made here, and the same as in the model. */
export function agreed(made, model, tolerance = 1e-4) {
  const off = Math.abs(made - model);
  return h(
    "p",
    {
      class: `check ${off <= tolerance ? "agrees" : "differs"}`,
      "data-made": made,
      "data-model": model,
      "data-agrees": String(off <= tolerance),
    },
    off <= tolerance
      ? h("strong", `✓ made here, and the same in the model: ${number(model, 4)}`)
      : h("strong", `made here ${number(made, 4)}, in the model ${number(model, 4)}`),
  );
}
