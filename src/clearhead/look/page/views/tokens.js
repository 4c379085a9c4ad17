/**
 * Tokens & positions: a token's vector plus the vector of its place is what enters the first layer.
 */

import { sum } from "../attention.js";
import { bdi, choice, h, number, slider, svg } from "../dom.js";
import { check, line, num, op, step } from "../ledger.js";
import { Matrix } from "../matrix.js";
import { View } from "../view.js";
import { labels, rowSays } from "../words.js";

const NAMES = { tokens: "Token", positions: "Position", types: "Segment", embedded: "Sum" };

export class TokensView extends View {
  static id = "tokens";
  static title = "Tokens & positions";
  static lead =
    "Every token is a learned list of numbers. A second list, for its place, tells the order. " +
    "Look at the left of the sum: there the waves of the position shine through.";

  static available(trace) {
    return trace.stacks.some((stack) => trace.has(`${stack}.positions`));
  }

  constructor(trace, state) {
    super(trace, state);
    this.strips = h("div.strips");
    this.matrices = {};
    this.curve = h("div.curve");
    this.square = new Matrix({
      pick: ({ row }, push) => state.set({ pos: row }, { push }),
      cell: [13, 22, 22],
    });
    this.element = h(
      "div.tokens",
      this.tools,
      this.strips,
      h(
        "div.pair",
        h("section", h("h2", "Two numbers of the position, over the sentence"), this.curve),
        h(
          "section",
          h("h2", "How alike two positions are"),
          h(
            "p.hint",
            "Position times position, for each pair of places: the diagonal is each with itself; " +
              "neighbours are alike, wherever they stand.",
          ),
          this.square.element,
        ),
      ),
    );
  }

  get stack() {
    const wanted = this.state.now.segment === "target" ? "decoder" : "encoder";
    return this.trace.stacks.includes(wanted) ? wanted : this.trace.stacks[0];
  }

  get parts() {
    return ["tokens", "positions", "types", "embedded"].filter((part) => this.part(part));
  }

  /** The tokens that are shown. */
  get list() {
    return this.trace.tokens(this.trace.segmentOf(this.stack));
  }

  row(now) {
    return Math.min(now.pos, this.list.length - 1);
  }

  part(name) {
    return name === "embedded"
      ? this.trace.embedded(this.stack)
      : this.trace.tensor(`${this.stack}.${name}`);
  }

  update(wanted) {
    const now = { ...wanted, pos: this.row(wanted) };
    const { trace, stack, list } = this;
    const sides = trace.stacks.map((name) => [
      trace.segmentOf(name),
      name === "encoder" ? "source" : "target",
    ]);
    this.tools.replaceChildren(
      sides.length > 1
        ? choice("Side", sides, trace.segmentOf(stack), (segment) => this.go({ segment, pos: 0 }))
        : "",
    );
    this.drawStrips(now, list);
    this.drawCurve(now, list);
    this.drawSquare(now, list);
  }

  drawStrips(now, list) {
    const key = this.stack + this.parts;
    if (this.built !== key) {
      this.built = key;
      this.matrices = Object.fromEntries(
        this.parts.map((part) => [
          part,
          new Matrix({
            cell: [0.1, 12, 18],
            stripe: 1,
            pick: ({ row, column }, push) => this.state.set({ pos: row, dim: column }, { push }),
          }),
        ]),
      );
      this.strips.replaceChildren(
        ...this.parts.flatMap((part, i) => [
          i ? h("span.sign", { "aria-hidden": "true" }, part === "embedded" ? "=" : "+") : "",
          h(
            "section",
            h("h2", NAMES[part]),
            h("p.hint", this.hint(part)),
            this.matrices[part].element,
          ),
        ]),
      );
    }
    for (const [part, matrix] of Object.entries(this.matrices)) {
      const { shape, data } = this.part(part),
        rows = list.length;
      const one = shape.at(-2) === 1 && rows > 1; // one row stands for all
      const values = one ? repeated(data, rows) : data;
      matrix.stripe = Math.max(1, Math.min(18, 420 / rows));
      matrix.show({
        values,
        rows,
        columns: shape.at(-1),
        kind: "signed",
        at: { row: now.pos, column: now.dim },
        rowLabels: part === this.parts[0] ? labels(list) : null,
        label: `${NAMES[part]} vectors, ${shape.at(-1)} numbers for each token. Arrow keys move.`,
      });
    }
  }

