/** What a layer does with the weights: mixes values, joins heads, adds, normalises, thinks. */

import { mean, norm, rollout, sum } from "../attention.js";
import { domain } from "../colour.js";
import { bdi, h, number, percent, slider } from "../dom.js";
import { thumbnail } from "../matrix.js";
import { mixed, mixtureRows } from "../mixture.js";
import { sublayers } from "../stream.js";
import { strip } from "../strip.js";
import { blockName, headName, labels, text } from "../words.js";
import { agreed, cosine, figure, Stop, toggle, vector, wordBars } from "./stop.js";

export class Mixture extends Stop {
  static id = "mixture";
  static title = "A weighted sum of values";

  static available(trace) {
    return trace.has(`${trace.stacks[0]}.0.self.v`);
  }

  constructor(trace, state) {
    super(trace, state);
    this.out = new Set();
  }

  says(now) {
    return [
      [
        "Now the values are handed over. Each word's value is multiplied with its weight, and " +
          "all of them are added up: ",
        this.word(now),
        " takes much from where it looks, and little from elsewhere.",
      ],
      "This is all that attention is: a mixture of what other words have to say.",
    ];
  }

  update(now) {
    const { attention } = this;
    const q = (this.followed = this.follow(now));
    const head = this.head(now);
    const key = `${q} ${head}`;
    if (this.key !== key) this.out = new Set();
    this.key = key;
    const row = Array.from(
      attention.weights(head).subarray(q * attention.nk, (q + 1) * attention.nk),
    );
    const kept = row.map((w, i) => (this.out.has(i) ? 0 : w));
    const total = sum(kept) || 1;
    const weights = kept.map((w) => w / (this.out.size ? total : 1));
    const sums = mixed(attention, head, weights);
    const own = attention.vectors("z", head, q);
    const pick = (i) => {
      if (!this.out.delete(i)) this.out.add(i);
      this.update(this.state.now);
    };
    const out = (i) => this.out.has(i);
    this.picture.replaceChildren(...mixtureRows(attention, head, weights, { pick, out }));
    const alike = cosine(sums, own);
    const worst = sums.reduce(
      (far, x, dim) => (Math.abs(x - own[dim]) > Math.abs(sums[far] - own[far]) ? dim : far),
      0,
    );
    this.tries.replaceChildren(
      h("p", "Choose words in the picture to leave them out: the others share their weight."),
      h(
        "div.figures",
        figure(number(alike, 3), "likeness to what the model mixed", alike),
        figure(number(norm(sums), 3), "length of the mixture", norm(sums)),
      ),
      this.out.size ? "" : agreed(sums[worst], own[worst], 1e-4 * Math.max(1, norm(own))),
    );
  }

  door(now) {
    const q = this.follow(now);
    const to = { view: "attention", block: this.attention.id, head: this.head(now), q, stage: 5 };
    return { to: { ...to, segment: this.segment, pos: q }, name: "The mixture in full" };
  }

  table(now) {
    const { attention } = this;
    const head = this.head(now);
    return attention.table(`weights, ${headName(head)}`, attention.weights(head), {
      q: this.follow(now),
      k: 0,
    });
  }
}

export class Heads extends Stop {
  static id = "heads";
  static title = "Many heads, joined";

  static available(trace) {
    return trace.has(`${trace.stacks[0]}.0.self.head_outputs`);
  }

  constructor(trace, state) {
    super(trace, state);
    this.silent = new Set();
  }

  says(now) {
    const { nHeads } = this.attention;
    return [
      `All ${nHeads} heads do this at the same time, each with its own way of looking. Their ` +
        "results are put side by side and mixed by one more matrix, Wₒ.",
      ["What comes out is what attention has to add to the vector of ", this.word(now), "."],
    ];
  }

