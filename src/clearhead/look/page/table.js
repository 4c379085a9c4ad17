/**
 * The same numbers as a real table: for those who do not see the picture, and for a spreadsheet.
 */

import { bdi, h, number } from "./dom.js";

const WINDOW = 60;

/** At most 60 × 60 cells around the selection; says what it leaves out. */
export function twin({ caption, rows, columns, values, at }) {
  const [top, bottom] = around(at?.row ?? 0, rows.length),
    [left, right] = around(at?.column ?? 0, columns.length);
  const part = bottom - top < rows.length || right - left < columns.length;
  const shown =
    `rows ${top}–${bottom - 1} of ${rows.length}, ` +
    `columns ${left}–${right - 1} of ${columns.length}`;
  const note = part ? ` (${shown}; the CSV has all)` : "";
  const head = columns.slice(left, right).map((label) => h("th", { scope: "col" }, bdi(label)));
  const body = rows.slice(top, bottom).map((label, r) =>
    h(
      "tr",
      h("th", { scope: "row" }, bdi(label)),
      columns.slice(left, right).map((_, c) => {
        const value = values[(top + r) * columns.length + left + c],
          here = at && at.row === top + r && at.column === left + c;
        return h(
          "td",
          { "aria-current": here ? "true" : null, "data-value": String(value) },
          number(value),
        );
      }),
    ),
  );
  return h(
    "table.twin",
    h("caption", caption + note),
    h("thead", h("tr", h("td"), head)),
    h("tbody", body),
  );
}

function around(place, length) {
  const begin = Math.max(0, Math.min(place - WINDOW / 2, length - WINDOW));
  return [begin, Math.min(length, begin + WINDOW)];
}

/** All of it, with every digit. */
export function csv({ rows, columns, values }) {
  const quoted = (cell) => (/[",\n\r]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  // a spreadsheet must not take a token for a formula
  const safe = (cell) => quoted(/^[=+\-@\t]/.test(cell) ? `'${cell}` : cell);
  const lines = rows.map((label, i) =>
    [safe(label), ...columns.map((_, j) => String(values[i * columns.length + j]))].join(","),
  );
  return [["", ...columns.map(safe)].join(","), ...lines].join("\n") + "\n";
}
