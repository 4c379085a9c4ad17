/**
 * The output: what the model could have said at each step, how layers came to it, and how the
 * search chose.
 */

import { sum } from "../attention.js";
import { palette } from "../colour.js";
import { bdi, h, number, percent, slider } from "../dom.js";
import { bars, check, line, step } from "../ledger.js";
import { beamTree, nodeLedger } from "../beam.js";
import { View } from "../view.js";
import { bare, chips, guessed, labels, short, special } from "../words.js";

const FEW = 8; // alternatives, before one asks for all

export class OutputView extends View {
  static id = "output";
  static title = "Output";
  static lead =
    "The last vector is compared with every word the model knows. " +
    "These came closest; one was taken.";

  static leadFor({ meta }) {
    return meta.classes
      ? "The vectors of all tokens become one score for each class, and the scores shares of 1."
      : this.lead;
  }

  static available({ meta }) {
    return Boolean(meta.steps?.length || meta.gaps?.length || meta.classes?.length);
  }

  constructor(trace, state) {
    super(trace, state);
    const { meta } = this;
    this.steps = meta.steps?.length ? meta.steps : (meta.gaps ?? []);
    this.chips = h("div");
    this.said = h("h2");
    this.note = h("p.hint");
    this.list = h("div");
    this.found = h("p.hint", { role: "status" });
    this.find = h("input", {
      type: "search",
      placeholder: "find a word",
      "aria-label": "find a word among the alternatives",
      oninput: () => this.search(),
    });
    this.lens = h("div.lens");
    this.beam = h("div");
    this.heat = slider(
      "Temperature",
      { min: 0.1, max: 3, step: 0.05, value: state.now.temperature, text: (x) => x.toFixed(2) },
      (temperature) => state.set({ temperature }),
    );
    this.element = h(
      "div.output",
      meta.classes ? this.classes(meta) : "",
      this.steps.length
        ? [
            meta.steps?.length ? "" : this.chips,
            h(
              "div.pair",
              h(
                "section",
                this.said,
                this.note,
                this.list,
                h("div.tools", this.heat, h("label.field", this.find)),
                this.found,
              ),
              h("section", this.lens),
            ),
          ]
        : "",
      this.beam,
    );
  }

  classes({ classes, several }) {
    const rows = classes.map(({ label, prob, logit }) => ({
      text: label,
      value: prob,
      note: `score ${number(logit, 3)}`,
    }));
    return h(
      "section.classes",
      h("h2", "Classes"),
      h(
        "p.hint",
        several ? "Each class is a yes or no of its own." : "Their probabilities sum to 1.",
      ),
      bars(rows.slice(0, FEW + 2), { full: 1, shown: percent, label: "probability of each class" }),
      rows.length > FEW + 2
        ? h(
            "button.quiet",
            {
              onclick: (event) => {
                event.target.previousSibling.replaceWith(
                  bars(rows, { full: 1, shown: percent, label: "probability of each class" }),
                );
                event.target.remove();
              },
            },
            `all ${rows.length} classes`,
          )
        : "",
    );
  }

  current(now) {
    return this.steps[Math.min(now.step, this.steps.length - 1)];
  }

  update(now) {
    this.heat.moveTo(now.temperature);
    if (this.steps.length) this.drawStep(now);
    const { beam } = this.meta;
    const pick = (node) => this.go({ beam: node, ledger: true });
    const { goOn, nGiven } = this.trace;
    const room = this.element.clientWidth || 900;
    if (beam) this.beam.replaceChildren(...beamTree(beam, now, pick, { room, goOn, nGiven }));
  }

  drawStep(now) {
    const { meta } = this;
    const here = this.current(now);
    const place = this.steps.indexOf(here);
    const rows = this.trace.tokens("target");
    const said = this.steps.map(({ chosen }, i) => ({
      ...chosen,
      word: rows[i]?.predicts_word,
      special: rows[i]?.predicts_special,
    }));
    this.chips.replaceChildren(
      chips(said, {
        chosen: place,
        pick: (step) => this.go({ step, beam: "" }),
        hint: (token, i) => `step ${i}: probability ${percent(Math.exp(token.log_prob))}`,
        lit: (i) => palette("weight")[Math.round(70 * Math.exp(said[i].log_prob))].css,
      }),
    );
    const before = labels(rows)
      .slice(0, place + 1)
      .slice(-6)
      .join(" ");
    this.said.replaceChildren(
      ...(meta.steps?.length
        ? ["After ", h("b.followed", bdi(before)), ` · step ${place + 1}`]
        : [`In the gap at place ${here.row + 1}`]),
    );
    const given = place < (meta.n_given ?? 0),
      plain = now.temperature === 1;
    this.note.textContent =
      (given ? "This word was given, not chosen. " : "") +
      (plain
        ? "The best words and all the rest; together 1." +
          (this.trace.goOn ? " Choose one to go on with it." : "")
        : `As shares of these ${here.top.length} words: ` +
          "below 1 the best of them gain, above 1 the others.");
    this.drawShares(now);
    this.search();
    this.drawLens(here);
  }

  drawShares(now) {
    const rows = this.shares(now);
    const some = rows.filter((row, i) => i < FEW || row.rest || row.marked);
    const rest = rows.length - some.length;
    const all = this.all ? rows : some;
    this.list.replaceChildren(
      bars(all, { full: 1, shown: percent, label: "most likely words" }),
      rest > 0 || this.all
        ? h(
            "button.quiet",
            {
              onclick: () => {
                this.all = !this.all;
                this.drawShares(this.state.now);
              },
            },
            this.all ? "fewer" : `${rest} more`,
          )
        : "",
    );
  }

