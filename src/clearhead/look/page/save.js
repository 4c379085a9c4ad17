/** Taking things out of the page: pictures, tables, alignments, the data itself. */

import { palette, shade } from "./colour.js";
import { number, svg, weight } from "./dom.js";

/** Offers a file to keep. */
export function save(name, content, type) {
  const url = URL.createObjectURL(
    content instanceof Blob ? content : new Blob([content], { type }),
  );
  const link = document.createElement("a");
  Object.assign(link, { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A canvas as PNG, on the page's own background. */
export function savePng(name, canvas, background) {
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [canvas.width, canvas.height];
  const context = copy.getContext("2d");
  context.fillStyle = background;
  context.fillRect(0, 0, copy.width, copy.height);
  context.drawImage(canvas, 0, 0);
  copy.toBlob((blob) => save(name, blob));
}

/** A drawing as a file of its own: what the style sheet says is written into it. */
export function saveSvg(name, drawing) {
  const copy = drawing.cloneNode(true),
    originals = [drawing, ...drawing.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    if (!originals[i].isConnected) return;
    for (const property of [
      "fill",
      "stroke",
      "stroke-width",
      "opacity",
      "font-size",
      "font-family",
    ])
      element.setAttribute(property, style.getPropertyValue(property));
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  save(name, new XMLSerializer().serializeToString(copy), "image/svg+xml");
}

/** A matrix of at most 100 × 100 cells as a drawing with its labels as text. */
export function matrixDrawing({
  values,
  rows,
  columns,
  rowLabels,
  columnLabels,
  kind,
  range,
  masked,
}) {
  const cell = 28,
    left = 130,
    top = 100,
    colours = palette(kind),
    parts = [];
  const style = { "font-family": "system-ui, sans-serif", "font-size": 11 };
  for (let i = 0; i < rows; i++) {
    parts.push(
      svg(
        "text",
        { x: left - 6, y: top + i * cell + 18, "text-anchor": "end" },
        rowLabels?.[i] ?? String(i),
      ),
    );
    for (let j = 0; j < columns; j++) {
      const hidden = masked?.(i, j),
        value = values[i * columns + j],
        colour = colours[shade(value, range)];
      parts.push(
        svg("rect", {
          x: left + j * cell,
          y: top + i * cell,
          width: cell - 1,
          height: cell - 1,
          fill: hidden ? "none" : colour.css,
          stroke: hidden ? "#999" : "none",
        }),
      );
      const shown = hidden ? "−∞" : kind === "weight" ? weight(value) : number(value, 1);
      parts.push(
        svg(
          "text",
          {
            x: left + j * cell + 13,
            y: top + i * cell + 18,
            "text-anchor": "middle",
            fill: hidden || colour.light ? "#222" : "#fff",
          },
          shown,
        ),
      );
    }
  }
  for (let j = 0; j < columns; j++) {
    const x = left + j * cell + 17;
    parts.push(
      svg(
        "text",
        { x, y: top - 6, transform: `rotate(-60 ${x} ${top - 6})` },
        columnLabels?.[j] ?? String(j),
      ),
    );
  }
  return svg(
    "svg",
    {
      viewBox: `0 0 ${left + columns * cell} ${top + rows * cell}`,
      width: left + columns * cell,
      height: top + rows * cell,
      ...style,
    },
    parts,
  );
}
