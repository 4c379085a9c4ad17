/** Train: a run while it learns, read from its folder as it is written. */

import { events } from "./api.js";
import { h, number, select, svg } from "./dom.js";
import { thumbnail } from "./matrix.js";
import { blockName, inOrder } from "./words.js";

export class Train {
  constructor(app) {
    this.app = app;
    this.run = app.runs[0];
    this.reports = [];
    this.frames = [];
    this.status = h("p.lead", { role: "status" });
    this.curves = h("div.curves");
    this.samples = h("div");
    this.heads = h("div.wall");
    this.problem = h("p.notice", { role: "alert", hidden: true });
    this.element = h(
      "section.use.train",
      h(
        "div.tools",
        select(
          "Run",
          app.runs.map(({ name }) => [name, name]),
          this.run.name,
          (name) => {
            this.run = app.runs.find((run) => run.name === name);
            this.follow();
          },
        ),
      ),
      this.status,
      this.problem,
      this.curves,
      this.samples,
      this.heads,
    );
  }

  entered() {
    this.follow();
  }

  left() {
    this.aborter?.abort();
  }

  async follow() {
    this.aborter?.abort();
    const aborter = (this.aborter = new AbortController());
    this.reports = [];
    this.frames = [];
    this.state = null;
    this.problem.hidden = true;
    this.status.textContent = "Reading its log …";
    try {
      const path = `/api/progress?run=${encodeURIComponent(this.run.name)}`;
      for await (const [event, data] of events(path, null, aborter.signal)) this.hear(event, data);
      if (this.aborter === aborter) this.status.textContent += " The server is stopping.";
    } catch (error) {
      if (error.name === "AbortError") return;
      this.problem.replaceChildren(h("b", error.message), " ", error.advice ?? "");
      this.problem.hidden = false;
      if (error.status === undefined) throw error;
    }
  }

  hear(event, data) {
    if (event === "report") this.reports.push(data);
    if (event === "frame") this.frames.push(data);
    if (event === "reset") this[data.of === "frame" ? "frames" : "reports"] = [];
    if (event === "state") this.state = data;
    // many lines come at once: one drawing for all
    this.pending ??= requestAnimationFrame(() => {
      this.pending = null;
      this.draw();
    });
  }

  kind(name) {
    return this.reports.filter((report) => report.kind === name);
  }

  draw() {
    const steps = this.kind("step");
    const checks = this.kind("validation");
    const last = steps.at(-1);
    if (!last) {
      this.status.textContent = this.run.trained
        ? "This run has weights, and no log of its training."
        : "Nothing has been learned yet: this run waits for its first step.";
      return;
    }
    const best = checks.filter((check) => check.best).at(-1);
    const score = best?.score !== undefined && `best ${best.score_name} ${number(best.score, 1)}`;
    this.status.textContent = [
      `Step ${last.step.toLocaleString("en")} of ${last.steps.toLocaleString("en")}`,
      `loss ${number(last.loss, 3)}`,
      score,
      this.kind("chosen").length ? "training has ended" : "",
    ]
      .filter(Boolean)
      .join(" · ");
    this.curves.replaceChildren(
      curve("Loss", [
        ["training", steps.map(({ step, loss }) => [step, loss])],
        ["validation", checks.map(({ step, loss }) => [step, loss])],
      ]),
      checks.some((check) => check.score !== undefined)
        ? curve(checks[0].score_name, [
            ["validation", checks.map(({ step, score: value }) => [step, value])],
          ])
        : "",
    );
    this.drawSamples(checks);
    this.drawHeads();
  }