  /** Where a word stands among the alternatives that this file holds. */
  search() {
    const wanted = this.find.value.trim().toLowerCase();
    const here = this.current(this.state.now);
    if (!wanted || !here) return this.found.replaceChildren();
    const place = here.top.findIndex((guess) => guessed(guess).toLowerCase() === wanted);
    const last = here.top.at(-1);
    this.found.textContent =
      place >= 0
        ? `Number ${place + 1} among the alternatives, with ${percent(here.top[place].prob)}.`
        : `Not among the ${here.top.length} best: less than ${percent(last.prob)}.`;
  }

  shares(now) {
    const here = this.current(now),
      plain = now.temperature === 1;
    const exps = here.top.map(({ logit }) => Math.exp((logit - here.max_logit) / now.temperature)),
      total = sum(exps);
    const written = this.trace.goOn && this.trace.tokens("target").slice(1, now.step + 1);
    const goOn = (id) => () => this.trace.goOn([...written.map((token) => token.id), id]);
    const rows = here.top.map(({ id, text, prob }, i) => ({
      text: guessed({ text }),
      value: plain ? prob : exps[i] / total,
      marked: id === here.chosen.id,
      pick: written && !special(text) && id !== here.chosen.id ? goOn(id) : undefined,
    }));
    if (!here.top.some(({ id }) => id === here.chosen.id) && plain)
      rows.push({
        text: short(bare(here.chosen.text)),
        value: Math.exp(here.chosen.log_prob),
        marked: true,
        note: "taken",
      });
    return plain ? [...rows, { text: "all the rest", value: here.rest, rest: true }] : rows;
  }

  drawLens({ lens }) {
    if (!lens?.length) return this.lens.replaceChildren();
    const row = (layer, i) =>
      h(
        "tr",
        h("th", { scope: "row" }, i === lens.length - 1 ? `${i + 1} · last` : String(i + 1)),
        layer.map(({ text, prob }) => {
          const cell = h("td", bdi(short(guessed({ text }), 14)), " ", h("small", percent(prob))),
            { css, light } = palette("weight")[Math.round(200 * prob)];
          cell.style.background = css;
          cell.classList.add(light ? "on-light" : "on-dark");
          return cell;
        }),
      );
    this.lens.replaceChildren(
      h("h2", "What each layer would say"),
      h("p.hint", "The stream after each layer, read as if it were the last."),
      h(
        "div.scroller",
        h(
          "table",
          h(
            "thead",
            h(
              "tr",
              h("th", { scope: "col" }, "layer"),
              h("th", { scope: "col", colspan: 3 }, "first, second and third choice"),
            ),
          ),
          h("tbody", lens.map(row)),
        ),
      ),
    );
  }

  say(now) {
    const here = this.current(now);
    return here
      ? `Step ${now.step + 1}: ${bare(here.chosen.text)}, ` +
          `probability ${percent(Math.exp(here.chosen.log_prob))}`
      : "";
  }

  table(now) {
    if (!this.steps.length) {
      const { classes } = this.meta;
      return {
        caption: "classes",
        rows: classes.map(({ label }) => label),
        columns: ["score", "probability"],
        values: classes.flatMap(({ logit, prob }) => [logit, prob]),
      };
    }
    const { top } = this.current(now);
    return {
      caption: `step ${now.step + 1}: the most likely words`,
      rows: top.map(({ text }) => short(bare(text))),
      columns: ["score", "probability"],
      values: top.flatMap(({ logit, prob }) => [logit, prob]),
    };
  }

  drawn() {
    return this.beam.querySelector("svg");
  }

  /** From a score to a probability; or the score of a node of the search. */
  ledger(now) {
    const { beam } = this.meta;
    if (beam && now.beam) return nodeLedger(beam, now.beam);
    const here = this.current(now);
    if (!here) return null;
    const { id: taken, log_prob: logProb } = here.chosen;
    const chosen = here.top.find(({ id }) => id === taken) ?? {
      ...here.chosen,
      logit: logProb + here.log_sum_exp,
      prob: Math.exp(logProb),
    };
    const total = Math.exp(here.log_sum_exp - here.max_logit);
    const power = Math.exp(chosen.logit - here.max_logit);
    const made = power / total;
    const top = sum(here.top.map(({ prob }) => prob));
    return h(
      "div",
      h(
        "p.cell-name",
        bdi(short(bare(chosen.text))),
        h("small", `id ${chosen.id}, step ${now.step + 1}`),
      ),
      step(
        "1  Its score",
        line`${chosen.logit}: how alike the last vector and the word's own vector are`,
      ),
      step(
        "2  Softmax over all words",
        line`exp(${chosen.logit} − best ${here.max_logit}) = ${power}`,
        line`÷ the total of all words ${total} = ${made}`,
        check(made, chosen.prob, 1e-5),
      ),
      step(
        "3  As a logarithm",
        line`ln ${made} = ${Math.log(made)}`,
        line`Logarithms of all steps are added up to the score of a sentence.`,
      ),
      step("Everything together", line`${top} + the rest ${here.rest} = ${top + here.rest}`),
    );
  }
}
