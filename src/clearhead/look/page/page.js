/** Puts the page together: views of one trace, the words that are chosen, the arithmetic. */

import { attentionOf } from "./attention.js";
import { dark, ink } from "./colour.js";
import { bdi, bringIntoSight, h, number } from "./dom.js";
import { Keys } from "./keys.js";
import { matrixDrawing, save, savePng, saveSvg } from "./save.js";
import { fitted, linked } from "./selection.js";
import { State, parsed, written } from "./state.js";
import { csv, twin } from "./table.js";
import { TourView } from "./tour/tour.js";
import { AlignmentView } from "./views/alignment.js";
import { AttentionView } from "./views/attention.js";
import { BlockView } from "./views/block.js";
import { FilmView } from "./views/film.js";
import { GatesView } from "./views/gates.js";
import { HeadsView } from "./views/heads.js";
import { MapView } from "./views/map.js";
import { OutputView } from "./views/output.js";
import { SentenceView } from "./views/sentence.js";
import { TokensView } from "./views/tokens.js";
import { bare, chips, predicted, short } from "./words.js";

const VIEWS = [
  SentenceView,
  TourView,
  MapView,
  TokensView,
  AttentionView,
  HeadsView,
  BlockView,
  GatesView,
  AlignmentView,
  OutputView,
  FilmView,
];

export class Page {
  /**
   * `owns` tells which addresses are of this page; `told` is shown instead of the bar that a file
   * has.
   */
  constructor(trace, root, { owns, told } = {}) {
    this.trace = trace;
    this.told = told;
    this.views = VIEWS.filter((view) => view.available(trace));
    this.state = new State(
      (wanted) => fitted(trace, this.views, wanted),
      (before, changes) => linked(trace, before, changes),
      owns,
    );
    this.built = new Map();
    this.live = h("div.live", { role: "status", "aria-live": "polite" });
    this.title = h("h1.live");
    this.lead = h("p.lead");
    this.words = h("div.texts");
    this.body = h("div.view");
    this.tableBox = h("div.table-box");
    this.ledger = h("aside.ledger", { id: "ledger", "aria-label": "Arithmetic" });
    this.nav = h("nav", { "aria-label": "Views" });
    this.extra = h("div.extra");
    this.heading = h("div.heading", this.lead, this.extra);
    root.replaceChildren(
      this.header(),
      this.nav,
      h(
        "main",
        this.words,
        h("div.stagehand", this.title, this.heading, this.body, this.tableBox),
        this.ledger,
      ),
      this.live,
    );
    this.keys = new Keys(this.actions());
    this.state.onChange((now, before) => this.update(now, before));
    this.state.hovers.push((hover) => this.view.point(hover));
    const { signal } = this.state.closing;
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", () => this.redraw(), { signal });
    this.redraw();
  }

  /** Lets go of the address and the keyboard. */
  close() {
    this.state.close();
    this.keys.close();
  }

  redraw() {
    this.update(this.state.now, null);
  }

  header() {
    const { meta } = this.trace,
      { model } = meta;
    const count = model.n_parameters ?? 0,
      size = count && `${count > 1e5 ? `${(count / 1e6).toFixed(1)} M` : count} weights`;
    this.themeButton = h("button.icon", { onclick: () => this.theme() });
    return h(
      "header",
      h(
        "div.bar",
        this.told ? "" : h("strong.brand", "clearhead"),
        h(
          "span.model",
          bdi(model.name ?? ""),
          ` · ${model.architecture ?? meta.family}`,
          size && ` · ${size}`,
        ),
        h("span.grow"),
        this.exports(),
        h(
          "button.icon",
          { title: "Keyboard (?)", "aria-label": "Keyboard", onclick: () => this.keys.help() },
          "?",
        ),
        this.told ? "" : this.themeButton,
      ),
      this.told ?? "",
      meta.edits.length
        ? h(
            "p.notice",
            "This model was changed: ",
            meta.edits.map((edit, i) => [i ? ", " : "", bdi(edit)]),
            ". ",
            this.change(meta.change),
          )
        : "",
      (meta.notes ?? []).map((note) => h("p.notice", bdi(note))),
    );
  }

