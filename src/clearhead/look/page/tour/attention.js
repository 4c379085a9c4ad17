/** Attention, step by step: queries and keys, their products, the scale, the softmax. */

import { sum } from "../attention.js";
import { choice, h, number, percent, slider } from "../dom.js";
import { spikes } from "../strip.js";
import { bare, headName, labels, text } from "../words.js";
import { agreed, figure, Stop, vector, wordBars } from "./stop.js";

/** A stop about one row of the first attention: the followed word asks, all words answer. */
class Row extends Stop {
  static available(trace) {
    return (
      trace.has(`${trace.stacks[0]}.0.self.q`) && trace.has(`${trace.stacks[0]}.0.self.scores`)
    );
  }

  /** What there is to draw: the row and its head. */
  row(now) {
    const { attention } = this;
    const q = (this.followed = this.follow(now));
    const head = this.head(now);
    const cut = (values) => Array.from(values.subarray(q * attention.nk, (q + 1) * attention.nk));
    const hidden = cut(attention.weights(head)).map((_, j) =>
      Boolean(attention.masked(q, j, head)),
    );
    return {
      attention,
      q,
      head,
      hidden,
      scores: cut(attention.raw(head)),
      weights: cut(attention.weights(head)),
      names: labels(attention.keys),
    };
  }

  heads(head) {
    const options = Array.from({ length: this.attention.nHeads }, (_, i) => [i, String(i + 1)]);
    return choice("Head", options, head, this.pickHead);
  }

  door(now) {
    const q = this.follow(now);
    const to = { view: "attention", block: this.attention.id, head: this.head(now), q };
    return {
      to: { ...to, segment: this.segment, pos: q, stage: this.stage },
      name: "All words, all numbers",
    };
  }

  table(now) {
    const { q, head, attention } = this.row(now);
    const values = attention.stages(head)[this.stage - 1] ?? attention.weights(head);
    return attention.table(`${this.constructor.title}, ${headName(head)}`, values, { q, k: 0 });
  }
}

/** Softmax of a list; what may not be seen gets nothing. */
export function softmaxOf(values, hidden = []) {
  const open = values.map((x, i) => (hidden[i] ? -Infinity : x));
  const max = Math.max(...open);
  const exps = open.map((x) => Math.exp(x - max));
  const total = sum(exps);
  return exps.map((x) => x / total);
}

export class QueryKeyValue extends Row {
  static id = "qkv";
  static title = "Query, key and value";
  stage = 1;

  says(now) {
    return [
      [
        "From the vector of ",
        this.word(now),
        ` three shorter ones are made, by three learned matrices: a query, which says what the ` +
          "word is looking for; a key, which says what it has to offer; and a value, which is " +
          "what it hands over when somebody looks.",
      ],
      `There are ${this.attention.nHeads} heads, each with matrices of its own, so each can look ` +
        "for something else. We follow one of them.",
    ];
  }

  update(now) {
    const { q, head, attention } = this.row(now);
    const entering = this.trace.embedded(this.stack);
    const parts = [
      ["q", "query", "what am I looking for?"],
      ["k", "key", "what do I offer?"],
      ["v", "value", "what do I hand over?"],
    ];
    const width = this.meta.model.d_model;
    this.picture.replaceChildren(
      entering
        ? vector(
            [text(this.tokens[q]), h("small", `${width} numbers`)],
            entering.data.subarray(q * width, (q + 1) * width),
            { tall: 30 },
          )
        : "",
      h(
        "div.three",
        parts.map(([name, title, says]) => {
          const values = attention.vectors(name, head, q);
          return h(
            "section",
            { class: `part-${name}` },
            h("div.times", `× W`, h("sub", name.toUpperCase())),
            h("h3", title),
            h("p.hint", says),
            spikes(values),
            h(
              "p.digits",
              `${number(values[0], 2)}  ${number(values[1], 2)}  … ${attention.dk} in all`,
            ),
          );
        }),
      ),
    );
    this.tries.replaceChildren(
      h("p", "Choose another head: the same word asks and answers something else."),
      this.heads(head),
      h(
        "div.figures",
        figure(
          number(attention.vectors("q", head, q)[0], 3),
          `first number of the query, ${headName(head)}`,
          attention.vectors("q", head, q)[0],
        ),
      ),
    );
  }
}