  update(now) {
    const { attention, trace } = this;
    const q = (this.followed = this.follow(now));
    const all = trace.tensor(`${attention.id}.head_outputs`);
    const [count, rows, width] = all.shape;
    const of = (head) =>
      all.data.subarray((head * rows + q) * width, (head * rows + q + 1) * width);
    const heads = Array.from({ length: count }, (_, head) => head);
    const total = (keep) =>
      Array.from({ length: width }, (_, dim) =>
        sum(heads.filter(keep).map((head) => of(head)[dim])),
      );
    const whole = total(() => true);
    const made = total((head) => !this.silent.has(head));
    const range = domain(whole, "signed");
    this.picture.replaceChildren(
      h(
        "ul.head-row",
        heads.map((head) =>
          h(
            "li",
            { class: this.silent.has(head) ? "out" : null },
            toggle(headName(head), !this.silent.has(head), () => {
              if (!this.silent.delete(head)) this.silent.add(head);
              this.update(this.state.now);
            }),
            h(
              "button.thumb",
              { "aria-label": `follow ${headName(head)}`, onclick: () => this.pickHead(head) },
              thumbnail(
                { values: attention.weights(head), rows: attention.nq, columns: attention.nk },
                "weight",
                96,
              ),
            ),
            strip(attention.vectors("z", head, q), { tall: 12 }),
            h("span.hint", this.looks(head, q)),
          ),
        ),
      ),
      h("div.sign-line", "side by side, × W", h("sub", "O")),
      h("div.sum-line", h("span.name", "attention adds"), strip(made, { tall: 40, range })),
    );
    const alike = cosine(made, whole);
    this.tries.replaceChildren(
      h("p", "Switch heads off and see what is left of the result."),
      h(
        "div.figures",
        figure(number(norm(made), 3), "length of what is added", norm(made)),
        figure(number(alike, 3), "likeness to all heads together", alike),
      ),
    );
  }

  /** The word that a head looks at most. */
  looks(head, q) {
    const { attention } = this;
    const row = attention.weights(head).subarray(q * attention.nk, (q + 1) * attention.nk);
    const best = row.indexOf(Math.max(...row));
    return [`${percent(row[best])} at `, bdi(text(attention.keys[best]))];
  }

  door() {
    return { to: { view: "heads", block: this.attention.id }, name: "The wall of all heads" };
  }

  table() {
    const norms = this.trace.tensor(`${this.attention.id}.head_norms`);
    return {
      caption: "length of what each head adds",
      rows: Array.from({ length: norms.shape[0] }, (_, head) => headName(head)),
      columns: labels(this.tokens),
      values: norms.data,
    };
  }
}

export class AddNorm extends Stop {
  static id = "add-norm";
  static title = "Add and normalise";

  static available(trace) {
    const [first] = sublayers(trace, `${trace.stacks[0]}.0`);
    return Boolean(first?.before && first.added);
  }

  constructor(trace, state) {
    super(trace, state);
    this.kept = true;
    this.normed = true;
  }

  says(now) {
    return [
      [
        "The result does not replace the vector of ",
        this.word(now),
        ": it is added to it. So nothing is lost on the way, and a layer only has to learn what " +
          "to change. This path is called the residual stream.",
      ],
      "Then the numbers are moved to a mean of 0 and a deviation of 1, so that they neither grow " +
        "nor vanish from layer to layer. " +
        (this.meta.model.norm === "pre"
          ? "In this model the next part does so before it reads."
          : ""),
    ];
  }

  /** The norm that reads the sum, by the name of its weights. */
  get normId() {
    return this.meta.model.norm === "post" ? `${this.layer}.self` : `${this.layer}.ff`;
  }

  update(now) {
    const q = (this.followed = this.follow(now));
    const [first] = sublayers(this.trace, this.layer);
    const cut = ({ shape, data }) =>
      Array.from(data.subarray(q * shape.at(-1), (q + 1) * shape.at(-1)));
    const before = cut(first.before);
    const added = cut(first.added);
    const made = before.map((x, i) => (this.kept ? x : 0) + added[i]);
    const result = this.normed ? this.normalised(made) : made;
    const range = domain(before, "signed");
    const [average, spread] = [mean(result), deviation(result)];
    this.picture.replaceChildren(
      vector(["the vector", h("small", "as it came")], before, {
        tall: 30,
        range,
        kind: this.kept ? "" : "out",
      }),
      h("div.sign-line", "+"),
      vector(["attention", h("small", "what it adds")], added, { tall: 30, range }),
      h("div.sign-line", "="),
      vector(["sum", h("small", `deviation ${number(deviation(made), 2)}`)], made, {
        tall: 30,
        range,
      }),
      h("div.sign-line", this.normed ? "normalised" : "not normalised"),
      vector(["goes on", h("small", `deviation ${number(spread, 2)}`)], result, { tall: 40 }),
    );
    const again = (field) => (on) => {
      this[field] = on;
      this.update(this.state.now);
    };
    const alike = cosine(made, before);
    this.tries.replaceChildren(
      h("p", "Switch a part off. Without the stream, what the word was is gone."),
      h(
        "div.switches",
        toggle("add to the stream", this.kept, again("kept")),
        toggle("normalise", this.normed, again("normed")),
      ),
      h(
        "div.figures",
        figure(number(alike, 3), "likeness of the sum to the vector before", alike),
        figure(
          number(spread, 2),
          `deviation at the end; its mean is ${number(average, 2)}`,
          spread,
        ),
      ),
    );
  }

