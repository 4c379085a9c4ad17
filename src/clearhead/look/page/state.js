/**
 * What is selected: one object, which every view reads and writes, and which is the address of the
 * page.
 */

export const DEFAULTS = Object.freeze({
  view: "",
  stop: "",
  // on a server: what is looked at
  run: "",
  text: "",
  edits: "",
  prefix: "",
  // a cell of attention; -1 is the strongest
  block: "",
  head: -1,
  q: -1,
  k: -1,
  stage: 4,
  // switched off: what softmax would say without
  scale: true,
  mask: true,
  // the chosen word, and a number of its vector
  segment: "",
  pos: -1,
  dim: 0,
  // a layer; heads together; the order of heads
  layer: "",
  mix: "",
  sort: "cost",
  // how words are aligned
  aligner: "auto",
  words: true,
  specials: false,
  // a step of the output, -1 for the first that was chosen; a node of the search
  step: -1,
  temperature: 1,
  beam: "",
  // a checkpoint of the film
  frame: 0,
  // what is open
  ledger: true,
  table: false,
});

/** The selection as `#/view?name=value`, without what stands at its default. */
export function written(selection) {
  const query = new URLSearchParams();
  for (const [name, standard] of Object.entries(DEFAULTS)) {
    if (name !== "view" && selection[name] !== standard) query.set(name, String(selection[name]));
  }
  return `#/${selection.view}${query.size ? `?${query}` : ""}`;
}

/** The selection of an address; what it does not name, or says wrongly, stands at its default. */
export function parsed(hash) {
  const [, view, query] = /^#\/(\w*)\??(.*)$/.exec(hash) ?? [null, "", ""];
  const selection = { ...DEFAULTS, view: view || DEFAULTS.view };
  for (const [name, text] of new URLSearchParams(query)) {
    if (!Object.hasOwn(DEFAULTS, name) || name === "view") continue;
    const value = valueOf(text, typeof DEFAULTS[name]);
    if (value !== undefined) selection[name] = value;
  }
  return selection;
}

function valueOf(text, type) {
  if (type === "boolean") return text === "true" ? true : text === "false" ? false : undefined;
  if (type === "string") return text;
  const value = Number(text);
  return text.trim() !== "" && Number.isFinite(value) ? value : undefined;
}

/**
 * Holds the selection and tells everyone of a change. A frame without an address of its own keeps
 * it in memory.
 */
export class State {
  constructor(fit, link, owns = () => true) {
    this.fit = fit; // puts a selection within what there is
    this.link = link; // what else changes with a change
    this.owns = owns; // whether an address is of this page
    this.listeners = [];
    this.hovers = [];
    this.hover = null;
    this.addressed = location.protocol !== "about:";
    this.now = fit(parsed(this.addressed ? location.hash : ""));
    this.closing = new AbortController();
    const { signal } = this.closing;
    addEventListener("hashchange", () => this.follow(location.hash), { signal });
  }

  /**
   * Changes some fields. `push` makes a place to come back to; without it the present place is
   * rewritten.
   */
  set(changes, { push = false } = {}) {
    const before = this.now;
    this.now = this.fit({ ...before, ...this.link(before, changes) });
    const address = written(this.now);
    if (address === written(before)) return;
    if (this.addressed) this.write(address, push);
    this.tell(before);
  }

  /**
   * New places at once, changes of the present one soon: browsers do not like hundreds of them in a
   * second.
   */
  write(address, push) {
    clearTimeout(this.timer);
    if (push && this.pending) this.pending();
    const now = () => {
      this.pending = null;
      history[push ? "pushState" : "replaceState"](null, "", address);
    };
    if (push) return now();
    this.pending = now;
    this.timer = setTimeout(now, 150);
  }

  follow(hash) {
    if (!this.owns(hash)) return;
    clearTimeout(this.timer);
    this.pending = null;
    const before = this.now;
    this.now = this.fit(parsed(hash));
    if (written(this.now) !== written(before)) this.tell(before);
  }

  /** No longer follows the address. */
  close() {
    clearTimeout(this.timer);
    this.closing.abort();
  }

  tell(before) {
    for (const listen of this.listeners) listen(this.now, before);
  }

  onChange(listen) {
    this.listeners.push(listen);
  }

  /** What the pointer is over: shown everywhere at once, kept nowhere. */
  point(hover) {
    if (JSON.stringify(hover) === JSON.stringify(this.hover)) return;
    this.hover = hover;
    for (const listen of this.hovers) listen(hover);
  }
}
