/**
 * The tour: one sentence through the whole machine, stop by stop, with something to try at each.
 */

import { h } from "../dom.js";
import { written } from "../state.js";
import { View } from "../view.js";
import { QueryKeyValue, Scale, Scores, Softmax } from "./attention.js";
import { AddNorm, FeedForward, Heads, Mixture, Stack } from "./layer.js";
import { Positions, Tokens, Vectors } from "./reading.js";
import { Again, Decoder, Mask, NextWord, Verdict } from "./writing.js";

const STOPS = [
  Tokens,
  Vectors,
  Positions,
  QueryKeyValue,
  Scores,
  Scale,
  Mask,
  Softmax,
  Mixture,
  Heads,
  AddNorm,
  FeedForward,
  Stack,
  Decoder,
  NextWord,
  Again,
  Verdict,
];

export class TourView extends View {
  static id = "tour";
  static title = "Tour";
  static whole = true;

  static available(trace) {
    return trace.attentions.length > 0 && !trace.recurs;
  }

  constructor(trace, state) {
    super(trace, state);
    this.stops = STOPS.filter((stop) => stop.available(trace));
    this.built = new Map();
    this.dots = h("ol.dots", { "aria-label": "Stops" });
    this.count = h("p.count");
    this.name = h("h2.stop-name", { tabindex: -1 });
    this.says = h("div.says");
    this.tries = h("div.try-it");
    this.door = h("a.quiet");
    this.card = h("div.stop-picture");
    this.before = h("button.pill", { onclick: () => this.back() }, "← Back");
    this.next = h("button.pill.strong", { onclick: () => this.forward() });
    this.element = h(
      "div.tour",
      this.dots,
      h(
        "div.stop",
        h("div.stop-text", this.count, this.name, this.says, this.tries, h("p", this.door)),
        this.card,
      ),
      h("div.steps", this.before, h("span.hint", "Space goes on"), this.next),
    );
  }

  get place() {
    return Math.max(
      0,
      this.stops.findIndex((stop) => stop.id === this.state.now.stop),
    );
  }

  stop(kind) {
    if (!this.built.has(kind.id)) this.built.set(kind.id, new kind(this.trace, this.state));
    return this.built.get(kind.id);
  }

  forward() {
    if (this.place < this.stops.length - 1) this.move(this.place + 1);
    else this.go({ view: "sentence", stop: "" });
    return true;
  }

  back() {
    if (this.place > 0) this.move(this.place - 1);
    return true;
  }

  move(place) {
    this.go({ stop: this.stops[place].id });
    scrollTo(0, 0);
    this.name.focus({ preventScroll: true });
  }

  update(now) {
    const { place } = this;
    const kind = this.stops[place];
    const stop = this.stop(kind);
    this.count.textContent = `Stop ${place + 1} of ${this.stops.length}`;
    this.name.textContent = kind.title;
    this.says.replaceChildren(...stop.says(now).map((part) => h("p", part)));
    if (this.shown !== stop) {
      this.shown = stop;
      this.card.replaceChildren(stop.picture);
      this.tries.replaceChildren(h("h3", "Try it"), stop.tries);
      this.card.classList.remove("arrives");
      requestAnimationFrame(() => this.card.classList.add("arrives"));
    }
    stop.update(now);
    this.drawDoor(stop, now);
    this.drawSteps(place, now);
  }

  drawDoor(stop, now) {
    const { to, name } = stop.door(now);
    this.door.textContent = `${name} →`;
    this.door.href = written(this.state.fit({ ...now, ...this.state.link(now, to) }));
    this.door.onclick = (event) => {
      event.preventDefault();
      this.go(to);
    };
  }

  drawSteps(place, now) {
    this.before.disabled = place === 0;
    const following = this.stops[place + 1];
    this.next.textContent = following ? `${following.title} →` : "Back to the sentence";
    this.dots.replaceChildren(
      ...this.stops.map((stop, i) =>
        h(
          "li",
          h("a", {
            href: written({ ...now, stop: stop.id }),
            title: `${i + 1}. ${stop.title}`,
            "aria-label": `${i + 1}. ${stop.title}`,
            class: i < place ? "passed" : null,
            "aria-current": i === place ? "step" : null,
            onclick: (event) => {
              event.preventDefault();
              this.move(i);
            },
          }),
        ),
      ),
    );
  }

  point() {}

  say() {
    const { shown } = this;
    return `${this.count.textContent}: ${this.name.textContent}. ${shown?.told?.() ?? ""}`;
  }

  table(now) {
    return this.shown.table(now);
  }

  picture() {
    return this.card.querySelector("canvas");
  }

  drawn() {
    return this.card.querySelector("svg");
  }
}