  hint(part) {
    const { d_model: width, scale_embeddings: scaled, positions } = this.meta.model;
    return {
      tokens: scaled === false ? "looked up by its id" : `looked up by its id, × √${width}`,
      positions:
        positions === "learned" ? "learned, one for each place" : "sines and cosines of its place",
      types: "which part of the text",
      embedded: "what the first layer reads",
    }[part];
  }

  drawCurve(now, list) {
    const { trace, stack, state } = this;
    const positions = trace.tensor(`${stack}.positions`);
    if (!positions) return this.curve.replaceChildren();
    const width = positions.shape.at(-1);
    const pair = Math.floor(now.dim / 2);
    const end = Math.max(list.length - 1, 16);
    const wave = 10_000 ** ((2 * pair) / width);
    const x = (pos) => 34 + (pos * 400) / end;
    const y = (value) => 70 - 52 * (value || 0);
    const at = (pos, dim) => trace.vector(`${stack}.positions`, pos)[dim];
    const learned = trace.meta.model.positions === "learned";
    const lines = [0, 1].map((odd) => {
      const smooth = learned
        ? list.map((_, pos) => [pos, at(pos, 2 * pair + odd)])
        : Array.from({ length: 201 }, (_, i) => [
            (i * end) / 200,
            (odd ? Math.cos : Math.sin)((i * end) / 200 / wave),
          ]);
      const path = smooth
        .map(([pos, value], i) => `${i ? "L" : "M"}${x(pos).toFixed(1)} ${y(value).toFixed(1)}`)
        .join("");
      const dots = list.map((_, pos) =>
        svg("circle", { cx: x(pos), cy: y(at(pos, 2 * pair + odd)), r: pos === now.pos ? 5 : 2.6 }),
      );
      return svg("g", { class: odd ? "wave cosine" : "wave sine" }, svg("path", { d: path }), dots);
    });
    const axis = [-1, 0, 1].map((value) => [
      svg("line.axis", { x1: 34, x2: 434, y1: y(value), y2: y(value) }),
      svg(
        "text",
        { x: 26, y: y(value) + 4, "text-anchor": "end" },
        String(value).replace("-", "−"),
      ),
    ]);
    const here = svg("line.here", { x1: x(now.pos), x2: x(now.pos), y1: 12, y2: 128 });
    this.drawing = svg(
      "svg",
      {
        viewBox: "0 0 440 146",
        role: "img",
        "aria-label": `numbers ${2 * pair} and ${2 * pair + 1} of the position vectors`,
      },
      axis,
      here,
      lines,
      svg("text", { x: x(now.pos), y: 142, "text-anchor": "middle" }, `position ${now.pos}`),
    );
    this.control ??= slider(
      "Pair",
      {
        min: 0,
        max: width / 2 - 1,
        value: pair,
        text: (value) => `${2 * value}, ${2 * value + 1}`,
      },
      (value) => state.set({ dim: 2 * value }),
    );
    this.picked ??= h("p.hint");
    this.picked.replaceChildren(
      h("span.key.sine"),
      learned ? ` number ${2 * pair} ` : ` number ${2 * pair}: sin(position ÷ ${number(wave, 2)}) `,
      h("span.key.cosine"),
      learned ? ` number ${2 * pair + 1}` : ` number ${2 * pair + 1}: cos of the same`,
    );
    this.control.moveTo(pair);
    if (!this.curve.contains(this.control))
      this.curve.replaceChildren(h("div.drawing"), this.picked, this.control);
    this.curve.firstChild.replaceChildren(this.drawing);
  }

