/** Alignment: which source words each output word was made from, as cross-attention tells. */

import { attentionOf, sum } from "../attention.js";
import { h, percent, select, svg, tick } from "../dom.js";
import { Matrix } from "../matrix.js";
import { save } from "../save.js";
import { bare, blockName, short } from "../words.js";

const COVERED = 0.95;

export const alignment = {
  name: "alignment",
  title: "Alignment",
  lead: "Each output word, joined to the source words it looked at when it was chosen. A ribbon's width is its weight.",
  available: (trace) => trace.attentions.some((node) => node.keys !== node.queries),
  build: (trace, state) => new AlignmentView(trace, state),
};

/** Rows and columns merged into words: weights are added over a source word, averaged over an output word. */
export function aligned(trace, { aligner, words, specials }) {
  const crosses = trace.attentions.filter((node) => node.keys !== node.queries);
  const wanted = aligner === "auto" ? trace.meta.alignment?.head ?? "mean" : aligner;
  const [, id, head = "mean"] = /^(\w+\.\d+\.\w+)(?:\.(\d+))?$/.exec(wanted) ?? [null, null];
  const node = crosses.find((one) => one.id === id) ?? crosses[Math.max(0, crosses.length - 2)];
  const made = attentionOf(trace, node.id), all = head === "mean" || Number(head) >= made.nHeads;
  const pattern = all ? made.mixed("mean") : made.weights(Number(head));
  const target = made.queries.map((token, i) => predicted(token, made.queries[i + 1]));
  const columns = groups(made.keys, words, specials), rows = groups(target, words, specials);
  const weights = rows.map((row) => {
    const list = columns.map((column) =>
      sum(row.places.map((i) => sum(column.places.map((j) => pattern[i * made.nk + j])))) / row.places.length);
    const total = sum(list) || 1;
    return list.map((x) => x / total);
  });
  return { rows, columns, weights, block: node.id, head: all ? null : Number(head) };
}

/** The token that a row predicts: the decoder's next input, where there is one. */
function predicted(token, next) {
  return { text: token.predicts ?? "", word: token.predicts_word ?? next?.word ?? null,
    special: token.predicts_special ?? next?.special ?? true };
}

function groups(tokens, words, specials) {
  const made = [];
  tokens.forEach((token, place) => {
    if (token.special && !specials) return;
    const last = made.at(-1), same = words && last && token.word !== null && token.word !== undefined
      && token.word === last.word;
    if (same) { last.places.push(place); last.text += bare(token.text); }
    else made.push({ text: bare(token.text), word: token.word, places: [place] });
  });
  return made;
}

/** Pharaoh's format: the source word that each output word looks at most, as 0-0 2-1 … */
export function pharaoh({ weights }) {
  const links = weights.map((row, i) => [row.indexOf(Math.max(...row)), i]);
  return links.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([source, target]) => `${source}-${target}`).join(" ");
}

class AlignmentView {
  constructor(trace, state) {
    Object.assign(this, { trace, state });
    this.tools = h("div", { class: "tools" });
    this.ribbons = h("div", { class: "ribbons" });
    this.about = h("p", { class: "hint" });
    this.matrix_ = new Matrix({ pick: ({ row, column }, push) => this.pick(row, column, push),
      hover: (at) => this.hovered(at) });
    this.links = h("code", { class: "links" });
    this.element = h("div", { class: "alignment" }, this.tools, this.ribbons, this.about,
      h("h2", {}, "The same as a matrix"), this.matrix_.element,
      h("div", { class: "tools saving" }, h("span", { class: "label" }, "Pharaoh"), this.links,
        h("button", { type: "button", class: "pill", onclick: () =>
          save("alignment.txt", `${pharaoh(this.made)}\n`, "text/plain") }, "Save")));
  }

