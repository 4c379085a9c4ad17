/** Attention in four stages: scores, scaled, masked, softmax; one cross-hair on all of them. */

import { norm, sum } from "../attention.js";
import { bdi, choice, h, number, percent, select, tick } from "../dom.js";
import { bars, check, line, operands, step } from "../ledger.js";
import { Matrix } from "../matrix.js";
import { View } from "../view.js";
import { blockName } from "../words.js";

const STAGES = [
  ["q · k", "how well each query matches each key"],
  ["÷ √d", "made smaller, so that softmax stays soft"],
  ["mask", "what may not be seen is −∞"],
  ["softmax", "each row becomes shares that sum to 1"],
];

export class AttentionView extends View {
  static id = "attention";
  static title = "Attention";
  static lead =
    "Each row is a token that asks; each column a token that may answer. " +
    "Four steps turn matches into shares.";

  static available(trace) {
    return trace.attentions.length > 0;
  }

  constructor(trace, state) {
    super(trace, state);
    const pick = ({ row, column }, push) =>
      state.set({ q: row, k: column, ledger: push || state.now.ledger }, { push });
    const { hover } = this.cells();
    const little = { small: true, keys: false, cell: [1, 22, 10] };
    this.small = STAGES.map(() => new Matrix({ pick, hover, ...little }));
    this.large = new Matrix({ pick, hover });
    this.what = h("p.sentence");
    this.stageButtons = this.small.map((matrix, i) =>
      h(
        "div.stage",
        h(
          "button.stage-name",
          { title: STAGES[i][1], onclick: () => this.go({ stage: i + 1 }) },
          h("b", String(i + 1)),
          " ",
          h("span", STAGES[i][0]),
        ),
        matrix.element,
      ),
    );
    this.heading = h("h2");
    this.stepper = h("div.stepper");
    this.element = h(
      "div.attention",
      this.tools,
      this.what,
      h("div.stages", this.stageButtons),
      this.heading,
      this.large.element,
      this.stepper,
    );
  }

  update(now) {
    const made = this.attention,
      stages = made.stages(now.head, now);
    this.drawTools(now, made);
    const masked = (i, j) => made.masked(i, j, now.head);
    const look = (values, stage) => ({
      ...made.sheet(values, now),
      kind: stage === 3 ? "weight" : "signed",
      masked: now.mask && stage >= 2 ? masked : undefined,
      anyMasked: stage >= 2 && now.mask && made.node.causal,
      sums: stage === 3 ? rowSums(values, made.nq, made.nk) : null,
      label:
        `${STAGES[stage][0]} of ${blockName(made.id)}, head ${now.head}. ` +
        "Arrow keys move from cell to cell.",
    });
    stages.forEach((values, i) => {
      this.stageButtons[i].hidden = !values;
      if (!values) return;
      this.small[i].show(look(values, i));
      this.stageButtons[i].classList.toggle("chosen", i === now.stage - 1);
      this.stageButtons[i]
        .querySelector("button")
        .setAttribute("aria-pressed", String(i === now.stage - 1));
    });
    const stage = stages[now.stage - 1] ? now.stage - 1 : 3;
    const explained =
      stage === 1
        ? `÷ ${number(made.scale, 3)}: ` +
          (made.scale === 1 ? "this model was changed not to divide" : STAGES[1][1])
        : `${STAGES[stage][0]}: ${STAGES[stage][1]}`;
    this.heading.textContent = `${stage + 1} · ${explained}`;
    this.large.show(look(stages[stage], stage));
    this.drawStepper(now, made);
  }

  drawTools(now, made) {
    const blocks = this.trace.attentions.map((node) => [node.id, blockName(node.id)]);
    const heads = Array.from({ length: made.nHeads }, (_, i) => [i, String(i)]);
    const causal = made.node.causal;
    this.tools.replaceChildren(
      select("Block", blocks, now.block, this.sets("block")),
      choice("Head", heads, now.head, this.sets("head")),
      tick("÷ √d", now.scale, this.sets("scale")),
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
            "Row ",
            bdi(asks),
            " looks at ",
            bdi(answer ?? "nothing"),
            " with weight ",
            h("b", made.stages(now.head, now)[3][now.q * made.nk + now.k].toFixed(3)),
            ". Weights say where it looks, not why.",
          ]),
    );
  }

  drawStepper(now, { rowLabels, columnLabels }) {
    const button = (text, label, changes) =>
      h("button", { "aria-label": label, onclick: () => this.state.set(changes) }, text);
    this.stepper.replaceChildren(
      button("↑", "row above", { q: now.q - 1 }),
      h("span", "row ", bdi(rowLabels[now.q] ?? "")),
      button("↓", "row below", { q: now.q + 1 }),
      button("←", "column before", { k: now.k - 1 }),
      h("span", "column ", bdi(columnLabels[now.k] ?? "")),
      button("→", "column after", { k: now.k + 1 }),
    );
  }

  point(hover) {
    super.point(hover);
    const { q, k } = hover ?? this.state.now;
    for (const matrix of this.small) matrix.mark({ row: q, column: k });
  }

  /** "house → is looks at Haus 0.71, Das 0.12". */
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
    const caption = `${STAGES[now.stage - 1][0]}, ${blockName(made.id)}, head ${now.head}`;
    return made.table(caption, made.stages(now.head, now)[now.stage - 1], now);
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
      h("small", `${made.id}, head ${now.head}, row ${now.q}, column ${now.k}`),
    ),
    step(
      "1  Query times key, number by number",
      operands(
        ["", "q", "k", "q × k"],
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
    step(
      hand.divisor === 1 && made.dk > 1 ? "2  Not divided" : `2  Divided by √${made.dk}`,
      line`${hand.score} ÷ ${hand.divisor} = ${hand.scaled}`,
      agreed(hand.scaled, hand.model.scaled, hand.tolerance),
    ),
    step(
      "3  Mask",
      hand.reason ? line`${-Infinity} · ${hand.reason}` : line`${hand.scaled} + 0: it may look`,
    ),
    step(
      "4  Softmax over the row",
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
  const into = ` to head ${now.head}'s output.`;
  let worst = 0;
  z.forEach((x, dim) => {
    if (Math.abs(x - model[dim]) > Math.abs(z[worst] - model[worst])) worst = dim;
  });
  const rows = Array.from(z, (x, dim) => ({
    cells: [String(dim), hand.v[dim], hand.model.weight * hand.v[dim], x, model[dim]],
    size: Math.abs(hand.v[dim]),
  }));
  return step(
    "5  Weight times value: what is carried over",
    line`${hand.model.weight} × v of ${bdi(names[now.k])} adds a vector of length ${share}${into}`,
    operands(["", "v", "weight × v", "row's sum", "model's z"], rows, (row) => row.size, "numbers"),
    plain ? check(z[worst], model[worst], 1e-5 * Math.max(1, norm(model)), edited) : "",
  );
}
