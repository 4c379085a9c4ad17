/** The first stops: text becomes tokens, tokens become vectors, vectors learn their place. */

import { norm } from "../attention.js";
import { domain } from "../colour.js";
import { bdi, h, number, slider, svg } from "../dom.js";
import { inside, labels, text } from "../words.js";
import { cosine, figure, Stop, vector } from "./stop.js";

export class Tokens extends Stop {
  static id = "tokens";
  static title = "Text becomes tokens";

  says() {
    const { vocab_size: size } = this.meta.model;
    const pieces = this.tokens.some((_, i) => inside(this.tokens, i));
    return [
      "A model cannot read letters. The text is cut into tokens: frequent words stay whole, " +
        `rare ones fall into pieces${pieces ? ", here joined by a bracket" : ""}.`,
      `Every token is one of ${size.toLocaleString("en")} that the model knows, and its id is ` +
        "its place in that list. From here on there are only numbers.",
    ];
  }

  update(now) {
    const chosen = this.follow(now);
    this.picture.replaceChildren(
      h("p.whole-text", { dir: "auto" }, shownText(this)),
      h(
        "div.token-cards",
        this.tokens.map((token, i) =>
          h(
            "button",
            {
              class:
                `token-card${inside(this.tokens, i) ? " inside" : ""}` +
                `${token.special ? " special" : ""}`,
              "aria-pressed": String(i === chosen),
              onclick: () => this.pickWord(i),
            },
            h("span.token-text", bdi(text(token))),
            h("span.token-id", String(token.id)),
          ),
        ),
      ),
    );
    const token = this.tokens[chosen];
    this.tries.replaceChildren(
      h("p", "Choose a word, here or above. The tour will follow it through the machine."),
      h(
        "div.figures",
        figure(text(token), token.special ? "is a special token" : "is followed"),
        figure(String(token.id), `its id, of ${this.meta.model.vocab_size.toLocaleString("en")}`),
        figure(String(this.tokens.length), "tokens in all"),
      ),
    );
  }

  door() {
    return { to: { view: "tokens" }, name: "Tokens & positions, in full" };
  }

  table() {
    return {
      caption: "tokens",
      rows: labels(this.tokens),
      columns: ["id"],
      values: this.tokens.map(({ id }) => id),
    };
  }
}

/** The text that the first stack reads; a decoder alone reads all but its last word. */
function shownText({ meta, stack }) {
  return stack === "encoder" ? meta.input : [meta.input, meta.output].filter(Boolean).join(" ");
}

export class Vectors extends Stop {
  static id = "vectors";
  static title = "A token becomes a vector";

  static available(trace) {
    return trace.has(`${trace.stacks[0]}.tokens`);
  }

  row(i) {
    return this.trace.vector(`${this.stack}.tokens`, i);
  }

  says(now) {
    const { d_model: width } = this.meta.model;
    return [
      `The id looks up a row in a table: ${width} numbers, learned in training. This list of ` +
        "numbers, a vector, is all that the model knows of the token.",
      [
        "Here is the row of ",
        this.word(now),
        ". Blue is above zero, orange below. No single number means anything; but words that are " +
          "used alike have vectors that point in similar directions.",
      ],
    ];
  }

  update(now) {
    const chosen = this.follow(now);
    const own = this.row(chosen);
    const other = this.other ?? (chosen + 2) % this.tokens.length;
    const range = domain(this.trace.tensor(`${this.stack}.tokens`).data, "signed");
    const names = labels(this.tokens);
    this.picture.replaceChildren(
      vector(bdi(names[chosen]), own, { tall: 54, range, kind: "main" }),
      h(
        "p.digits",
        Array.from(own.slice(0, 8), (x) => number(x, 2)).join("  "),
        `  … and ${own.length - 8} more`,
      ),
      h(
        "ul.vectors",
        this.tokens.map((_, i) =>
          h(
            "li",
            h(
              "button",
              {
                "aria-pressed": String(i === other),
                onclick: () => {
                  this.other = i;
                  this.update(this.state.now);
                },
              },
              vector(bdi(names[i]), this.row(i), {
                range,
                note: i === chosen ? "" : number(cosine(own, this.row(i)), 2),
              }),
            ),
          ),
        ),
      ),
    );
    const alike = cosine(own, this.row(other));
    this.tries.replaceChildren(
      h("p", "Choose another word in the picture: how alike are the two? 1 is the same direction."),
      h(
        "div.figures",
        figure(number(alike, 3), `${names[chosen]} and ${names[other]}`, alike),
        figure(number(norm(own), 2), "the vector's length", norm(own)),
      ),
    );
  }

  door(now) {
    return { to: { view: "tokens", pos: this.follow(now) }, name: "All vectors" };
  }

  table() {
    const { shape, data } = this.trace.tensor(`${this.stack}.tokens`);
    return {
      caption: "the vectors of all tokens",
      rows: labels(this.tokens),
      columns: Array.from({ length: shape.at(-1) }, (_, i) => String(i)),
      values: data,
    };
  }
}

export class Positions extends Stop {
  static id = "positions";
  static title = "Each vector learns its place";

