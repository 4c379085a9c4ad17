/**
 * The search as a tree: what was kept at every step, what was dropped and why, and the way that
 * won.
 */

import { sum } from "./attention.js";
import { bdi, h, number, svg } from "./dom.js";
import { line, step } from "./ledger.js";
import { bare, guessed, short } from "./words.js";

const TALL = 34;
const ENDS = { pruned: " ×", finished: " ■" };

/**
 * A heading and the tree; `pick` is told of the node that is clicked, as "step.index". `goOn`
 * begins with the words up to a node and lets the model go on; the first `nGiven` were such words.
 */
export function beamTree(beam, now, pick, { room, goOn, nGiven = 0 }) {
  const tallest = Math.max(...beam.steps.map((nodes) => nodes.length)),
    wide = Math.max(86, Math.min(128, (room - 20) / beam.steps.length)),
    width = beam.steps.length * wide + 14,
    height = tallest * TALL + 30;
  const x = (depth) => 8 + depth * wide,
    y = (index) => 40 + index * TALL;
  const won = (depth, index) => beam.winner[depth] === index;
  const exists = beam.steps[now.beam.split(".")[0]]?.[now.beam.split(".")[1]];
  const entrance = exists ? now.beam : `0.${beam.winner[0] ?? 0}`; // the one tab stop
  const edges = [],
    marks = [];
  beam.steps.forEach((nodes, depth) =>
    nodes.forEach((node, index) => {
      const name = `${depth}.${index}`;
      const fate = won(depth, index) ? `${node.state} won` : node.state;
      const state = depth < nGiven ? `${fate} given` : fate;
      const kind = now.beam === name ? `${state} chosen` : state;
      if (depth && node.parent !== null && node.parent >= 0) {
        const from = [x(depth - 1) + wide - 32, y(node.parent) - 4],
          to = [x(depth) - 6, y(index) - 4],
          middle = (from[0] + to[0]) / 2;
        edges.push([
          kind,
          svg("path", {
            class: `edge ${kind}`,
            d: `M${from[0]} ${from[1]}C${middle} ${from[1]} ${middle} ${to[1]} ${to[0]} ${to[1]}`,
          }),
        ]);
      }
      marks.push(
        svg(
          "g",
          {
            class: `node ${kind}`,
            role: "button",
            "data-node": name,
            "aria-pressed": String(now.beam === name),
            tabindex: name === entrance ? 0 : -1,
            "aria-label": `${bare(node.text)}, step ${depth + 1}, ${node.state} ${node.why}`,
            onclick: () => pick(name),
            onkeydown: (event) => pressed(event, name, pick),
          },
          svg(
            "title",
            `${bare(node.text)} · ${number(node.total, 3)} · ${node.state}`,
            node.why ? `: ${node.why}` : "",
          ),
          svg("rect", { x: x(depth) - 6, y: y(index) - 19, width: wide - 26, height: 31, rx: 6 }),
          svg("text", { x: x(depth), y: y(index) - 5 }, short(guessed(node), 9)),
          svg(
            "text.total",
            { x: x(depth), y: y(index) + 8 },
            number(node.total, 2) + (ENDS[node.state] ?? ""),
          ),
        ),
      );
    }),
  );
  const steps = beam.steps.map((_, depth) =>
    svg("text.total", { x: x(depth), y: 12 }, `step ${depth + 1}`),
  );
  edges.sort((a, b) => a[0].includes("won") - b[0].includes("won"));
  return [
    h("h2.apart", `The search: ${beam.width} kept at every step`),
    h(
      "p.hint",
      "Below each word, the sum of logarithms so far. Faint words marked × were dropped, " +
        "■ ends a sentence; the strong line won. Choose a word to see its score" +
        (goOn ? ", and to go on from it." : "."),
    ),
    goOn ? goingOn(beam, now.beam, goOn, nGiven) : "",
    h(
      "div.scroller",
      { tabindex: 0, role: "group", "aria-label": "search tree" },
      svg(
        "svg.tree",
        { viewBox: `0 0 ${width} ${height}`, width, height },
        steps,
        edges.map(([, edge]) => edge),
        marks,
      ),
    ),
  ];
}

/** Arrows go through the tree; Enter and the space bar choose. */
function pressed(event, name, pick) {
  const [depth, index] = name.split(".").map(Number);
  const { key, currentTarget } = event;
  const ways = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
  if (key === "Enter" || key === " ") pick(name);
  else if (!ways[key]) return;
  event.preventDefault();
  event.stopPropagation();
  const [across, down] = ways[key] ?? [0, 0];
  const nodes = [...currentTarget.parentNode.querySelectorAll("[data-node]")];
  const column = nodes.filter((one) => one.dataset.node.startsWith(`${depth + across}.`));
  column[Math.min(column.length - 1, Math.max(0, index + down))]?.focus();
}

/** The nodes on the way to one, itself included; none, where there is no such node. */
function wayTo(beam, name) {
  const [depth, index] = name.split(".").map(Number),
    way = [];
  for (
    let d = depth, i = index;
    d >= 0 && beam.steps[d]?.[i];
    i = beam.steps[d].at(i).parent, d -= 1
  )
    way.unshift(beam.steps[d][i]);
  return way;
}

function spelled(way) {
  const text = way.map((one) => one.text.replace(/^[▁Ġ]/, " ")).join("");
  return short(text.trim(), 300);
}

/** What goes on from the chosen node, and back to what the model would say by itself. */
function goingOn(beam, name, goOn, nGiven) {
  const way = wayTo(beam, name),
    ended = way.at(-1)?.state === "finished";
  return h(
    "div.going-on",
    way.length
      ? [
          h(
            "b.way",
            { dir: "auto" },
            bdi(spelled(ended ? way.slice(0, -1) : way)),
            ended ? "" : " …",
          ),
          ended
            ? h("span.hint", "This one has come to its end.")
            : h(
                "button.pill.strong",
                { onclick: () => goOn(way.map(({ id }) => id)) },
                "Go on from here",
              ),
        ]
      : h(
          "span.hint",
          nGiven
            ? ["It had to begin with “", bdi(spelled(wayTo(beam, `${nGiven - 1}.0`))), "”."]
            : "No word is chosen yet.",
        ),
    nGiven ? h("button.pill", { onclick: () => goOn([]) }, "Let it begin by itself again") : "",
  );
}

/** The words on the way to a node, and its score taken apart. */
export function nodeLedger(beam, name) {
  const way = wayTo(beam, name),
    node = way.at(-1),
    depth = way.length - 1;
  if (!node) return null;
  return h(
    "div",
    h(
      "p.cell-name",
      bdi(spelled(way)),
      h(
        "small",
        `step ${depth + 1}, rank ${node.rank + 1}: ${node.state}${node.why ? `, ${node.why}` : ""}`,
      ),
    ),
    step(
      "1  Logarithms of its words, added up",
      h(
        "div.operands",
        h(
          "table",
          h(
            "tbody",
            way.map((one) => h("tr", h("td", bdi(bare(one.text))), h("td", number(one.log_prob)))),
          ),
        ),
      ),
      line`sum = ${sum(way.map((one) => one.log_prob))}`,
      line`the search's own sum: ${node.total}`,
    ),
    node.divisor === undefined
      ? ""
      : step(
          "2  Divided by its length penalty",
          line`${node.total} ÷ ${node.divisor} = ${node.total / node.divisor}`,
          beam.penalty === "paper"
            ? h(
                "p.formula",
                `((5 + ${way.length}) ÷ 6)^${beam.length_penalty}: `,
                "without it, short sentences would always win.",
              )
            : "",
        ),
  );
}
