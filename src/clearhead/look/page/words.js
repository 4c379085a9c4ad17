/** Tokens, layers and heads as people read them. */

import { bdi, h } from "./dom.js";

const LONGEST = 24;
const SPECIAL = { "<s>": "start", "</s>": "end", "<pad>": "padding", "<mask>": "gap" };

/** A token's text: the mark of a leading space is left out, special tokens have a plain name. */
export function text(token) {
  const plain = (token.special && SPECIAL[token.text]) || bare(token.text);
  return short(plain === "" ? "␣" : plain);
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

/** A token that might have been said; its text alone tells whether it is a special one. */
export function guessed(guess) {
  return text({ text: guess.text, special: special(guess.text) });
}

export function special(raw) {
  return Object.hasOwn(SPECIAL, raw);
}

export function labels(tokens) {
  return tokens.map(text);
}

/** What a token of the decoder predicts, as a token. */
export function predicted(token) {
  return {
    id: token.predicts_id,
    text: token.predicts,
    word: token.predicts_word,
    special: token.predicts_special,
  };
}

/** A row of a decoder is named by what it writes, any other by what it reads. */
export function rowName(token) {
  return token.predicts === undefined ? text(token) : `writing ${text(predicted(token))}`;
}

/** For the arithmetic of a decoder's row, which reads one token and writes the next. */
export function rowSays(token) {
  return token?.predicts === undefined ? "" : `, writing ${text(predicted(token))}`;
}

export function rowLabels(tokens) {
  return tokens.map(rowName);
}

/** Whether a token goes on with the word of the one before. */
export function inside(tokens, i) {
  const word = tokens[i].word;
  return i > 0 && word !== null && word !== undefined && word === tokens[i - 1].word;
}

/** Tokens as chips to choose from; those of one word hold together. */
export function chips(tokens, { chosen, pick, hint = chipHint, lit = () => null }) {
  const words = [];
  tokens.forEach((token, i) => {
    const chip = h(
      "button",
      {
        title: hint(token, i),
        class: `chip${token.special ? " special" : ""}`,
        "aria-pressed": String(i === chosen),
        onclick: () => pick(i),
      },
      bdi(text(token)),
    );
    const colour = lit(i);
    if (colour) chip.style.setProperty("--lit", colour);
    if (inside(tokens, i)) words.at(-1).append(chip);
    else words.push(h("span.chip-word", chip));
  });
  return h("div.chips", words);
}

function chipHint(token, i) {
  const what = token.special ? `the special token ${token.text}` : `token ${i + 1}`;
  return `${what}, id ${token.id}`;
}

const PARTS = {
  "encoder self": "words look at each other",
  "decoder self": "looks back at what is written",
  "decoder cross": "looks at the source",
};

/** "decoder.1.cross" for people: "Decoder layer 2, looks at the source". */
export function blockName(id) {
  const [stack, layer, part] = id.split(".");
  if (layer === "cross") return `Decoder, ${PARTS["decoder cross"]}`; // above all layers
  const name = `${stack[0].toUpperCase()}${stack.slice(1)} layer ${Number(layer) + 1}`;
  if (part === undefined) return name;
  return `${name}, ${part === "ff" ? "feed-forward" : (PARTS[`${stack} ${part}`] ?? part)}`;
}

/** Heads are counted from 1 where people read, and from 0 in paths. */
export function headName(head) {
  return `head ${head + 1}`;
}

/** The order of attentions: the encoder, then the decoder's own, then those to the source. */
export function inOrder(a, b) {
  const kind = (id) => 2 * id.startsWith("decoder") + id.endsWith("cross");
  return kind(a) - kind(b) || a.localeCompare(b, "en", { numeric: true });
}
