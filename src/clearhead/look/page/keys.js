/**
 * The keyboard: everything the pointer can do. Quiet while someone types, and can be switched off.
 */

import { h, tick } from "./dom.js";

const LIST = [
  ["Tab, then ← ↑ → ↓", "move from cell to cell; Home, End, Ctrl Home, Ctrl End go far"],
  ["Tab, then ← ↑ → ↓, Enter", "through the tree of the search, and choose a word"],
  ["[  ]", "the layer before, the layer after"],
  [",  .", "the head before, the head after"],
  ["0 … 5", "the stages of attention"],
  ["Space  →  ←", "the next word, or the next stop of the tour; and back"],
  ["V  Shift V", "the next view, the view before"],
  ["L", "open or close the arithmetic"],
  ["T", "the numbers as a table"],
  ["E", "take something out of the page"],
  ["D", "light or dark"],
  ["/", "to the text that is looked at, on a server's page"],
  ["Esc", "close what is open"],
  ["?", "this list"],
];

/** Listens for keys; `actions` maps each to what it does. */
export class Keys {
  constructor(actions) {
    this.on = true;
    this.actions = { ...actions, "?": () => this.help() };
    this.dialog = h("dialog.help", { "aria-label": "Keyboard" });
    document.body.append(this.dialog);
    this.closing = new AbortController();
    addEventListener("keydown", (event) => this.press(event), { signal: this.closing.signal });
  }

  close() {
    this.closing.abort();
    this.dialog.remove();
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const { target } = event,
      typing = target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
    if (typing || (event.key === " " && target.closest?.("button, a, summary, input"))) return;
    const key =
      event.key.length === 1 && event.key !== event.key.toLowerCase()
        ? `Shift ${event.key.toLowerCase()}`
        : event.key;
    const act = this.actions[key];
    if (!act || (!this.on && key !== "?" && key !== "Escape") || (this.dialog.open && key !== "?"))
      return;
    event.preventDefault();
    act();
  }

  help() {
    if (this.dialog.open) return this.dialog.close();
    this.dialog.replaceChildren(
      h("h2", "Keyboard"),
      h(
        "dl",
        LIST.flatMap(([keys, what]) => [h("dt", h("kbd", keys)), h("dd", what)]),
      ),
      tick("single keys do something", this.on, (on) => {
        this.on = on;
      }),
      h("button.pill", { onclick: () => this.dialog.close() }, "Close"),
    );
    this.dialog.showModal();
  }
}
