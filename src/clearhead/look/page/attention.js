/** One attention of the trace: its numbers, what follows from them, and what its heads are like. */

import { bare, labels, rowLabels } from "./words.js";

const known = new WeakMap();

/** The attention of a block; made once. */
export function attentionOf(trace, id) {
  if (!known.has(trace)) known.set(trace, new Map());
  const made = known.get(trace);
  if (!made.has(id)) made.set(id, new Attention(trace, trace.nodes.get(id)));
  return made.get(id);
}

export class Attention {
  constructor(trace, node) {
    this.trace = trace;
    this.node = node;
    this.id = node.id;
    this.pattern = trace.tensor(`${node.id}.pattern`);
    [this.nHeads, this.nq, this.nk] = this.pattern.shape;
    this.scores = trace.tensor(`${node.id}.scores`);
    this.dk = node.d_k;
    // an additive score is energy · tanh(q + k), and not q · k
    this.energy = trace.tensor(`${node.id}.energy`)?.data;
    this.scale = node.scale ?? Math.sqrt(node.d_k);
    if (this.scores && trace.meta.edits.length && this.misses(1) < this.misses(this.scale))
      this.scale = 1;
    this.queries = trace.tokens(node.queries);
    this.keys = trace.tokens(node.keys);
    this.rowLabels = rowLabels(this.queries);
    this.columnLabels = labels(this.keys);
    this.rowWords = this.queries.map((_, i) => this.says(i).word ?? null);
    this.columnWords = this.keys.map((token) => token.word ?? null);
  }

  /** Values of all cells with their names, as a matrix draws them; the selected cell is marked. */
  sheet(values, { q, k }) {
    const { nq: rows, nk: columns, rowWords, columnWords, columnLabels } = this;
    const names = { rowLabels: this.rowLabels, columnLabels, rowWords, columnWords };
    return { values, rows, columns, ...names, at: { row: q, column: k } };
  }

  /** The same as a table. */
  table(caption, values, { q, k }) {
    return {
      caption,
      rows: this.rowLabels,
      columns: this.columnLabels,
      values,
      at: { row: q, column: k },
    };
  }

  /**
   * How far the pattern is from a softmax of scores divided by this: a changed model may have left
   * √d_k out.
   */
  misses(scale) {
    const weights = this.weights(0),
      made = softmax(
        this.raw(0).map((x, c) => (weights[c] ? x / scale : -Infinity)),
        this.nq,
        this.nk,
      );
    return sum(made.map((x, c) => Math.abs(x - weights[c])));
  }

  /** Why query i may not look at key j; empty where it may. */
  masked(i, j, head = 0) {
    if (this.pattern.data[(head * this.nq + i) * this.nk + j] !== 0) return "";
    if (this.node.causal && j > i) return "later token: row t may only look back";
    return this.keys[j]?.pad ? "padding: there is no token here" : "";
  }

  vectors(name, head, index) {
    return this.trace.vector(`${this.id}.${name}`, head, index);
  }

  weights(head) {
    const size = this.nq * this.nk;
    return this.pattern.data.subarray(head * size, (head + 1) * size);
  }

  raw(head) {
    const size = this.nq * this.nk;
    return this.scores?.data.subarray(head * size, (head + 1) * size);
  }

  /**
   * The four stages of a head. With `scale` or `mask` switched off they say what would be, and not
   * what was.
   */
  stages(head, { scale = true, mask = true } = {}) {
    const key = `${head} ${scale} ${mask}`;
    if (this.staged?.key !== key) this.staged = { key, stages: this.staging(head, scale, mask) };
    return this.staged.stages;
  }

  staging(head, scale, mask) {
    const scores = this.raw(head),
      weights = this.weights(head);
    if (!scores) return [null, null, null, weights];
    // a Float32Array rounds as the model does
    const scaled = scores.map((x) => (scale ? x / this.scale : x));
    const masked = mask
      ? scaled.map((x, c) =>
          this.masked(Math.floor(c / this.nk), c % this.nk, head) ? -Infinity : x,
        )
      : scaled;
    return [scores, scaled, masked, scale && mask ? weights : softmax(masked, this.nq, this.nk)];
  }

