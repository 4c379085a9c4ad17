/** The map: this model as the paper draws it, from the text below to the output above. */

import { attentionOf } from "../attention.js";
import { h, svg } from "../dom.js";
import { thumbnail } from "../matrix.js";
import { View } from "../view.js";
import { blockName } from "../words.js";

const NAMES = {
  "encoder self": ["Self-attention", "each word looks at all"],
  "decoder self": ["Masked attention", "each word looks back"],
  "decoder cross": ["Cross-attention", "looks at the source"],
  ff: ["Feed-forward", "each word by itself"],
};
const WIDE = 320; // a column
const TALL = { attention: 74, ff: 44, norm: 24, end: 48, shut: 44 };
const GAP = 14; // room for an arrow
const PICTURE = 58; // of an attention in an open layer
const SMALL = 32; // of one in a layer that is shut
const EDGE = 30; // from a layer's frame to its boxes: the stream passes here

export class MapView extends View {
  static id = "map";
  static title = "Map";
  static lead =
    "Text enters below and leaves above. Each vector runs along the stream, the blue line; " +
    "every part reads it and adds to it. All layers of a stack are built alike: one is drawn " +
    "open, choose another to open it, or a part to look inside.";

  static leadFor(trace) {
    return trace.recurs
      ? "Text enters below and leaves above. Each layer reads word by word and hands its states " +
          "on. Choose a part to look inside."
      : this.lead;
  }

  constructor(trace, state) {
    super(trace, state);
    this.inside = trace.recurs ? "gates" : "block"; // the view of a layer
    this.element = h("div.map");
    new ResizeObserver(() => this.element.clientWidth !== this.width && this.draw()).observe(
      this.element,
    );
  }

  update(now) {
    this.now = now;
    this.draw();
  }

  draw() {
    this.width = this.element.clientWidth;
    if (!this.width || !this.now) return;
    const columns = this.trace.stacks.map((stack) => this.column(stack));
    const narrow = this.width < 660 || columns.length === 1;
    const tallest = Math.max(...columns.map(({ height }) => height));
    const height = narrow ? columns.reduce((sum, one) => sum + one.height + 34, 0) : tallest + 20;
    const width = narrow ? WIDE + 78 : 2 * WIDE + 150;
    // beside each other on one floor, or the decoder above the encoder
    const placed = columns.map((column, i) => ({
      ...column,
      x: narrow ? 12 : 24 + i * (WIDE + 100),
      y: narrow
        ? i === columns.length - 1
          ? 10
          : height - column.height - 10
        : height - column.height - 10,
    }));
    const drawing = svg(
      "svg.figure-map",
      { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "the parts of the model" },
      svg(
        "defs",
        svg(
          "marker",
          {
            id: "tip",
            viewBox: "0 0 8 8",
            refX: 6,
            refY: 4,
            markerWidth: 7,
            markerHeight: 7,
            orient: "auto",
          },
          svg("path.tip", { d: "M0 0.5L7 4L0 7.5z" }),
        ),
      ),
      placed.map(({ x, y, parts }) => svg("g", { transform: `translate(${x} ${y})` }, parts)),
      placed.length > 1 ? this.memory(placed, narrow) : "",
    );
    drawing.style.maxWidth = `${Math.round(width * 1.12)}px`;
    this.drawing = drawing;
    this.element.replaceChildren(drawing);
  }

  /** A stack from its tokens up to its output: {parts, height, top, crosses} in its own place. */
  column(stack) {
    const { trace, meta } = this;
    const segment = trace.segmentOf(stack);
    const count = trace.tokens(segment).length;
    const layers = trace.layers.filter((layer) => layer.startsWith(`${stack}.`));
    const output = meta.graph.some((node) => node.kind === "output" && node.id.startsWith(stack));
    const steps = [
      {
        kind: "end",
        name: `${count} tokens`,
        says: segment === "source" ? "what is read" : "what is written so far",
        go: { view: "tokens", segment },
      },
      {
        kind: "end",
        name: trace.recurs ? "Token vectors" : "Token + position",
        says: `${meta.model.d_model} numbers for each`,
        go: { view: "tokens", segment },
      },
      ...layers.map((layer, i) =>
        i === this.openIndex(layers.length) ? { layer, inner: this.inner(layer) } : { shut: layer },
      ),
      // a recurrent decoder asks the source once, above all its layers
      ...meta.graph
        .filter((node) => node.id === `${stack}.cross`)
        .map((node) => ({ kind: node.kind, node })),
      ...(output
        ? [
            {
              kind: "end",
              name: this.outputName(),
              says: "the last vectors become scores",
              go: { view: "output" },
            },
          ]
        : []),
    ];
    const tall = (step) =>
      step.layer
        ? step.inner.reduce((sum, part) => sum + TALL[part.kind] + GAP, 0) + 30
        : TALL[step.kind ?? "shut"];
    const height = steps.reduce((sum, step) => sum + tall(step) + GAP, 0) - GAP + 26;
    const drawn = { parts: [], crosses: [], height };
    let y = height;
    steps.forEach((step, i) => {
      y -= tall(step);
      if (step.layer) this.layer(step, y, tall(step), drawn);
      else if (step.shut) this.shut(step.shut, y, drawn);
      else {
        const box = { x: EDGE, y, wide: WIDE - 2 * EDGE };
        drawn.parts.push(step.node ? this.part(step, box, stack) : this.box(step, box));
        if (step.node) drawn.crosses.push({ y: y + TALL.attention / 2, inset: EDGE });
      }
      if (i < steps.length - 1) drawn.parts.push(arrow(WIDE / 2, y, y - GAP));
      else drawn.top = y;
      y -= GAP;
    });
    drawn.parts.push(
      svg(
        "text.stack-name",
        { x: EDGE, y: 14 },
        stack === "encoder" ? "Encoder: reads" : "Decoder: writes",
      ),
    );
    return drawn;
  }

