/**
 * One selection for all views: where a page begins, what goes with what, and what a wrong address
 * becomes.
 */

import { attentionOf } from "./attention.js";

const AUTO = -1; // a field that has not been chosen: the strongest that there is

/** Puts a selection within what the trace has, so that no address can break the page. */
export function fitted(trace, views, wanted) {
  const made = { ...wanted };
  const ids = views.map((view) => view.id);
  made.view = one(made.view, ids, ids[0]);
  fitCell(trace, made);
  fitWord(trace, made);
  const own = trace.layers.filter((layer) => trace.segmentOf(layer) === made.segment);
  made.layer = one(made.layer, trace.layers, own[0] ?? trace.layers[0] ?? "");
  made.dim = within(made.dim, trace.meta.model.d_model);
  made.stage = within(made.stage, 6);
  made.temperature = Math.max(0.05, Math.min(5, made.temperature));
  made.frame = within(made.frame, trace.meta.film?.steps.length ?? 1);
  return made;
}

const one = (value, list, standard) => (list.includes(value) ? value : standard);
const within = (value, length) => Math.max(0, Math.min(length - 1, Math.round(value)));

/** A cell of attention; what was not chosen is the strongest of the best head. */
function fitCell(trace, made) {
  const ids = trace.attentions.map((node) => node.id);
  if (!ids.length) return Object.assign(made, { block: "", head: 0, q: 0, k: 0 });
  const free = !ids.includes(made.block);
  if (free) made.block = favourite(trace);
  const attention = attentionOf(trace, made.block);
  const { nHeads, nq, nk } = attention;
  if (made.head < 0) made.head = free ? aligner(trace, attention) : attention.clearest();
  made.head = within(made.head, nHeads);
  const strongest = attention.strongest(made.head, made.q < 0 ? null : within(made.q, nq));
  if (made.q < 0) made.q = strongest.q;
  if (made.k < 0) made.k = made.q === strongest.q ? strongest.k : 0;
  made.q = within(made.q, nq);
  made.k = within(made.k, nk);
}

/** The attention that tells most at first sight: that which aligns, else the last. */
function favourite(trace) {
  const aligns = trace.meta.alignment?.head.split(".").slice(0, 3).join(".");
  const ids = trace.attentions.map((node) => node.id);
  return one(aligns, ids, ids.at(-1));
}

function aligner(trace, attention) {
  const head = Number(trace.meta.alignment?.head.split(".")[3] ?? NaN);
  return Number.isInteger(head) ? head : attention.clearest();
}

/** The chosen word: a side and a place on it; and the step of the output that belongs to it. */
function fitWord(trace, made) {
  const { segments, n_given: nGiven = 0, steps = [], gaps = [], removal } = trace.meta;
  const node = trace.nodes.get(made.block);
  const sides = Object.keys(segments);
  const free = made.pos < 0;
  made.segment = one(made.segment, sides, free && node ? node.queries : (sides[0] ?? ""));
  const length = segments[made.segment]?.length ?? 1;
  if (free) made.pos = made.segment === node?.queries ? made.q : 0;
  if (free && removal?.length) made.pos = weightiest(trace.meta);
  made.pos = within(made.pos, length);
  if (made.step < 0) made.step = made.segment === "target" ? Math.max(nGiven, made.pos) : nGiven;
  made.step = within(made.step, Math.max(1, steps.length, gaps.length));
}

/** The word without which a verdict would be another one soonest. */
function weightiest({ removal, classes }) {
  const effect = (word) => Math.abs(classes[0].prob - word.prob);
  return [...removal].sort((a, b) => effect(b) - effect(a))[0].places[0];
}

/**
 * The changes that go with a change: a word chosen in one view is chosen in all. What is named
 * itself stays as it is named.
 */
export function linked(trace, before, changes) {
  const node = trace.nodes.get(changes.block ?? before.block);
  const word = chosenWord(before, changes, node);
  const follow = {};
  if (word) {
    Object.assign(follow, word);
    if (word.segment === "target" && trace.meta.steps?.length) follow.step = word.pos;
    if (word.segment === node?.queries) Object.assign(follow, { q: word.pos, k: AUTO });
    else if (word.segment === node?.keys) follow.k = word.pos;
    const [stack, index] = before.layer.split(".");
    const own = word.segment === "source" ? "encoder" : "decoder";
    if (stack !== own && trace.layers.includes(`${own}.${index}`)) follow.layer = `${own}.${index}`;
  }
  if (changes.block !== undefined && changes.block !== before.block) {
    const same = before.segment === node?.queries;
    Object.assign(follow, { head: AUTO, q: same ? before.pos : AUTO, k: AUTO });
  }
  if (changes.head !== undefined && changes.head !== before.head) follow.k = AUTO;
  if (changes.q !== undefined && changes.k === undefined) follow.k = AUTO;
  return { ...follow, ...changes };
}

function chosenWord(before, changes, node) {
  if (changes.pos !== undefined || changes.segment !== undefined)
    return { segment: changes.segment ?? before.segment, pos: changes.pos ?? before.pos };
  if (changes.q !== undefined && node) return { segment: node.queries, pos: changes.q };
  if (changes.step !== undefined) return { segment: "target", pos: changes.step };
  return null;
}
