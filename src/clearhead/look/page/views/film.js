/** The film: how the heads came to be, checkpoint by checkpoint of the training. */

import { h, number, slider, svg } from "../dom.js";
import { thumbnail } from "../matrix.js";
import { View } from "../view.js";
import { blockName } from "../words.js";

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
    this.play = h("button.pill", { onclick: () => this.toggle() }, "Play");
    this.curve = h("div.curve");
    this.wall = h("div.wall");
    this.blocks = Object.keys(trace.header)
      .filter((path) => path.startsWith("film."))
      .map((path) => path.slice(5));
    this.element = h("div.film", this.tools, this.curve, this.wall);
    this.tools.append(this.play, this.control);
  }

  toggle() {
    const last = this.meta.film.steps.length - 1;
    if (this.timer) return this.stop();
    this.play.textContent = "Stop";
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
    this.play.textContent = "Play";
  }

  update({ frame }) {
    const { steps, loss } = this.meta.film,
      range = this.control.querySelector("input");
    range.value = frame;
    this.control.querySelector("output").textContent =
      `step ${steps[frame]}${loss ? `, loss ${number(loss[frame], 2)}` : ""}`;
    this.curve.replaceChildren(...(loss?.length > 1 ? [this.drawCurve(steps, loss, frame)] : []));
    this.wall.replaceChildren(...this.blocks.map((id) => this.row(id, frame)));
  }

  row(id, frame) {
    const {
        shape: [, heads, rows, columns],
        data,
      } = this.trace.tensor(`film.${id}`),
      size = rows * columns;
    const frames = Array.from({ length: heads }, (_, head) =>
      thumbnail(
        {
          values: Float32Array.from(
            data.subarray((frame * heads + head) * size, (frame * heads + head + 1) * size),
          ),
          rows,
          columns,
        },
        "weight",
        84,
      ),
    );
    return h("div.film-row", h("h3", blockName(id)), h("div.thumbs", frames));
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
