/**
 * What all views share: a view is one way to see a trace; it draws what is selected, and tells it
 * in words.
 */

import { attentionOf } from "./attention.js";
import { h } from "./dom.js";

/**
 * A view has a static `id`, `title` and `lead`, an `element`, `update(now)` and `table(now)`; with
 * `ownWords` it shows its sentence itself.
 */
export class View {
  /** Whether a trace has what the view shows. */
  static available() {
    return true;
  }

  /** What a reader should know first. */
  static leadFor() {
    return this.lead;
  }

  constructor(trace, state) {
    this.trace = trace;
    this.state = state;
    this.meta = trace.meta;
    this.tools = h("div.tools");
    this.large = null; // the matrix that is saved as a picture, and that follows the pointer
  }

  /** Whether the model was changed inside, so that its numbers need not follow from each other. */
  get edited() {
    return this.meta.edits.length > 0;
  }

  get attention() {
    return attentionOf(this.trace, this.state.now.block);
  }

  /** Changes the selection, as a place to come back to. */
  go(changes) {
    this.state.set(changes, { push: true });
  }

  /** What writes one field of the selection. */
  sets(name) {
    return (value) => this.go({ [name]: value });
  }

  /** What a large matrix of attention does when a cell is chosen or pointed at. */
  cells() {
    return {
      pick: ({ row, column }, push) => this.state.set({ q: row, k: column }, { push }),
      hover: (at) => this.state.point(at && { q: at.row, k: at.column }),
    };
  }

  point(hover) {
    const { q, k } = hover ?? this.state.now;
    this.large?.mark({ row: q, column: k });
  }

  say() {
    return "";
  }

  ledger() {
    return null;
  }

  picture() {
    return this.large?.canvas;
  }

  matrix() {
    return this.large?.shown;
  }

  drawn() {
    return null;
  }
}

/** Puts what a wall's chosen button shows beside the wall; on a phone below the button itself. */
export function beside(wall, preview, body) {
  const chosen = wall.querySelector("[aria-pressed=true]");
  if (innerWidth < 900 && chosen) (chosen.closest(".thumbs") ?? chosen).after(preview);
  else body.append(preview);
}
