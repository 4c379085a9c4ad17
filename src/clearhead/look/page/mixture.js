/** The last step of attention: values, each times its weight, added up. */

import { sum } from "./attention.js";
import { domain } from "./colour.js";
import { bdi, h, percent } from "./dom.js";
import { strip } from "./strip.js";
import { labels } from "./words.js";

/** Σ weight × v, made anew. */
export function mixed(attention, head, weights) {
  const width = attention.vectors("v", head, 0).length;
  return Array.from({ length: width }, (_, dim) =>
    sum(weights.map((w, i) => w * attention.vectors("v", head, i)[dim])),
  );
}

/** A line for each word with its weight and value, and their sum; `out(i)` is left out. */
export function mixtureRows(attention, head, weights, { pick, out = () => false, chosen } = {}) {
  const range = domain(attention.trace.tensor(`${attention.id}.v`).data, "signed");
  const strongest = Math.max(...weights, 1e-9);
  const rows = labels(attention.keys).map((name, i) => {
    const bar = h("span.bar");
    bar.style.setProperty("--wide", `${(100 * weights[i]).toFixed(1)}%`);
    const drawn = strip(attention.vectors("v", head, i), { range, tall: 16 });
    drawn.style.opacity = (0.12 + 0.88 * Math.min(1, weights[i] / strongest)).toFixed(2);
    return h(
      "li",
      h(
        "button",
        {
          "aria-pressed": String(chosen === undefined ? !out(i) : chosen === i),
          class: out(i) ? "out" : null,
          onclick: () => pick(i),
        },
        h("span.name", bdi(name)),
        h("span.track", bar),
        h("span.value", percent(weights[i])),
        h("span.times", "×"),
        drawn,
      ),
    );
  });
  return [
    h("ul.mixture", rows),
    h("div.sum-line", h("span.name", "sum"), strip(mixed(attention, head, weights), { tall: 40 })),
  ];
}