export class Scores extends Row {
  static id = "scores";
  static title = "The query meets every key";
  stage = 1;

  says(now) {
    return [
      [
        "The query of ",
        this.word(now),
        " is multiplied with the key of each word, number by number, and the products are added " +
          "up. Where the two point the same way the sum, the score, is large.",
      ],
      "Every word is compared at once, near or far: that is why attention does not forget what " +
        "was said long ago.",
    ];
  }

  update(now) {
    const { q, head, attention, scores, names, hidden } = this.row(now);
    const other =
      this.picked?.q === q && this.picked.head === head
        ? this.picked.k
        : attention.strongest(head, q).k;
    this.picture.replaceChildren(
      wordBars(names, scores, {
        signed: true,
        shown: (x, i) => (hidden[i] ? "later" : number(x, 2)),
        chosen: other,
        off: (i) => hidden[i],
        pick: (k) => {
          this.picked = { q, head, k };
          this.update(this.state.now);
        },
      }),
    );
    const asks = attention.vectors("q", head, q);
    const answers = attention.vectors("k", head, other);
    const products = Array.from(asks, (x, i) => x * answers[i]);
    const made = sum(products);
    this.tries.replaceChildren(
      h("p", "Choose a word in the picture to see its score come about."),
      h(
        "div.product",
        h("span.label", "query"),
        spikes(asks),
        h("span.label", `× key of ${names[other]}`),
        spikes(answers),
        h("span.label", "= products"),
        spikes(products),
      ),
      h("div.figures", figure(number(made, 3), `sum of ${products.length} products`, made)),
      agreed(made, scores[other], 1e-4 * Math.max(1, sum(products.map(Math.abs)))),
      this.heads(head),
    );
  }
}

export class Scale extends Row {
  static id = "scale";
  static title = "Divided by √dₖ";
  stage = 2;

  constructor(trace, state) {
    super(trace, state);
    const root = this.attention.scale;
    this.divisor = root;
    this.control = slider(
      "Divide by",
      {
        min: -1,
        max: 1,
        step: 0.02,
        value: 0,
        text: (x) => number(divisorAt(x, root), 2),
      },
      (x) => {
        this.divisor = divisorAt(x, root);
        this.draw(state.now);
      },
    );
    this.result = h("div");
    this.tries.append(
      h(
        "p",
        `Drag. In the middle stands this model's own √${this.attention.dk}; to the left ` +
          "less and less is divided, to the right more.",
      ),
      this.control,
      this.result,
    );
  }

  says() {
    const { dk, scale } = this.attention;
    return [
      `A score is a sum of ${dk} products, and the more there are, the larger it gets. Large ` +
        "scores make the next step, softmax, give everything to one word; then nothing is left " +
        "to learn from.",
      scale === 1
        ? "This model was changed not to divide."
        : `So every score is divided by √${dk} = ${number(scale, 2)}. The order stays; the ` +
          "differences become moderate.",
    ];
  }

  update(now) {
    this.draw(now);
  }

  draw(now) {
    const { scores, names, hidden, weights } = this.row(now);
    const scaled = scores.map((x) => x / this.divisor);
    const shares = softmaxOf(scaled, hidden);
    const full = Math.max(...scores.map(Math.abs), 1e-9);
    this.control.moveTo(placeOf(this.divisor, this.attention.scale));
    this.picture.replaceChildren(
      h(
        "div.side-by-side",
        h(
          "section",
          h("h3", "score ÷ ", number(this.divisor, 2)),
          wordBars(names, scaled, {
            signed: true,
            full,
            ghost: scores,
            shown: (x, i) => (hidden[i] ? "later" : number(x, 2)),
            off: (i) => hidden[i],
          }),
        ),
        h(
          "section",
          h("h3", "what softmax would make of it"),
          wordBars(names, shares, { full: 1, ghost: weights, off: (i) => hidden[i] }),
        ),
      ),
      h("p.hint", "The outlines: on the left the scores before, on the right the model's weights."),
    );
    const best = Math.max(...shares);
    this.result.replaceChildren(
      h(
        "div.figures",
        figure(percent(best), `goes to ${names[shares.indexOf(best)]}`, best),
        figure(number(this.divisor, 2), "the divisor", this.divisor),
      ),
    );
  }
}