  drawSamples(checks) {
    const told = checks.filter((check) => check.samples?.length);
    if (!told.length) return this.samples.replaceChildren();
    // from the first to the last, some of those between
    const places = Array.from({ length: Math.min(6, told.length) }, (_, i) =>
      Math.round((i * (told.length - 1)) / Math.max(1, Math.min(6, told.length) - 1)),
    );
    const rows = places.map((place) => told[place]).reverse();
    return this.samples.replaceChildren(
      h("h2.apart", "What it says"),
      h(
        "div.scroller",
        h(
          "table.samples",
          h(
            "tbody",
            h(
              "tr",
              h("th"),
              told[0].samples.map(([asked]) => h("th", { scope: "col", dir: "auto" }, asked)),
            ),
            rows.map(({ step, samples }) =>
              h(
                "tr",
                h("th", { scope: "row" }, `step ${step}`),
                samples.map(([, said]) => h("td", { dir: "auto" }, said)),
              ),
            ),
          ),
        ),
      ),
    );
  }

  /** The newest picture of all heads. */
  async drawHeads() {
    const frame = this.frames.at(-1);
    const probe = frame?.probes[0];
    if (!probe || this.drawnFrame === frame) return;
    this.drawnFrame = frame;
    const bytes = await unpacked(probe.patterns);
    let from = 0;
    const rows = Object.entries(probe.shapes).map(([id, [heads, nq, nk]]) => {
      const thumbs = Array.from({ length: heads }, () => {
        const values = Float32Array.from(bytes.subarray(from, from + nq * nk), (x) => x / 255);
        from += nq * nk;
        return thumbnail({ values, rows: nq, columns: nk }, "weight", 72, undefined, [0, 1]);
      });
      return [id, h("div.film-row", h("h3", blockName(id)), h("div.thumbs", thumbs))];
    });
    rows.sort(([a], [b]) => inOrder(a, b));
    this.heads.replaceChildren(
      h("h2.apart", frame.step ? `Heads at step ${frame.step}` : "Heads before the first step"),
      ...rows.map(([, row]) => row),
    );
  }
}

/** Bytes that were packed with zlib and base64. */
async function unpacked(text) {
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Lines over steps, with their last values. */
function curve(name, lines) {
  const points = lines.flatMap(([, list]) => list).filter(([, value]) => Number.isFinite(value));
  if (points.length < 2) return "";
  const most = Math.max(...points.map(([step]) => step));
  const [low, high] = [
    Math.min(0, ...points.map(([, value]) => value)),
    Math.max(...points.map(([, value]) => value)),
  ];
  const wide = innerWidth < 600 ? 300 : 600; // letters keep their size on a phone
  const x = (step) => 44 + (wide * step) / (most || 1);
  const y = (value) => 176 - (160 * (value - low)) / (high - low || 1);
  const ticks = [low, (low + high) / 2, high];
  const drawn = lines.map(([title, list], i) =>
    svg(
      "g",
      { class: `curve-${i}` },
      svg("path", {
        d: list
          .map(([step, value], j) => `${j ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`)
          .join(""),
      }),
      i ? list.map(([step, value]) => svg("circle", { cx: x(step), cy: y(value), r: 3 })) : "",
      svg("title", `${title}: ${number(list.at(-1)?.[1] ?? NaN, 3)}`),
    ),
  );
  return h(
    "section.waves",
    h("h2", name),
    svg(
      "svg",
      {
        viewBox: `0 0 ${wide + 50} 200`,
        role: "img",
        "aria-label": `${name}, now ${number(lines[0][1].at(-1)?.[1] ?? NaN, 3)}`,
      },
      ticks.map((value) => [
        svg("line.axis", { x1: 44, x2: wide + 44, y1: y(value), y2: y(value) }),
        svg("text", { x: 38, y: y(value) + 4, "text-anchor": "end" }, number(value, 1)),
      ]),
      svg("text", { x: wide + 44, y: 196, "text-anchor": "end" }, `step ${most}`),
      drawn,
    ),
    lines.length > 1
      ? h(
          "p.hint",
          lines.map(([title], i) => [h("span", { class: `key key-${i}` }), ` ${title} `]),
        )
      : "",
  );
}