  drawSquare(now, list) {
    const positions = this.trace.tensor(`${this.stack}.positions`);
    if (!positions) return;
    const n = list.length;
    const rows = list.map((_, i) => this.trace.vector(`${this.stack}.positions`, i));
    const key = `${this.stack} ${n}`;
    if (this.squared !== key) {
      const products = rows.flatMap((a) => rows.map((b) => sum(a.map((x, dim) => x * b[dim]))));
      this.products = Float32Array.from(products);
      this.likeness = this.products.reduce(
        ([low, high], x) => [Math.min(low, x), Math.max(high, x)],
        [Infinity, -Infinity],
      );
      this.squared = key;
    }
    this.square.show({
      values: this.products,
      rows: n,
      columns: n,
      kind: "weight",
      range: this.likeness,
      rowLabels: labels(list),
      at: { row: this.row(now), column: this.row(now) },
      label: "dot products of position vectors",
    });
  }

  say(wanted) {
    const now = { ...wanted, pos: this.row(wanted) };
    const { shape, data } = this.part("embedded");
    const value = data[now.pos * shape.at(-1) + now.dim];
    const token = labels(this.list)[now.pos];
    return `${token}, position ${now.pos}, number ${now.dim}: ${number(value)}`;
  }

  table(now) {
    const { shape, data } = this.part("embedded");
    return {
      caption: `what the first layer of the ${this.stack} reads`,
      rows: labels(this.list),
      columns: Array.from({ length: shape.at(-1) }, (_, i) => String(i)),
      values: data,
      at: { row: this.row(now), column: now.dim },
    };
  }

  picture() {
    return this.matrices.embedded.canvas;
  }

  drawn() {
    return this.drawing;
  }

  ledger(wanted) {
    const now = { ...wanted, pos: this.row(wanted) };
    const { stack, list, edited } = this;
    const { model } = this.meta;
    const width = model.d_model;
    const at = (part) => {
      const { data } = this.part(part);
      return data[(now.pos * width + now.dim) % data.length];
    };
    const parts = this.parts.filter((part) => part !== "embedded");
    const made = sum(parts.map(at));
    const root = Math.sqrt(width);
    const pair = Math.floor(now.dim / 2);
    const angle = now.pos / 10_000 ** ((2 * pair) / width);
    const name = now.dim % 2 ? "cos" : "sin";
    const of = `${name}(${now.pos} ÷ 10000^(${2 * pair}/${width})) = ${name}(`;
    return h(
      "div",
      h(
        "p.cell-name",
        bdi(labels(list)[now.pos] ?? ""),
        h(
          "small",
          `${stack}${rowSays(list[now.pos])}; position ${now.pos}, id ${list[now.pos]?.id}, ` +
            `number ${now.dim} of ${width}`,
        ),
      ),
      parts.includes("tokens") &&
        step(
          "1  The token's number",
          model.scale_embeddings === false
            ? line`${at("tokens")}`
            : line`${at("tokens") / root} × ${`√${width}`} = ${at("tokens")}`,
        ),
      parts.includes("positions") &&
        model.positions !== "learned" &&
        step(
          "2  The position's number",
          line`${of}${angle}) = ${Math[name](angle)}`,
          check(Math[name](angle), at("positions"), 1e-6, edited),
        ),
      step(
        "Added up",
        line`${parts.map((part, i) => [i ? op("+") : "", num(at(part))])} = ${made}`,
        model.embedding_norm
          ? line`then normalised`
          : this.part("embedded").derived
            ? ""
            : check(made, at("embedded"), 1e-5 * Math.max(1, Math.abs(made)), edited),
      ),
    );
  }
}

function repeated(row, times) {
  const made = new Float32Array(row.length * times);
  for (let i = 0; i < times; i++) made.set(row, i * row.length);
  return made;
}
