"""Terms are in the output, or the output says which are not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.decode import decode, score
from clearhead.decode.terms import progress_of

few = settings(max_examples=10)
spelling = st.lists(st.integers(7, 10), min_size=1, max_size=3).map(tuple)
term = st.lists(spelling, min_size=1, max_size=2).map(tuple)
terms = st.lists(term, max_size=3).map(tuple)
sources = st.lists(st.lists(st.integers(7, 10), min_size=1, max_size=5), min_size=1, max_size=4)


def holds(ids, term):
    return any(
        tuple(ids[i : i + len(spelling)]) == spelling for spelling in term for i in range(len(ids))
    )


@given(terms, st.lists(st.integers(7, 10), max_size=9))
def test_progress_knows_what_a_text_holds(terms, ids):
    progress = progress_of(terms, ids)
    for index, term in enumerate(terms):
        if terms.count(term) == 1:
            assert (index in progress.met) == holds(ids, term)
    assert progress.n_to_come >= 0
    assert (progress.n_to_come == 0) == (not progress.missing)


def test_a_term_asked_for_twice_must_come_twice():
    term = ((7, 8),)
    assert progress_of((term, term), (7, 8, 9)).missing == (1,)
    assert progress_of((term, term), (7, 8, 7, 8)).missing == ()


@given(st.integers(0, 50), st.sampled_from(["encoder-decoder", "decoder"]), st.data())
@few
def test_every_term_is_held_or_reported(build, options, seed, family, data):
    texts = data.draw(sources)
    wanted = [data.draw(terms) for _ in texts]
    model, search = (
        build(seed, family=family),
        options(beam=3, n_best=2, max_length=12, batch_size=2),
    )
    found = decode(model, texts, search, terms=wanted)
    for source, asked, outputs in zip(texts, wanted, found, strict=True):
        for output in outputs:
            assert all(
                holds(output.ids, term) for i, term in enumerate(asked) if i not in output.missing
            )
            assert len(output.missing) == len(output.notes)
            assert not output.missing  # three terms of three tokens fit into twelve
            (forced,) = score(model, [(source, output.ids)], search, ended=output.finished)
            assert output.score == pytest.approx(forced.score, abs=1e-4)
    alone = [
        decode(model, [text], search, terms=[asked])[0]
        for text, asked in zip(texts, wanted, strict=True)
    ]
    assert [[o.ids for o in outputs] for outputs in found] == [
        [o.ids for o in outputs] for outputs in alone
    ]


def test_a_wide_beam_finds_the_best_output_that_holds_the_term(build, options):
    from itertools import product

    for seed in range(4):
        model, source, term = build(seed), [7, 8, 9], ((8, 10), (9,))
        texts = [
            text for n in range(5) for text in product((7, 8, 9, 10), repeat=n) if holds(text, term)
        ]
        best = max(score(model, [(source, text) for text in texts]), key=lambda each: each.score)
        ((found,),) = decode(model, [source], options(beam=600, max_length=5), terms=[[term]])
        assert found.ids == best.ids


def test_terms_that_find_no_place_are_reported_and_the_output_is_as_without(build, options):
    model, search = build(1), options(beam=3, max_length=4)
    ((free,),) = decode(model, [[7, 8]], search)
    for impossible in (((7, 8, 9, 10, 7, 8),), ((3,),)):
        ((found,),) = decode(model, [[7, 8]], search, terms=[[impossible]])
        assert (found.ids, found.missing) == (free.ids, (0,))
        assert found.notes == ("term 1 found no place",)


def test_random_outputs_report_missing_terms_too(build, options):
    (outputs,) = decode(
        build(1), [[7, 8]], options(temperature=1.0, n_best=20), terms=[[((7, 8, 9),)]]
    )
    assert all((output.missing == ()) == holds(output.ids, ((7, 8, 9),)) for output in outputs)
    assert any(output.missing for output in outputs)
