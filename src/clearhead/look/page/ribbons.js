/**
 * Two texts and what joins them: a ribbon from each output word to the words it looked at, as wide
 * as the weight.
 */

import { tint } from "./colour.js";
import { bdi, h, percent, svg } from "./dom.js";
import { short } from "./words.js";

const COVERED = 0.95; // of a chosen word's weight is drawn
const SHOWN = 0.12; // of the others, what is stronger than this
const [SMALLEST, LARGEST] = [19, 38]; // pixels of a letter
const NARROW = 600; // pixels of a phone

export class Ribbons {
  /** `pick(side, place)` and `point(side, place)` are told of words; side is "source", "target". */
  constructor({ pick, point = () => {} }) {
    Object.assign(this, { pick, point });
    this.lines = svg("svg.ribbon-lines", { "aria-hidden": "true" });
    this.sides = { source: h("div.side.source"), target: h("div.side.target") };
    this.element = h("div.ribbons", this.lines, this.sides.source, this.sides.target);
    this.element.addEventListener("pointerleave", () => this.over(null));
    new ResizeObserver(() => {
      if (this.shown && this.element.clientWidth !== this.drawnWidth) this.draw();
    }).observe(this.element);
  }

  /**
   * {columns, rows, weights}: source words, output words [{text, doubt}], a weight for each pair.
   * `chosen` is {side, place} or null; output words from `until` on are not written yet. Of words
   * that are `growing`, those that stood there before stay still.
   */
  show({ columns, rows, weights, chosen = null, until = Infinity, growing = false }) {
    const fresh = this.key !== JSON.stringify([columns, rows]);
    const before = growing ? (this.shown?.rows ?? []) : rows;
    const changed = before.findIndex(({ text }, i) => text !== rows[i]?.text);
    this.shown = { columns, rows, weights, until };
    this.chosen = chosen;
    if (fresh) {
      this.key = JSON.stringify([columns, rows]);
      this.sides.source.replaceChildren(...columns.map((one, i) => this.word("source", one, i)));
      this.sides.target.replaceChildren(...rows.map((one, i) => this.word("target", one, i)));
      this.newest = Math.min(until, changed < 0 ? before.length : changed);
    }
    this.draw();
  }

  word(side, { text, doubt, special }, place) {
    return h(
      "button",
      {
        class: `word${doubt ? " doubt" : ""}${special ? " special" : ""}`,
        onclick: () => this.pick(side, place),
        onpointerenter: (event) => event.pointerType !== "touch" && this.over({ side, place }),
        onfocus: (event) => event.target.matches(":focus-visible") && this.over({ side, place }),
        onblur: () => this.over(null),
      },
      bdi(short(text, 40)),
    );
  }

  over(hover) {
    this.hover = hover;
    this.point(hover);
    this.draw();
  }

  /** How strongly each pair shows, given what is chosen: 0 is not drawn. */
  strengths() {
    const { rows, columns, weights, until } = this.shown;
    const { side, place } = this.hover ?? this.chosen ?? {};
    return rows.map((_, i) => {
      if (i >= until) return columns.map(() => 0);
      const kept = covering(weights[i]);
      return columns.map((__, j) => {
        const w = weights[i][j];
        if (side === "target" && place === i) return kept.has(j) ? 1 : 0;
        if (side === "source" && place === j) return w > 0.04 ? 1 : 0;
        return w > SHOWN || w === Math.max(...weights[i]) ? (side ? 0.3 : 0.6) : 0;
      });
    });
  }

  draw() {
    if (!this.element.clientWidth) return;
    this.drawnWidth = this.element.clientWidth;
    this.fit();
    const { rows, columns, weights, until } = this.shown;
    const strengths = this.strengths();
    const { side, place } = this.hover ?? this.chosen ?? {};
    [...this.sides.source.children].forEach((word, j) => {
      const lit =
        side === "target"
          ? strengths[place]?.[j] && weights[place][j] > SHOWN
          : side === "source" && place === j;
      this.mark(word, tint(j), lit, side === "source" && place === j, !side || lit);
    });
    [...this.sides.target.children].forEach((word, i) => {
      const best = weights[i]?.indexOf(Math.max(...weights[i])) ?? -1;
      const lit =
        side === "source" ? weights[i]?.[place] > SHOWN : side === "target" && place === i;
      word.classList.toggle("unwritten", i >= until);
      word.tabIndex = i >= until ? -1 : 0;
      this.mark(word, tint(Math.max(0, best)), lit, side === "target" && place === i, !side || lit);
    });
    this.lines.replaceChildren(...this.bands(strengths, { rows, columns, weights }));
    this.newest = Math.min(until, rows.length);
  }

