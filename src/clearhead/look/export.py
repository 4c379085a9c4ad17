"""A look as data: JSON and tensors for the page, for files and for other programs."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.disk import make_folder, write_output
from clearhead.look.edits import change
from clearhead.look.labelled import axes_of, with_edit
from clearhead.look.reasons import log_probs, outputs, picked, removal
from clearhead.look.replay import Guess, Prediction, Replay
from clearhead.look.search import SearchTree
from clearhead.look.words import word_places, word_texts
from clearhead.model.recurrent import GATES
from clearhead.tensors import tensor_bytes

SHAPE = (
    "d_model",
    "n_heads",
    "d_ff",
    "vocab_size",
    "norm",
    "norm_eps",
    "activation",
    "positions",
    "scale_embeddings",
    "embedding_norm",
)
IN_CELLS = (*dict.fromkeys(name for names in GATES.values() for name in names), "cell", "state")
"""The gates and states of a recurrent layer, each a number per unit and word."""
STRIPS = ("tokens", "positions", "types", "resid_mid", "resid_post", *IN_CELLS)
"""Tensors that a page draws and does not calculate with: in half precision where they are large."""
FOR_PAGE = ("q", "k", "v", "scores", "pattern", "z", "start", *STRIPS)
"""Tensors that a page always gets; it computes `scaled` and `masked` from these."""
FOR_SMALL_PAGE = ("embedded", "add", "norm")
"""Tensors that it gets as well where all together take no more than `SMALL` bytes."""
FOR_TOUR = ("embedded", "add", "norm", "pre")
"""Tensors of the first layer that it always gets: the tour calculates with that layer."""
SMALL = 1_300_000
MOST_WORK = 50_000_000_000
"""Weights × tokens × heads up to which each head is silenced for a file: some seconds."""
N_UNITS = 12
"""The most active feed-forward units of each position, so many, are in the summary."""

Arrays = dict[str, np.ndarray]


def tensors(look: Replay, whole: bool = False) -> Arrays:
    """The tensors that a page draws, or all."""
    if whole:
        return arrays(look.seen)
    found = tensors_named(look, FOR_PAGE) | arrays(summaries(look))
    if look.film:
        found |= {f"film.{path}": frames for path, frames in look.film.patterns.items()}
    tour = {} if look.model.config.recurs else tensors_of_tour(look)
    more = found | tensors_named(look, FOR_SMALL_PAGE) | tour
    if sum(values.nbytes for values in more.values()) <= SMALL:
        return more | norm_weights(look)
    strips = tensors_named(look, STRIPS)
    return found | {path: values.astype(np.float16) for path, values in strips.items()} | tour


def arrays(values: Mapping[str, Tensor]) -> Arrays:
    return {
        path: np.ascontiguousarray(each.detach().float().cpu().numpy())
        for path, each in values.items()
    }


def tensors_named(look: Replay, names: Sequence[str], within: str = "") -> Arrays:
    """The tensors of these names, everywhere or in a part."""
    return arrays(
        {
            path: values
            for path, values in look.seen.items()
            if path.startswith(within) and path.rpartition(".")[2] in names
        }
    )


def tensors_of_tour(look: Replay) -> Arrays:
    """The first layer whole, and what each of its heads adds: there a visitor may try things."""
    first = look.attentions[0]
    stack, number, _ = first.split(".")
    layer = f"{stack}.{number}."
    weights = norm_weights(look).items()
    return (
        tensors_named(look, FOR_TOUR[:1], f"{stack}.")
        | tensors_named(look, FOR_TOUR, layer)
        | {path: each for path, each in weights if path.startswith(layer)}
        | arrays({f"{first}.head_outputs": look.head_outputs(first)})
    )


def summaries(look: Replay) -> dict[str, Tensor]:
    """Large tensors summed up: how much each head and sub-layer adds, which hidden units are active."""
    found: dict[str, Tensor] = {}
    for path, kind in sublayers(look):
        if kind == "attention":
            if hasattr(look.part(path), "energy"):
                found[f"{path}.energy"] = look.part(path).energy.weight[0]
            found[f"{path}.head_norms"] = look.head_outputs(path).norm(dim=-1)
        else:
            hidden = look.seen[f"{path}.hidden"]
            units = hidden.abs().topk(min(N_UNITS, hidden.size(-1))).indices
            found[f"{path}.top_units"] = units
            found[f"{path}.top_values"] = hidden.gather(1, units)
            found[f"{path}.zero_share"] = (hidden <= 0).float().mean(dim=-1)
        if f"{path}.add" in look.seen:
            found[f"{path}.stats"] = stats(look, path)
    return found


def stats(look: Replay, path: str) -> Float[Tensor, "T 4"]:
    """Lengths of what passes by a sub-layer and what it adds; mean and spread before its norm."""
    added, out = look.seen[f"{path}.add"], look.seen[f"{path}.out"]
    skipped = added - out
    normed = skipped if look.model.config.norm == "pre" else added
    lengths = skipped.norm(dim=-1), out.norm(dim=-1)
    return torch.stack([*lengths, normed.mean(-1), normed.std(-1, correction=0)], dim=-1)


def norm_weights(look: Replay) -> Arrays:
    return arrays(
        {
            f"{path}.norm_{name}": weight
            for path, _ in sublayers(look)
            if f"{path}.norm" in look.seen
            for name, weight in look.norm_of(path).named_parameters()
        }
    )


def sublayers(look: Replay) -> list[tuple[str, str]]:
    """The path and kind of every attention and feed-forward network, in their order."""
    kinds = ("attention", "ff")
    return [(part["id"], part["kind"]) for part in graph(look) if part["kind"] in kinds]


def graph(look: Replay) -> Iterator[dict[str, Any]]:
    """The parts of the model in the order of the forward pass."""
    config = look.model.config
    d_k = config.d_model // config.n_heads
    for path in look.paths:
        part, _, name = path.rpartition(".")
        if name == "pattern":
            _, queries, keys = axes_of(path)
            yield {
                "id": part,
                "kind": "attention",
                "queries": queries,
                "keys": keys,
                "causal": part.startswith("decoder") and part.endswith("self"),
                "n_heads": config.n_heads,
                "d_k": d_k,
                "scale": math.sqrt(d_k) if f"{part}.scaled" in look.seen else 1.0,
            }
        elif name == "state":
            own = [each for each in IN_CELLS if f"{part}.{each}" in look.seen]
            ways = ["→", "←"] if part.startswith("encoder") else ["→"]
            yield {"id": part, "kind": "gates", "gates": own, "ways": ways}
        elif name == "hidden":
            yield {"id": part, "kind": "ff"}
        elif name in ("logits", "classes"):
            yield {"id": path, "kind": "output"}


def meta(look: Replay, values: Mapping[str, np.ndarray] | None = None) -> dict[str, Any]:
    """Everything but the tensors, as JSON can hold it; of these, their shapes and axes."""
    values = tensors(look) if values is None else values
    return {
        "format": "clearhead-look/1",
        "family": look.family,
        "task": look.task,
        "model": model(look),
        "edits": list(look.edits),
        "notes": list(look.notes),
        "input": look.input,
        "output": look.output,
        "n_given": look.n_given,
        "segments": segments(look),
        "graph": list(graph(look)),
        "tensors": {
            path: {"shape": list(each.shape)}
            | ({"axes": list(axes_of(path))} if path in look.seen else {})
            for path, each in values.items()
        },
        "steps": steps(look, range(len(look.target))),
        "beam": search(look.beam) if look.beam else None,
        "alignment": alignment(look) if look.family == "encoder-decoder" else None,
        **special(look),
    }


def special(look: Replay) -> dict[str, Any]:
    """What only some looks have: classes, gaps, edits, a film."""
    found: dict[str, Any] = {}
    if look.classes:
        found["classes"] = [{"label": each.text, **guess(each)} for each in look.verdict]
        found["several"] = look.several
        found["removal"] = verdict_without_words(look)
    elif look.family == "encoder":
        told = steps(look, look.gaps)
        found["gaps"] = [{"row": row, **step} for row, step in zip(look.gaps, told, strict=True)]
    if look.before is not None:
        changed = change(look)
        found["change"] = {**rounded(vars(changed)), "words": list(map(list, changed.words))}
    if look.film:
        # probes are cut to the same tokens in every frame
        texts = {side: look.spell(ids) for side, ids in vars(look.film.probe).items()}
        found["film"] = {"steps": list(look.film.steps), "loss": list(look.film.losses), **texts}
    return found


def verdict_without_words(look: Replay) -> list[dict[str, Any]]:
    """For each word of a classified text, how likely the verdict would be without it."""
    lost = removal(look, "source")[0].tolist()
    sure = look.verdict[0].prob
    words = zip(word_texts(look.source), word_places(look.source), lost, strict=True)
    return [
        {"text": text, "places": places, "prob": round(sure * math.exp(-less), 6)}
        for text, places, less in words
    ]


@torch.inference_mode()
def silenced_heads(look: Replay) -> dict[str, Any]:
    """What the output owes to each head, told by silencing it: nothing where nothing was said.

    `lost` is how much of the output's log-probability goes, `changed` how many of its `of` tokens
    would not be the likeliest any more. All heads of an attention are silenced in one batch.
    """
    rows, said = outputs(look)
    if look.target:  # the end of an output is a choice, too
        rows, said = list(range(look.n_given, len(look.target))), look.predicted[look.n_given :]
    if not rows or look.model.config.recurs:
        return {}
    n_heads = look.model.config.n_heads
    heard = 1 - torch.eye(n_heads, device=look.model.device)[..., None, None]  # (H, H, 1, 1)
    whole, found = log_probs(look, rows, look.taps), {}
    sure, best = picked(whole, said).sum(dim=1), whole.argmax(dim=-1)
    for path in look.attentions:
        edits = with_edit(look.taps, f"{path}.z", lambda z: heard * z)
        without = log_probs(look, rows, edits, n=n_heads)
        lost = sure - picked(without, said).sum(dim=1)
        found[path] = {
            "lost": [round(each, 6) for each in lost.tolist()],
            "changed": (without.argmax(dim=-1) != best).sum(dim=1).tolist(),
        }
    return {"of": len(said), "attentions": found}


def in_file(look: Replay, values: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Everything but the tensors, for a page that cannot ask a server for more."""
    told, n_tokens = meta(look, values), len(look.source) + len(look.target)
    n_heads = len(look.attentions) * look.model.config.n_heads
    if told["model"]["n_parameters"] * n_tokens * n_heads > MOST_WORK:
        return told
    return {**told, "heads": silenced_heads(look)}


