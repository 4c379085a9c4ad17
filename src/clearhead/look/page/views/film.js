/** The film: how the heads came to be, checkpoint by checkpoint of the training. */

import { h, number, slider, svg } from "../dom.js";
import { Matrix, thumbnail } from "../matrix.js";
import { View, beside } from "../view.js";
import { blockName, guessed, headName, inOrder } from "../words.js";

export class FilmView extends View {
  static id = "film";
  static title = "Film";
  static ownWords = true;
  static lead =
    "One sentence of the validation text, again and again during the training. Watch the heads " +
    "form, from the untrained model to the one you have.";

  static available({ meta, header }) {
    const paths = Object.keys(header);
    return Boolean(meta.film?.steps.length) && paths.some((path) => path.startsWith("film."));
  }

  constructor(trace, state) {
    super(trace, state);
    const { steps } = this.meta.film;
    this.control = slider(
      "Checkpoint",
      { min: 0, max: steps.length - 1, value: state.now.frame, text: (i) => this.told(i) },
      (frame) => state.set({ frame }),
    );
    this.play = h("button.pill", { onclick: () => this.toggle() }, "▶ Play");
    this.curve = h("div.curve");
    this.wall = h("div.wall.film-wall");
    this.name = h("h2");
    this.hint = h("p.hint", "Rows are the tokens that look, columns what they look at.");
    this.large = new Matrix({ pick: () => {}, keys: false, cell: [14, 36, 28] });
    this.blocks = Object.keys(trace.header)
      .filter((path) => path.startsWith("film."))
      .map((path) => path.slice(5))
      .sort(inOrder);
    this.preview = h("section.preview", this.name, this.hint, this.large.element, this.curve);
    this.body = h("div.heads-body", this.wall, this.preview);
    this.element = h(
      "div.film",
      h("div.film-text", this.sentence("source"), this.sentence("target")),
      this.tools,
      this.body,
    );
    this.tools.append(this.play, this.control);
  }

  /** The film has a sentence of its own, from the training. */
  sentence(side) {
    const tokens = this.meta.film[side] ?? [];
    if (!tokens.length) return "";
    const words = tokens.map((raw) => raw.replace(/^[▁Ġ]/, " ")).join("");
    const plain = words.replace(/<\/?\w+>/g, "").trim();
    return h("p", { dir: "auto" }, side === "source" ? plain : h("i", plain));
  }

  opened() {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (!this.begun && !still && this.state.now.frame === 0) this.toggle();
    this.begun = true;
  }

  toggle() {
    const last = this.meta.film.steps.length - 1;
    if (this.timer) return this.stop();
    this.play.textContent = "❚❚ Pause";
    if (this.state.now.frame >= last) this.state.set({ frame: 0 });
    this.timer = setInterval(
      () =>
        this.state.now.frame < last && this.element.isConnected
          ? this.state.set({ frame: this.state.now.frame + 1 })
          : this.stop(),
      400,
    );
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.play.textContent = "▶ Play";
  }

  /** A frame in words. */
  told(i) {
    const { steps, loss } = this.meta.film,
      wrong = loss?.[i];
    if (!steps[i]) return "untrained: before the first step";
    return `step ${steps[i]}${Number.isFinite(wrong) ? `, loss ${number(wrong, 2)}` : ""}`;
  }

  update({ frame }) {
    this.control.moveTo(frame);
    this.curve.replaceChildren(this.drawCurve(frame));
    this.wall.replaceChildren(...this.blocks.map((id) => this.row(id, frame)));
    beside(this.wall, this.preview, this.body);
    this.drawLarge(frame);
  }

  /** The head that is shown large: the chosen one, where the film has it. */
  get chosen() {
    const { block, head } = this.state.now;
    const id = this.blocks.includes(block) ? block : this.blocks[0];
    return { id, head: Math.min(head, this.trace.tensor(`film.${id}`).shape[1] - 1) };
  }

