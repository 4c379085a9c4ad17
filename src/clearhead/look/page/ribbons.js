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

  /** Letters as large as lets the longer text stand on one line; else they wrap. */
  fit() {
    const pen = (this.pen ??= document.createElement("canvas").getContext("2d"));
    pen.font = `500 100px ${getComputedStyle(this.element).fontFamily}`;
    const width = (list) =>
      list.reduce((sum, { text }) => sum + pen.measureText(short(text, 40)).width / 100 + 0.62, 0);
    const longest = Math.max(width(this.shown.columns), width(this.shown.rows), 1);
    const size = Math.min(LARGEST, Math.max(SMALLEST, (this.element.clientWidth - 8) / longest));
    this.element.style.setProperty("--letters", `${size.toFixed(1)}px`);
  }

  /** The ribbons: those that leave or reach one word lie side by side, in the order of words. */
  bands(strengths, { rows, columns, weights }) {
    const edge = this.element.getBoundingClientRect();
    const boxes = (side) =>
      [...this.sides[side].children].map((word) => {
        const box = word.getBoundingClientRect();
        return {
          x: box.left + box.width / 2 - edge.left,
          top: box.top - edge.top,
          bottom: box.bottom - edge.top,
          width: box.width,
        };
      });
    const [above, below] = [boxes("source"), boxes("target")];
    const full = this.element.clientWidth < 600 ? 12 : 20;
    const wide = (i, j) => (strengths[i][j] ? Math.max(1.5, full * weights[i][j]) : 0);
    const leaving = columns.map((_, j) => rows.reduce((sum, __, i) => sum + wide(i, j), 0));
    const arriving = rows.map((_, i) => columns.reduce((sum, __, j) => sum + wide(i, j), 0));
    const left = leaving.map((all, j) => above[j].x - Math.min(all, above[j].width) / 2);
    const made = [];
    rows.forEach((_, i) => {
      let right = below[i].x - arriving[i] / 2;
      columns.forEach((__, j) => {
        const w = wide(i, j);
        if (!w) return;
        const squeeze = Math.min(1, above[j].width / leaving[j]);
        const from = [left[j] + (w * squeeze) / 2, above[j].bottom - 2];
        const to = [right + w / 2, below[i].top + 4];
        left[j] += w * squeeze;
        right += w;
        made.push({ i, j, w, from, to, strength: strengths[i][j] });
      });
    });
    const { height, width } = edge;
    this.lines.setAttribute("viewBox", `0 0 ${width} ${height}`);
    return made
      .sort((a, b) => a.strength - b.strength)
      .map(({ i, j, w, from, to, strength }) => {
        const bend = Math.max(30, (to[1] - from[1]) * 0.5);
        return svg(
          "path",
          {
            class: `ribbon${i >= this.newest ? " fresh" : ""}`,
            d:
              `M${from.map(round)}C${round(from[0])} ${round(from[1] + bend)} ` +
              `${round(to[0])} ${round(to[1] - bend)} ${to.map(round)}`,
            pathLength: 1,
            "stroke-width": round(w),
            stroke: tint(j),
            "stroke-opacity": strength,
          },
          svg("title", `${rows[i].text} ← ${columns[j].text}: ${percent(weights[i][j])}`),
        );
      });
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
