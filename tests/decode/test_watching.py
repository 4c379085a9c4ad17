"""Watching a search, stopping it, editing it, and asking what else could have been said."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.decode import (
    Best,
    Drawn,
    Request,
    Search,
    alternatives,
    decode,
    decode_each,
    laid_out,
    score,
    stream,
)
from clearhead.model import Trace

few = settings(max_examples=10)
seeds = st.integers(0, 50)
sources = st.lists(st.lists(st.integers(7, 10), min_size=1, max_size=5), min_size=1, max_size=4)


def asked(request, sources):
    return [request.sentence(index, source) for index, source in enumerate(sources)]


def text_of(steps, depth, rank):
    """The tokens on the way to a candidate."""
    tokens = []
    while depth >= 0:
        candidate = steps[depth][rank]
        tokens.insert(0, candidate.token)
        depth, rank = depth - 1, candidate.parent
    return tokens


@given(seeds, sources)
@few
def test_the_record_holds_the_whole_search_and_does_not_change_it(build, options, seed, sources):
    record = {}
    found = decode(build(seed), sources, options(beam=3, n_best=3, batch_size=2), record=record)
    assert found == decode(build(seed), sources, options(beam=3, n_best=3, batch_size=2))
    for index, outputs in enumerate(found):
        steps = record[index]
        ends = [
            (depth, c) for depth, step in enumerate(steps) for c in step if c.fate == "finished"
        ]
        finished = {tuple(text_of(steps, depth, c.rank)[:-1]): c.cumulative for depth, c in ends}
        for output in outputs:
            if output.finished:
                assert finished[output.ids] == pytest.approx(output.log_prob, abs=1e-4)
        for step in steps:
            assert [c.rank for c in step] == list(range(len(step)))
            assert [c.cumulative for c in step] == sorted(
                (c.cumulative for c in step), reverse=True
            )
            assert all((c.fate == "pruned") == (c.rank >= 3) for c in step)
        for depth, step in enumerate(steps[1:], start=1):
            assert all(steps[depth - 1][c.parent].fate == "kept" for c in step)


@given(seeds, sources, st.integers(0, 8), st.sampled_from([{"beam": 1}, {"beam": 3, "n_best": 2}]))
@few
def test_a_search_that_is_stopped_answers_with_what_it_has(
    build, options, seed, sources, n_steps, how
):
    asked = iter(range(n_steps))
    stopping = lambda: next(asked, None) is None  # noqa: E731
    found = decode(build(seed), sources, options(batch_size=2, **how), should_stop=stopping)
    whole = decode(build(seed), sources, options(batch_size=2, **how))
    for outputs, complete in zip(found, whole, strict=True):
        assert outputs
        assert outputs == complete or all(output.notes == ("stopped",) for output in outputs)
        assert all(len(output.ids) <= n_steps for output in outputs)


@pytest.mark.parametrize("how", [{"beam": 1}, {"beam": 3, "n_best": 2}, {"temperature": 1.0}])
@pytest.mark.parametrize("family", ["encoder-decoder", "decoder"])
def test_a_request_that_joins_a_running_batch_gets_what_it_gets_alone(build, options, family, how):
    """Sentences come into a batch that goes on, one at every step; one of them is cancelled."""
    model, wanted = build(3, family=family), options(max_length=8, **how)
    texts = [[7, 8, 9, 10], [9], [8, 8], [10, 7, 7], [9, 10]]
    request = Request(models=(laid_out(model),), options=wanted)
    way = Drawn(request) if wanted.temperature else Best(request)
    first, *others = asked(request, texts)
    with torch.inference_mode():
        search, found = Search(request, [first], way), []
        while search or others:
            if others:
                search.join(Search(request, [others.pop(0)], way))
            found += search.take()
            found += search.take(lambda slot: slot.sentence.index == 2 and slot.length == 3)
            if search:
                search.advance()
    alone = decode(model, texts, wanted.but(batch_size=1))
    assert sorted(sentence.index for sentence, _ in found) == [0, 1, 2, 3, 4]
    for sentence, outputs in found:
        if sentence.index == 2:
            assert len(outputs[0].ids) <= 3
        else:
            assert [each.ids for each in outputs] == [each.ids for each in alone[sentence.index]]


def test_a_stream_stops_when_told(build, options):
    asked = iter(range(3))
    tokens = list(
        stream(
            build(), [7, 8], options(min_length=6), should_stop=lambda: next(asked, None) is None
        )
    )
    assert len(tokens) == 4


def test_the_value_of_a_stream_is_the_hypothesis(build, options):
    def listen():
        whole = yield from stream(build(2), [7, 8, 9], options())
        assert whole == decode(build(2), [[7, 8, 9]], options(beam=1))[0][0]
        yield -1

    assert list(listen())[-1] == -1


def test_outputs_come_as_they_are_done(build, options):
    request = Request(models=(laid_out(build(1)),), options=options(beam=2, batch_size=1))
    sources = [[7], [7, 8, 9], [8, 9]]
    found = list(decode_each(request, asked(request, sources)))
    assert [sentence.index for sentence, _ in found] == [1, 2, 0]  # the longest first
    expected = decode(build(1), sources, options(beam=2))
    assert [outputs[0].ids for _, outputs in sorted(found, key=lambda each: each[0].index)] == [
        outputs[0].ids for outputs in expected
    ]


def test_decoding_leaves_no_mode_behind(build, options):
    request = Request(models=(laid_out(build(1)),), options=options(beam=2, batch_size=1))
    for _ in decode_each(request, asked(request, [[7], [8, 9]])):
        assert not torch.is_inference_mode_enabled()


def test_an_edit_changes_the_text(build, options):
    """With the cross-attention silenced, the output no longer depends on the source."""
    silence = {f"decoder.{layer}.cross.z": torch.zeros_like for layer in range(2)}
    changed = 0
    for seed in range(6):
        for how in ({"beam": 1}, {"beam": 3}):
            plain = decode(build(seed), [[7, 8, 9], [10, 10]], options(**how))
            edited = decode(build(seed), [[7, 8, 9], [10, 10]], options(**how), tap=Trace(silence))
            assert edited[0][0].ids == edited[1][0].ids
            changed += edited != plain
    assert changed


@given(
    seeds,
    st.sampled_from(["encoder-decoder", "decoder"]),
    st.lists(st.integers(7, 10), max_size=3),
    st.integers(1, 9),
)
@few
def test_alternatives_are_the_likeliest_next_tokens_with_their_continuations(
    build, options, seed, family, prefix, n
):
    model, source, search = build(seed, family=family), [7, 8, 9], options(beam=3)
    found = alternatives(model, source, prefix, n=n, options=search)
    tokens = [(*each.ids, 2)[len(prefix)] for each in found]
    follows = score(model, [(source, [*prefix, token]) for token in (2, 7, 8, 9, 10)], ended=False)
    best = sorted(follows, key=lambda each: -each.log_prob)[:n]
    assert tokens == [each.ids[-1] for each in best]
    for token, each in zip(tokens, found, strict=True):
        assert each.ids[: len(prefix)] == tuple(prefix)
        if token != 2:
            assert [each.ids] == [
                o.ids for (o,) in decode(model, [source], search, prefixes=[(*prefix, token)])
            ]
