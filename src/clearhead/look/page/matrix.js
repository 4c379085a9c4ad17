/**
 * A matrix as a picture: one canvas with its labels, a cross-hair, a legend; keys and pointer move
 * over its cells.
 */

import { domain, ink, palette, shade } from "./colour.js";
import { h, number, weight } from "./dom.js";

export const POOLED_ABOVE = 256;
const SLANT = Math.SQRT1_2; // column labels lean by 45 degrees
const NUMBERS_FROM = 28; // pixels of a cell that has room for its number

/**
 * What is drawn of a matrix: itself, or the largest of each group of cells where it is too long to
 * be seen whole.
 */
export function pooled({ values, rows, columns }, limit = POOLED_ABOVE) {
  const size = Math.max(1, Math.ceil(Math.max(rows, columns) / limit));
  if (size === 1) return { values, rows, columns, size, origin: (i, j) => [i, j] };
  const nr = Math.ceil(rows / size),
    nc = Math.ceil(columns / size);
  const made = new Float32Array(nr * nc).fill(-Infinity),
    from = new Int32Array(nr * nc);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      const cell = Math.floor(i / size) * nc + Math.floor(j / size),
        x = values[i * columns + j];
      if (x > made[cell]) [made[cell], from[cell]] = [x, i * columns + j];
    }
  }
  const origin = (i, j) => [Math.floor(from[i * nc + j] / columns), from[i * nc + j] % columns];
  return { values: made, rows: nr, columns: nc, size, origin };
}

