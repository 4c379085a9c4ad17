/** The film: how the heads came to be, checkpoint by checkpoint of the training. */

import { h, number, slider, svg } from "../dom.js";
import { Matrix, thumbnail } from "../matrix.js";
import { View } from "../view.js";
import { blockName, guessed, headName } from "../words.js";

export class FilmView extends View {
  static id = "film";
  static title = "Film";
  static lead = "The same sentence at every checkpoint of the training. Watch the heads form.";

  static available({ meta, header }) {
    const paths = Object.keys(header);
    return Boolean(meta.film?.steps.length) && paths.some((path) => path.startsWith("film."));
  }

  constructor(trace, state) {
    super(trace, state);
    const { steps } = this.meta.film;
    this.control = slider(
      "Checkpoint",
      { min: 0, max: steps.length - 1, value: state.now.frame, text: (i) => `step ${steps[i]}` },
      (frame) => state.set({ frame }),
    );
    this.play = h("button.pill", { onclick: () => this.toggle() }, "▶ Play");
    this.curve = h("div.curve");
    this.wall = h("div.wall");
    this.name = h("h2");
    this.large = new Matrix({ pick: () => {}, keys: false, cell: [14, 36, 28] });
    this.blocks = Object.keys(trace.header)
      .filter((path) => path.startsWith("film."))
      .map((path) => path.slice(5))
      .sort((a, b) => b.split(".")[0].localeCompare(a.split(".")[0]) || a.localeCompare(b));
    this.element = h(
      "div.film",
      h("div.film-text", this.sentence("source"), this.sentence("target")),
      this.tools,
      h(
        "div.heads-body",
        this.wall,
        h("section.preview", this.name, this.large.element, this.curve),
      ),
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

  update({ frame }) {
    const { steps, loss } = this.meta.film,
      range = this.control.querySelector("input");
    range.value = frame;
    this.control.querySelector("output").textContent =
      `step ${steps[frame]}${loss ? `, loss ${number(loss[frame], 2)}` : ""}`;
    this.curve.replaceChildren(...(loss?.length > 1 ? [this.drawCurve(steps, loss, frame)] : []));
    this.wall.replaceChildren(...this.blocks.map((id) => this.row(id, frame)));
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
              heads > 4 ? 58 : 84,
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
    const own = id.startsWith("encoder") ? named("source") : named("target");
    const seen = id.endsWith("cross") ? named("source") : own;
    this.name.textContent = `${blockName(id)}, ${headName(head)}`;
    this.large.show({
      ...drawn,
      kind: "weight",
      range: [0, 1],
      rowLabels: fits(own, drawn.rows),
      columnLabels: fits(seen, drawn.columns),
      label: this.name.textContent,
    });
  }

  drawCurve(steps, loss, frame) {
    const low = Math.min(...loss),
      high = Math.max(...loss),
      x = (i) => 10 + (420 * steps[i]) / steps.at(-1),
      y = (value) => 90 - (75 * (value - low)) / (high - low || 1);
    const path = loss
      .map((value, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`)
      .join("");
    return svg(
      "svg",
      {
        viewBox: "0 0 440 100",
        role: "img",
        "aria-label": `loss from ${number(high, 2)} to ${number(low, 2)}`,
      },
      svg(
        "g.wave.sine",
        svg("path", { d: path }),
        svg("circle", { cx: x(frame), cy: y(loss[frame]), r: 5 }),
      ),
    );
  }

  say({ frame }) {
    return `checkpoint at step ${this.meta.film.steps[frame]}`;
  }

  table() {
    const { steps, loss } = this.meta.film;
    return {
      caption: "checkpoints",
      rows: steps.map(String),
      columns: ["loss"],
      values: loss ?? steps.map(() => NaN),
    };
  }
}
