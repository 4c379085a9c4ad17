/** Two looks beside each other: another text, run, checkpoint, or a part switched off. */

import { look } from "./api.js";
import { attentionOf, sum } from "./attention.js";
import { bdi, h, number, percent, select } from "./dom.js";
import { bars } from "./ledger.js";
import { thumbnail } from "./matrix.js";
import { Ribbons } from "./ribbons.js";
import { aligned } from "./views/alignment.js";
import { blockName } from "./words.js";

export class Compare {
  constructor(app, recipe) {
    this.app = app;
    this.sides = [
      new Side(this, "A", { ...recipe, edits: "", checkpoint: "" }),
      new Side(this, "B", { ...recipe, checkpoint: "" }),
    ];
    this.verdict = h("p.lead", { "aria-live": "polite" });
    this.dialog = h(
      "dialog.compare",
      { "aria-label": "Compare A and B", onclose: () => this.dialog.remove() },
      h(
        "div.compare-head",
        this.verdict,
        h("button.pill", { onclick: () => this.dialog.close() }, "Close"),
      ),
      h(
        "div.compare-sides",
        this.sides.map((side) => side.element),
      ),
    );
  }

  open() {
    document.body.append(this.dialog);
    this.dialog.showModal();
    for (const side of this.sides) side.load();
  }

  /** What the difference comes to. */
  tell() {
    const [a, b] = this.sides.map((side) => side.trace);
    if (!a || !b) return;
    const [one, two] = [logProb(a), logProb(b)];
    const same = a.meta.output === b.meta.output;
    this.verdict.textContent =
      (same ? "Both say the same. " : "They say different things. ") +
      (Number.isFinite(one) && Number.isFinite(two)
        ? `Log-probability ${number(one, 2)} and ${number(two, 2)}.`
        : "");
  }
}

function logProb({ meta }) {
  if (meta.classes) return Math.log(meta.classes[0].prob);
  return sum((meta.steps ?? []).slice(meta.n_given ?? 0).map(({ chosen }) => chosen.log_prob));
}

class Side {
  constructor(compare, name, recipe) {
    Object.assign(this, { compare, name, recipe });
    this.form = h("div.tools");
    this.result = h("div");
    this.element = h("section.card", h("h2", name), this.form, this.result);
    this.text = h("input", {
      type: "text",
      value: recipe.text,
      "aria-label": `text of ${name}`,
      onchange: () => this.set({ text: this.text.value }),
    });
    this.edits = h("input", {
      type: "text",
      value: recipe.edits,
      placeholder: "no-positions, silence:decoder.1.cross.3",
      "aria-label": `what is switched off in ${name}`,
      onchange: () => this.set({ edits: this.edits.value }),
    });
    this.drawForm();
  }

  set(changes) {
    this.recipe = { ...this.recipe, ...changes };
    this.drawForm();
    this.load();
  }

  drawForm() {
    const runs = this.compare.app.able("look");
    const run = runs.find((one) => one.name === this.recipe.run);
    this.form.replaceChildren(
      select(
        "Model",
        runs.map(({ name }) => [name, name]),
        run.name,
        (name) => this.set({ run: name, checkpoint: "" }),
      ),
      select(
        "Checkpoint",
        [
          ["", "the weights in use"],
          ...run.checkpoints.map((step) => [String(step), `step ${step}`]),
        ],
        this.recipe.checkpoint,
        (checkpoint) => this.set({ checkpoint }),
      ),
      h("label.field", h("span.label", "Text"), this.text),
      h("label.field", h("span.label", "Switched off"), this.edits),
    );
  }

  async load() {
    const { run, text, edits, checkpoint } = this.recipe;
    const list = edits.split(/[,\s]+/).filter(Boolean);
    this.element.classList.add("asking");
    try {
      this.trace = await look({ run, text, edits: list, checkpoint });
      this.draw();
      this.compare.tell();
    } catch (error) {
      this.result.replaceChildren(h("p.notice", h("b", error.message), " ", error.advice ?? ""));
      if (error.status === undefined) throw error;
    } finally {
      this.element.classList.remove("asking");
    }
  }

  draw() {
    const { meta } = this.trace;
    const parts = [h("p.whole-text", { dir: "auto" }, bdi(meta.output))];
    if (meta.classes)
      parts.push(
        bars(
          meta.classes.slice(0, 5).map(({ label, prob }) => ({ text: label, value: prob })),
          { full: 1, shown: percent },
        ),
      );
    if (meta.alignment) {
      const ribbons = new Ribbons({ pick: () => {} });
      parts.push(ribbons.element);
      requestAnimationFrame(() =>
        ribbons.show(aligned(this.trace, { aligner: "auto", words: true, specials: false })),
      );
    }
    this.result.replaceChildren(
      ...parts,
      ...this.trace.attentions.map((node) => {
        const made = attentionOf(this.trace, node.id);
        return h(
          "div.film-row",
          h("h3", blockName(node.id)),
          h(
            "div.thumbs",
            Array.from({ length: made.nHeads }, (_, head) =>
              thumbnail(
                { values: made.weights(head), rows: made.nq, columns: made.nk },
                "weight",
                64,
                undefined,
                [0, 1],
              ),
            ),
          ),
        );
      }),
    );
  }
}