  /** The model's own norm: mean 0, deviation 1, then a learned gain and shift. */
  normalised(values) {
    const gain = this.trace.tensor(`${this.normId}.norm_weight`)?.data;
    const shift = this.trace.tensor(`${this.normId}.norm_bias`)?.data;
    const average = mean(values);
    const spread = Math.sqrt(
      sum(values.map((x) => (x - average) ** 2)) / values.length +
        (this.meta.model.norm_eps ?? 1e-5),
    );
    return values.map((x, i) => ((x - average) / spread) * (gain?.[i] ?? 1) + (shift?.[i] ?? 0));
  }

  door(now) {
    return {
      to: { view: "block", layer: this.layer, segment: this.segment, pos: this.follow(now) },
      name: "This layer, number by number",
    };
  }

  table() {
    const [first] = sublayers(this.trace, this.layer);
    return {
      caption: "the stream after attention",
      rows: labels(this.tokens),
      columns: Array.from({ length: first.sum.shape.at(-1) }, (_, i) => String(i)),
      values: first.sum.data,
    };
  }
}

function deviation(values) {
  const average = mean(values);
  return Math.sqrt(sum(values.map((x) => (x - average) ** 2)) / values.length);
}

const ACTIVATIONS = {
  relu: (x) => Math.max(0, x),
  silu: (x) => x / (1 + Math.exp(-x)),
  gelu: (x) => x * 0.5 * (1 + erf(x / Math.SQRT2)),
};

/** Abramowitz and Stegun, 7.1.26: to seven digits, enough for a picture. */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const poly = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];
  const y = 1 - poly.reduce((made, c) => (made + c) * t, 0) * Math.exp(-x * x);
  return x < 0 ? -y : y;
}

export class FeedForward extends Stop {
  static id = "feed-forward";
  static title = "Each word thinks for itself";

  static available(trace) {
    return trace.has(`${trace.stacks[0]}.0.ff.pre`) && trace.meta.model.activation in ACTIVATIONS;
  }

  constructor(trace, state) {
    super(trace, state);
    this.active = true;
  }

  says(now) {
    const { d_model: width, d_ff: hidden, activation } = this.meta.model;
    return [
      [
        "After words have looked at each other, each is worked on alone. A small network widens ",
        this.word(now),
        ` from ${width} to ${hidden.toLocaleString("en")} numbers, lets only some pass, and ` +
          `narrows it to ${width} again.`,
      ],
      "Each square is one of these units. " +
        `${activation === "relu" ? "ReLU makes" : "The activation makes"} ` +
        "what is below zero silent: a unit is on for some words and off for others, as if each " +
        "asked a question of its own.",
    ];
  }

  units(i) {
    const values = this.trace.vector(`${this.layer}.ff.pre`, i);
    return this.active ? values.map(ACTIVATIONS[this.meta.model.activation]) : values;
  }

  update(now) {
    const q = (this.followed = this.follow(now));
    const values = this.units(q);
    const columns = Math.ceil(Math.sqrt(values.length * 1.6));
    const rows = Math.ceil(values.length / columns);
    const grid = new Float32Array(rows * columns).fill(0);
    grid.set(values);
    const range = domain(this.trace.vector(`${this.layer}.ff.pre`, q), "signed");
    const drawn = thumbnail(
      { values: grid, rows, columns },
      "signed",
      560,
      (560 * rows) / columns,
      range,
    );
    drawn.classList.add("units");
    const on = Array.from(values, (x) => x > 0);
    const share = mean(on.map((x) => (x ? 0 : 1)));
    const alike = this.tokens.map((_, i) => {
      const other = Array.from(this.units(i), (x) => x > 0);
      return (
        sum(other.map((x, unit) => (x && on[unit] ? 1 : 0))) / Math.max(1, sum(on.map(Number)))
      );
    });
    this.picture.replaceChildren(drawn);
    this.tries.replaceChildren(
      h(
        "p",
        "Switch the activation off: every unit speaks, and two matrices in a row would be " +
          "no more than one.",
      ),
      toggle(this.meta.model.activation.replace("relu", "ReLU"), this.active, (active) => {
        this.active = active;
        this.update(this.state.now);
      }),
      h(
        "div.figures",
        figure(percent(share), "of the units are at or below 0", share),
        figure(String(sum(on.map(Number))), `of ${values.length} are on`, sum(on.map(Number))),
      ),
      h("h3", "How many of its units other words use too"),
      wordBars(this.tokens, alike, { full: 1, chosen: q, pick: this.pickWord }),
    );
  }