  /** The index of the layer that is drawn open, among so many: the chosen one, in both stacks. */
  openIndex(count) {
    const chosen = /\.(\d+)/.exec(this.now.layer ?? this.now.block ?? "")?.[1] ?? 0;
    return Math.min(Number(chosen), count - 1);
  }

  /** The boxes of a layer, from below; the norm stands where this model has it. */
  inner(layer) {
    const own = this.trace.nodes.get(layer);
    if (own) return [{ kind: "ff", node: own, layer }];
    const post = this.meta.model.norm === "post";
    return this.meta.graph
      .filter((node) => node.id.startsWith(`${layer}.`))
      .flatMap((node) => {
        const part = { kind: node.kind, node, layer };
        const adds = { kind: "norm", name: post ? "Add & norm" : "Add", layer, adds: true };
        return post ? [part, adds] : [{ kind: "norm", name: "Norm", layer }, part, adds];
      });
  }

  /** A layer as a bar with a small picture of each attention; choosing it opens it. */
  shut(layer, y, drawn) {
    const blocks = this.trace.attentions.filter((node) => node.id.startsWith(`${layer}.`));
    const drawable = blocks.filter((node) => this.trace.has(`${node.id}.pattern`));
    drawn.parts.push(
      this.link(
        { layer },
        blockName(layer),
        svg("rect.frame", { x: 0, y, width: WIDE, height: TALL.shut, rx: 14 }),
        svg("text.layer-label", { x: EDGE, y: y + TALL.shut / 2 + 5 }, label(layer)),
        drawable.map((node, i) =>
          svg("image", {
            href: this.mean(node, SMALL),
            x: WIDE - EDGE - (drawable.length - i) * (SMALL + 8) + 8,
            y: y + (TALL.shut - SMALL) / 2,
            width: SMALL,
            height: SMALL,
          }),
        ),
      ),
    );
    if (blocks.some((node) => node.keys !== node.queries))
      drawn.crosses.push({ y: y + TALL.shut / 2, inset: 0 });
  }

  /** A small picture of the mean over an attention's heads. */
  mean(node, size) {
    const made = attentionOf(this.trace, node.id);
    const shown = { values: made.mixed("mean"), rows: made.nq, columns: made.nk };
    return thumbnail(shown, "weight", size).toDataURL();
  }

  layer({ layer, inner }, top, tall, drawn) {
    const [stack] = layer.split(".");
    drawn.parts.push(
      svg("rect.frame", { x: 0, y: top, width: WIDE, height: tall, rx: 14 }),
      this.link(
        { view: this.inside, layer },
        blockName(layer),
        svg("text.layer-label", { x: EDGE, y: top + 19 }, label(layer)),
      ),
    );
    let y = top + tall - GAP;
    let from = y + GAP / 2;
    inner.forEach((part, i) => {
      y -= TALL[part.kind];
      const box = { x: EDGE, y, wide: WIDE - 2 * EDGE };
      if (part.kind === "norm") {
        drawn.parts.push(this.box({ ...part, says: "", go: { view: "block", layer } }, box));
        if (part.adds) {
          drawn.parts.push(stream(from, y + TALL.norm / 2));
          from = y - GAP / 2;
        }
      } else drawn.parts.push(this.part(part, box, stack));
      if (part.node?.keys && part.node.keys !== part.node.queries)
        drawn.crosses.push({ y: y + TALL.attention / 2, inset: EDGE });
      if (i < inner.length - 1) drawn.parts.push(arrow(WIDE / 2, y, y - GAP));
      y -= GAP;
    });
  }

