/** Attention whole: from queries, keys and values to the mixture; one cross-hair on all stages. */

import { norm, sum } from "../attention.js";
import { domain } from "../colour.js";
import { bdi, choice, h, number, percent, select, tick } from "../dom.js";
import { bars, check, line, operands, step } from "../ledger.js";
import { Matrix } from "../matrix.js";
import { mixtureRows } from "../mixture.js";
import { spikes, strip } from "../strip.js";
import { View } from "../view.js";
import { blockName, headName } from "../words.js";

const STAGES = [
  ["q, k, v", "what the word asks for, and what the other offers"],
  ["q · k", "how well each query matches each key"],
  ["÷ √dₖ", "made smaller, so that softmax stays soft"],
  ["mask", "what may not be seen is −∞"],
  ["softmax", "each row becomes shares that sum to 1"],
  ["× v", "values, each times its weight, added up"],
];
const ADDITIVE = ["w · tanh(q + k)", "how well each query matches each key"];
const SHARES = 4;

export class AttentionView extends View {
  static id = "attention";
  static title = "Attention";
  static lead =
    "Each row is a word that asks, each column a word that may answer. " +
    "Step by step, matches become shares, and shares a mixture.";

  static available(trace) {
    return trace.attentions.length > 0;
  }

  constructor(trace, state) {
    super(trace, state);
    const pick = ({ row, column }, push) =>
      state.set({ q: row, k: column, ledger: push || state.now.ledger }, { push });
    const { hover } = this.cells();
    const little = { small: true, keys: false, cell: [1, 22, 10] };
    this.small = [1, 2, 3, 4].map(() => new Matrix({ pick, hover, ...little }));
    this.large = new Matrix({ pick, hover });
    this.what = h("p.sentence");
    this.stageButtons = STAGES.map(([name, says], stage) =>
      h(
        "div.stage",
        h("button.stage-name", { title: says, onclick: () => this.go({ stage }) }, h("span", name)),
        this.small[stage - 1]?.element ?? h("div.stage-vector"),
      ),
    );
    this.heading = h("h2");
    this.vectors = h("div.vectors-shown");
    this.stepper = h("div.stepper");
    this.element = h(
      "div.attention",
      this.tools,
      h("div.stages", this.stageButtons),
      this.what,
      this.heading,
      this.large.element,
      this.vectors,
      this.stepper,
    );
  }

  /** The stages that this attention has: no mask where nothing is masked. */
  stagesOf(made, now) {
    return [0, 1, 2, 3, 4, 5].filter((stage) =>
      stage === 3 || (stage === 2 && made.energy)
        ? made.node.causal && made.scores
        : stage === 4 || (stage < 4 && stage > 0 ? made.scores : made.vectors("q", now.head, 0)),
    );
  }

  update(now) {
    const made = this.attention,
      stages = made.stages(now.head, now),
      all = this.stagesOf(made, now);
    const stage = all.includes(now.stage) ? now.stage : SHARES;
    this.drawTools(now, made);
    const masked = (i, j) => made.masked(i, j, now.head);
    const scale = stages[0] ? domain(stages[0], "signed") : undefined; // one for all scores
    const look = (of) => ({
      ...made.sheet(stages[of - 1], now),
      kind: of === SHARES ? "weight" : "signed",
      range: of === SHARES ? [0, 1] : scale,
      masked: now.mask && of >= 3 ? masked : undefined,
      anyMasked: of >= 3 && now.mask && made.node.causal,
      sums: of === SHARES ? rowSums(stages[of - 1], made.nq, made.nk) : null,
      label:
        `${STAGES[of][0]} of ${blockName(made.id)}, ${headName(now.head)}. ` +
        "Arrow keys move from cell to cell.",
    });
    this.drawStages(now, { made, all, stage, look });
    const explained =
      stage === 2
        ? `÷ ${number(made.scale, 2)}: ` +
          (made.scale === 1 ? "this model was changed not to divide" : STAGES[2][1])
        : (made.energy && stage === 1 ? ADDITIVE : STAGES[stage]).join(": ");
    this.heading.textContent = explained;
    const matrix = stage > 0 && stage < 5;
    this.large.element.hidden = !matrix;
    this.vectors.hidden = matrix;
    if (matrix) this.large.show(look(stage));
    else this.vectors.replaceChildren(...this.drawVectors(stage, made, now));
    this.drawStepper(now, made);
  }

