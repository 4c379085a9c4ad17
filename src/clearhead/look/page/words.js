/** Tokens as people read them. */

import { bdi, h } from "./dom.js";

const LONGEST = 24;

/**
 * A token's text: the mark of a leading space is left out, the middle of a word begins with a dot.
 */
export function text(token, before) {
  const plain = bare(token.text);
  const inside =
    before && token.word !== null && token.word !== undefined && token.word === before.word;
  return (inside ? "·" : "") + short(plain === "" ? "␣" : plain);
}

export function bare(raw) {
  return raw.replace(/^[▁Ġ]/, "").replace(/\n/g, "↵").replace(/\t/g, "⇥");
}

export function short(plain, longest = LONGEST) {
  const letters = Array.from(plain.slice(0, 4 * longest));
  return letters.length > longest || plain.length > 4 * longest
    ? `${letters.slice(0, longest).join("")}…`
    : plain;
}

export function labels(tokens) {
  return tokens.map((token, i) => text(token, tokens[i - 1]));
}

/** Decoder rows are named by what goes in and what it predicts: "house → is". */
export function rowLabels(tokens) {
  return labels(tokens).map((label, i) =>
    tokens[i].predicts === undefined ? label : `${label} → ${short(bare(tokens[i].predicts), 12)}`,
  );
}

/** Tokens as chips to choose from; those of one word stand close. */
export function chips(tokens, { chosen, pick, hint, lit = () => null }) {
  return h(
    "div.chips",
    tokens.map((token, i) => {
      const inside =
        i > 0 &&
        token.word !== null &&
        token.word !== undefined &&
        token.word === tokens[i - 1].word;
      const chip = h(
        "button",
        {
          title: hint?.(token, i) ?? `token ${i}, id ${token.id}`,
          class: `chip${inside ? " inside" : ""}${token.special ? " special" : ""}`,
          "aria-pressed": String(i === chosen),
          onclick: () => pick(i),
        },
        bdi(short(bare(token.text) || "␣")),
      );
      const colour = lit(i);
      if (colour) chip.style.setProperty("--lit", colour);
      return chip;
    }),
  );
}

/** "encoder.0.self" in words. */
export function blockName(id) {
  const [stack, layer, part] = id.split(".");
  const parts = {
    self: stack === "decoder" ? "masked self-attention" : "self-attention",
    cross: "cross-attention",
    ff: "feed-forward",
  };
  return part === undefined
    ? `${stack} layer ${layer}`
    : `${stack} ${layer} · ${parts[part] ?? part}`;
}