  door(now) {
    return {
      to: { view: "block", layer: this.layer, segment: this.segment, pos: this.follow(now) },
      name: "The most active units",
    };
  }

  table() {
    const { shape, data } = this.trace.tensor(`${this.layer}.ff.pre`);
    return {
      caption: "units before the activation",
      rows: labels(this.tokens),
      columns: Array.from({ length: shape.at(-1) }, (_, i) => String(i)),
      values: data,
    };
  }
}

export class Stack extends Stop {
  static id = "stack";
  static title = "Layer upon layer";

  static available(trace) {
    return trace.has(`${trace.stacks[0]}.0.resid_post`);
  }

  constructor(trace, state) {
    super(trace, state);
    this.layers = trace.layers.filter((layer) => layer.startsWith(this.stack));
    this.depth = this.layers.length;
    this.control = slider(
      "After layer",
      { min: 0, max: this.layers.length, value: this.depth, text: (x) => String(x) },
      (depth) => {
        this.depth = depth;
        this.update(state.now);
      },
    );
    this.result = h("div");
    this.tries.append(
      h("p", "Drag through the layers: 0 is the word alone, as it came in."),
      this.control,
      this.result,
    );
  }

  says(now) {
    const count = this.layers.length;
    return [
      `That was one layer: words look at each other, then each thinks for itself. The same ` +
        (count === 1
          ? "happens once in this model."
          : `happens ${count} times, each time with other weights.`),
      [
        "Layer by layer the vector of ",
        this.word(now),
        " takes in more of the others. In the end it stands for the word in this sentence, and " +
          "no longer for the word alone.",
      ],
    ];
  }

  after(depth, q) {
    const tensor = depth
      ? this.trace.tensor(`${this.layers[depth - 1]}.resid_post`)
      : this.trace.embedded(this.stack);
    const width = tensor?.shape.at(-1);
    return tensor?.data.subarray(q * width, (q + 1) * width);
  }

  update(now) {
    const q = (this.followed = this.follow(now));
    const n = this.tokens.length;
    const reached = this.depth ? rollout(this.trace, `${this.layers[this.depth - 1]}.self`) : null;
    const shares = this.tokens.map((_, j) => (reached ? reached[q * n + j] : Number(j === q)));
    this.control.moveTo(this.depth);
    this.picture.replaceChildren(
      h(
        "ol.layers",
        Array.from({ length: this.layers.length + 1 }, (_, depth) => {
          const values = this.after(depth, q);
          return h(
            "li",
            { class: depth === this.depth ? "here" : null },
            values
              ? vector(depth ? blockName(this.layers[depth - 1]) : "as it came in", values, {
                  tall: 22,
                })
              : "",
          );
        }).reverse(),
      ),
      h("h3", "What has arrived in it so far"),
      wordBars(this.tokens, shares, { full: 1, chosen: q }),
      h(
        "p.hint",
        "Attention followed back through the layers, half of each kept as it was (rollout).",
      ),
    );
    const first = this.after(0, q);
    const alike = first ? cosine(first, this.after(this.depth, q)) : NaN;
    this.result.replaceChildren(
      h(
        "div.figures",
        figure(percent(shares[q]), "of itself", shares[q]),
        figure(number(alike, 3), "likeness to how it came in", alike),
      ),
    );
  }

  door() {
    return { to: { view: "map" }, name: "The map of all layers" };
  }

  table() {
    const { shape, data } = this.trace.tensor(`${this.layers.at(-1)}.resid_post`);
    return {
      caption: "the vectors after the last layer",
      rows: labels(this.tokens),
      columns: Array.from({ length: shape.at(-1) }, (_, i) => String(i)),
      values: data,
    };
  }
}