def model(look: Replay) -> dict[str, Any]:
    stacks = {name: getattr(look.model, name, None) for name in ("encoder", "decoder")}
    return {
        "name": look.task,
        **{name: getattr(look.model.config, name) for name in SHAPE},
        **({"architecture": look.model.config.architecture} if look.model.config.recurs else {}),
        **{f"n_{name}_layers": len(stack.layers) if stack else 0 for name, stack in stacks.items()},
        "n_parameters": sum(weight.numel() for weight in look.model.parameters()),
    }


def segments(look: Replay) -> dict[str, list[dict[str, Any]]]:
    """What was read; each token of a decoder with what its row predicts."""
    target = [
        {
            **vars(own),
            "predicts": following.text,
            "predicts_id": following.id,
            "predicts_word": following.word,
            "predicts_special": following.special,
        }
        for own, following in zip(look.target, look.predicted, strict=True)
    ]
    sides = {"source": [vars(each) for each in look.source], "target": target}
    return {name: side for name, side in sides.items() if side}


def steps(look: Replay, rows: Sequence[int]) -> list[dict[str, Any]]:
    lens = look.lens() if rows else ()
    return [step_as_json(look.step(row), lens[row]) for row in rows]


def step_as_json(step: Prediction, lens: Sequence[Sequence[Guess]]) -> dict[str, Any]:
    said = step.chosen
    return {
        "chosen": {"id": said.id, "text": said.text, "log_prob": round(said.log_prob, 6)},
        "top": [guess(each) for each in step.top],
        "rest": round(step.rest, 6),
        "max_logit": step.max_logit,
        "log_sum_exp": step.log_sum_exp,
        "lens": [
            [{"text": each.text, "prob": round(each.prob, 4)} for each in layer] for layer in lens
        ],
    }


