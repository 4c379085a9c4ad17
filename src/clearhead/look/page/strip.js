/** Vectors as small pictures. */

import { domain } from "./colour.js";
import { h } from "./dom.js";
import { thumbnail } from "./matrix.js";

/** A vector as a strip of colours: blue above zero, orange below. */
export function strip(values, { range = domain(values, "signed"), tall = 18 } = {}) {
  const drawn = thumbnail(
    { values, rows: 1, columns: values.length },
    "signed",
    values.length,
    tall,
    range,
  );
  drawn.style.width = "100%";
  drawn.classList.add("strip");
  return drawn;
}

/** Few numbers as bars above and below a line. */
export function spikes(values, { largest = Math.max(...values.map(Math.abs), 1e-9) } = {}) {
  return h(
    "div.spikes",
    { "aria-hidden": "true" },
    Array.from(values, (x) => {
      const bar = h("span", { class: x < 0 ? "below" : "above" });
      bar.style.setProperty("--tall", `${(50 * Math.min(1, Math.abs(x) / largest)).toFixed(1)}%`);
      return bar;
    }),
  );
}
