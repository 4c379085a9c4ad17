"""Greedy and beam search find what they should, alone and in company."""

import math
from itertools import product
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.decode import decode, score, stream
from clearhead.decode.cache import TreeCache
from clearhead.decode.request import Ranking
from clearhead.model import Tap

FAMILIES = ["encoder-decoder", "decoder"]
few = settings(max_examples=10)
seeds = st.integers(0, 50)
families = st.sampled_from(FAMILIES)
sources = st.lists(st.lists(st.integers(7, 10), min_size=1, max_size=6), min_size=1, max_size=6)
WRITABLE = [7, 8, 9, 10]


def same(found, expected):
    """Equal tokens and flags, and scores as equal as float32 allows."""
    assert [[(h.ids, h.finished) for h in each] for each in found] == [
        [(h.ids, h.finished) for h in each] for each in expected
    ]
    for mine, theirs in zip(found, expected, strict=True):
        assert [h.score for h in mine] == pytest.approx([h.score for h in theirs], abs=1e-4)
        assert [h.log_prob for h in mine] == pytest.approx([h.log_prob for h in theirs], abs=1e-4)


SEARCHES = [
    {"beam": 1},
    {"beam": 3},
    {"beam": 4, "n_best": 4, "length_penalty": 1.0},
    {"beam": 3, "no_repeat_ngram": 2, "min_length": 2},
    {"beam": 2, "repetition_penalty": 1.5},
    {"beam": 1, "repetition_penalty": 1.5, "no_repeat_ngram": 1},
    {"temperature": 1.0, "n_best": 2, "seed": 3},
    {"temperature": 0.7, "top_p": 0.9, "seed": 3},
]


@given(seeds, families, sources, st.sampled_from(SEARCHES), st.integers(1, 6))
@few
def test_a_sentence_comes_out_the_same_alone_and_in_any_batch(
    build, options, seed, family, sources, search, size
):
    model, wanted = build(seed, family=family), options(**search)
    together = decode(model, sources, wanted.but(batch_size=size, max_length=None, max_extra=3))
    alone = wanted.but(max_length=None, max_extra=3)
    same(together, [decode(model, [source], alone)[0] for source in sources])


@given(seeds, families, sources, st.sampled_from(SEARCHES), st.integers(2, 6))
@few
def test_sentences_that_come_in_late_come_out_the_same(
    build, options, seed, family, sources, search, size
):
    model, wanted = (
        build(seed, family=family),
        options(max_length=None, max_extra=3, batch_size=1, **search),
    )
    with patch("clearhead.decode.search.PATIENCE", -100):
        joined = decode(model, sources * 2, wanted.but(batch_size=size))
    same(joined, decode(model, sources * 2, wanted))


@pytest.mark.parametrize("beam", [1, 3])
def test_a_batch_that_goes_on_forgets_those_that_have_left(build, options, beam):
    """Always two at a time, one much longer, so that the next comes in beside the last."""
    texts = [[7, 8, 9, 10] * n for n in (4, 3, 2, 2, 1, 1)]
    wanted, forgotten, forget = (
        options(beam=beam, max_length=None, max_extra=2, min_length=99),
        [],
        TreeCache.forget,
    )

    def counted(tree):
        forgotten.append(forget(tree))
        return forgotten[-1]

    with (
        patch("clearhead.decode.search.PATIENCE", -100),
        patch.object(TreeCache, "forget", counted),
    ):
        found = decode(build(1), texts, wanted.but(batch_size=2))
    assert any(forgotten)
    same(found, decode(build(1), texts, wanted.but(batch_size=1)))


@given(seeds, families, st.data())
@few
def test_the_order_of_sentences_does_not_matter(build, options, seed, family, data):
    model, given_order = build(seed, family=family), data.draw(sources)
    places = data.draw(st.permutations(range(len(given_order))))
    shuffled = decode(
        model, [given_order[place] for place in places], options(beam=3, batch_size=2)
    )
    same(
        shuffled,
        [decode(model, given_order, options(beam=3, batch_size=3))[place] for place in places],
    )


@given(seeds, families, sources, st.sampled_from(SEARCHES))
@few
def test_cached_decoding_equals_decoding_from_scratch(
    build, options, seed, family, sources, search
):
    """With a tap that lets all pass, every step goes through the whole sequence, uncached."""
    model = build(seed, family=family)
    same(
        decode(model, sources, options(**search)),
        decode(model, sources, options(**search), tap=Tap()),
    )


@given(seeds, families, sources)
@few
def test_a_beam_of_one_is_greedy(build, options, seed, family, sources):
    """A record is only kept by beam search, so it makes sure that beams are searched."""
    model = build(seed, family=family)
    same(
        decode(model, sources, options(beam=1), record={}), decode(model, sources, options(beam=1))
    )