/** Paints values onto a small canvas, a pixel per cell, to be scaled up; the hidden are clear. */
export function pixels({ values, rows, columns, masked, size = 1 }, kind, range) {
  const hidden = (cell) =>
    values[cell] === -Infinity ||
    (size === 1 && masked?.(Math.floor(cell / columns), cell % columns));
  const canvas = h("canvas", { width: columns, height: rows });
  const context = canvas.getContext("2d"),
    image = context.createImageData(columns, rows),
    colours = palette(kind);
  for (let cell = 0; cell < rows * columns; cell++) {
    const { rgb } = colours[shade(Number.isFinite(values[cell]) ? values[cell] : range[0], range)];
    image.data.set([...rgb, hidden(cell) ? 0 : 255], 4 * cell);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** A picture of a matrix without labels. */
export function thumbnail(
  matrix,
  kind,
  width,
  height = width,
  range = domain(matrix.values, kind),
) {
  const ratio = Math.min(2, devicePixelRatio || 1);
  const canvas = h("canvas", {
    width: width * ratio,
    height: height * ratio,
    "aria-hidden": "true",
  });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(pixels(pooled(matrix), kind, range), 0, 0, canvas.width, canvas.height);
  return canvas;
}

/**
 * A matrix to move in. `show` gives what to draw:
 * {values, rows, columns, rowLabels, columnLabels, kind, range, masked(i, j), at: {row, column},
 * sums, label}.
 */
export class Matrix {
  constructor({
    pick,
    hover = () => {},
    small = false,
    keys = true,
    cell = [15, 46, 32],
    stripe = 0,
  }) {
    // stripe: the height of rows that are vectors
    Object.assign(this, { pick, hover, small, keys, cell, stripe });
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.notice = h("p.notice", { hidden: true });
    this.legend = h("div.legend", { "aria-hidden": "true" });
    this.frame = h(
      "div.matrix-frame",
      {
        tabindex: keys ? 0 : -1,
        role: "group",
        onkeydown: (event) => this.onKey(event),
        onpointermove: (event) => this.onPointer(event),
        onpointerleave: () => this.hover(null),
        onclick: (event) => this.onClick(event),
      },
      this.canvas,
    );
    this.element = h(
      "div",
      { class: small ? "matrix small" : "matrix" },
      this.frame,
      this.legend,
      this.notice,
    );
    new ResizeObserver(
      () => this.shown && this.width() !== this.drawnWidth && this.paint(),
    ).observe(this.element);
  }

  show(what) {
    this.whole = what;
    this.shown = { ...what, ...pooled(what, this.stripe ? Infinity : POOLED_ABOVE) };
    this.shown.range = what.range ?? domain(what.values, what.kind);
    this.frame.setAttribute("aria-label", what.label ?? "");
    this.notice.hidden = this.shown.size === 1;
    this.notice.textContent =
      `${what.rows} × ${what.columns} cells are too many to draw: ` +
      "each square here is the largest of " +
      `${this.shown.size} × ${this.shown.size} of them. A click picks that cell.`;
    this.paint();
  }

  /** Moves the cross-hair and leaves the rest. */
  mark(at) {
    if (this.shown) this.paint(at);
  }

  width() {
    return this.element.clientWidth;
  }

  /** On a phone a row says its word alone: what kind of row it is stands beside the matrix. */
  get rowNames() {
    const { rowLabels } = this.shown;
    const brief = (label) => label.replace(/^(writing|after) (?=.)/, "");
    return this.width() < 500 ? rowLabels?.map(brief) : rowLabels;
  }

  measure(context) {
    const { rows, columns, columnLabels, size, sums } = this.shown,
      { rowNames: rowLabels } = this;
    const labelled = !this.small && size === 1;
    const widest = (labels) =>
      Math.max(0, ...labels.map((label) => context.measureText(label).width));
    const room = this.width();
    const left =
      labelled && rowLabels ? Math.min(room < 500 ? 76 : 150, widest(rowLabels) + 10) : 0;
    const told = sums && labelled && room >= 500 ? 52 : 0;
    const [least, widestCell, tallest] = this.cell;
    const fit = (room - left - Math.max(told, labelled && columnLabels ? 40 : 0)) / columns;
    const w =
      this.small || this.stripe || size > 1
        ? Math.min(fit, widestCell)
        : Math.max(least, Math.min(widestCell, Math.floor(fit)));
    const tall = this.stripe || Math.min(tallest, w);
    const named = labelled && columnLabels;
    const longest = named ? Math.min(110, widest(columnLabels)) : 0;
    const upright = !named || longest <= w - 6;
    const top = named ? (upright ? 22 : SLANT * longest + 20) : 0;
    const lean = upright ? 0 : SLANT * longest - w / 2;
    const right = Math.max(told, lean);
    return {
      left,
      right,
      told,
      top,
      w,
      tall,
      upright,
      labelled,
      width: left + w * columns + right,
      height: top + tall * rows,
    };
  }

  paint(at = this.shown.at) {
    if (!this.width()) return;
    this.drawnWidth = this.width();
    const context = this.canvas.getContext("2d"),
      font = `12px ${ink("sans")}`;
    context.font = font;
    const box = (this.box = this.measure(context)),
      ratio = Math.min(3, devicePixelRatio || 1);
    this.canvas.width = Math.ceil(box.width * ratio);
    this.canvas.height = Math.ceil(box.height * ratio);
    this.canvas.style.width = `${box.width}px`;
    this.canvas.style.height = `${box.height}px`;
    context.scale(ratio, ratio);
    context.font = font;
    context.textBaseline = "middle";
    this.paintCells(context, box);
    if (box.labelled) this.paintLabels(context, box, at);
    if (at) this.paintCross(context, box, at);
    if (at === this.shown.at) this.reveal(box, at);
    this.paintLegend();
  }

  paintCells(context, { left, top, w, tall }) {
    const { values, rows, columns, kind, range, masked, size } = this.shown;
    if (rows * columns > 4096) {
      // what is clear in the picture shows the hatching below it
      if (masked) hatch(context, left, top, w * columns, tall * rows, ink("muted"));
      context.imageSmoothingEnabled = false;
      context.drawImage(pixels(this.shown, kind, range), left, top, w * columns, tall * rows);
      return;
    }
    const colours = palette(kind),
      gap = w >= 14 ? 1 : w >= 5 ? 0.5 : 0,
      muted = ink("muted");
    const inks = [ink("on-dark-cell"), ink("on-light-cell")];
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < columns; j++) {
        const x = left + j * w,
          y = top + i * tall,
          value = values[i * columns + j];
        if (size === 1 && masked?.(i, j)) {
          hatch(context, x + gap, y + gap, w - 2 * gap, tall - 2 * gap, muted);
          continue;
        }
        const colour = colours[shade(value, range)];
        context.fillStyle = colour.css;
        context.fillRect(x + gap / 2, y + gap / 2, w - gap, tall - gap);
        if (w >= NUMBERS_FROM && tall >= 15) {
          context.fillStyle = inks[Number(colour.light)];
          context.textAlign = "center";
          context.font = `11px ${ink("sans")}`;
          context.fillText(
            kind === "weight" ? weight(value) : number(value, 1),
            x + w / 2,
            y + tall / 2 + 0.5,
          );
        }
      }
    }
  }

  paintLabels(context, { left, told, top, w, tall, upright }, at) {
    const { rows, columns, columnLabels, sums } = this.shown,
      { rowNames: rowLabels } = this;
    this.paintBrackets(context, { left, top, w, tall });
    const hover = at ?? {};
    context.font = `12px ${ink("sans")}`;
    for (let i = 0; rowLabels && i < rows; i++) {
      if (tall < 10 && i % Math.ceil(12 / tall)) continue;
      context.fillStyle = ink(hover.row === i ? "accent" : "ink");
      context.textAlign = "right";
      context.fillText(
        clipped(context, rowLabels[i], left - 10),
        left - 8,
        top + (i + 0.5) * tall + 0.5,
      );
      if (!told) continue;
      context.fillStyle = ink("muted");
      context.textAlign = "left";
      context.fillText(sums[i], left + w * columns + 8, top + (i + 0.5) * tall + 0.5);
    }
    const every = Math.ceil((upright ? 12 : 15) / w); // labels must not run into each other
    for (let j = 0; columnLabels && j < columns; j++) {
      const far = Math.abs(j - (hover.column ?? -every));
      if (far ? j % every || far < every : false) continue;
      context.fillStyle = ink(hover.column === j ? "accent" : "ink");
      context.save();
      context.translate(left + (j + 0.5) * w, top - 10);
      if (!upright) context.rotate(-Math.PI / 4);
      context.textAlign = upright ? "center" : "left";
      context.fillText(clipped(context, columnLabels[j], upright ? w : 112), 0, upright ? -2 : 0.5);
      context.restore();
    }
  }

  /** Pieces of one word are joined by a line beside their labels. */
  paintBrackets(context, { left, top, w, tall }) {
    const { rowWords, columnWords, rowLabels, columnLabels } = this.shown;
    context.fillStyle = ink("muted");
    if (rowLabels)
      for (const [from, to] of pieces(rowWords ?? []))
        context.fillRect(left - 5, top + from * tall + 5, 1.5, (to - from + 1) * tall - 10);
    if (columnLabels)
      for (const [from, to] of pieces(columnWords ?? []))
        context.fillRect(left + from * w + 5, top - 5, (to - from + 1) * w - 10, 1.5);
  }

  paintCross(context, { left, top, w, tall }, { row, column }) {
    const { rows, columns, size } = this.shown;
    const i = Math.floor(row / size),
      j = Math.floor(column / size);
    context.strokeStyle = ink("accent");
    context.globalAlpha = 0.45;
    context.lineWidth = 1;
    if (i >= 0) context.strokeRect(left + 0.5, top + i * tall + 0.5, w * columns - 1, tall - 1);
    if (j >= 0) context.strokeRect(left + j * w + 0.5, top + 0.5, w - 1, tall * rows - 1);
    context.globalAlpha = 1;
    context.lineWidth = 2;
    if (i >= 0 && j >= 0)
      context.strokeRect(left + j * w, top + i * tall, Math.max(w, 3), Math.max(tall, 3));
  }

  /** Scrolls the chosen cell into sight where the matrix is larger than its frame. */
  reveal({ left, top, w, tall }, at) {
    if (!at || this.small || this.stripe) return;
    const x = left + (at.column / this.shown.size) * w,
      y = top + (at.row / this.shown.size) * tall,
      { frame } = this;
    if (x < frame.scrollLeft + left || x + w > frame.scrollLeft + frame.clientWidth)
      frame.scrollLeft = x - frame.clientWidth / 2;
    if (y < frame.scrollTop || y + tall > frame.scrollTop + frame.clientHeight)
      frame.scrollTop = y - frame.clientHeight / 2;
  }

  paintLegend() {
    const { kind, range, masked } = this.shown,
      [low, high] = range;
    const bar = h("span.ramp");
    const stops = [0, 64, 128, 192, 255].map((i) => palette(kind)[i].css);
    bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
    const digits = high >= 100 ? 0 : 2;
    this.legend.replaceChildren(
      number(low, low ? digits : 0),
      bar,
      number(high, digits),
      masked && this.shown.anyMasked ? h("span.masked-key", h("span.hatch"), "may not look") : "",
    );
  }

  /** The cell under the pointer. */
  cellAt(event) {
    const { left, top, w, tall } = this.box,
      edge = this.canvas.getBoundingClientRect();
    const i = Math.floor((event.clientY - edge.top - top) / tall),
      j = Math.floor((event.clientX - edge.left - left) / w);
    const inside = i >= 0 && j >= 0 && i < this.shown.rows && j < this.shown.columns;
    return inside ? this.shown.origin(i, j) : null;
  }

  onPointer(event) {
    const cell = this.box && this.cellAt(event);
    this.hover(cell && { row: cell[0], column: cell[1] });
  }

  onClick(event) {
    const cell = this.box && this.cellAt(event);
    if (cell) this.pick({ row: cell[0], column: cell[1] }, true);
  }

  onKey(event) {
    if (!this.keys || event.altKey || event.metaKey) return;
    const { rows, columns, at } = this.whole,
      far = event.ctrlKey;
    let { row, column } = at ?? { row: 0, column: 0 };
    if (event.key === "ArrowUp") row -= 1;
    else if (event.key === "ArrowDown") row += 1;
    else if (event.key === "ArrowLeft") column -= 1;
    else if (event.key === "ArrowRight") column += 1;
    else if (event.key === "Home") [row, column] = [far ? 0 : row, 0];
    else if (event.key === "End") [row, column] = [far ? rows - 1 : row, columns - 1];
    else return;
    event.preventDefault();
    this.pick(
      {
        row: Math.min(rows - 1, Math.max(0, row)),
        column: Math.min(columns - 1, Math.max(0, column)),
      },
      false,
    );
  }
}

function hatch(context, x, y, w, tall, colour) {
  context.save();
  context.beginPath();
  context.rect(x, y, w, tall);
  context.clip();
  context.strokeStyle = colour;
  context.globalAlpha = 0.4;
  context.lineWidth = 1;
  context.beginPath();
  for (let offset = -tall; offset < w; offset += 5) {
    context.moveTo(x + offset, y + tall);
    context.lineTo(x + offset + tall, y);
  }
  context.stroke();
  context.restore();
}

/** First and last place of each word of several pieces. */
function pieces(words) {
  const found = [];
  words.forEach((word, i) => {
    if (word === null || word === undefined || word !== words[i - 1]) return;
    if (found.at(-1)?.[1] === i - 1 && words[found.at(-1)[0]] === word) found.at(-1)[1] = i;
    else found.push([i - 1, i]);
  });
  return found;
}

/** As much of a label as fits. */
function clipped(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let end = Math.min(text.length, 60);
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > room) end -= 1;
  return `${text.slice(0, end)}…`;
}