  drawStages(now, { made, all, stage, look }) {
    this.stageButtons.forEach((button, of) => {
      button.hidden = !all.includes(of);
      if (button.hidden) return;
      const [name] = made.energy && of === 1 ? ADDITIVE : STAGES[of];
      button.querySelector("span").textContent = name;
      button.classList.toggle("chosen", of === stage);
      button.querySelector("button").setAttribute("aria-pressed", String(of === stage));
      if (this.small[of - 1]) return this.small[of - 1].show(look(of));
      const drawn =
        of === 0
          ? [strip(made.vectors("q", now.head, now.q)), strip(made.vectors("k", now.head, now.k))]
          : [strip(made.vectors("v", now.head, now.k)), strip(made.vectors("z", now.head, now.q))];
      button.lastChild.replaceChildren(...drawn);
    });
  }

  /** Where it begins, with vectors of the chosen words, and where it ends, with a mixture. */
  drawVectors(stage, made, now) {
    const asks = made.rowLabels[now.q],
      answers = made.columnLabels[now.k];
    if (stage === 0) {
      const part = (name, title, of, says) =>
        h(
          "section",
          h("h3", title, h("bdi", of)),
          h("p.hint", says),
          spikes(made.vectors(name, now.head, name === "q" ? now.q : now.k)),
        );
      return [
        h(
          "div.three",
          part("q", "query of ", asks, "what it is looking for"),
          part("k", "key of ", answers, "what it has to offer"),
          part("v", "value of ", answers, "what it hands over"),
        ),
        h("p.hint", `${made.dk} numbers each, as ${headName(now.head)} sees them.`),
      ];
    }
    const row = made.stages(now.head, now)[3].subarray(now.q * made.nk, (now.q + 1) * made.nk);
    return mixtureRows(made, now.head, Array.from(row), {
      pick: (k) => this.go({ k }),
      chosen: now.k,
    });
  }

  drawTools(now, made) {
    const blocks = this.trace.attentions.map((node) => [node.id, blockName(node.id)]);
    const heads = Array.from({ length: made.nHeads }, (_, i) => [i, String(i + 1)]);
    const causal = made.node.causal;
    this.tools.replaceChildren(
      select("Where", blocks, now.block, this.sets("block")),
      choice("Head", heads, now.head, this.sets("head")),
      made.energy ? "" : tick("÷ √dₖ", now.scale, this.sets("scale")),
      causal ? tick("mask", now.mask, this.sets("mask")) : "",
    );
    const changed = !now.scale || (!now.mask && causal);
    const asks = made.rowLabels[now.q];
    const answer = made.columnLabels[now.k];
    this.what.replaceChildren(
      changed
        ? h("strong", "What would be, and not what was: computed here with a step switched off. ")
        : "",
      ...(asks === undefined
        ? []
        : [
            h("b.followed", bdi(asks)),
            " looks at ",
            h("b.followed", bdi(answer ?? "nothing")),
            " with weight ",
            h("b", made.stages(now.head, now)[3][now.q * made.nk + now.k].toFixed(3)),
            ". ",
            h("span.hint", "Weights say where it looks, not why."),
          ]),
    );
  }

  drawStepper(now, { rowLabels, columnLabels }) {
    const button = (sign, label, changes) =>
      h("button", { "aria-label": label, onclick: () => this.state.set(changes) }, sign);
    this.stepper.replaceChildren(
      button("↑", "row above", { q: Math.max(0, now.q - 1), k: now.k }),
      h("span", "row ", bdi(rowLabels[now.q] ?? "")),
      button("↓", "row below", { q: now.q + 1, k: now.k }),
      button("←", "column before", { k: Math.max(0, now.k - 1) }),
      h("span", "column ", bdi(columnLabels[now.k] ?? "")),
      button("→", "column after", { k: now.k + 1 }),
    );
  }

  point(hover) {
    super.point(hover);
    const { q, k } = hover ?? this.state.now;
    for (const matrix of this.small) if (matrix.shown) matrix.mark({ row: q, column: k });
  }

  /** "writing Haus looks at house 0.71, the 0.12". */
  say(now) {
    const made = this.attention,
      row = made.stages(now.head, now)[3].subarray(now.q * made.nk, (now.q + 1) * made.nk);
    const names = made.columnLabels;
    const best = Array.from(row, (w, j) => [w, j])
      .sort((a, b) => b[0] - a[0])
      .slice(0, 3)
      .filter(([w]) => w > 0.01);
    const here =
      made.masked(now.q, now.k, now.head) && now.mask
        ? `${names[now.k]} is masked`
        : `${names[now.k]} ${row[now.k].toFixed(3)}`;
    const looks = best.map(([w, j]) => `${names[j]} ${w.toFixed(2)}`);
    return `${made.rowLabels[now.q]}: ${here}. It looks at ${looks.join(", ")}.`;
  }

