/** The server's page: use its models, look inside them, watch one learn. */

import { get, keepKey } from "./api.js";
import { dark } from "./colour.js";
import { bringIntoSight, h } from "./dom.js";
import { Inside } from "./inside.js";
import { recallTheme, remember } from "./page.js";
import { Train } from "./train.js";
import { ChatTab } from "./use/chat.js";
import { ClassifyTab } from "./use/classify.js";
import { FillTab } from "./use/fill.js";
import { MeaningTab } from "./use/meaning.js";
import { TranslateTab } from "./use/translate.js";
import { WriteTab } from "./use/write.js";

const TABS = [TranslateTab, ChatTab, WriteTab, ClassifyTab, FillTab, MeaningTab];
const OTHERS = { train: "Train" };

class App {
  constructor(root, { runs, limits }) {
    Object.assign(this, { runs, limits, built: new Map() });
    this.nav = h("nav.tabs", { "aria-label": "What to do" });
    this.main = h("div.app-main");
    this.inside = new Inside(this);
    this.themeButton = h("button.icon", { onclick: () => this.theme() });
    root.replaceChildren(
      h("div.app-bar", h("a.brand", { href: "#/" }, "clearhead"), this.nav, this.themeButton),
      this.main,
    );
    addEventListener("hashchange", () => this.follow());
    addEventListener("keydown", (event) => this.press(event));
    this.follow();
    document.documentElement.dataset.ready = "";
  }

  /** A slash goes to the text. */
  press(event) {
    if (event.key !== "/" || event.target.closest?.("input, textarea, select")) return;
    event.preventDefault();
    this.main.querySelector(".typing textarea, .ask > input, .say input")?.focus();
  }

  /** The runs that can do something. */
  able(ability) {
    return this.runs.filter((run) => run.can.includes(ability));
  }

  /** The first part of the address; what is none of ours is a view of Inside. */
  get place() {
    const name = /^#\/([\w-]*)/.exec(location.hash)?.[1] ?? "";
    return name || TABS.find((tab) => this.able(tab.ability).length)?.id || "train";
  }

  /** Whether an address is none of Inside. */
  foreign(hash) {
    const name = /^#\/([\w-]*)/.exec(hash)?.[1] ?? "";
    return name === "" || name in OTHERS || TABS.some((tab) => tab.id === name);
  }

  follow() {
    const { place } = this;
    const tab = TABS.find((one) => one.id === place);
    this.drawNav(place, tab);
    this.shown?.left?.();
    if (tab) this.show(tab.id, () => this.tab(tab));
    else if (place in OTHERS) this.show(place, () => new Train(this));
    else this.shown = this.inside.open(this.main);
    if (tab || place in OTHERS) document.title = `${tab?.title ?? OTHERS[place]} · clearhead`;
  }

  tab(kind) {
    const runs = this.able(kind.ability);
    return runs.length ? new kind(this, runs) : { element: this.cannot(kind) };
  }

  show(name, make) {
    if (!this.built.has(name)) this.built.set(name, make());
    this.shown = this.built.get(name);
    this.main.replaceChildren(this.shown.element);
    this.shown.entered?.();
  }

  /** Why no run can do this, and what would help. */
  cannot(kind) {
    return h(
      "section.use.cannot",
      h("h1.use-name", kind.title),
      h("p.lead", `None of the loaded runs can ${kind.verb}.`),
      h(
        "ul",
        this.runs.map((run) => h("li", h("b", run.name), " ", run.cannot[kind.ability] ?? "")),
      ),
    );
  }

  drawNav(place, tab) {
    this.themeButton.textContent = dark() ? "☀" : "☾";
    this.themeButton.setAttribute("aria-label", dark() ? "Light colours" : "Dark colours");
    const inside = !tab && !(place in OTHERS);
    const link = (id, title, current, able = true) =>
      h(
        "a",
        {
          href: id === "inside" ? this.inside.address : `#/${id}`,
          "aria-current": current ? "page" : null,
          class: able ? null : "unable",
          title: able ? null : "no loaded run can do this",
        },
        title,
      );
    this.nav.replaceChildren(
      ...TABS.map(({ id, title, ability }) =>
        link(id, title, place === id, this.able(ability).length > 0),
      ),
      h("span.divider", { "aria-hidden": "true" }),
      link("inside", "Inside", inside, this.able("look").length > 0),
      link("train", "Train", place === "train"),
    );
    bringIntoSight(this.nav);
  }

  theme() {
    const next = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    remember(next);
    this.follow();
  }
}

async function main() {
  recallTheme();
  const root = document.getElementById("app");
  try {
    window.app = new App(root, await get("/api/runs"));
  } catch (error) {
    if (error.status !== 401) {
      root.replaceChildren(
        h("p.notice", `${error.message} ${error.advice ?? ""}`),
        h("button.pill", { onclick: main }, "Try again"),
      );
      if (error.status === undefined) throw error;
      return;
    }
    const key = h("input", { type: "password", "aria-label": "API key" });
    const enter = (event) => {
      event.preventDefault();
      keepKey(key.value);
      main();
    };
    root.replaceChildren(
      h("form.notice", { onsubmit: enter }, "This server asks for a key. ", key, " "),
    );
    root.firstChild.append(h("button.pill", { type: "submit" }, "Enter"));
  }
}

main();
