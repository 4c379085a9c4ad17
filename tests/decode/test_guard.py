"""Loops, endless outputs and unread sources are noticed, decoded again and reported."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config import DecodeConfig
from clearhead.decode import decode, decoder, guard
from clearhead.decode.guard import FEW, NOTABLE, repetition, unread
from clearhead.decode.request import Hypothesis, Request, laid_out


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([], 0),
        ([8], 0),
        ([8, 9, 10, 11, 12], 0),
        ([8, 8], 0),
        ([8, 8, 8], 3),
        ([1, 8, 9, 8, 9, 2], 0),
        ([1, 8, 9, 8, 9, 8, 9, 2], 6),
        ([1, 8, 9, 8, 9, 8, 9, 8], 7),
        ([1, 2, 3, 4, 9, 1, 2, 3, 4, 8, 1, 2, 3, 4, 7], 12),
    ],
)
def test_repetition_is_measured_in_tokens(ids, expected):
    assert repetition(ids) == expected


@pytest.fixture(scope="module")
def parrot(build):
    """A model that goes on saying what it said last."""
    model = build(100, vocab_size=15, n_decoder_layers=1)
    with torch.no_grad():
        for name, weight in model.decoder.named_parameters():
            if "norm" not in name:
                weight.zero_()
        model.tokens.weight.copy_(torch.randn(15, 16) * 3)
    return model


@pytest.mark.parametrize("beam", [1, 4])
def test_a_loop_is_decoded_again_and_the_result_says_so(parrot, beam):
    sources, options = [[7, 8, 9, 10], [11, 12]], DecodeConfig(beam=beam, min_length=8)
    plain = decode(parrot, sources, options.but(guard=False))
    found = decode(parrot, sources, options)
    assert found == decode(parrot, sources, options, scored=False)
    for (first,), (kept,) in zip(plain, found, strict=True):
        assert repetition(first.ids) >= 8 > repetition(kept.ids)
        assert any("repeated itself" in note for note in kept.notes)
        assert not first.notes


def test_a_repetition_that_the_source_has_too_is_left_alone(parrot):
    ((output,),) = decode(parrot, [[8] * 9], DecodeConfig(beam=1, min_length=9, max_length=10))
    assert repetition(output.ids) >= 8
    assert not output.notes


def test_the_record_is_that_of_the_attempt_that_was_kept(parrot):
    record, second, options = {}, {}, DecodeConfig(beam=3, min_length=8)
    ((output,),) = decode(parrot, [[7, 8, 9, 10]], options, record=record)
    decode(parrot, [[7, 8, 9, 10]], options.but(no_repeat_ngram=3, guard=False), record=second)
    assert output.notes
    assert record == second


def test_a_source_that_no_head_looks_at_is_unread(build):
    request = Request(models=(laid_out(build()),), options=DecodeConfig())
    output = Hypothesis((7, 8), 0.0, (), finished=True)
    with torch.inference_mode():
        assert unread(request, request.sentence(0, [7] * 40), output) > 0.5
        assert unread(request, request.sentence(0, [7, 8]), output) == 0


def test_each_output_is_examined_once(build, monkeypatch):
    """A traced pass is not for free: one for the first output, one for the second."""
    hasty, examined = build(101, vocab_size=24, logit_bias=True), []
    with torch.no_grad():
        hasty.head.bias[2] = 40.0
    faults = guard.faults

    def counted(request, sentence, output):
        examined.append(output)
        return faults(request, sentence, output)

    monkeypatch.setattr(guard, "faults", counted)
    monkeypatch.setattr(decoder, "faults", counted)
    decode(hasty, [[7] * 40, [8] * 40], DecodeConfig(beam=2))
    assert len(examined) == 4


@given(st.lists(st.integers(0, 3), max_size=24))
def test_a_text_in_which_few_tokens_come_again_does_not_repeat_itself(ids):
    if len(ids) - len(set(ids)) < FEW:
        assert repetition(ids) < NOTABLE


def test_an_output_far_too_short_is_decoded_again(build):
    """The model ends as soon as it may; forty equal tokens get little of the attention each."""
    hasty = build(101, vocab_size=24, logit_bias=True)
    with torch.no_grad():
        hasty.head.bias[2] = 40.0
    ((first,),) = decode(hasty, [[7] * 40], DecodeConfig(beam=2, guard=False))
    ((kept,),) = decode(hasty, [[7] * 40], DecodeConfig(beam=2))
    assert (len(first.ids), len(kept.ids)) == (0, 20)
    assert kept.notes == ("decoded again, because the first output left most of its source unread",)
