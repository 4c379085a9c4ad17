/** The last stops: what may not be seen, where the decoder looks, and how a word is chosen. */

import { attentionOf, sum } from "../attention.js";
import { bdi, h, number, percent, slider } from "../dom.js";
import { Matrix } from "../matrix.js";
import { blockName, guessed, headName, inside, labels, predicted, text } from "../words.js";
import { softmaxOf } from "./attention.js";
import { favouriteCross, favouriteHead, figure, Stop, toggle, wordBars } from "./stop.js";

const PACE = 700;

/** A stop about the side that writes. */
class Writes extends Stop {
  get rows() {
    return this.trace.tokens("target");
  }

  /** What is written, token by token. */
  get said() {
    return this.rows.map(predicted);
  }

  /** The step that is looked at. */
  at(now) {
    return now.segment === "target" ? now.pos : now.step;
  }

  pickStep = (pos) => this.state.set({ segment: "target", pos }, { push: true });

  table() {
    const { steps } = this.meta;
    return {
      caption: "the probability of each token that was written",
      rows: this.said.map(text),
      columns: ["probability"],
      values: steps.map(({ chosen }) => Math.exp(chosen.log_prob)),
    };
  }
}

export class Mask extends Writes {
  static id = "mask";
  static title = "No looking ahead";

  static available(trace) {
    return trace.attentions.some((node) => node.causal && trace.has(`${node.id}.scores`));
  }

  constructor(trace, state) {
    super(trace, state);
    this.on = true;
    this.id = trace.attentions.find((node) => node.causal).id;
    this.matrix = new Matrix({
      pick: ({ row }, push) => push && this.pickStep(row),
      cell: [15, 44, 30],
    });
    this.picture.append(this.matrix.element);
  }

  says() {
    const reads = this.trace.stacks.includes("encoder");
    return [
      (reads
        ? "While reading, every word may look at every other. While writing, none may look at " +
          "words that come later: "
        : "This model writes, and no word may look at those that come later: ") +
        "they are not there yet. In training they are, and would give the answer away.",
      "So the scores of later words are set to −∞ before the softmax, and e to that power is 0. " +
        "Rows write, columns are read; hatched is what may not be seen.",
    ];
  }

  update(now) {
    const made = attentionOf(this.trace, this.id);
    const head = now.block === this.id ? now.head : made.clearest();
    const row = Math.min(this.at(now), made.nq - 1);
    const values = made.stages(head, { mask: this.on })[3];
    this.matrix.show({
      ...made.sheet(values, { q: row, k: row }),
      kind: "weight",
      range: [0, 1],
      masked: this.on ? (i, j) => made.masked(i, j, head) : undefined,
      anyMasked: this.on,
      label: "weights of a decoder's self-attention. Arrow keys move.",
    });
    const own = Array.from(values.subarray(row * made.nk, (row + 1) * made.nk));
    const ahead = sum(own.filter((_, j) => j > row));
    this.tries.replaceChildren(
      h("p", "Switch the mask off, and choose a row in the picture: how much would it look ahead?"),
      toggle("mask", this.on, (on) => {
        this.on = on;
        this.update(this.state.now);
      }),
      h(
        "div.figures",
        figure(percent(ahead), ["of ", bdi(made.rowLabels[row]), " looks ahead"], ahead),
      ),
      h("p.hint", `${blockName(this.id)}, ${headName(head)}`),
    );
  }

  door(now) {
    return {
      to: { view: "attention", block: this.id, q: this.at(now), stage: 3 },
      name: "This attention in full",
    };
  }
}

export class Decoder extends Writes {
  static id = "decoder";
  static title = "The decoder writes, and looks back at the source";

  static available(trace) {
    return trace.attentions.some((node) => node.keys !== node.queries);
  }

  says() {
    return [
      "The decoder has layers of the same kind. It reads what it has written so far, shifted by " +
        "one place: at “start” it must say the first word, at the first word the second.",
      "In every layer there is a second attention, the cross-attention. What is being written " +
        "asks the queries; keys and values are those of the encoder. Here the languages meet.",
    ];
  }

  update(now) {
    const step = this.at(now);
    const made = attentionOf(this.trace, favouriteCross(this.trace));
    const head = favouriteHead(this.trace, made);
    const weights = Array.from(made.weights(head).subarray(step * made.nk, (step + 1) * made.nk));
    this.picture.replaceChildren(
      h(
        "div.shifted",
        this.rows.map((token, i) =>
          h(
            "button",
            {
              class: `shift${i > step ? " later" : ""}${inside(this.said, i) ? " inside" : ""}`,
              "aria-pressed": String(i === step),
              onclick: () => this.pickStep(i),
            },
            h("span.reads", bdi(text(token))),
            h("span.arrow", { "aria-hidden": "true" }, "↓"),
            h("span.writes", bdi(text(this.said[i]))),
          ),
        ),
      ),
      h("h3", "Where it looks in the source, while writing ", h("b", bdi(text(this.said[step])))),
      wordBars(made.keys, weights, { full: 1, chosen: weights.indexOf(Math.max(...weights)) }),
      h("p.hint", `${blockName(made.id)}, ${headName(head)}`),
    );
    const best = Math.max(...weights);
    this.tries.replaceChildren(
      h("p", "Choose a word that was written: where did it look?"),
      h(
        "div.figures",
        figure(percent(best), ["at ", bdi(text(made.keys[weights.indexOf(best)]))], best),
      ),
    );
  }