  /**
   * Every operand of a cell, and the sums made of them anew in float64, beside the model's own
   * float32.
   */
  byHand(head, i, j, { scale = true, mask = true } = {}) {
    const q = this.vectors("q", head, i),
      k = this.vectors("k", head, j),
      v = this.vectors("v", head, j);
    const [scores, scaled, masked, weights] = this.stages(head, { scale, mask });
    const term = (a, b, dim) => (this.energy ? this.energy[dim] * Math.tanh(a + b) : a * b);
    const terms = Array.from(q, (x, dim) => ({
      dim,
      q: x,
      k: k[dim],
      product: term(x, k[dim], dim),
    }));
    const score = sum(terms.map((term) => term.product));
    const divisor = scale ? this.scale : 1;
    const reason = mask ? this.masked(i, j, head) : "";
    const row = Array.from({ length: this.nk }, (_, key) => {
      const other = this.vectors("k", head, key);
      const hidden = mask && this.masked(i, key, head);
      const score = sum(Array.from(q, (x, dim) => term(x, other[dim], dim)));
      return hidden ? -Infinity : score / divisor;
    });
    const max = Math.max(...row),
      exps = row.map((x) => Math.exp(x - max)),
      total = sum(exps);
    const cell = i * this.nk + j;
    return {
      terms,
      score,
      divisor,
      scaled: score / divisor,
      reason,
      row,
      max,
      exps,
      total,
      weight: exps[j] / total,
      v,
      model: {
        score: scores[cell],
        scaled: scaled[cell],
        masked: masked[cell],
        weight: weights[cell],
      },
      tolerance: 1e-6 * Math.max(1, sum(terms.map((term) => Math.abs(term.product)))),
    };
  }

  /** The head that is most decided between words: where a visitor sees something at once. */
  clearest() {
    const heads = Array.from({ length: this.nHeads }, (_, head) => this.strongest(head).w);
    return Math.max(0, heads.indexOf(Math.max(...heads)));
  }

  /**
   * The strongest cell of a head, or of a row of it; of all rows, those of longer words come first,
   * special tokens and looking at oneself last.
   */
  strongest(head, row = null) {
    const weights = this.weights(head);
    const own = this.node.queries === this.node.keys;
    let best = { q: row ?? 0, k: 0, w: -1, rank: -1 };
    for (let q = row ?? 0; q <= (row ?? this.nq - 1); q++)
      for (let k = 0; k < this.nk; k++) {
        const w = weights[q * this.nk + k];
        const dull = this.keys[k]?.special || (own && q === k) || this.says(q)?.special;
        const brief = row === null && bare(this.says(q)?.text ?? "").length < 5;
        const rank = w * (dull && row === null ? 0.01 : 1) * (brief ? 0.6 : 1);
        if (rank > best.rank) best = { q, k, w: dull ? w / 100 : w, rank };
      }
    return best;
  }

  /** The token that a row is about: what it reads, or in a decoder what it writes. */
  says(q) {
    const token = this.queries[q];
    return token?.predicts === undefined
      ? token
      : { text: token.predicts, special: token.predicts_special, word: token.predicts_word };
  }

  /** The head's output for query i: Σ weight × v, recomputed, beside the model's z. */
  mixture(head, i, weights = this.weights(head)) {
    const width = this.vectors("v", head, 0).length,
      made = new Float64Array(width);
    for (let j = 0; j < this.nk; j++) {
      const v = this.vectors("v", head, j),
        w = weights[i * this.nk + j];
      for (let dim = 0; dim < width; dim++) made[dim] += w * v[dim];
    }
    return { made, model: this.vectors("z", head, i) };
  }

  /** Heads together: their mean or their maximum. */
  mixed(how) {
    const size = this.nq * this.nk,
      all = this.pattern.data;
    return Float32Array.from({ length: size }, (_, c) => {
      let made = 0;
      for (let head = 0; head < this.nHeads; head++) {
        const w = all[head * size + c];
        made = how === "max" ? Math.max(made, w) : made + w / this.nHeads;
      }
      return made;
    });
  }

  /** How much of a head's attention follows the links of the alignment. */
  links(head) {
    const { alignment } = this.trace.meta;
    if (!alignment || this.node.queries === this.node.keys) return 0;
    const { weights, source_places: read, target_places: written } = alignment,
      own = this.weights(head);
    const shares = written.flatMap((rows, i) => {
      const best = read[weights[i].indexOf(Math.max(...weights[i]))] ?? [];
      return rows.map((q) => sum(best.map((k) => own[q * this.nk + k])));
    });
    return mean(shares);
  }

