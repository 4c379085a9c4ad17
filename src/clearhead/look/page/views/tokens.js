/** Tokens & positions: a token's vector plus the vector of its place is what enters the first layer. */

import { sum } from "../attention.js";
import { bdi, choice, h, number, slider, svg } from "../dom.js";
import { check, line, num, op, step } from "../ledger.js";
import { Matrix } from "../matrix.js";
import { chips, labels } from "../words.js";

const NAMES = { tokens: "Token", positions: "Position", types: "Segment", embedded: "Sum" };

export const tokens = {
  name: "tokens",
  title: "Tokens & positions",
  lead: "Every token is a learned list of numbers. A second list, for its place, tells the model the order of words.",
  available: (trace) => trace.stacks.some((stack) => trace.has(`${stack}.tokens`)),
  build: (trace, state) => new TokensView(trace, state),
};

class TokensView {
  constructor(trace, state) {
    Object.assign(this, { trace, state });
    this.tools = h("div", { class: "tools" });
    this.strips = h("div", { class: "strips" });
    this.matrices = {};
    this.curve = h("div", { class: "curve" });
    this.square = new Matrix({ pick: ({ row }, push) => state.set({ pos: row }, { push }), cell: [13, 22, 22] });
    this.element = h("div", { class: "tokens" }, this.tools, this.strips,
      h("div", { class: "pair" },
        h("section", {}, h("h2", {}, "Two numbers of the position, over the sentence"), this.curve),
        h("section", {}, h("h2", {}, "How alike two positions are"),
          h("p", { class: "hint" }, "Position · position: neighbours are alike, wherever they stand."),
          this.square.element)));
  }

  get stack() {
    const wanted = this.state.now.segment === "target" ? "decoder" : "encoder";
    return this.trace.stacks.includes(wanted) ? wanted : this.trace.stacks[0];
  }

  get parts() {
    return ["tokens", "positions", "types", "embedded"].filter((part) => this.part(part));
  }

  row(now) {
    return Math.min(now.pos, this.trace.tokens(this.trace.segmentOf(this.stack)).length - 1);
  }

  part(name) {
    return name === "embedded" ? this.trace.embedded(this.stack) : this.trace.tensor(`${this.stack}.${name}`);
  }

  update(wanted) {
    const now = { ...wanted, pos: this.row(wanted) };
    const { trace, state, stack } = this, list = trace.tokens(trace.segmentOf(stack));
    const sides = trace.stacks.map((name) => [trace.segmentOf(name), name === "encoder" ? "source" : "target"]);
    this.tools.replaceChildren(sides.length > 1 ? choice("Side", sides, trace.segmentOf(stack),
      (segment) => state.set({ segment, pos: 0 }, { push: true })) : "",
      chips(list, { chosen: now.pos, pick: (pos) => state.set({ pos }, { push: true }) }));
    this.drawStrips(now, list);
    this.drawCurve(now, list);
    this.drawSquare(now, list);
  }

  drawStrips(now, list) {
    const key = this.stack + this.parts;
    if (this.built !== key) {
      this.built = key;
      this.matrices = Object.fromEntries(this.parts.map((part) => [part, new Matrix({ cell: [0.1, 12, 18], stripe: 1,
        pick: ({ row, column }, push) => this.state.set({ pos: row, dim: column }, { push }) })]));
      this.strips.replaceChildren(...this.parts.flatMap((part, i) => [
        i ? h("span", { class: "sign", "aria-hidden": "true" }, part === "embedded" ? "=" : "+") : "",
        h("section", {}, h("h2", {}, NAMES[part]), h("p", { class: "hint" }, this.hint(part)),
          this.matrices[part].element)]));
    }
    for (const [part, matrix] of Object.entries(this.matrices)) {
      const { shape, data } = this.part(part), rows = list.length;
      const one = shape.at(-2) === 1 && rows > 1; // one row stands for all
      const values = one ? repeated(data, rows) : data;
      matrix.stripe = Math.max(1, Math.min(18, 420 / rows));
      matrix.show({ values, rows, columns: shape.at(-1), kind: "signed", at: { row: now.pos, column: now.dim },
        rowLabels: part === this.parts[0] ? labels(list) : null,
        label: `${NAMES[part]} vectors, ${shape.at(-1)} numbers for each token. Arrow keys move.` });
    }
  }

  hint(part) {
    const { d_model: width, scale_embeddings: scaled, positions } = this.trace.meta.model;
    return { tokens: scaled === false ? "looked up by its id" : `looked up by its id, × √${width}`,
      positions: positions === "learned" ? "learned, one for each place" : "sines and cosines of its place",
      types: "which part of the text", embedded: "what the first layer reads" }[part];
  }