/** The slider's place from −1 to 1 as a divisor from 1 to the square of the model's own. */
function divisorAt(place, root) {
  return Math.max(root, 2) ** place * root;
}

function placeOf(divisor, root) {
  return Math.log(divisor / root) / Math.log(Math.max(root, 2));
}

export class Softmax extends Row {
  static id = "softmax";
  static title = "Softmax: scores become shares";
  stage = 4;

  constructor(trace, state) {
    super(trace, state);
    this.more = 0;
    this.control = slider(
      "Add to its score",
      { min: -6, max: 6, step: 0.1, value: 0, text: (x) => number(x, 1) },
      (x) => {
        this.more = x;
        this.draw(state.now);
      },
    );
    this.who = h("p");
    this.result = h("div");
    this.tries.append(this.who, this.control, this.result);
  }

  says(now) {
    return [
      "Each scaled score becomes e to that power, so that it is positive, and is divided by the " +
        "sum of them all. What comes out are shares of 1: the weights of attention.",
      [
        "They say where ",
        this.word(now),
        " looks. A score that is one higher counts 2.7 times as much.",
      ],
    ];
  }

  update(now) {
    const { q, head, attention } = this.row(now);
    const key = `${q} ${head}`;
    if (this.key !== key) {
      this.key = key;
      this.more = 0;
      const { weights } = this.row(now);
      const order = weights.map((w, i) => [w, i]).sort((a, b) => b[0] - a[0]);
      const second = order.slice(1).find(([, i]) => bare(attention.keys[i].text).length > 1);
      this.raised = second?.[1] ?? attention.strongest(head, q).k;
    }
    this.draw(now);
  }

  draw(now) {
    const { scores, names, hidden, weights, attention } = this.row(now);
    const scaled = scores.map((x) => x / attention.scale);
    const tried = scaled.map((x, i) => (i === this.raised ? x + this.more : x));
    const shares = softmaxOf(tried, hidden);
    this.control.moveTo(this.more);
    this.who.replaceChildren(
      "Drag to change the score of ",
      h("b", names[this.raised]),
      ", or choose another word in the picture. What one wins, the others lose.",
    );
    const total = sum(tried.map((x, i) => (hidden[i] ? 0 : Math.exp(x - Math.max(...tried)))));
    this.picture.replaceChildren(
      h(
        "div.side-by-side.uneven",
        h(
          "section",
          h("h3", "scaled score"),
          wordBars(names, tried, {
            signed: true,
            shown: (x, i) => (hidden[i] ? "−∞" : number(x, 2)),
            off: (i) => hidden[i],
            chosen: this.raised,
            pick: (i) => {
              this.raised = i;
              this.more = 0;
              this.draw(this.state.now);
            },
          }),
        ),
        h(
          "section",
          h("h3", "share"),
          wordBars(names, shares, {
            full: 1,
            ghost: weights,
            chosen: this.raised,
            off: (i) => hidden[i],
          }),
        ),
      ),
    );
    this.result.replaceChildren(
      h(
        "div.figures",
        figure(
          percent(shares[this.raised]),
          `the share of ${names[this.raised]}`,
          shares[this.raised],
        ),
        figure(number(sum(shares), 3), "all shares together", sum(shares)),
      ),
      this.more
        ? h("p.hint", `The sum of all powers is now ${number(total, 2)} times the largest.`)
        : agreed(shares[this.raised], weights[this.raised], 1e-5),
    );
  }
}