  /** The words of both sides: the one place to choose from, whatever is shown below. */
  drawWords(now) {
    const { trace } = this;
    const sides = Object.entries(trace.meta.segments).filter(([, tokens]) => tokens.length);
    this.words.replaceChildren(
      ...sides.map(([segment, tokens]) => {
        const writes = segment === "target";
        return h(
          "div.text",
          { role: "group", "aria-label": writes ? "what it wrote" : "what it read" },
          h("span.label", writes ? "wrote" : "read"),
          chips(writes ? tokens.map(predicted) : tokens, {
            chosen: segment === now.segment ? now.pos : -1,
            pick: (pos) => this.state.set({ segment, pos }, { push: true }),
          }),
        );
      }),
    );
    const chosen = this.words.querySelector("[aria-pressed=true]"),
      row = chosen?.closest(".chips");
    // on a phone a line of words goes on beyond the edge
    if (row) row.scrollLeft = chosen.offsetLeft - row.offsetLeft - row.clientWidth / 2;
  }

  /** What the change did to the output, word by word. */
  change(change) {
    if (!change) return "";
    const tags = { "=": "span", "-": "del", "+": "ins" };
    return [
      h(
        "span",
        { dir: "auto" },
        change.words.map(([sign, word]) => [h(tags[sign] ?? "span", {}, word), " "]),
      ),
      `log-probability ${number(change.log_prob_before, 2)} → ${number(change.log_prob_after, 2)}`,
    ];
  }

  exports() {
    const entry = (text, act) =>
      h(
        "button",
        {
          onclick: () => {
            this.menu.open = false;
            act();
          },
        },
        text,
      );
    this.menu = h(
      "details.menu",
      h("summary.icon", { title: "Save (E)" }, "Save"),
      h(
        "div.sheet",
        entry("Picture, PNG", () => this.savePicture()),
        entry("Drawing, SVG", () => this.saveDrawing()),
        entry("Table, CSV", () =>
          save(`${this.name()}.csv`, csv(this.view.table(this.state.now)), "text/csv"),
        ),
        entry("What happened, JSON", () =>
          save("meta.json", JSON.stringify(this.trace.meta, null, 1), "application/json"),
        ),
        entry("Numbers, safetensors", () => save("look.safetensors", new Blob([this.trace.bytes]))),
        entry("Print", () => print()),
      ),
    );
    return this.menu;
  }

  name() {
    const { view, block: id, head } = this.state.now;
    return view === "attention" ? `${id}.${head}` : view;
  }

  savePicture() {
    const canvas = this.view.picture();
    if (canvas) savePng(`${this.name()}.png`, canvas, ink("paper"));
    else this.saveDrawing();
  }

  saveDrawing() {
    const drawing = this.view.drawn();
    const matrix = this.view.matrix();
    if (drawing) saveSvg(`${this.name()}.svg`, drawing);
    else if (matrix && matrix.rows <= 100 && matrix.columns <= 100)
      saveSvg(`${this.name()}.svg`, matrixDrawing(matrix));
    else this.live.textContent = "This view has no drawing to save; try the picture.";
  }

  actions() {
    const set =
      (changes, push = true) =>
      () =>
        this.state.set(changes(this.state.now), { push });
    const beside = (list, value, by) =>
      list[Math.max(0, Math.min(list.length - 1, list.indexOf(value) + by))];
    const layer = (by) => (now) => {
      const kind = now.block
        .split(".")
        .filter((_, i) => i !== 1)
        .join();
      const same = this.trace.attentions
        .map((node) => node.id)
        .filter(
          (id) =>
            id
              .split(".")
              .filter((_, i) => i !== 1)
              .join() === kind,
        );
      return now.view === "block" || now.view === "gates"
        ? { layer: beside(this.trace.layers, now.layer, by) }
        : { block: beside(same, now.block, by) };
    };
    const view = (by) => (now) => ({
      view: beside(
        this.views.map((one) => one.id),
        now.view,
        by,
      ),
    });
    return {
      "[": set(layer(-1)),
      "]": set(layer(1)),
      ",": set((now) => ({ head: now.head - 1 })),
      ".": set((now) => ({ head: now.head + 1 })),
      ...Object.fromEntries(
        [0, 1, 2, 3, 4, 5].map((stage) => [String(stage), set(() => ({ stage }))]),
      ),
      " ": () => this.view.forward?.() ?? this.nextWord(1),
      ArrowRight: () => this.view.forward?.() ?? this.nextWord(1),
      ArrowLeft: () => this.view.back?.() ?? this.nextWord(-1),
      v: set(view(1)),
      "Shift v": set(view(-1)),
      l: set((now) => ({ ledger: !now.ledger })),
      t: set((now) => ({ table: !now.table })),
      e: () => {
        this.menu.open = !this.menu.open;
        this.menu.querySelector("summary").focus();
      },
      d: () => this.theme(),
      Escape: () => {
        if (this.menu.open) this.menu.open = false;
        else this.state.set({ ledger: false, table: false }, { push: true });
      },
    };
  }

