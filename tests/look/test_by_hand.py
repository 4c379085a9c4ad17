"""Numbers that add up: each can be computed anew from what went into it, and comes out as the model had it."""

import math
import random

import pytest
import torch
from looks import RECURRENT, SHAPES, look_at

from clearhead.errors import ModelError

KINDS = ["q", "k", "v", "scores", "scaled", "masked", "pattern", "z", "concat", "out", "add", "norm", "pre", "hidden",
         "tokens", "positions", "embedded", "resid_pre", "resid_mid", "resid_post", "logits", "probs", "types",
         "classes", "ngrams"]  # fmt: skip
RECURRENT_KINDS = ["input", "forget", "candidate", "output", "cell", "state", "reset", "update", "start", "tokens",
                   "q", "k", "v", "scores", "scaled", "masked", "pattern", "z", "out", "logits", "probs",
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


@pytest.mark.parametrize("kind", RECURRENT_KINDS)
def test_two_hundred_cells_of_every_kind_inside_a_recurrent_model_too(recurrent, kind):
    for path, row, col, head in cells(recurrent, kind, -(-200 // len(RECURRENT))):
        assert (found := recurrent.by_hand(path, row, col, head)).agrees, found


def test_every_tensor_of_a_trace_can_be_told_by_hand(look, recurrent):
    assert {path.rpartition(".")[2] for path in look.paths} <= set(KINDS)
    assert {path.rpartition(".")[2] for path in recurrent.paths} <= set(RECURRENT_KINDS)


def test_a_gate_is_told_from_the_word_and_the_state_before_it(build):
    look = look_at(build(architecture="lstm"))
    found = look.by_hand("encoder.0.forget", 2, 9)
    assert [text.split()[0] for text, _ in found.lines] == [
        "encoder.tokens[2]", "+", "state", "+", "both", "σ(x)",
    ]  # fmt: skip
    # The ninth unit reads backwards: the state before is that of the next word.
    backwards = look.seen["encoder.0.state"][3, 8:].double().numpy()
    assert (found.operands["state before"] == backwards).all()
    found = look.by_hand("decoder.1.forget", 0, 3)
    assert found.operands["state before"] == pytest.approx(look.seen["decoder.start"][1].numpy())


def test_a_wrong_gate_would_not_agree(build):
    look = look_at(build(architecture="gru"))
    look.seen["decoder.0.reset"] = wrong = look.seen["decoder.0.reset"].clone()
    wrong[1, 2] += 0.01
    assert not look.by_hand("decoder.0.reset", 1, 2).agrees
    assert not look.by_hand("decoder.0.candidate", 1, 2).agrees
    assert look.by_hand("decoder.0.update", 1, 2).agrees


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