@given(seeds, families, sources, st.sampled_from(SEARCHES), st.data())
@few
def test_outputs_are_the_same_where_nobody_asks_for_scores(
    build, options, seed, family, sources, search, data
):
    model, wanted = build(seed, family=family), options(**search)
    prefixes = data.draw(
        st.lists(
            st.lists(st.sampled_from(WRITABLE), max_size=2),
            min_size=len(sources),
            max_size=len(sources),
        )
    )
    scored, unscored = (
        decode(model, sources, wanted, prefixes=prefixes, scored=each) for each in (True, False)
    )
    assert [[(h.ids, h.finished) for h in each] for each in unscored] == [
        [(h.ids, h.finished) for h in each] for each in scored
    ]


def test_greedy_search_without_scores_needs_no_softmax(build, options, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a softmax over the vocabulary")

    model, source = build(0), [[7, 8, 9]]
    expected = decode(model, source, options(beam=1))[0][0].ids
    monkeypatch.setattr(torch.Tensor, "log_softmax", refuse)
    assert decode(model, source, options(beam=1), scored=False)[0][0].ids == expected


@given(seeds, families, st.lists(st.integers(7, 10), min_size=1, max_size=5))
@few
def test_greedy_takes_the_likeliest_token_at_every_step(build, options, seed, family, source):
    model = build(seed, family=family)
    ((found,),) = decode(model, [source], options(beam=1))
    ids: list[int] = []
    while len(ids) < 6:
        texts = [(source, [*ids, token]) for token in (2, *WRITABLE)]
        best = max(score(model, texts, ended=False), key=lambda each: each.log_prob).ids[-1]
        if best == 2:
            break
        ids.append(best)
    assert (found.ids, found.finished) == (tuple(ids), len(ids) < 6)


def every_output(model, source, limit, wanted):
    """All outputs that end within the limit, best first."""
    texts = [text for n in range(wanted.min_length, limit) for text in product(WRITABLE, repeat=n)]
    return sorted(
        score(model, [(source, text) for text in texts], wanted), key=lambda each: -each.score
    )


PENALTIES = [
    {},
    {"length_penalty": 0.0},
    {"length_penalty": 2.0},
    {"length_penalty": -1.0},
    {"penalty": "average"},
]


@given(
    seeds,
    families,
    st.lists(st.integers(7, 10), min_size=1, max_size=4),
    st.sampled_from(PENALTIES),
)
@few
def test_a_beam_as_wide_as_the_space_equals_brute_force(
    build, options, seed, family, source, penalty
):
    model, limit = build(seed, family=family), 4
    for changes in ({}, {"min_length": 2}):
        wanted = options(beam=400, n_best=5, max_length=limit, **penalty, **changes)
        same(decode(model, [source], wanted), [every_output(model, source, limit, wanted)[:5]])


@given(
    st.sampled_from(PENALTIES), st.floats(-50, 0), st.floats(-50, 0), st.integers(1, 30), st.data()
)
def test_no_continuation_scores_better_than_its_best_case(
    options, penalty, total, more, length, data
):
    limit = data.draw(st.integers(length + 1, 60))
    end, ranking = data.draw(st.integers(length + 1, limit)), Ranking(options(**penalty))
    assert ranking.score(total + more, end) <= ranking.best_case(total, length, limit) + 1e-12


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_the_search_stops_early_and_still_finds_what_it_would_have_found(build, options, penalty):
    """Without the stop rule every search goes on to its longest output."""
    n_stopped = 0
    for seed in range(2, 5):
        wanted, record, whole = (
            options(beam=3, n_best=1 + seed % 2, max_length=14, **penalty),
            {},
            {},
        )
        found = decode(build(seed), [[7, 8, 9], [10]], wanted, record=record)
        with patch.object(Ranking, "best_case", lambda *_: math.inf):
            same(found, decode(build(seed), [[7, 8, 9], [10]], wanted, record=whole))
        n_stopped += sum(len(record[index]) < len(whole[index]) for index in record)
    assert n_stopped > 0


@given(seeds, families, sources, st.sampled_from(PENALTIES))
@few
def test_outputs_are_sorted_distinct_and_as_long_as_allowed(
    build, options, seed, family, sources, penalty
):
    for outputs in decode(
        build(seed, family=family), sources, options(beam=5, n_best=5, **penalty)
    ):
        assert outputs == sorted(outputs, key=lambda each: (not each.finished, -each.score))
        assert len({(each.ids, each.finished) for each in outputs}) == len(outputs) > 0
        for each in outputs:
            assert len(each.log_probs) == len(each.ids) + each.finished <= 6
            assert each.finished or len(each.ids) == 6
            assert set(each.ids) <= set(WRITABLE)


@given(seeds, families, sources, st.sampled_from(SEARCHES))
@few
def test_reported_scores_are_those_of_forced_decoding(
    build, options, seed, family, sources, search
):
    model, wanted = build(seed, family=family), options(**search)
    for source, outputs in zip(sources, decode(model, sources, wanted), strict=True):
        for each in outputs:
            (forced,) = score(model, [(source, each.ids)], wanted, ended=each.finished)
            assert each.log_probs == pytest.approx(forced.log_probs, abs=1e-4)
            if wanted.repetition_penalty == 1:
                assert each.score == pytest.approx(forced.score, abs=1e-4)


def test_scores_are_the_log_softmax_of_the_model(build):
    model, source, target = build(), [7, 8, 9], [10, 8]
    logits = model(torch.tensor([source]), torch.tensor([[1, *target]]))[0]
    expected = logits.log_softmax(-1)[[0, 1, 2], [10, 8, 2]].tolist()
    ours, longer = score(model, [(source, target), ([7] * 9, [8] * 8)])
    assert ours.log_probs == pytest.approx(expected, abs=1e-5)
    assert (ours.ids, ours.finished, len(longer.log_probs)) == ((10, 8), True, 9)
    assert ours.score == pytest.approx(sum(expected) / (8 / 6) ** 0.6, abs=1e-5)


@given(seeds, families, sources)
@few
def test_an_ensemble_of_one_model_twice_is_the_model(build, options, seed, family, sources):
    model = build(seed, family=family)
    same(
        decode([model, model], sources, options(beam=3, batch_size=2)),
        decode(model, sources, options(beam=3)),
    )


def test_an_ensemble_scores_with_the_mean_of_probabilities(build):
    one, two, pair = build(1), build(2), [([7, 8], [9, 10])]
    found = torch.tensor(score([one, two], pair)[0].log_probs).exp()
    apart = torch.tensor([score(model, pair)[0].log_probs for model in (one, two)]).exp()
    torch.testing.assert_close(found, apart.mean(0))


@given(
    seeds,
    families,
    st.lists(st.integers(7, 10), min_size=1, max_size=5),
    st.sampled_from([{}, {"temperature": 1.0}]),
)
@few
def test_a_stream_is_the_whole_output_token_by_token(build, options, seed, family, source, how):
    model, wanted = build(seed, family=family), options(beam=1, **how)
    ((whole,),) = decode(model, [source], wanted)
    assert tuple(stream(model, source, wanted)) == whole.ids


@given(seeds, families, st.data())
@few
def test_every_output_begins_with_its_prefix(build, options, seed, family, data):
    model, texts = build(seed, family=family), data.draw(sources)
    prefixes = data.draw(
        st.lists(
            st.lists(st.sampled_from(WRITABLE), max_size=3),
            min_size=len(texts),
            max_size=len(texts),
        )
    )
    found = decode(model, texts, options(beam=3, batch_size=2), prefixes=prefixes)
    for source, prefix, (output,) in zip(texts, prefixes, found, strict=True):
        assert output.ids[: len(prefix)] == tuple(prefix)
        (forced,) = score(model, [(source, output.ids)], ended=output.finished)
        assert output.log_probs == pytest.approx(forced.log_probs, abs=1e-4)


def test_an_output_goes_on_from_a_prefix_of_itself_to_itself(build, options):
    for seed in range(10):
        ((whole,),) = decode(build(seed), [[7, 8, 9]], options(beam=1))
        for n in range(len(whole.ids)):
            same(
                [[whole]],
                decode(build(seed), [[7, 8, 9]], options(beam=1), prefixes=[whole.ids[:n]]),
            )


def test_learned_positions_bound_the_output(build):
    from clearhead.config import DecodeConfig

    model = build(3, family="decoder", positions="learned", max_positions=9)
    for beam in (1, 4):
        for source in ([7], [7, 8, 9, 10]):
            (outputs,) = decode(
                model, [source], DecodeConfig(beam=beam, min_length=99, guard=False)
            )
            assert len(outputs[0].ids) == 9 - len(source) + 1


def test_an_empty_source_has_an_output_too(build, options):
    for family in FAMILIES:
        same(
            decode(build(family=family), [[], [7, 8]], options())[:1],
            decode(build(family=family), [[]], options()),
        )
    assert decode(build(), [], options()) == []


def test_models_that_do_not_fit_together_are_refused(build):
    from clearhead.errors import ModelError

    for models in (
        [],
        [build(), build(vocab_size=9)],
        [build(), build(family="decoder")],
        build(family="encoder"),
    ):
        with pytest.raises(ModelError, match="one family and with one vocabulary"):
            decode(models, [[7]])
