/** Where the page's numbers come from: the file itself, or what the server sent. */

/** The trace that this page shows. */
export function load() {
  const inline = document.getElementById("look-meta");
  if (inline) {
    const tensors = document.getElementById("look-tensors");
    const trace = new Trace(JSON.parse(inline.textContent), decoded(tensors.textContent));
    tensors.textContent = "";
    return trace;
  }
  throw new Error("there are no numbers in it.");
}

/** A look as the server sends it: one safetensors file whose metadata tell what happened. */
export function traceOf(bytes) {
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  return new Trace(JSON.parse(header.__metadata__.look), bytes);
}

function decoded(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** What was recorded: `meta` says what happened, `tensor(path)` gives the model's own numbers. */
export class Trace {
  constructor(meta, bytes) {
    this.meta = meta;
    this.bytes = bytes;
    this.header = {};
    this.start = 8;
    if (bytes.length) {
      const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
      this.header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
      this.start = 8 + length;
    }
    this.read = new Map();
    this.recurs = Boolean(meta.model.architecture); // an LSTM or a GRU, and no Transformer
    this.nodes = new Map(meta.graph.map((node) => [node.id, node]));
    this.attentions = meta.graph.filter(
      (node) => node.kind === "attention" && this.has(`${node.id}.pattern`),
    );
    this.layers = [
      ...new Set(meta.graph.map((node) => /^\w+\.\d+/.exec(node.id)?.[0]).filter(Boolean)),
    ];
    this.stacks = ["encoder", "decoder"].filter((stack) =>
      this.layers.some((layer) => layer.startsWith(stack)),
    );
  }

  has(path) {
    return path in this.header;
  }

  /** {shape, data} of a recorded tensor, or undefined where it was left out. */
  tensor(path) {
    if (!this.has(path)) return undefined;
    if (!this.read.has(path)) this.read.set(path, this.unpacked(this.header[path]));
    return this.read.get(path);
  }

  unpacked({ dtype, shape, data_offsets: [begin, end] }) {
    const bytes = this.bytes.slice(this.start + begin, this.start + end); // a copy is aligned
    const kinds = { F32: Float32Array, F16: Uint16Array, U8: Uint8Array, I32: Int32Array };
    const data = new kinds[dtype](bytes.buffer);
    return { shape, data: dtype === "F16" ? Float32Array.from(data, half) : data };
  }

  /** One vector of a tensor: all indices but the last. */
  vector(path, ...index) {
    const tensor = this.tensor(path);
    if (!tensor) return undefined;
    const width = tensor.shape.at(-1);
    const row = index.reduce((place, i, axis) => place * tensor.shape[axis] + i, 0);
    return tensor.data.subarray(row * width, (row + 1) * width);
  }

  /** What enters the first layer; where it was left out of the file, the sum that it is. */
  embedded(stack) {
    const whole = this.tensor(`${stack}.embedded`),
      parts = ["tokens", "positions", "types"]
        .map((part) => this.tensor(`${stack}.${part}`))
        .filter(Boolean);
    if (whole || parts.length < 2 || this.meta.model.embedding_norm) return whole;
    return {
      shape: parts[0].shape,
      data: parts[0].data.map((x, i) =>
        parts.slice(1).reduce((made, { data }) => made + data[i % data.length], x),
      ),
      derived: true,
    };
  }

  /** The tokens that a stack reads: [{id, text, word, special}]. */
  tokens(segment) {
    return this.meta.segments[segment] ?? [];
  }

  segmentOf(stack) {
    return stack.startsWith("encoder") ? "source" : "target";
  }
}

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1,
    exponent = (bits >> 10) & 31,
    fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return (
    sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024))
  );
}
