/** The map: the parts of this model in the order in which the sentence passes through them. */

import { attentionOf } from "../attention.js";
import { h } from "../dom.js";
import { thumbnail } from "../matrix.js";
import { View } from "../view.js";

const NAMES = {
  "encoder self": "Self-attention",
  "decoder self": "Masked self-attention",
  "decoder cross": "Cross-attention",
  ff: "Feed-forward",
};
const SAYS = {
  "encoder self": "each token looks at all",
  "decoder self": "each looks back",
  "decoder cross": "looks at the encoder's output",
  ff: "each token by itself",
};

export class MapView extends View {
  static id = "map";
  static title = "Map";
  static lead =
    "The sentence passes through these parts from top to bottom. " +
    "Each picture is the mean of a part's heads.";

  constructor(trace, state) {
    super(trace, state);
    this.element = h("div.map");
  }

  update(now) {
    this.element.replaceChildren(...this.trace.stacks.map((stack) => this.stack(stack, now)));
  }

  stack(stack, now) {
    const { trace } = this;
    const segment = trace.segmentOf(stack);
    const count = trace.tokens(segment).length;
    const layers = trace.layers.filter((layer) => layer.startsWith(`${stack}.`));
    const go = (changes) => () => this.go(changes);
    const output = trace.meta.graph.find(
      (node) => node.kind === "output" && node.id.startsWith(stack),
    );
    const crossed = trace.attentions.some((node) => node.keys !== node.queries);
    return h(
      "section.stack",
      h("h2", stack === "encoder" ? "Encoder: reads" : "Decoder: writes"),
      this.part(`${count} tokens`, "token + position", null, go({ view: "tokens", segment })),
      layers.map((layer) =>
        h(
          "div.layer",
          h(
            "button.layer-name",
            { onclick: go({ view: "block", layer }) },
            `layer ${layer.split(".")[1]}`,
          ),
          trace.meta.graph
            .filter((node) => node.id.startsWith(`${layer}.`))
            .map((node) => this.node(node, now, go)),
        ),
      ),
      output
        ? this.part(
            this.outputName(),
            "the last vectors become scores",
            null,
            go({ view: "output" }),
          )
        : crossed
          ? h("p.memory.hint", "its output goes to every cross-attention →")
          : "",
    );
  }

  outputName() {
    const { meta } = this;
    return meta.classes
      ? `${meta.classes.length} classes`
      : `${meta.model.vocab_size?.toLocaleString("en") ?? ""} tokens to choose from`;
  }

  node(node, now, go) {
    const [stack, layer, part] = node.id.split(".");
    if (node.kind !== "attention") {
      return this.part(NAMES.ff, SAYS.ff, null, go({ view: "block", layer: `${stack}.${layer}` }));
    }
    if (!this.trace.has(`${node.id}.pattern`)) return "";
    const kind = `${stack} ${part}`;
    const made = attentionOf(this.trace, node.id);
    const picture = thumbnail(
      { values: made.mixed("mean"), rows: made.nq, columns: made.nk },
      "weight",
      52,
    );
    return this.part(
      NAMES[kind] ?? part,
      `${SAYS[kind] ?? ""} · ${made.nHeads} heads`,
      picture,
      go({ view: "attention", block: node.id }),
      node.id === now.block,
    );
  }

  part(name, says, picture, open, chosen = false) {
    return h(
      "button",
      { class: `part${chosen ? " chosen" : ""}`, onclick: open },
      h("span.part-text", h("b", name), h("span.hint", says)),
      picture,
    );
  }

  table() {
    const nodes = this.trace.attentions;
    return {
      caption: "attention blocks",
      rows: nodes.map((node) => node.id),
      columns: ["heads", "rows", "columns"],
      values: nodes.flatMap((node) => this.trace.tensor(`${node.id}.pattern`).shape),
    };
  }

  say(now) {
    return `Map of ${this.trace.layers.length} layers; chosen: ${now.block}`;
  }
}
