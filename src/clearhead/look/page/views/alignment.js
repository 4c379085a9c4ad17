/** Alignment: which source words each output word was made from, as cross-attention tells. */

import { attentionOf, sum } from "../attention.js";
import { h, select, tick } from "../dom.js";
import { Matrix } from "../matrix.js";
import { Ribbons } from "../ribbons.js";
import { save } from "../save.js";
import { View } from "../view.js";
import { bare, blockName, headName, short, text } from "../words.js";

/** The weights of a head, or of a block's mean, between the words that Python has put together. */
export function aligned(trace, { aligner, words, specials }) {
  const { alignment } = trace.meta;
  const crosses = trace.attentions.filter((node) => node.keys !== node.queries);
  const wanted = aligner === "auto" ? alignment.head : aligner;
  const [, id, head = "mean"] = /^(\w+\.\d+\.\w+)(?:\.(\d+))?$/.exec(wanted) ?? [null, null];
  const node = crosses.find((one) => one.id === id) ?? crosses[Math.max(0, crosses.length - 2)];
  const made = attentionOf(trace, node.id);
  const all = head === "mean" || Number(head) >= made.nHeads;
  const pattern = all ? made.mixed("mean") : made.weights(Number(head));
  const said = made.queries.map((token) => ({
    text: token.predicts,
    special: token.predicts_special,
  }));
  const shown = { words, specials };
  const columns = groups(made.keys, alignment.source, alignment.source_places, shown);
  const rows = groups(said, alignment.target, alignment.target_places, shown);
  // added over a source word, averaged over an output word, and made to sum to 1
  const weights = rows.map((row) => {
    const cell = (column) =>
      sum(row.places.map((i) => sum(column.places.map((j) => pattern[i * made.nk + j])))) /
      row.places.length;
    const list = columns.map(cell);
    const total = sum(list) || 1;
    return list.map((x) => x / total);
  });
  return { rows, columns, weights, block: node.id, head: all ? null : Number(head) };
}

/**
 * What a row or column stands for: whole words or single tokens, and the special ones among them.
 */
function groups(tokens, names, places, { words, specials }) {
  const single = tokens.map((token, place) => ({
    text: text(token),
    special: token.special,
    places: [place],
  }));
  const plain = words
    ? names.map((name, i) => ({ text: bare(name), places: places[i] }))
    : single.filter(({ special }) => !special);
  const made = specials ? [...plain, ...single.filter(({ special }) => special)] : plain;
  return made.sort((a, b) => a.places[0] - b.places[0]);
}

/** Pharaoh's format: the source word that each output word looks at most, as 0-0 2-1 … */
export function pharaoh({ weights }) {
  const links = weights.map((row, i) => [row.indexOf(Math.max(...row)), i]);
  return links
    .sort((a, b) => a[0] - b[0] || a[1] - b[1])
    .map(([source, target]) => `${source}-${target}`)
    .join(" ");
}

export class AlignmentView extends View {
  static id = "alignment";
  static title = "Alignment";
  static lead =
    "Each output word, joined to the source words it looked at when it was chosen. " +
    "A ribbon's width is its weight.";

  static available(trace) {
    return trace.attentions.some((node) => node.keys !== node.queries);
  }

  constructor(trace, state) {
    super(trace, state);
    this.ribbons = new Ribbons({
      pick: (side, place) => {
        const [row, column] = side === "target" ? [place, this.best(place)] : [this.chosen, place];
        this.pick(row, column, true, side);
      },
      point: (hover) => this.pointed(hover),
    });
    this.about = h("p.hint");
    this.large = new Matrix({
      pick: ({ row, column }, push) => this.pick(row, column, push),
      hover: (at) =>
        this.ribbons.shown && this.ribbons.over(at && { side: "target", place: at.row }),
    });
    this.links = h("code.links");
    this.element = h(
      "div.alignment",
      this.tools,
      this.ribbons.element,
      this.about,
      h("h2", "The same as a matrix"),
      this.large.element,
      h(
        "div.tools.saving",
        h("span.label", "Pharaoh"),
        this.links,
        h(
          "button.pill",
          { onclick: () => save("alignment.txt", `${pharaoh(this.made)}\n`, "text/plain") },
          "Save",
        ),
      ),
    );
  }