  nextWord(by) {
    this.state.set({ pos: Math.max(0, this.state.now.pos + by) });
  }

  theme() {
    const next = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    remember(next);
    this.redraw();
  }

  update(now, before) {
    this.themeButton.textContent = dark() ? "☀" : "☾";
    this.themeButton.setAttribute("aria-label", dark() ? "Light colours" : "Dark colours");
    const kind = this.views.find((view) => view.id === now.view);
    if (!before || before.view !== now.view) this.open(kind);
    keepingFocus(() => {
      this.drawWords(now);
      this.view.update(now);
      this.drawLedger(now);
      this.drawNav(now);
      this.tableBox.replaceChildren(...(now.table ? [twin(this.view.table(now))] : []));
    });
    if (before) this.live.textContent = this.view.say(now);
  }

  open(kind) {
    if (!this.built.has(kind.id)) this.built.set(kind.id, new kind(this.trace, this.state));
    this.view = this.built.get(kind.id);
    this.title.textContent = kind.title;
    this.lead.textContent = kind.leadFor(this.trace) ?? "";
    this.heading.hidden = Boolean(kind.whole);
    this.words.hidden = Boolean(kind.ownWords);
    document.title = `${kind.title} · ${short(bare(this.trace.meta.input ?? ""), 40)}`;
    this.body.replaceChildren(this.view.element);
    this.view.opened?.();
  }

  drawNav(now) {
    this.nav.replaceChildren(
      ...this.views.map(({ id, title }) =>
        h(
          "a",
          {
            href: written({ ...now, view: id }),
            "aria-current": id === now.view ? "page" : null,
            onclick: (event) => {
              event.preventDefault();
              this.state.set({ view: id }, { push: true });
              scrollTo(0, 0);
            },
          },
          title,
        ),
      ),
    );
    bringIntoSight(this.nav);
    const pressed = (on) => String(on);
    this.extra.replaceChildren(
      h(
        "button.pill",
        {
          title: "T",
          "aria-pressed": pressed(now.table),
          onclick: () => this.state.set({ table: !now.table }, { push: true }),
        },
        "Table",
      ),
      h(
        "button.pill",
        {
          title: this.hasLedger ? "L" : "There is nothing to calculate in this view",
          disabled: !this.hasLedger,
          "aria-pressed": pressed(now.ledger && this.hasLedger),
          "aria-controls": "ledger",
          onclick: () => this.state.set({ ledger: !now.ledger }, { push: true }),
        },
        "Arithmetic",
      ),
    );
  }

  drawLedger(now) {
    const content = this.view.ledger(now);
    this.hasLedger = Boolean(content);
    this.ledger.hidden = !content || !now.ledger;
    if (content) this.ledger.replaceChildren(h("h2", "Arithmetic"), content);
  }
}

/** Where a redrawing replaces what has the focus, its successor gets it. */
function keepingFocus(redraw) {
  const held = document.activeElement,
    all = () => [...document.querySelectorAll("a, button, select, input, [tabindex]")];
  const name = (one) =>
    `${one.tagName} ${one.getAttribute("aria-label")} ${(one.closest("label") ?? one).textContent}`;
  const place = all().indexOf(held),
    called = place < 0 ? "" : name(held);
  redraw();
  if (place < 0 || held.isConnected) return;
  const now = all(),
    same =
      now[place] && name(now[place]) === called
        ? now[place]
        : now.find((one) => name(one) === called);
  (same ?? now[place])?.focus({ preventScroll: true });
}

/** Keeps the chosen colours for the next visit. */
export function remember(theme) {
  try {
    localStorage.setItem("clearhead-theme", theme);
  } catch {
    /* a frame without storage forgets */
  }
}

/** The colours that were chosen on an earlier visit. */
export function recallTheme() {
  try {
    const theme = localStorage.getItem("clearhead-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    /* the system decides */
  }
}

/** Shows a trace; `window.look` is for the console: look.trace.tensor("decoder.1.cross.v"). */
export function showTrace(trace, root, options) {
  const page = new Page(trace, root, options);
  window.look = {
    trace,
    page,
    state: page.state,
    attention: (id) => attentionOf(trace, id),
    written,
    parsed,
  };
  document.documentElement.dataset.ready = "";
  performance.mark("look-ready");
  return page;
}
