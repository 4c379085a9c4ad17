/** Alignment: which source words each output word was made from, as cross-attention tells. */

import { attentionOf, sum } from "../attention.js";
import { h, percent, select, svg, tick } from "../dom.js";
import { Matrix } from "../matrix.js";
import { save } from "../save.js";
import { View } from "../view.js";
import { bare, blockName, short } from "../words.js";

const COVERED = 0.95;

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
  const single = tokens.map(({ text, special }, place) => ({
    text: bare(text),
    special,
    places: [place],
  }));
  const plain = words
    ? names.map((text, i) => ({ text: bare(text), places: places[i] }))
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
    this.ribbons = h("div.ribbons");
    this.about = h("p.hint");
    this.large = new Matrix({
      pick: ({ row, column }, push) => this.pick(row, column, push),
      hover: (at) => this.hovered(at),
    });
    this.links = h("code.links");
    this.element = h(
      "div.alignment",
      this.tools,
      this.ribbons,
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
      ["auto", `best: ${this.meta.alignment.head}`],
      ...crosses.flatMap((node) => [
        [node.id, `${blockName(node.id)}, mean`],
        ...Array.from({ length: node.n_heads }, (_, head) => [
          `${node.id}.${head}`,
          `${blockName(node.id)}, head ${head}`,
        ]),
      ]),
    ];
    this.tools.replaceChildren(
      select("Head", options, now.aligner, this.sets("aligner")),
      tick("whole words", now.words, this.sets("words")),
      tick("special tokens", now.specials, this.sets("specials")),
    );
    this.made = aligned(trace, now);
    this.chosen = Math.max(
      0,
      this.made.rows.findIndex(
        (row) => trace.nodes.get(now.block)?.queries === "target" && row.places.includes(now.q),
      ),
    );
    const { block, head } = this.made;
    this.about.textContent =
      `Read off ${blockName(block)}, ${head === null ? "mean of all heads" : `head ${head}`}. ` +
      (now.specials
        ? ""
        : "Special tokens are left out and the rest of each row is made to sum to 1. ") +
      `The chosen word shows the fewest ribbons that make up ${100 * COVERED} %, ` +
      "the others their strongest.";
    this.links.textContent = pharaoh(this.made);
    this.draw(this.chosen);
    const { rows, columns, weights } = this.made,
      flat = Float32Array.from(weights.flat());
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

  pick(row, column, push) {
    const { block, head, rows, columns } = this.made;
    this.state.set(
      {
        block,
        head: head ?? this.state.now.head,
        q: rows[row].places[0],
        k: columns[column].places[0],
      },
      { push },
    );
  }

  hovered(at) {
    this.large.mark(at ?? this.large.whole.at);
    this.draw(at ? at.row : this.chosen);
  }

  /** Source words above, output words below, ribbons between them. */
  draw(chosen) {
    const { rows, columns, weights } = this.made,
      pen = document.createElement("canvas").getContext("2d");
    pen.font = "15px system-ui, sans-serif";
    const placed = (list) => {
      let x = 8;
      return list.map(({ text }) => {
        const w = pen.measureText(short(text)).width;
        x += w + 16;
        return x - 16 - w / 2;
      });
    };
    const tops = placed(columns),
      bottoms = placed(rows),
      width = 24 + Math.max(tops.at(-1) ?? 0, bottoms.at(-1) ?? 0) + 40;
    const paths = weights.flatMap((row, i) => {
      const order = row.map((w, j) => [w, j]).sort((a, b) => b[0] - a[0]);
      let covered = 0;
      const kept =
        i === chosen
          ? order.filter(([w]) => {
              const needed = covered < COVERED;
              covered += w;
              return needed && w > 0.01;
            })
          : order.slice(0, 1);
      return kept.map(([w, j]) =>
        svg(
          "path",
          {
            class: i === chosen ? "ribbon chosen" : "ribbon",
            "stroke-width": Math.max(0.5, 13 * (w || 0)),
            d: `M${tops[j]} 34C${tops[j]} 90 ${bottoms[i]} 80 ${bottoms[i]} 136`,
          },
          svg("title", `${rows[i].text} ← ${columns[j].text}: ${percent(w)}`),
        ),
      );
    });
    const looked = weights[chosen] ?? [];
    const word = (x, y, text, kind, more = {}) =>
      svg(
        "text",
        { x, y, "text-anchor": "middle", class: kind, "unicode-bidi": "isolate", ...more },
        short(text),
      );
    this.drawing = svg(
      "svg",
      {
        viewBox: `0 0 ${width} 168`,
        width,
        height: 168,
        role: "img",
        "aria-label": `alignment ${pharaoh(this.made)}`,
      },
      paths.sort((a, b) => a.classList.contains("chosen") - b.classList.contains("chosen")),
      columns.map((column, j) =>
        word(tops[j], 22, column.text, looked[j] > 0.15 ? "word lit" : "word"),
      ),
      rows.map((row, i) =>
        word(bottoms[i], 156, row.text, i === chosen ? "word lit" : "word", {
          tabindex: -1,
          onclick: () => this.pick(i, looked.indexOf(Math.max(...weights[i])), true),
          onpointerenter: () => this.drawing.isConnected && i !== chosen && this.draw(i),
        }),
      ),
    );
    this.drawing.addEventListener("pointerleave", () => this.draw(this.chosen));
    this.ribbons.replaceChildren(this.drawing);
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
    return this.drawing;
  }
}