  drawCurve(now, list) {
    const { trace, stack, state } = this, positions = trace.tensor(`${stack}.positions`);
    if (!positions) return this.curve.replaceChildren();
    const width = positions.shape.at(-1), pair = Math.floor(now.dim / 2), n = list.length, end = Math.max(n - 1, 16);
    const wave = 10_000 ** ((2 * pair) / width), x = (pos) => 34 + (pos * 400) / end, y = (value) => 70 - 52 * (value || 0);
    const at = (pos, dim) => trace.vector(`${stack}.positions`, pos)[dim];
    const learned = trace.meta.model.positions === "learned";
    const lines = [0, 1].map((odd) => {
      const smooth = learned ? list.map((_, pos) => [pos, at(pos, 2 * pair + odd)])
        : Array.from({ length: 201 }, (_, i) => [(i * end) / 200, (odd ? Math.cos : Math.sin)((i * end) / 200 / wave)]);
      const path = smooth.map(([pos, value], i) =>
        `${i ? "L" : "M"}${x(pos).toFixed(1)} ${y(value).toFixed(1)}`).join("");
      const dots = list.map((_, pos) => svg("circle",
        { cx: x(pos), cy: y(at(pos, 2 * pair + odd)), r: pos === now.pos ? 5 : 2.6 }));
      return svg("g", { class: odd ? "wave cosine" : "wave sine" }, svg("path", { d: path }), dots);
    });
    const axis = [-1, 0, 1].map((value) => [svg("line", { class: "axis", x1: 34, x2: 434, y1: y(value), y2: y(value) }),
      svg("text", { x: 26, y: y(value) + 4, "text-anchor": "end" }, String(value).replace("-", "−"))]);
    const here = svg("line", { class: "here", x1: x(now.pos), x2: x(now.pos), y1: 12, y2: 128 });
    this.drawing = svg("svg", { viewBox: "0 0 440 146", role: "img",
      "aria-label": `numbers ${2 * pair} and ${2 * pair + 1} of the position vectors` },
      axis, here, lines, svg("text", { x: x(now.pos), y: 142, "text-anchor": "middle" }, `position ${now.pos}`));
    this.control ??= slider("Pair", { min: 0, max: width / 2 - 1, value: pair,
      text: (value) => `${2 * value}, ${2 * value + 1}` }, (value) => state.set({ dim: 2 * value }));
    this.picked ??= h("p", { class: "hint" });
    this.picked.replaceChildren(h("span", { class: "key sine" }),
      learned ? ` number ${2 * pair} ` : ` number ${2 * pair}: sin(position ÷ ${number(wave, 2)}) `,
      h("span", { class: "key cosine" }), learned ? ` number ${2 * pair + 1}`
        : ` number ${2 * pair + 1}: cos of the same`);
    this.control.moveTo(pair);
    if (!this.curve.contains(this.control)) this.curve.replaceChildren(h("div", { class: "drawing" }), this.picked,
      this.control);
    this.curve.firstChild.replaceChildren(this.drawing);
  }

  drawSquare(now, list) {
    const positions = this.trace.tensor(`${this.stack}.positions`);
    if (!positions) return;
    const n = list.length, width = positions.shape.at(-1), rows =
      Array.from({ length: n }, (_, i) => positions.data.subarray(i * width, (i + 1) * width));
    const key = `${this.stack} ${n}`;
    if (this.squared !== key) {
      this.products = new Float32Array(n * n);
      for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) this.products[i * n + j] =
        sum(rows[i].map((x, dim) => x * rows[j][dim]));
      this.likeness = this.products.reduce(([low, high], x) => [Math.min(low, x), Math.max(high, x)],
        [Infinity, -Infinity]);
      this.squared = key;
    }
    this.square.show({ values: this.products, rows: n, columns: n, kind: "weight", range: this.likeness,
      rowLabels: labels(list), at: { row: this.row(now), column: this.row(now) },
      label: "dot products of position vectors" });
  }

  say(wanted) {
    const now = { ...wanted, pos: this.row(wanted) };
    const list = this.trace.tokens(this.trace.segmentOf(this.stack));
    const { shape, data } = this.part("embedded"), value = data[now.pos * shape.at(-1) + now.dim];
    return `${labels(list)[now.pos]}, position ${now.pos}, number ${now.dim}: ${number(value)}`;
  }

  table(now) {
    const list = this.trace.tokens(this.trace.segmentOf(this.stack)), { shape, data } = this.part("embedded");
    return { caption: `what the first layer of the ${this.stack} reads`, rows: labels(list),
      columns: Array.from({ length: shape.at(-1) }, (_, i) => String(i)),
      values: data, at: { row: this.row(now), column: now.dim } };
  }

  picture() {
    return this.matrices.embedded.canvas;
  }

  drawn() {
    return this.drawing;
  }

  ledger(wanted) {
    const now = { ...wanted, pos: this.row(wanted) };
    const { trace, stack } = this, list = trace.tokens(trace.segmentOf(stack)), { model } = trace.meta;
    const width = model.d_model, at = (part) =>
      this.part(part).data[(now.pos * width + now.dim) % this.part(part).data.length];
    const edited = trace.meta.edits.length > 0;
    const parts = this.parts.filter((part) => part !== "embedded"), made = sum(parts.map(at)),
      root = Math.sqrt(model.d_model);
    const pair = Math.floor(now.dim / 2), angle = now.pos / 10_000 ** ((2 * pair) / model.d_model),
      name = now.dim % 2 ? "cos" : "sin";
    return h("div", {},
      h("p", { class: "cell-name" }, bdi(labels(list)[now.pos] ?? ""),
        h("small", {}, `${stack}, position ${now.pos}, id ${list[now.pos]?.id}, number ${now.dim} of ${width}`)),
      parts.includes("tokens") && step("1  The token's number",
        model.scale_embeddings === false ? line(num(at("tokens")))
        : line(num(at("tokens") / root), op("×"), `√${model.d_model}`, op("="), num(at("tokens")))),
      parts.includes("positions") && model.positions !== "learned" && step("2  The position's number",
        line(`${name}(${now.pos} ÷ 10000^(${2 * pair}/${model.d_model})) = ${name}(`, num(angle), ")", op("="),
          num(Math[name](angle))),
        check(Math[name](angle), at("positions"), 1e-6, edited)),
      step("Added up", line(...parts.flatMap((part, i) => [i ? op("+") : "", num(at(part))]), op("="), num(made)),
        model.embedding_norm ? line("then normalised") : this.part("embedded").derived ? ""
          : check(made, at("embedded"), 1e-5 * Math.max(1, Math.abs(made)), edited)));
  }
}

function repeated(row, times) {
  const made = new Float32Array(row.length * times);
  for (let i = 0; i < times; i++) made.set(row, i * row.length);
  return made;
}