  update(now) {
    const { trace } = this;
    const crosses = trace.attentions.filter((node) => node.keys !== node.queries);
    const options = [
      ["auto", "the one that aligns best"],
      ...crosses.flatMap((node) => [
        [node.id, `${blockName(node.id)}, mean`],
        ...Array.from({ length: node.n_heads }, (_, head) => [
          `${node.id}.${head}`,
          `${blockName(node.id)}, ${headName(head)}`,
        ]),
      ]),
    ];
    this.tools.replaceChildren(
      select("Head", options, now.aligner, this.sets("aligner")),
      tick("whole words", now.words, this.sets("words")),
      tick("special tokens", now.specials, this.sets("specials")),
    );
    this.made = aligned(trace, now);
    const row = now.segment === "target" ? now.pos : now.step;
    this.chosen = Math.max(
      0,
      this.made.rows.findIndex(({ places }) => places.includes(row)),
    );
    const { block, head } = this.made;
    this.about.textContent =
      `Read off: ${blockName(block)}, ${head === null ? "mean of all heads" : headName(head)}. ` +
      (now.specials
        ? ""
        : "Special tokens are left out and the rest of each row is made to sum to 1. ") +
      "The chosen word shows the fewest ribbons that make up 95 %, the others their strongest.";
    this.links.textContent = pharaoh(this.made);
    const { rows, columns, weights } = this.made,
      flat = Float32Array.from(weights.flat());
    this.ribbons.show({ rows, columns, weights, chosen: this.side(now) });
    const column = Math.max(
      0,
      columns.findIndex((one) => one.places.includes(now.k)),
    );
    this.large.show({
      values: flat,
      rows: rows.length,
      columns: columns.length,
      rowLabels: rows.map((row) => short(row.text)),
      columnLabels: columns.map((one) => short(one.text)),
      kind: "weight",
      range: [0, 1],
      at: { row: this.chosen, column },
      label: "output words by source words. Arrow keys move.",
    });
  }

  /** The chosen word as ribbons know it. */
  side(now) {
    if (now.segment === "target") return { side: "target", place: this.chosen };
    const place = this.made.columns.findIndex(({ places }) => places.includes(now.pos));
    return place < 0 ? null : { side: "source", place };
  }

  /** The source word that an output word looks at most. */
  best(row) {
    return this.made.weights[row].indexOf(Math.max(...this.made.weights[row]));
  }

  pick(row, column, push, side = "target") {
    const { block, head, rows, columns } = this.made;
    const [q, k] = [rows[row].places[0], columns[column].places[0]];
    const word = side === "target" ? { segment: side, pos: q } : { segment: side, pos: k };
    this.state.set({ block, head: head ?? this.state.now.head, q, k, ...word }, { push });
  }

  pointed(hover) {
    const { at } = this.large.whole;
    if (!hover) return this.large.mark(at);
    const row = hover.side === "target" ? hover.place : at.row;
    return this.large.mark({ row, column: hover.side === "source" ? hover.place : this.best(row) });
  }

  /** The pointer is over tokens, and here are words. */
  point() {}

  say() {
    const { rows, columns, weights } = this.made,
      row = weights[this.chosen] ?? [];
    const best = row
      .map((w, j) => [w, j])
      .sort((a, b) => b[0] - a[0])
      .slice(0, 2);
    const from = best.map(([w, j]) => `${columns[j].text} ${w.toFixed(2)}`);
    return `${rows[this.chosen]?.text ?? ""} comes from ${from.join(", ")}`;
  }

  table() {
    const { rows, columns, weights } = this.made;
    return {
      caption: "alignment",
      rows: rows.map((row) => short(row.text)),
      columns: columns.map((column) => short(column.text)),
      values: weights.flat(),
      at: this.large.whole.at,
    };
  }

  drawn() {
    return this.ribbons.lines;
  }
}
