/** The residual stream of a layer: what enters each sub-layer, what it adds, what leaves. */

/**
 * [{part, id, before, after, added, normed}]: tensors {shape, data}; undefined where the file does
 * not have them.
 */
export function sublayers(trace, layer) {
  const [stack, index] = layer.split("."),
    post = trace.meta.model.norm === "post";
  const parts = ["self", "cross", "ff"].filter((part) => trace.nodes.has(`${layer}.${part}`));
  let before =
    trace.tensor(`${layer}.resid_pre`) ??
    (index === "0" ? trace.embedded(stack) : trace.tensor(`${stack}.${index - 1}.resid_post`));
  return parts.map((part, i) => {
    const id = `${layer}.${part}`,
      last = part === "ff" ? "resid_post" : parts[i + 1] === "ff" ? "resid_mid" : null;
    const after =
      trace.tensor(`${id}.${post ? "norm" : "add"}`) ??
      (last ? trace.tensor(`${layer}.${last}`) : undefined);
    const sum = post ? trace.tensor(`${id}.add`) : after;
    const made = {
      part,
      id,
      before,
      after,
      sum,
      added: difference(sum, before),
      normed: trace.tensor(`${id}.norm`),
    };
    before = after;
    return made;
  });
}

function difference(sum, before) {
  return sum && before && { shape: sum.shape, data: sum.data.map((x, i) => x - before.data[i]) };
}