  table(now) {
    const made = this.attention;
    const stage = Math.max(1, Math.min(SHARES, now.stage));
    const caption = `${STAGES[stage][0]}, ${blockName(made.id)}, ${headName(now.head)}`;
    return made.table(caption, made.stages(now.head, now)[stage - 1], now);
  }

  ledger(now) {
    return cellLedger(this.attention, now, this.edited);
  }
}

function rowSums(values, rows, columns) {
  return Array.from({ length: rows }, (_, i) =>
    sum(values.subarray(i * columns, (i + 1) * columns)).toFixed(3),
  );
}

/** From two vectors to one weight, and to what it carries over. */
function cellLedger(made, now, edited) {
  if (!made.scores || !made.vectors("q", 0, 0))
    return h("p", "The queries and keys of this block were not stored in this file.");
  const hand = made.byHand(now.head, now.q, now.k, now);
  const names = made.columnLabels;
  const asks = made.rowLabels[now.q];
  const agreed = (a, b, tolerance) => check(a, b, tolerance, edited);
  return h(
    "div",
    h(
      "p.cell-name",
      bdi(asks),
      " asks ",
      bdi(names[now.k]),
      h("small", `${blockName(made.id)}, ${headName(now.head)}`),
      h("small", `${made.id}.${now.head}, row ${now.q}, column ${now.k}`),
    ),
    step(
      `1  Query ${made.energy ? "and" : "times"} key, number by number`,
      operands(
        ["", "q", "k", made.energy ? ADDITIVE[0] : "q × k"],
        hand.terms.map(({ dim, q, k, product }) => ({
          cells: [String(dim), q, k, product],
          size: Math.abs(product),
        })),
        (row) => row.size,
        "products",
      ),
      line`${`sum of ${hand.terms.length} products = `}${hand.score}`,
      agreed(hand.score, hand.model.score, hand.tolerance),
    ),
    made.energy
      ? ""
      : step(
          hand.divisor === 1 && made.dk > 1 ? "2  Not divided" : `2  Divided by √${made.dk}`,
          line`${hand.score} ÷ ${hand.divisor} = ${hand.scaled}`,
          agreed(hand.scaled, hand.model.scaled, hand.tolerance),
        ),
    made.node.causal
      ? step(
          "3  Mask",
          hand.reason ? line`${-Infinity} · ${hand.reason}` : line`${hand.scaled} + 0: it may look`,
        )
      : "",
    step(
      made.node.causal ? "4  Softmax over the row" : "3  Softmax over the row",
      line`exp(${hand.row[now.k]} − ${hand.max}) = ${hand.exps[now.k]}`,
      line`÷ the row's total ${hand.total} = ${hand.weight}`,
      bars(
        hand.exps
          .map((x, j) => ({ text: names[j], value: x / hand.total, marked: j === now.k }))
          .filter((row) => row.value > 0.005 || row.marked)
          .sort((a, b) => b.value - a.value)
          .slice(0, 8),
        { full: 1, shown: percent, label: "the row's weights" },
      ),
      agreed(hand.weight, hand.model.weight, 1e-5),
    ),
    carried(made, now, hand, names, edited),
  );
}

function carried(made, now, hand, names, edited) {
  const { made: z, model } = made.mixture(now.head, now.q, made.stages(now.head, now)[3]);
  const share = hand.model.weight * norm(hand.v);
  const plain = now.scale && now.mask;
  const into = ` to the output of ${headName(now.head)}.`;
  let worst = 0;
  z.forEach((x, dim) => {
    if (Math.abs(x - model[dim]) > Math.abs(z[worst] - model[worst])) worst = dim;
  });
  const rows = Array.from(z, (x, dim) => ({
    cells: [String(dim), hand.v[dim], hand.model.weight * hand.v[dim], x, model[dim]],
    size: Math.abs(hand.v[dim]),
  }));
  return step(
    `${made.node.causal ? 5 : 4}  Weight times value: what is carried over`,
    line`${hand.model.weight} × v of ${bdi(names[now.k])} adds a vector of length ${share}${into}`,
    operands(["", "v", "weight × v", "row's sum", "model's z"], rows, (row) => row.size, "numbers"),
    plain ? check(z[worst], model[worst], 1e-5 * Math.max(1, norm(model)), edited) : "",
  );
}
