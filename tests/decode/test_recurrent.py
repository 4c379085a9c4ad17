"""Every kind of search finds with a recurrent model what it would find without its engine, alone and in company."""

import math
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.decode import decode, score, stream
from clearhead.model import Tap
from decode.test_search import SEARCHES, same, sources

SHAPES = [
    {"architecture": "lstm", "input_feeding": True},
    {"architecture": "gru", "attention": "additive"},
    {"architecture": "lstm", "family": "decoder"},
]
shapes = st.sampled_from(SHAPES)
few = settings(max_examples=15)


@given(shapes, sources, st.sampled_from(SEARCHES), st.integers(1, 6))
@few
def test_a_sentence_comes_out_the_same_alone_in_any_batch_and_from_scratch(
    build, options, shape, sources, search, size
):
    model, wanted = build(**shape), options(max_length=None, max_extra=3, **search)
    alone = [decode(model, [source], wanted)[0] for source in sources]
    same(decode(model, sources, wanted.but(batch_size=size)), alone)
    same(decode(model, sources, wanted, tap=Tap()), alone)
    with patch("clearhead.decode.search.PATIENCE", -100):  # others come in beside them
        same(decode(model, sources, wanted.but(batch_size=size)), alone)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_terms_prefixes_scores_and_streams_are_as_with_any_model(build, options, shape):
    model, source = build(**shape), [7, 9, 8]
    (best,) = decode(model, [source], options(beam=4), prefixes=[[8, 7]], terms=[[((10, 9),)]])[0]
    assert best.ids[:2] == (8, 7)
    assert best.missing == ()
    assert "10, 9" in str(list(best.ids))
    (scored,) = score(model, [(source, best.ids)], ended=best.finished)
    assert scored.log_prob == pytest.approx(best.log_prob, abs=1e-4)
    greedy = decode(model, [source], options(beam=1))[0][0]
    assert [token for token in stream(model, source, options()) if token != 2] == list(greedy.ids)


def test_a_recurrent_model_and_a_transformer_may_decide_together(build):
    pair = [build(architecture="lstm"), build()]
    source, target = (7, 8, 9), (8, 10)
    together = score(pair, [(source, target)])[0].log_probs
    apart = [score(model, [(source, target)])[0].log_probs for model in pair]
    means = [math.log((math.exp(a) + math.exp(b)) / 2) for a, b in zip(*apart, strict=True)]
    assert together == pytest.approx(means, abs=1e-5)