  /**
   * What a head does, in numbers between 0 and 1, and a word for it; `favourite` is the key that is
   * looked at most.
   */
  traits(head) {
    const { nq, nk } = this,
      w = this.weights(head),
      own = this.node.queries === this.node.keys;
    const traits = { entropy: 0, itself: 0, previous: 0, next: 0, special: 0, near: 0 };
    const seen = new Float64Array(nk); // how much each key is looked at, by those who may
    for (let i = 0; i < nq; i++) {
      let entropy = 0,
        open = 0;
      for (let j = 0; j < nk; j++) {
        const x = w[i * nk + j];
        if (x > 0) entropy -= x * Math.log2(x);
        if (!this.masked(i, j, head)) open += 1;
        if (this.keys[j]?.special) traits.special += x / nq;
        if (own && Math.abs(i - j) <= 2) traits.near += x / nq;
        seen[j] += x / nq;
      }
      traits.entropy += (open > 1 ? entropy / Math.log2(open) : 0) / nq;
      if (own) {
        traits.itself += w[i * nk + i] / nq;
        if (i > 0) traits.previous += w[i * nk + i - 1] / Math.max(1, nq - 1);
        if (i < nq - 1) traits.next += w[i * nk + i + 1] / Math.max(1, nq - 1);
      }
    }
    const norms = this.trace.tensor(`${this.id}.head_norms`);
    if (norms) traits.norm = mean(norms.data.subarray(head * nq, (head + 1) * nq));
    const most = Math.max(...seen);
    traits.links = this.links(head);
    return { ...traits, favourite: seen.indexOf(most), badge: badge(traits, most) };
  }
}

/** The word for a head; `most` is the share of the key that is looked at most. */
function badge({ itself, previous, next, special, links, near, entropy }, most) {
  const [name, share] = Object.entries({ itself, previous, next, special, links }).sort(
    (a, b) => b[1] - a[1],
  )[0];
  if (share > 0.4) return name;
  if (entropy > 0.85) return "broad";
  if (most > 0.35) return "one";
  if (near > 0.6) return "near";
  return entropy < 0.25 ? "sharp" : "some";
}

/**
 * How much of each token has reached each place after this block, if half of every layer is what it
 * was before.
 */
export function rollout(trace, id) {
  const [stack, layer, part] = id.split(".");
  let reached = null;
  for (let index = 0; index <= Number(layer); index++) {
    const own = `${stack}.${index}.self`;
    if (part === "cross" || !trace.has(`${own}.pattern`)) continue;
    reached = through(halfKept(attentionOf(trace, own)), reached);
  }
  if (part !== "cross") return reached?.data;
  const last = trace.attentions.filter((node) => node.id.startsWith("encoder")).at(-1);
  const cross = attentionOf(trace, id);
  const step = { data: cross.mixed("mean"), rows: cross.nq, columns: cross.nk };
  const encoder = last && rollout(trace, last.id);
  return encoder
    ? through(step, { data: encoder, rows: cross.nk, columns: cross.nk }).data
    : step.data;
}

function halfKept(attention) {
  const n = attention.nq;
  const data = attention
    .mixed("mean")
    .map((x, c) => x / 2 + (Math.floor(c / n) === c % n ? 0.5 : 0));
  return { data, rows: n, columns: n };
}

function through(step, before) {
  if (!before) return step;
  const { rows, columns: inner } = step,
    columns = before.columns,
    data = new Float32Array(rows * columns);
  for (let i = 0; i < rows; i++) {
    for (let m = 0; m < inner; m++) {
      const w = step.data[i * inner + m];
      if (w)
        for (let j = 0; j < columns; j++) data[i * columns + j] += w * before.data[m * columns + j];
    }
  }
  return { data, rows, columns };
}

export function softmax(values, rows, columns) {
  const made = new Float32Array(values.length);
  for (let i = 0; i < rows; i++) {
    const row = values.subarray(i * columns, (i + 1) * columns),
      max = Math.max(...row);
    const total = sum(Array.from(row, (x) => Math.exp(x - max)));
    row.forEach((x, j) => (made[i * columns + j] = Math.exp(x - max) / total));
  }
  return made;
}

export function sum(values) {
  let total = 0;
  for (const x of values) total += x;
  return total;
}

export function mean(values) {
  return values.length ? sum(values) / values.length : 0;
}

export function norm(values) {
  return Math.hypot(...values);
}