  static available(trace) {
    const stack = trace.stacks[0];
    return trace.has(`${stack}.tokens`) && trace.has(`${stack}.positions`);
  }

  constructor(trace, state) {
    super(trace, state);
    this.moved = null;
    this.control = slider(
      "Place",
      { min: 1, max: this.tokens.length, value: 1, text: (x) => String(x) },
      (place) => {
        this.moved = { place: place - 1, of: this.follow(state.now) };
        this.draw(state.now);
      },
    );
    this.result = h("div");
    this.tries.append(h("p", "Drag the word to another place in the sentence."), this.control);
    this.tries.append(this.result);
  }

  says(now) {
    return [
      [
        "The same word at the beginning and at the end would have the same vector, and the order " +
          "would be lost. So a second vector is added to that of ",
        this.word(now),
        ": one that only depends on the place.",
      ],
      this.meta.model.positions === "learned"
        ? "This model has learned one for each place."
        : "Its numbers are sines and cosines: some swing fast from word to word, others slowly, " +
          "so that every place has a pattern of its own.",
    ];
  }

  update(now) {
    if (this.moved?.of !== this.follow(now)) this.moved = null;
    this.draw(now);
  }

  draw(now) {
    const own = this.follow(now);
    const place = this.moved?.place ?? own;
    const { stack, trace } = this;
    const token = trace.vector(`${stack}.tokens`, own);
    const at = (pos) => trace.vector(`${stack}.positions`, pos);
    const sumAt = (pos) => token.map((x, dim) => x + at(pos)[dim]);
    const range = domain(sumAt(own), "signed");
    this.control.moveTo(place + 1);
    this.picture.replaceChildren(
      vector([bdi(text(this.tokens[own])), h("small", "token")], token, { tall: 34, range }),
      h("div.sign-line", "+"),
      vector([`place ${place + 1}`, h("small", "position")], at(place), { tall: 34, range }),
      h("div.sign-line", "="),
      vector(["their sum", h("small", "enters layer 1")], sumAt(place), { tall: 34, range }),
      this.waves(place),
    );
    const alike = cosine(sumAt(place), sumAt(own));
    this.result.replaceChildren(
      h(
        "div.figures",
        figure(
          number(alike, 3),
          place === own ? "this is where it stands" : "likeness to the sum at its own place",
          alike,
        ),
        figure(number(sumAt(place)[0], 3), "the first number of the sum", sumAt(place)[0]),
      ),
    );
  }

  /** Three numbers of the position vector over the sentence. */
  waves(place) {
    const { stack, trace, tokens } = this;
    const width = trace.tensor(`${stack}.positions`).shape.at(-1);
    const dims = [0, 2 * Math.round(width / 16), 2 * Math.round(width / 6)];
    const end = Math.max(1, tokens.length - 1);
    const values = dims.map((dim) =>
      tokens.map((_, pos) => trace.vector(`${stack}.positions`, pos)[dim]),
    );
    const largest = Math.max(...values.flat().map(Math.abs), 1e-9);
    const x = (pos) => 20 + (560 * pos) / end;
    const y = (value) => 62 - (46 * value) / largest;
    const learned = this.meta.model.positions === "learned";
    const lines = dims.map((dim, i) => {
      const smooth = learned
        ? values[i].map((value, pos) => [pos, value])
        : Array.from({ length: 241 }, (_, s) => {
            const pos = (s * end) / 240;
            return [pos, Math.sin(pos / 10_000 ** (dim / width))];
          });
      const path = smooth.map(
        ([pos, value], s) => `${s ? "L" : "M"}${x(pos).toFixed(1)} ${y(value).toFixed(1)}`,
      );
      return svg(
        "g",
        { class: `curve-${i}` },
        svg("path", { d: path.join("") }),
        values[i].map((value, pos) =>
          svg("circle", { cx: x(pos), cy: y(value), r: pos === place ? 6 : 3 }),
        ),
      );
    });
    return h(
      "div.waves",
      svg(
        "svg",
        { viewBox: "0 0 600 146", role: "img", "aria-label": "three numbers of each position" },
        svg("line.here", { x1: x(place), x2: x(place), y1: 8, y2: 118 }),
        lines,
        tokens.map((token, pos) =>
          tokens.length <= 16
            ? svg(
                "text",
                { x: x(pos), y: 138, "text-anchor": "middle", class: pos === place ? "at" : null },
                pos + 1,
              )
            : "",
        ),
      ),
      h(
        "p.hint",
        `Numbers ${dims.map((dim) => dim + 1).join(", ")} of the ${width}, place by place.`,
      ),
    );
  }

  door(now) {
    return { to: { view: "tokens", pos: this.follow(now) }, name: "Tokens & positions, in full" };
  }

  table() {
    const { shape, data } = this.trace.tensor(`${this.stack}.positions`);
    return {
      caption: "the vectors of all places",
      rows: this.tokens.map((_, i) => String(i + 1)),
      columns: Array.from({ length: shape.at(-1) }, (_, i) => String(i)),
      values: data,
    };
  }
}
