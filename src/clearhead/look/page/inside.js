/** Inside, on live input: any text, any run, with parts switched off, and two beside each other. */

import { look } from "./api.js";
import { bdi, h, select } from "./dom.js";
import { showTrace } from "./page.js";
import { Compare } from "./compare.js";
import { DEFAULTS, parsed, written } from "./state.js";
import { headName } from "./words.js";

const BREAKS = [
  ["no-scale", "no ÷ √dₖ"],
  ["no-mask", "no mask"],
  ["no-positions", "no positions"],
  ["no-residual", "no stream"],
  ["no-norm", "no norm"],
];
const STANDARD = {
  translation: "The old woman would like to buy a red bicycle.",
  chat: "Hi, how are you?",
  classification: "The soup was not lovely.",
  writing: "Once upon a time, there was a brave",
};
const PAUSE = 500;

export class Inside {
  constructor(app) {
    this.app = app;
    this.root = h("div.inside");
    this.problem = h("p.notice", { role: "alert", hidden: true });
    this.input = h("input", {
      type: "text",
      "aria-label": "text to look at",
      oninput: () => {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.ask({ text: this.input.value }), PAUSE);
      },
      onkeydown: (event) => event.key === "Enter" && this.ask({ text: this.input.value }),
    });
    this.bar = h("div.live-bar");
    this.element = h("div", this.problem, this.root);
    this.recipe = null;
  }

  get runs() {
    return this.app.able("look");
  }

  /** The address of a look at something. */
  link({ run, text, edits = "", prefix = "" }) {
    return written({ ...DEFAULTS, view: "sentence", run, text, edits, prefix });
  }

  /** Where the visitor was, or the beginning. */
  get address() {
    return this.last ?? "#/sentence";
  }

  /** Shows what the address tells. */
  open(main) {
    main.replaceChildren(this.element);
    const { run: name, text, edits, prefix } = parsed(location.hash);
    const run = this.runs.find((one) => one.name === name) ?? this.recipeRun ?? this.runs[0];
    if (!run) {
      this.element.replaceChildren(h("p.lead.use", "No loaded run has weights to look into."));
      return this;
    }
    const same = this.recipe && this.recipe.run === run.name;
    const wanted = {
      run: run.name,
      text: text || (same ? this.recipe.text : (STANDARD[run.task] ?? "Hello.")),
      edits: text || !same ? edits : this.recipe.edits,
      prefix: text || !same ? prefix : this.recipe.prefix,
    };
    if (JSON.stringify(wanted) !== JSON.stringify(this.recipe)) this.load(wanted);
    else this.page?.redraw();
    return this;
  }

  left() {
    this.last =
      location.hash.startsWith("#/") && this.page ? written(this.page.state.now) : this.last;
  }

  get recipeRun() {
    return this.recipe && this.runs.find((run) => run.name === this.recipe.run);
  }

  ask(changes) {
    const fresh = changes.text === undefined ? {} : { prefix: "" };
    const next = { ...this.recipe, ...fresh, ...changes };
    if (!next.text.trim() || JSON.stringify(next) === JSON.stringify(this.recipe)) return;
    this.load(next);
  }

  async load(recipe) {
    this.aborter?.abort();
    const aborter = (this.aborter = new AbortController());
    this.recipe = recipe;
    this.problem.hidden = true;
    this.root.classList.add("asking");
    if (!this.page) this.root.replaceChildren(h("p.hint.use", "Following every number …"));
    try {
      const prefix = idsOf(recipe.prefix);
      const given = { run: recipe.run, text: recipe.text, edits: listOf(recipe.edits) };
      const body = prefix.length ? { ...given, prefix_ids: prefix } : given;
      const run = this.runs.find((one) => one.name === recipe.run);
      const film = run.checkpoints.length > 0;
      const trace = await look({ ...body, film }, aborter.signal).catch((error) => {
        if (film && error.status === 400) return look(body, aborter.signal);
        throw error;
      });
      // what each head is worth is measured when somebody looks at heads
      trace.silence = async () => (await look({ ...body, heads: true })).meta.heads;
      trace.nGiven = prefix.length;
      if (run.can.includes("translate"))
        trace.goOn = (ids) => this.ask({ prefix: ids.join(" ") });
      this.show(trace, recipe);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.problem.replaceChildren(h("b", error.message), " ", error.advice ?? "");
      this.problem.hidden = false;
      if (!this.page) this.root.replaceChildren();
      if (error.status === undefined) throw error;
    } finally {
      if (this.aborter === aborter) this.root.classList.remove("asking");
    }
  }

  /** A new trace, seen as the old one was: the same view, the same part. */
  show(trace, recipe) {
    const typing = document.activeElement === this.input;
    const before = this.page?.state.now ?? parsed(location.hash);
    const keep = { view: before.view, stop: before.stop, sort: before.sort, mix: before.mix };
    this.page?.close();
    const { run, text, edits, prefix } = recipe;
    const hash = parsed(location.hash);
    const same = ["", text].includes(hash.text) && hash.run === run && hash.prefix === prefix;
    const given = same ? hash : { ...DEFAULTS, ...keep };
    history.replaceState(null, "", written({ ...given, run, text, edits, prefix }));
    this.drawBar(recipe);
    this.page = showTrace(trace, this.root, {
      owns: (hash) => !this.app.foreign(hash),
      told: this.bar,
    });
    this.page.state.onChange((now) => this.drawBreaks(now));
    this.drawBreaks(this.page.state.now);
    if (typing) this.input.focus();
  }

  drawBar({ run, text }) {
    if (document.activeElement !== this.input) this.input.value = text;
    this.breaks = h("div.breaks");
    this.bar.replaceChildren(
      h(
        "div.ask",
        select(
          "Model",
          this.runs.map(({ name }) => [name, name]),
          run,
          (name) => {
            const { task } = this.runs.find((one) => one.name === name);
            this.load({ run: name, text: STANDARD[task] ?? text, edits: "", prefix: "" });
          },
        ),
        this.input,
      ),
      this.breaks,
    );
  }

  /** Parts to switch off; the head that is looked at is one of them. */
  drawBreaks(now) {
    const chosen = listOf(this.recipe.edits);
    const silence = now.block && `silence:${now.block}.${now.head}`;
    const own = chosen.filter((name) => name.startsWith("silence:"));
    const hides = this.page.trace.attentions.some((node) => node.causal);
    const list = [
      ...BREAKS.filter(([name]) => name !== "no-mask" || hides),
      ...new Set([...own, silence].filter(Boolean)),
    ].map((entry) => (Array.isArray(entry) ? entry : [entry, silenced(entry)]));
    this.breaks.replaceChildren(
      h("span.label", "Break it"),
      ...list.map(([name, title]) =>
        h(
          "button.pill",
          {
            "aria-pressed": String(chosen.includes(name)),
            onclick: () => {
              const next = chosen.includes(name)
                ? chosen.filter((one) => one !== name)
                : [...chosen, name];
              this.ask({ edits: next.join(",") });
            },
          },
          title,
        ),
      ),
      h(
        "button.pill",
        { onclick: () => new Compare(this.app, this.recipe).open() },
        "Compare A | B",
      ),
    );
  }
}

function idsOf(prefix) {
  return (prefix.match(/\d+/g) ?? []).map(Number);
}

function listOf(edits) {
  return edits.split(",").filter(Boolean);
}

function silenced(name) {
  const [stack, layer, part, head] = name.slice(8).split(".");
  return ["silence ", bdi(`${stack} ${Number(layer) + 1} ${part}, ${headName(Number(head))}`)];
}