def guess(own: Guess) -> dict[str, Any]:
    return {**vars(own), "logit": round(own.logit, 6), "prob": round(own.prob, 9)}


def search(tree: SearchTree) -> dict[str, Any]:
    """The tree of a beam search; what stands in its first step has no parent."""
    levels = [
        [
            {
                **rounded(vars(branch)),
                "parent": branch.parent if depth else None,
                "score": round(branch.score, 6),
            }
            for branch in step
        ]
        for depth, step in enumerate(tree.steps)
    ]
    return {**vars(tree), "steps": levels, "winner": list(tree.winner)}


def alignment(look: Replay) -> dict[str, Any]:
    found = look.alignment()
    return {
        **vars(found),
        "weights": np.round(found.weights.astype(float), 4).tolist(),
        "source_places": word_places(look.source),
        "target_places": word_places(look.predicted),
    }


def rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: round(value, 6) if isinstance(value, float) else value
        for name, value in values.items()
    }


def save(look: Replay, folder: str | Path) -> None:
    """Write everything as `meta.json` and `look.safetensors`, which any language can read."""
    folder = Path(folder)
    make_folder(folder)
    values = tensors(look, whole=True)
    text = json.dumps(meta(look, values), ensure_ascii=False)
    write_output(folder / "meta.json", text)
    write_output(folder / "look.safetensors", tensor_bytes(values))