  update(now) {
    const { state, trace } = this, crosses = trace.attentions.filter((node) => node.keys !== node.queries);
    const best = trace.meta.alignment?.head;
    const options = [["auto", best ? `best: ${best}` : "best"],
      ...crosses.flatMap((node) => [[node.id, `${blockName(node.id)}, mean`],
      ...Array.from({ length: node.n_heads }, (_, head) =>
        [`${node.id}.${head}`, `${blockName(node.id)}, head ${head}`])])];
    this.tools.replaceChildren(select("Head", options, now.aligner,
      (aligner) => state.set({ aligner }, { push: true })),
      tick("whole words", now.words, (words) => state.set({ words }, { push: true })),
      tick("special tokens", now.specials, (specials) => state.set({ specials }, { push: true })));
    this.made = aligned(trace, now);
    this.chosen = Math.max(0,
      this.made.rows.findIndex((row) => trace.nodes.get(now.block)?.queries === "target"
      && row.places.includes(now.q)));
    const { block, head } = this.made;
    this.about.textContent = `Read off ${blockName(block)}, ${head === null ? "mean of all heads" : `head ${head}`}. ` +
      (now.specials ? "" : "Special tokens are left out and the rest of each row is made to sum to 1. ") +
      `The chosen word shows the fewest ribbons that make up ${100 * COVERED} %, the others their strongest.`;
    this.links.textContent = pharaoh(this.made);
    this.draw(this.chosen);
    const { rows, columns, weights } = this.made, flat = Float32Array.from(weights.flat());
    const column = Math.max(0, columns.findIndex((one) => one.places.includes(now.k)));
    this.matrix_.show({ values: flat, rows: rows.length, columns: columns.length,
      rowLabels: rows.map((row) => short(row.text)), columnLabels: columns.map((one) => short(one.text)),
      kind: "weight", range: [0, 1], at: { row: this.chosen, column },
        label: "output words by source words. Arrow keys move." });
  }

  pick(row, column, push) {
    const { block, head, rows, columns } = this.made;
    this.state.set({ block, head: head ?? this.state.now.head, q: rows[row].places[0], k: columns[column].places[0] },
      { push });
  }

  hovered(at) {
    this.matrix_.mark(at ?? this.matrix_.whole.at);
    this.draw(at ? at.row : this.chosen);
  }

  /** Source words above, output words below, ribbons between them. */
  draw(chosen) {
    const { rows, columns, weights } = this.made, pen = document.createElement("canvas").getContext("2d");
    pen.font = "15px system-ui, sans-serif";
    const placed = (list) => {
      let x = 8;
      return list.map(({ text }) =>
        { const w = pen.measureText(short(text)).width; x += w + 16; return x - 16 - w / 2; });
    };
    const tops = placed(columns), bottoms = placed(rows), width = 24 + Math.max(tops.at(-1) ?? 0, bottoms.at(-1) ?? 0) +
      40;
    const paths = weights.flatMap((row, i) => {
      const order = row.map((w, j) => [w, j]).sort((a, b) => b[0] - a[0]);
      let covered = 0;
      const kept = i === chosen
        ? order.filter(([w]) => { const needed = covered < COVERED; covered += w; return needed && w > 0.01; })
        : order.slice(0, 1);
      return kept.map(([w, j]) => svg("path",
        { class: i === chosen ? "ribbon chosen" : "ribbon", "stroke-width": Math.max(0.5, 13 * (w || 0)),
        d: `M${tops[j]} 34C${tops[j]} 90 ${bottoms[i]} 80 ${bottoms[i]} 136` },
          svg("title", {}, `${rows[i].text} ← ${columns[j].text}: ${percent(w)}`)));
    });
    const looked = weights[chosen] ?? [];
    const word = (x, y, text, kind, more = {}) => svg("text",
      { x, y, "text-anchor": "middle", class: kind, "unicode-bidi": "isolate", ...more }, short(text));
    this.drawing = svg("svg", { viewBox: `0 0 ${width} 168`, width, height: 168, role: "img",
      "aria-label": `alignment ${pharaoh(this.made)}` },
      paths.sort((a, b) => a.classList.contains("chosen") - b.classList.contains("chosen")),
      columns.map((column, j) => word(tops[j], 22, column.text, looked[j] > 0.15 ? "word lit" : "word")),
      rows.map((row, i) => word(bottoms[i], 156, row.text, i === chosen ? "word lit" : "word",
        { tabindex: -1, onclick: () => this.pick(i, looked.indexOf(Math.max(...weights[i])), true),
        onpointerenter: () => this.drawing.isConnected && i !== chosen && this.draw(i) })));
    this.drawing.addEventListener("pointerleave", () => this.draw(this.chosen));
    this.ribbons.replaceChildren(this.drawing);
  }

  point() {}

  say() {
    const { rows, columns, weights } = this.made, row = weights[this.chosen] ?? [];
    const best = row.map((w, j) => [w, j]).sort((a, b) => b[0] - a[0]).slice(0, 2);
    const from = best.map(([w, j]) => `${columns[j].text} ${w.toFixed(2)}`);
    return `${rows[this.chosen]?.text ?? ""} comes from ${from.join(", ")}`;
  }

  table() {
    const { rows, columns, weights } = this.made;
    return { caption: "alignment", rows: rows.map((row) => short(row.text)),
      columns: columns.map((column) => short(column.text)), values: weights.flat(), at: this.matrix_.whole.at };
  }

  picture() {
    return this.matrix_.canvas;
  }

  drawn() {
    return this.drawing;
  }
}