  door(now) {
    const id = favouriteCross(this.trace);
    const head = favouriteHead(this.trace, attentionOf(this.trace, id));
    return {
      to: {
        view: "attention",
        block: id,
        head,
        q: this.at(now),
        segment: "target",
        pos: this.at(now),
      },
      name: "This attention in full",
    };
  }

  table() {
    const made = attentionOf(this.trace, favouriteCross(this.trace));
    return made.table("cross-attention", made.weights(favouriteHead(this.trace, made)), {
      q: 0,
      k: 0,
    });
  }
}

export class NextWord extends Writes {
  static id = "next-word";
  static title = "Which word comes next?";

  static available({ meta }) {
    return Boolean(meta.steps?.length);
  }

  constructor(trace, state) {
    super(trace, state);
    this.heat = 1;
    this.control = slider(
      "Temperature",
      { min: 0.1, max: 3, step: 0.05, value: 1, text: (x) => x.toFixed(2) },
      (heat) => {
        this.heat = heat;
        this.update(state.now);
      },
    );
    this.result = h("div");
    this.tries.append(
      h(
        "p",
        "Drag the temperature. Below 1 the best gain, above 1 the others; " +
          "at 1 this is what the model said.",
      ),
      this.control,
      this.result,
    );
  }

  says(now) {
    const { vocab_size: size } = this.meta.model;
    const before = labels(this.rows.slice(Math.max(0, this.at(now) - 4), this.at(now) + 1));
    return [
      `The last vector is compared with the vectors of all ${size.toLocaleString("en")} tokens: ` +
        "one score, a logit, for each. Once more softmax makes shares of them: the probabilities " +
        "of the next token.",
      ["Here after ", h("b", bdi(before.join(" "))), "."],
    ];
  }

  update(now) {
    const step = this.meta.steps[Math.min(this.at(now), this.meta.steps.length - 1)];
    const top = step.top.slice(0, 8);
    const plain = this.heat === 1;
    const heated = softmaxOf(step.top.map(({ logit }) => logit / this.heat));
    const values = top.map(({ prob }, i) => (plain ? prob : heated[i]));
    const names = top.map(guessed);
    const rest = 1 - sum(values);
    this.control.moveTo(this.heat);
    this.picture.replaceChildren(
      wordBars([...names, "all others"], [...values, rest], {
        full: 1,
        ghost: [...top.map(({ prob }) => prob), 1 - sum(top.map(({ prob }) => prob))],
        chosen: top.findIndex(({ id }) => id === step.chosen.id),
        note: (i) => (top[i] ? `logit ${number(top[i].logit, 2)}` : ""),
      }),
      plain
        ? ""
        : h("p.hint", `As shares of the ${step.top.length} best; the outline is the model's own.`),
    );
    this.result.replaceChildren(
      h(
        "div.figures",
        figure(percent(values[0]), ["for ", bdi(names[0])], values[0]),
        figure(text(this.said[this.at(now)]), "was taken"),
      ),
    );
  }

  door(now) {
    return { to: { view: "output", step: this.at(now) }, name: "All alternatives, and the search" };
  }
}

export class Again extends Writes {
  static id = "again";
  static title = "Again, until the end";

  static available({ meta }) {
    return Boolean(meta.steps?.length);
  }

  constructor(trace, state) {
    super(trace, state);
    this.first = this.meta.n_given ?? 0;
    this.until = this.rows.length;
    this.control = slider(
      "Words",
      { min: this.first + 1, max: this.rows.length, value: this.until, text: (x) => String(x) },
      (until) => {
        this.stop();
        this.until = until;
        this.draw();
      },
    );
    this.button = h("button.pill", { onclick: () => this.play() }, "▶ Play");
    this.result = h("div");
    this.tries.append(
      h("p", "Play it, or drag: every line is one whole pass through the machine."),
      h("div.switches", this.button, this.control),
      this.result,
    );
  }

  says() {
    const ended = this.said.at(-1)?.text === "</s>";
    return [
      "The chosen word is put behind the others, and everything begins again: the decoder reads " +
        "one word more and says the next.",
      (ended
        ? "It goes on until the model says “end”. "
        : "It goes on until the model says “end” or has no room left. ") +
        "There is no plan and no memory but what is written. " +
        "That is the whole machine: now you have seen it.",
    ];
  }