  mark(word, colour, lit, chosen, near) {
    word.style.setProperty("--tint", colour);
    word.classList.toggle("lit", Boolean(lit));
    word.classList.toggle("far", !near);
    word.setAttribute("aria-pressed", String(Boolean(chosen)));
  }

  /**
   * Letters as large as lets the longer text stand on one line; else they wrap, and on a phone each
   * text becomes a column of words.
   */
  fit() {
    const pen = (this.pen ??= document.createElement("canvas").getContext("2d"));
    pen.font = `500 100px ${getComputedStyle(this.element).fontFamily}`;
    const width = (list) =>
      list.reduce((sum, { text }) => sum + pen.measureText(short(text, 40)).width / 100 + 0.62, 0);
    const longest = Math.max(width(this.shown.columns), width(this.shown.rows), 1);
    const size = Math.min(LARGEST, Math.max(SMALLEST, (this.element.clientWidth - 8) / longest));
    const room = this.element.clientWidth;
    this.upright = room < NARROW && longest * SMALLEST > room;
    this.element.classList.toggle("upright", this.upright);
    this.element.style.setProperty("--letters", `${size.toFixed(1)}px`);
  }

  /** Where the words of a side are: along their text, how long each is, and where ribbons end. */
  boxes(side, edge) {
    const reads = side === "source";
    return [...this.sides[side].children].map((word) => {
      const box = word.getBoundingClientRect();
      return this.upright
        ? {
            at: box.top + box.height / 2 - edge.top,
            size: box.height - 6,
            end: (reads ? box.right + 3 : box.left - 3) - edge.left,
          }
        : {
            at: box.left + box.width / 2 - edge.left,
            size: box.width,
            end: (reads ? box.bottom - 2 : box.top + 4) - edge.top,
          };
    });
  }

  /** The ribbons: those that leave or reach one word lie side by side, in the order of words. */
  bands(strengths, { rows, columns, weights }) {
    const edge = this.element.getBoundingClientRect();
    const [from, to] = [this.boxes("source", edge), this.boxes("target", edge)];
    const full = edge.width < NARROW ? 12 : 20;
    const wide = (i, j) => (strengths[i][j] ? Math.max(1.5, full * weights[i][j]) : 0);
    const leaving = columns.map((_, j) => rows.reduce((sum, __, i) => sum + wide(i, j), 0));
    const arriving = rows.map((_, i) => columns.reduce((sum, __, j) => sum + wide(i, j), 0));
    const first = leaving.map((all, j) => from[j].at - Math.min(all, from[j].size) / 2);
    const made = [];
    rows.forEach((_, i) => {
      let last = to[i].at - arriving[i] / 2;
      columns.forEach((__, j) => {
        const w = wide(i, j);
        if (!w) return;
        const squeeze = Math.min(1, from[j].size / leaving[j]);
        made.push({
          i,
          j,
          w,
          strength: strengths[i][j],
          ends: [
            [first[j] + (w * squeeze) / 2, from[j].end],
            [last + w / 2, to[i].end],
          ],
        });
        first[j] += w * squeeze;
        last += w;
      });
    });
    this.lines.setAttribute("viewBox", `0 0 ${edge.width} ${edge.height}`);
    return made
      .sort((a, b) => a.strength - b.strength)
      .map(({ i, j, w, ends, strength }) =>
        svg(
          "path",
          {
            class: `ribbon${i >= this.newest ? " fresh" : ""}`,
            d: this.curve(...ends),
            pathLength: 1,
            "stroke-width": round(w),
            stroke: tint(j),
            "stroke-opacity": strength,
          },
          svg("title", `${rows[i].text} ← ${columns[j].text}: ${percent(weights[i][j])}`),
        ),
      );
  }

  /** A bent line between two points, each told as along a text and across the texts. */
  curve([a, from], [b, to]) {
    const bend = this.upright ? (to - from) * 0.5 : Math.max(30, (to - from) * 0.5);
    const point = (along, across) =>
      (this.upright ? [across, along] : [along, across]).map(round).join(" ");
    return `M${point(a, from)}C${point(a, from + bend)} ${point(b, to - bend)} ${point(b, to)}`;
  }
}

const round = (x) => Math.round(10 * x) / 10;

/** The fewest words that make up most of a row. */
function covering(row) {
  const order = Array.from(row, (w, j) => [w, j]).sort((a, b) => b[0] - a[0]);
  const kept = new Set();
  let covered = 0;
  for (const [w, j] of order) {
    if (covered >= COVERED || w <= 0.01) break;
    kept.add(j);
    covered += w;
  }
  return kept;
}