  part({ node, layer }, box, stack) {
    if (node.kind === "gates") {
      const name = this.meta.model.architecture.toUpperCase();
      const says = node.ways.length > 1 ? "reads from both ends" : "reads from left to right";
      return this.box({ kind: "ff", name, says, go: { view: "gates", layer } }, box);
    }
    if (node.kind !== "attention") {
      const [name, says] = NAMES.ff;
      return this.box({ kind: "ff", name, says, go: { view: "block", layer } }, box);
    }
    const [name, says] = NAMES[`${stack} ${node.id.split(".").at(-1)}`] ?? [node.id, ""];
    const go = { view: "attention", block: node.id };
    const chosen = node.id === this.now.block;
    if (!this.trace.has(`${node.id}.pattern`))
      return this.box({ kind: "attention", name, says, go }, box);
    const more = counted(attentionOf(this.trace, node.id).nHeads);
    const picture = this.mean(node, PICTURE);
    return this.box({ kind: "attention", name, says, more, go, picture, chosen }, box);
  }

  box({ kind, name, says, more, go, picture, chosen }, { x, y, wide }) {
    const tall = TALL[kind];
    const middle = kind === "norm" || (!says && !more);
    return this.link(
      go,
      [name, says, more].filter(Boolean).join(", "),
      svg("rect", {
        class: `box ${kind}${chosen ? " chosen" : ""}`,
        x,
        y,
        width: wide,
        height: tall,
        rx: 9,
      }),
      svg(
        "text",
        {
          class: `box-name ${kind}`,
          x: middle ? x + wide / 2 : x + 12,
          y: middle ? y + tall / 2 + 5 : y + (more ? 25 : tall / 2 - 3),
          "text-anchor": middle ? "middle" : "start",
        },
        name,
      ),
      middle ? "" : svg("text.box-says", { x: x + 12, y: y + (more ? 43 : tall / 2 + 14) }, says),
      more ? svg("text.box-says", { x: x + 12, y: y + 60 }, more) : "",
      picture
        ? svg("image", {
            href: picture,
            x: x + wide - PICTURE - 8,
            y: y + 8,
            width: PICTURE,
            height: PICTURE,
          })
        : "",
    );
  }

  link(to, name, ...content) {
    return svg(
      "g.part",
      {
        role: "link",
        tabindex: 0,
        "aria-label": name,
        onclick: () => this.go(to),
        onkeydown: (event) => event.key === "Enter" && this.go(to),
      },
      content,
    );
  }

  /** What the encoder has made goes into every cross-attention. */
  memory([encoder, decoder], narrow) {
    const targets = decoder.crosses.map(({ y, inset }) => ({ y: decoder.y + y, inset }));
    const from = { x: encoder.x + WIDE, y: encoder.y + encoder.top + TALL.shut / 2 };
    const side = narrow ? decoder.x + WIDE + 26 : encoder.x + WIDE + 50;
    const end = ({ inset }) =>
      narrow ? decoder.x + WIDE - inset + 3 : decoder.x + inset - (inset ? 3 : 1);
    const ends = [from.y, ...targets.map(({ y }) => y)];
    return [
      svg("path.memory", { d: `M${from.x} ${from.y}H${side}` }),
      svg("path.memory", { d: `M${side} ${Math.min(...ends)}V${Math.max(...ends)}` }),
      targets.map((target) =>
        svg("path.memory.arrow", {
          d: `M${side} ${target.y}H${end(target)}`,
          "marker-end": "url(#tip)",
        }),
      ),
      narrow
        ? ""
        : svg(
            "text.box-says",
            { x: side, y: Math.min(...ends) - 9, "text-anchor": "middle" },
            "keys, values",
          ),
    ];
  }

  outputName() {
    const { meta } = this;
    return meta.classes
      ? `${meta.classes.length} classes`
      : `${meta.model.vocab_size?.toLocaleString("en") ?? ""} tokens to choose from`;
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

  drawn() {
    return this.drawing;
  }

  say(now) {
    const chosen = now.block ? `; chosen: ${blockName(now.block)}` : "";
    return `Map of ${this.trace.layers.length} layers${chosen}`;
  }
}

function counted(heads) {
  return heads === 1 ? "1 head" : `${heads} heads`;
}

function label(layer) {
  return `layer ${Number(layer.split(".")[1]) + 1}`;
}

function arrow(x, from, to) {
  return svg("path.arrow", { d: `M${x} ${from}V${to + 2}`, "marker-end": "url(#tip)" });
}

/** The residual stream: past the parts of a sub-layer, into what adds. */
function stream(from, to) {
  const x = EDGE / 2;
  return svg("path.stream", {
    d:
      `M${WIDE / 2} ${from}H${x + 8}Q${x} ${from} ${x} ${from - 8}` +
      `V${to + 8}Q${x} ${to} ${x + 8} ${to}H${EDGE - 3}`,
    "marker-end": "url(#tip)",
  });
}
