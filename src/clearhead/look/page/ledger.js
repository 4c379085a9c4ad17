/**
 * The arithmetic of one number: its operands, the sum made anew in float64, and the model's own
 * float32 beside it.
 */

import { bdi, h, number } from "./dom.js";

const FIRST = 6;

/** A step of the arithmetic: what is done, and with which numbers. */
export function step(title, ...content) {
  return h("section.step", h("h3", title), content);
}

/** A line of a formula, as in line`${a} ÷ ${b} = ${c}`; signs between spaces are set apart. */
export function line(texts, ...values) {
  const signs = (text) => text.split(/ ([÷×+−=·]) /).map((part, i) => (i % 2 ? op(part) : part));
  const shown = values.map((value) => (typeof value === "number" ? num(value) : value));
  return h(
    "p.formula",
    texts.map((text, i) => [signs(text), shown[i]]),
  );
}

/** A number of the arithmetic. */
export function num(x, digits = 4) {
  return h("span.num", { title: String(x) }, number(x, digits));
}

export function op(sign) {
  return h("span.op", ` ${sign} `);
}

/** Whether what was made here is what the model made. */
export function check(made, model, tolerance, edited = false) {
  const off = made === model ? 0 : Math.abs(made - model);
  const agrees = off <= tolerance;
  return h(
    "p",
    {
      class: `check ${agrees ? "agrees" : "differs"}`,
      "data-made": made,
      "data-model": model,
      "data-agrees": String(agrees),
    },
    h("span", "here, float64: ", num(made, 6)),
    h("span", "the model, float32: ", num(model, 6)),
    h(
      "strong",
      agrees
        ? `✓ they agree${off ? ` to ${off.toExponential(0)}` : ""}`
        : `✗ they differ by ${number(off, 4)}${edited ? ": the model was changed here" : ""}`,
    ),
  );
}

/** A table of operands, the largest first; the rest on demand. */
export function operands(heads, rows, size, note) {
  const order = [...rows].sort((a, b) => size(b) - size(a));
  const body = h("tbody", order.slice(0, FIRST).map(cells));
  const more =
    rows.length > FIRST &&
    h(
      "button.quiet",
      {
        onclick: (event) => {
          body.replaceChildren(...[...rows].map(cells));
          event.target.remove();
        },
      },
      `all ${rows.length} ${note}`,
    );
  return h(
    "div.operands",
    h(
      "table",
      h(
        "thead",
        h(
          "tr",
          heads.map((head) => h("th", { scope: "col" }, head)),
        ),
      ),
      body,
    ),
    more,
  );
}

function cells({ cells: list, marked }) {
  return h(
    "tr",
    { class: marked ? "marked" : null },
    list.map((cell) => h("td", typeof cell === "number" ? number(cell) : bdi(cell))),
  );
}

/**
 * Horizontal bars: [{text, value, note, pick, marked}]; values are shares of the longest, or of
 * `full`.
 */
export function bars(rows, { full, shown = (x) => number(x, 3), label } = {}) {
  const longest = full ?? Math.max(...rows.map((row) => Math.abs(row.value)), 1e-12);
  return h(
    "ul.bars",
    { "aria-label": label },
    rows.map((row) => {
      const bar = h("span", { class: row.value < 0 ? "bar negative" : "bar" });
      bar.style.width = `${Math.min(100, (100 * Math.abs(row.value)) / longest)}%`;
      const content = [
        h("span.name", bdi(row.text)),
        h("span.track", bar),
        h("span.value", shown(row.value)),
        row.note && h("span.note", row.note),
      ];
      const kind = `${row.marked ? "marked " : ""}${row.rest ? "rest" : ""}`.trim() || null;
      return h(
        "li",
        { class: kind },
        row.pick ? h("button", { onclick: row.pick }, content) : h("div", content),
      );
    }),
  );
}
