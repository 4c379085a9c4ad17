"""Numbers that add up: each can be computed anew from what went into it, and comes out as the model had it."""

import math
import random

import pytest
import torch
from looks import SHAPES, look_at

from clearhead.errors import ModelError

KINDS = ["q", "k", "v", "scores", "scaled", "masked", "pattern", "z", "concat", "out", "add", "norm", "pre", "hidden",
         "tokens", "positions", "embedded", "resid_pre", "resid_mid", "resid_post", "logits", "probs", "types",
         "classes"]  # fmt: skip


def cells(look, kind, n):
    """Random cells among all tensors of a kind."""
    paths = [
        path
        for path in (*look.paths, "encoder.probs", "decoder.probs")
        if path.rpartition(".")[2] == kind
    ]
    paths = [
        path
        for path in paths
        if not path.endswith("probs") or path.replace("probs", "logits") in look.paths
    ]
    for _ in range(n if paths else 0):
        path = random.choice(paths)
        values = look[path].values
        place = [random.randrange(size) for size in values.shape]
        head = place.pop(0) if values.ndim == 3 else None
        yield path, *([*place, 0][:2]), head


@pytest.mark.parametrize("kind", KINDS)
def test_two_hundred_cells_of_every_kind_come_out_as_the_model_had_them(look, kind):
    for path, row, col, head in cells(look, kind, -(-200 // len(SHAPES))):
        found = look.by_hand(path, row, col, head)
        assert found.agrees, found
        assert not found.edited


def test_every_tensor_of_a_trace_can_be_told_by_hand(look):
    assert {path.rpartition(".")[2] for path in look.paths} <= set(KINDS)


def test_a_wrong_number_would_not_agree(look):
    path = next(path for path in look.paths if path.endswith("pattern"))
    found = look.by_hand(path, 1, 0)
    wrong = look.seen[path].clone()
    wrong[0, 1, 0] += 0.001
    look.seen[path] = wrong
    assert found.agrees
    assert not look.by_hand(path, 1, 0).agrees


def test_attention_is_told_in_the_order_of_the_paper(build):
    look = look_at(build())
    found = look.by_hand("decoder.1.self.2.pattern", 3, 1)
    words = [text.split()[0] for text, _ in found.lines]
    assert words == ["q", "÷", "mask:", "exp(x", "sum", "÷"]
    assert found.lines[0][1] == pytest.approx(found.operands["q"] @ found.operands["k"])
    assert look.by_hand("decoder.1.self.2.pattern", 1, 3).value == 0
    assert look.by_hand("decoder.1.self.masked", 1, 3, head=2).value == -math.inf


def test_an_edited_number_says_so(build):
    look = look_at(
        build(),
        edits={"decoder.0.self.out": torch.zeros_like},
        taps={"decoder.0.self.out": torch.zeros_like},
    )
    found = look.by_hand("decoder.0.self.out", 1, 1)
    assert found.edited
    assert "edited here" in str(found)
    assert look.by_hand("decoder.0.self.add", 1, 1).agrees


@pytest.mark.parametrize(("path", "row", "col"), [("decoder.1.cross.9.pattern", 0, 0), ("decoder.1.cross.q", 0, 4),
                                                  ("decoder.1.cros.q", 0, 0), ("decoder.logits", 5, 0)])  # fmt: skip
def test_what_is_not_there_is_refused_with_what_is(build, path, row, col):
    with pytest.raises(ModelError, match=r"Use 0 to|Did you mean"):
        look_at(build()).by_hand(path, row, col)
