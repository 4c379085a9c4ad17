"""A look as data: JSON and tensors for the page, for files and for other programs ("clearhead-look/1")."""

import html
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from safetensors.numpy import save_file
from torch import Tensor

from clearhead.look.guesses import Guess
from clearhead.look.look import Look
from clearhead.look.tokens import Token

FORMAT = "clearhead-look/1"
META, TENSORS = "meta.json", "look.safetensors"
FOR_PAGE = (
    "q",
    "k",
    "v",
    "scores",
    "pattern",
    "z",
    "tokens",
    "positions",
    "types",
    "resid_mid",
    "resid_post",
)
"""What a page is always given; scaled and masked it computes from these."""
FOR_SMALL_PAGE = ("embedded", "add", "norm")
"""What it is given as well where all of it takes no more than so many bytes."""
SMALL = 1_300_000
STRIPS = ("tokens", "positions", "types", "resid_mid", "resid_post")
"""What it only draws, and never calculates with: half precision will do where there is much of it."""
N_UNITS = 12
"""Feed-forward units told of at each position."""


def tensors(look: Look, whole: bool = False) -> dict[str, np.ndarray]:
    """The tensors that a page draws, or all."""
    if whole:
        return {path: array(values) for path, values in look.seen.items()}
    found, more = (
        {
            path: array(values)
            for path, values in look.seen.items()
            if path.rpartition(".")[2] in names
        }
        for names in (FOR_PAGE, FOR_SMALL_PAGE)
    )
    found |= {path: array(values) for path, values in summaries(look).items()}
    found |= {
        f"film.{path}": frames for path, frames in (look.film.patterns.items() if look.film else ())
    }
    is_small = sum(values.nbytes for values in (*found.values(), *more.values())) <= SMALL
    if is_small:
        return found | more | norms(look)
    return {
        path: values.astype(np.float16) if path.rpartition(".")[2] in STRIPS else values
        for path, values in found.items()
    }


def array(values: Tensor) -> np.ndarray:
    return np.ascontiguousarray(values.detach().float().cpu().numpy())


def summaries(look: Look) -> dict[str, Tensor]:
    """What large tensors say in short: how much each head and sub-layer adds, and which hidden units are active."""
    found: dict[str, Tensor] = {}
    for part in graph(look):
        path = part["id"]
        if part["kind"] == "attention":
            found[f"{path}.head_norms"] = look.head_outputs(path).norm(dim=-1)
        elif part["kind"] == "ff":
            hidden = look.seen[f"{path}.hidden"]
            units = hidden.abs().topk(min(N_UNITS, hidden.size(-1))).indices
            found |= {
                f"{path}.top_units": units,
                f"{path}.top_values": hidden.gather(1, units),
                f"{path}.zero_share": (hidden <= 0).float().mean(dim=-1),
            }
        if part["kind"] != "output":
            found[f"{path}.stats"] = stats(look, path)
    return found


def stats(look: Look, path: str) -> Float[Tensor, "T 4"]:
    """Lengths of what passes by a sub-layer and of what it adds; mean and deviation of what enters its norm."""
    added, out = look.seen[f"{path}.add"], look.seen[f"{path}.out"]
    skipped = added - out
    normed = skipped if look.model.config.norm == "pre" else added
    return torch.stack(
        [skipped.norm(dim=-1), out.norm(dim=-1), normed.mean(-1), normed.std(-1, correction=0)],
        dim=-1,
    )


def norms(look: Look) -> dict[str, np.ndarray]:
    """The weights of each sub-layer's norm."""
    found: dict[str, np.ndarray] = {}
    for part in (part["id"] for part in graph(look) if part["kind"] != "output"):
        norm = look.norm_of(part)
        found |= {f"{part}.norm_{name}": array(weight) for name, weight in norm.named_parameters()}
    return found


def meta(look: Look, whole: bool = False) -> dict[str, Any]:
    """Everything but the tensors."""
    config, search = look.model.config, look.beam
    n_parameters = sum(weight.numel() for weight in look.model.parameters())
    kept = ["d_model", "n_heads", "d_ff", "vocab_size", "norm", "norm_eps", "activation", "positions",
            "scale_embeddings", "embedding_norm"]  # fmt: skip
    layers = {
        f"n_{stack}_layers": len(getattr(look.model, stack).layers)
        if hasattr(look.model, stack)
        else 0
        for stack in ("encoder", "decoder")
    }
    return {
        "format": FORMAT,
        "family": look.family,
        "task": look.task,
        "model": {
            "name": look.task,
            **{key: getattr(config, key) for key in kept},
            **layers,
            "n_parameters": n_parameters,
        },
        "edits": list(look.edits),
        "notes": list(look.notes),
        "input": look.input,
        "output": look.output,
        "n_given": look.n_given,
        "segments": segments(look),
        "graph": graph(look),
        "tensors": {
            path: {"shape": list(values.shape)}
            | ({"axes": list(look.axes(path))} if path in look.seen else {})
            for path, values in tensors(look, whole).items()
        },
        "steps": steps(look, range(len(look.target))),
        **(
            {
                "classes": [{"label": each.text, **guess(each)} for each in look.verdict],
                "several": look.several,
            }
            if look.classes
            else {}
        ),
        **({"change": changed(look)} if look.before is not None else {}),
        **(
            {
                "gaps": [
                    {"row": row, **step}
                    for row, step in zip(look.gaps, steps(look, look.gaps), strict=True)
                ]
            }
            if look.family == "encoder" and not look.classes
            else {}
        ),
        **({"film": film(look)} if look.film else {}),
        "beam": None
        if search is None
        else {
            "width": search.width,
            "penalty": search.penalty,
            "length_penalty": search.length_penalty,
            "steps": [
                [
                    {
                        **rounded(vars(node)),
                        "score": round(node.score, 6),
                        "parent": node.parent if depth else None,
                    }
                    for node in nodes
                ]
                for depth, nodes in enumerate(search.steps)
            ],
            "winner": list(search.winner),
        },
        "alignment": alignment(look) if look.family == "encoder-decoder" else None,
    }