  play() {
    if (this.timer) return this.stop();
    if (this.until >= this.rows.length) this.until = this.first;
    this.button.textContent = "❚❚ Pause";
    this.timer = setInterval(() => {
      if (this.until < this.rows.length && this.picture.isConnected) this.until += 1;
      else this.stop();
      this.draw();
    }, PACE);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.button.textContent = "▶ Play";
  }

  update() {
    this.draw();
  }

  draw() {
    const { said, first } = this;
    const { steps } = this.meta;
    this.control.moveTo(this.until);
    const from = Math.max(first, this.until - 14);
    const line = (row) =>
      h(
        "li",
        h(
          "span.so-far",
          h("small", String(row + 1 - first)),
          said
            .slice(Math.max(0, row - 12), row)
            .map((token, i, list) => [inside(list, i) ? "" : " ", bdi(text(token))]),
          inside(said, row) ? "" : " ",
          h("b", bdi(text(said[row]))),
        ),
        h("span.value", percent(Math.exp(steps[row].chosen.log_prob))),
      );
    this.picture.replaceChildren(
      h(
        "ol.again",
        Array.from({ length: this.until - from }, (_, i) => line(from + i)),
      ),
    );
    const total = sum(steps.slice(first, this.until).map(({ chosen }) => chosen.log_prob));
    this.result.replaceChildren(
      h(
        "div.figures",
        figure(percent(Math.exp(total)), "for all of these together", Math.exp(total)),
        figure(String(this.until - first), "passes through the decoder"),
      ),
    );
  }

  door() {
    return { to: { view: "output" }, name: "How the search chose among sentences" };
  }
}

export class Verdict extends Stop {
  static id = "verdict";
  static title = "The verdict";

  static available({ meta }) {
    return Boolean(meta.classes || meta.gaps?.length);
  }

  says() {
    const { classes, several } = this.meta;
    if (!classes)
      return [
        "The vector at the gap is compared with the vectors of all tokens: one score for each, " +
          "and softmax makes probabilities of them.",
        "The words around the gap have left their marks in it, on both sides: that is how the " +
          "model knows what fits.",
      ];
    return [
      "The vectors of all words become one, and that becomes a score for each of " +
        `${classes.length} classes. ` +
        (several ? "Each is a yes or no of its own." : "Softmax makes shares of 1 of them."),
      "Which words carry the verdict? Attention says where the model looked, not why. The honest " +
        "test is to take a word away and ask again; that was done here for every word.",
    ];
  }

  update() {
    const { classes, removal = [], gaps } = this.meta;
    if (!classes) {
      const top = gaps[0].top.slice(0, 8);
      this.picture.replaceChildren(
        wordBars(
          top.map((guess) => text(guess)),
          top.map(({ prob }) => prob),
          { full: 1, chosen: 0 },
        ),
      );
      this.tries.replaceChildren(
        h("p", "Look at the words in Output."),
        h("div.figures", figure(percent(top[0].prob), ["for ", bdi(text(top[0]))], top[0].prob)),
      );
      return;
    }
    const gone = this.gone === undefined ? null : removal[this.gone];
    const best = classes[0];
    const probs = classes.slice(0, 6).map(({ prob }) => prob);
    if (gone && classes.length === 2 && !this.meta.several)
      probs.splice(0, 2, gone.prob, 1 - gone.prob);
    else if (gone) probs[0] = gone.prob;
    this.picture.replaceChildren(
      h(
        "p.running",
        removal.map((word, i) => [
          h(
            "button",
            {
              class: `word${i === this.gone ? " out" : ""}`,
              "aria-pressed": String(i === this.gone),
              onclick: () => {
                this.gone = this.gone === i ? undefined : i;
                this.update();
              },
            },
            bdi(word.text),
          ),
          " ",
        ]),
      ),
      wordBars(
        classes.slice(0, gone && classes.length !== 2 ? 1 : 6).map(({ label }) => label),
        probs.slice(0, gone && classes.length !== 2 ? 1 : 6),
        { full: 1, ghost: classes.map(({ prob }) => prob), chosen: 0 },
      ),
    );
    this.tries.replaceChildren(
      h("p", "Choose a word in the text to take it out; choose it again to put it back."),
      h(
        "div.figures",
        figure(
          percent(gone ? gone.prob : best.prob),
          [bdi(best.label), gone ? [" without ", bdi(gone.text)] : ""],
          gone ? gone.prob : best.prob,
        ),
      ),
    );
  }

  door() {
    return { to: { view: "output" }, name: "All classes" };
  }

  table() {
    const list = this.meta.classes ?? this.meta.gaps[0].top;
    return {
      caption: "probabilities",
      rows: list.map((one) => one.label ?? text(one)),
      columns: ["probability"],
      values: list.map(({ prob }) => prob),
    };
  }
}