  frame(id, head, frame) {
    const { shape, data } = this.trace.tensor(`film.${id}`);
    const [, heads, rows, columns] = shape;
    const from = (frame * heads + head) * rows * columns;
    return { values: Float32Array.from(data.subarray(from, from + rows * columns)), rows, columns };
  }

  row(id, frame) {
    const { chosen } = this;
    const heads = this.trace.tensor(`film.${id}`).shape[1];
    return h(
      "div.film-row",
      h("h3", blockName(id)),
      h(
        "div.thumbs",
        Array.from({ length: heads }, (_, head) =>
          h(
            "button.thumb",
            {
              "aria-label": `${blockName(id)}, ${headName(head)}`,
              "aria-pressed": String(id === chosen.id && head === chosen.head),
              onclick: () => this.go({ block: id, head }),
            },
            thumbnail(
              this.frame(id, head, frame),
              "weight",
              heads > 4 ? 44 : 52,
              undefined,
              [0, 1],
            ),
            h("span.thumb-text", String(head + 1)),
          ),
        ),
      ),
    );
  }

  drawLarge(frame) {
    const { id, head } = this.chosen;
    const { film } = this.meta;
    const named = (side) => film[side]?.map((raw) => guessed({ text: raw })) ?? [];
    const drawn = this.frame(id, head, frame);
    const fits = (names, count) => (names.length >= count ? names.slice(0, count) : undefined);
    const reads = id.startsWith("encoder");
    const own = named(reads ? "source" : "target");
    const seen = id.endsWith("cross") ? named("source") : own;
    const asking = reads ? own : own.map((word) => `after ${word}`);
    this.name.textContent = `${blockName(id)}, ${headName(head)}`;
    this.large.show({
      ...drawn,
      kind: "weight",
      range: [0, 1],
      rowLabels: fits(asking, drawn.rows),
      columnLabels: fits(seen, drawn.columns),
      label: this.name.textContent,
    });
  }

  /** The loss over the steps; an untrained model has none yet. */
  drawCurve(frame) {
    const { steps, loss } = this.meta.film;
    const known = steps.flatMap((step, i) => (Number.isFinite(loss?.[i]) ? [[step, loss[i]]] : []));
    if (known.length < 2) return "";
    const values = known.map(([, value]) => value),
      [low, high] = [Math.min(...values), Math.max(...values)],
      x = (step) => 44 + (386 * step) / steps.at(-1),
      y = (value) => 96 - (78 * (value - low)) / (high - low || 1);
    const path = known
      .map(([step, value], i) => `${i ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`)
      .join("");
    const wrong = loss[frame];
    return svg(
      "svg",
      {
        viewBox: "0 0 440 122",
        role: "img",
        "aria-label": `loss from ${number(high, 2)} to ${number(low, 2)}`,
      },
      [low, high].map((value) => [
        svg("line.axis", { x1: 44, x2: 430, y1: y(value), y2: y(value) }),
        svg("text", { x: 38, y: y(value) + 4, "text-anchor": "end" }, number(value, 2)),
      ]),
      svg("text", { x: 44, y: 116 }, "loss of validation"),
      svg("text", { x: 430, y: 116, "text-anchor": "end" }, `step ${steps.at(-1)}`),
      svg("line.here", { x1: x(steps[frame]), x2: x(steps[frame]), y1: 10, y2: 98 }),
      svg(
        "g.wave.sine",
        svg("path", { d: path }),
        Number.isFinite(wrong) ? svg("circle", { cx: x(steps[frame]), cy: y(wrong), r: 5 }) : "",
      ),
    );
  }

  say({ frame }) {
    return this.told(frame);
  }

  table() {
    const { steps, loss } = this.meta.film;
    return {
      caption: "checkpoints",
      rows: steps.map(String),
      columns: ["loss"],
      values: steps.map((_, i) => loss?.[i] ?? NaN),
    };
  }
}