def segments(look: Look) -> dict[str, list[dict[str, Any]]]:
    """What was read; each token of a decoder with what its row predicts."""
    target = [
        {
            **token(own),
            "predicts": other.text,
            "predicts_id": other.id,
            "predicts_word": other.word,
            "predicts_special": other.special,
        }
        for own, other in zip(look.target, look.predicted, strict=True)
    ]
    sides = {"source": [token(each) for each in look.source], "target": target}
    return {name: side for name, side in sides.items() if side}


def token(own: Token) -> dict[str, Any]:
    return {"id": own.id, "text": own.text, "word": own.word, "special": own.special}


def graph(look: Look) -> list[dict[str, Any]]:
    """The parts of the model in the order of the forward pass."""
    config = look.model.config
    d_k = config.d_model // config.n_heads
    parts: list[dict[str, Any]] = []
    for path in look.paths:
        part, _, name = path.rpartition(".")
        if name == "pattern":
            _, queries, keys = look.axes(path)
            parts.append(
                {
                    "id": part,
                    "kind": "attention",
                    "queries": queries,
                    "keys": keys,
                    "n_heads": config.n_heads,
                    "d_k": d_k,
                    "causal": part.startswith("decoder") and part.endswith("self"),
                    "scale": math.sqrt(d_k),
                }
            )
        elif name == "hidden":
            parts.append({"id": part, "kind": "ff"})
        elif name in ("logits", "classes"):
            parts.append({"id": path, "kind": "output"})
    return parts


def steps(look: Look, rows: Sequence[int]) -> list[dict[str, Any]]:
    """What was said in each row, and what else could have been."""
    lens = look.lens() if rows else ()
    found = []
    for row in rows:
        step = look.step(row)
        chosen = {
            "id": step.chosen.id,
            "text": step.chosen.text,
            "log_prob": round(step.chosen.log_prob, 6),
        }
        found.append(
            {
                "chosen": chosen,
                "top": [guess(each) for each in step.top],
                "rest": round(step.rest, 6),
                "max_logit": step.max_logit,
                "log_sum_exp": step.log_sum_exp,
                "lens": [
                    [{"text": each.text, "prob": round(each.prob, 4)} for each in layer]
                    for layer in lens[row]
                ],
            }
        )
    return found


def guess(own: Guess) -> dict[str, Any]:
    return {
        "id": own.id,
        "text": own.text,
        "logit": round(own.logit, 6),
        "prob": round(own.prob, 9),
    }


def alignment(look: Look) -> dict[str, Any]:
    found = look.alignment()
    weights = np.round(found.weights.astype(float), 4).tolist()
    return {
        "source": list(found.source),
        "target": list(found.target),
        "weights": weights,
        "head": found.head,
    }


def film(look: Look) -> dict[str, Any]:
    """What the frames of the film show; probes are cut to the same tokens in every frame."""
    assert look.film is not None, "asked only where there is one"
    sides = {"source": look.film.probe.source, "target": look.film.probe.target}
    texts = {name: look.spell(ids) for name, ids in sides.items()}
    return {"steps": list(look.film.steps), "loss": list(look.film.losses), **texts}


def changed(look: Look) -> dict[str, Any]:
    found = look.change()
    return {**rounded(vars(found)), "words": [list(word) for word in found.words]}


def rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: round(value, 6) if isinstance(value, float) else value
        for name, value in values.items()
    }


def save(look: Look, folder: Path) -> None:
    """All of a look in two files that any language can read."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / META).write_text(
        json.dumps(meta(look, whole=True), ensure_ascii=False), encoding="utf-8"
    )
    save_file(tensors(look, whole=True), folder / TENSORS)


def frame(look: Look) -> str:
    """The page for a notebook, in a frame of its own so that nothing in it meets the rest."""
    inside = html.escape(look.html(), quote=True)
    return (
        f'<iframe srcdoc="{inside}" sandbox="allow-scripts allow-downloads" title="A look inside" '
        f'style="width: 100%; height: 720px; border: 0"><pre>{html.escape(str(look))}</pre></iframe>'
    )
