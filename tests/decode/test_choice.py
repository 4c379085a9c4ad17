"""What may be chosen: rules, and the sets that random choice draws from."""

import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.decode import BLOCKED, decode, score, stream
from clearhead.decode.choose import kept, marked, repeats, top
from clearhead.text import BOT, MASK, PAD, START, UNKNOWN, USER

few = settings(max_examples=10)
seeds = st.integers(0, 50)
sources = st.lists(st.lists(st.integers(7, 10), min_size=1, max_size=5), min_size=1, max_size=3)


@given(st.integers(1, 9), st.sampled_from([1, 5, 63, 701, 20_000, 20_077]), seeds)
def test_the_best_are_found_without_sorting_all(k, n_tokens, seed):
    """No two scores are equal, so there is one answer."""
    shuffled = torch.randperm(6 * n_tokens, generator=torch.Generator().manual_seed(seed))
    scores = shuffled.float().view(2, 3, n_tokens)
    expected = scores.topk(min(k, n_tokens))
    values, tokens = top(scores, min(k, n_tokens))
    assert torch.equal(values, expected.values)
    assert torch.equal(tokens, expected.indices)


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(1, 4))
def test_a_run_of_tokens_is_blocked_where_it_would_come_again(text, n):
    def runs(ids):
        return [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]

    blocked = repeats(torch.tensor([[[-1, -1, *text]]]), n, 4)[0, 0]
    for token in range(4):
        assert blocked[token] == (
            runs([*text, token])[-1:] != [] and runs([*text, token])[-1] in runs(text)
        )


@given(st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3), min_size=1, max_size=4))
def test_tokens_that_a_text_holds_are_marked(rows):
    marks = marked(torch.tensor([rows]), 6)[0]
    assert [set(row.nonzero().flatten().tolist()) for row in marks] == [set(row) for row in rows]


@given(
    seeds,
    sources,
    st.integers(1, 3),
    st.sampled_from([{"beam": 1}, {"beam": 4}, {"temperature": 1.0}]),
)
@few
def test_no_run_of_tokens_comes_twice_when_none_may(build, options, seed, sources, n, how):
    wanted = options(no_repeat_ngram=n, max_length=9, **how)
    for (output,) in decode(build(seed), sources, wanted):
        runs = [output.ids[i : i + n] for i in range(len(output.ids) - n + 1)]
        assert len(set(runs)) == len(runs)


@given(
    seeds,
    sources,
    st.integers(0, 6),
    st.sampled_from([{"beam": 1}, {"beam": 4}, {"temperature": 1.0}]),
)
@few
def test_no_output_ends_before_its_minimum_length(build, options, seed, sources, n, how):
    for (output,) in decode(build(seed), sources, options(min_length=n, **how)):
        assert len(output.ids) >= n


def test_a_rule_that_leaves_nothing_to_choose_cuts_the_output_off(build, options):
    """Four tokens may be written once each, and the end is too early."""
    for how in ({"beam": 1}, {"beam": 3}, {"temperature": 1.0}):
        ((output,),) = decode(build(), [[7, 8]], options(no_repeat_ngram=1, min_length=6, **how))
        assert (len(output.ids), output.finished) == (4, False)


@given(seeds, sources)
@few
def test_a_repetition_penalty_makes_repetition_rarer_and_reports_plain_log_probs(
    build, options, seed, sources
):
    def repeated(penalty):
        found = decode(
            build(seed), sources, options(beam=1, repetition_penalty=penalty, min_length=6)
        )
        return sum(len(output.ids) - len(set(output.ids)) for (output,) in found)

    assert repeated(50.0) <= repeated(1.0)


def test_blocked_tokens_are_never_chosen(build, options):
    for seed in range(5):
        for how in ({"beam": 1}, {"beam": 4, "n_best": 4}, {"temperature": 3.0, "n_best": 9}):
            (outputs,) = decode(
                build(seed), [[7, 8, 9]], options(**how), blocked=(*BLOCKED, 8, 9, 99)
            )
            assert {token for output in outputs for token in output.ids} <= {7, 10}


@pytest.mark.parametrize("how", [{"beam": 1}, {"beam": 3, "n_best": 3}, {"temperature": 2.0}])
def test_no_output_holds_a_special_token_however_likely_it_is(build, options, how):
    """The model wants to say the mask, the user or the bot; all are as likely as can be."""
    model = build(200, logit_bias=True, family="decoder")
    with torch.no_grad():
        model.head.bias.fill_(0)[[PAD, START, UNKNOWN, MASK, USER, BOT]] = 40.0
    for outputs in decode(model, [[7, 8], [9]], options(min_length=3, **how)):
        assert all(set(output.ids) <= {7, 8, 9, 10} for output in outputs)
    assert set(stream(model, [7, 8], options(min_length=3))) <= {7, 8, 9, 10}


@given(seeds, sources, st.permutations(range(5)))
@few
def test_a_draw_depends_on_what_is_asked_and_not_on_its_place(build, options, seed, sources, order):
    """Whatever stands beside it: other texts, other places, nothing at all."""
    model, wanted = build(seed), options(temperature=2.0, n_best=2, min_length=4, seed=seed)
    others = [[7], [8, 8], [9, 10, 7], [10] * 5]
    texts = [*others, sources[0]]
    found = decode(model, [texts[place] for place in order], wanted.but(batch_size=2))
    (alone,) = decode(model, [sources[0]], wanted)
    assert [each.ids for each in found[order.index(4)]] == [each.ids for each in alone]


@given(seeds, sources)
@few
def test_the_same_seed_draws_the_same_and_another_draws_differently(build, options, seed, sources):
    wanted = options(temperature=2.0, n_best=4, max_length=12, min_length=12, seed=seed)
    assert decode(build(seed), sources, wanted) == decode(build(seed), sources, wanted)
    assert decode(build(seed), sources, wanted) != decode(
        build(seed), sources, wanted.but(seed=seed + 1)
    )


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_as_often_as_the_model_says(build, options, temperature):
    """Chi-squared with four degrees of freedom stays below 23.5 in 9,999 of 10,000 cases."""
    model, n_draws = build(4), 1000
    (outputs,) = decode(
        model,
        [[7, 8]],
        options(temperature=temperature, n_best=n_draws, max_length=1, batch_size=500),
    )
    found = Counter(output.ids or (2,) for output in outputs)
    tokens = [(token,) for token in (2, 7, 8, 9, 10)]
    logits = torch.tensor(
        [each.log_prob for each in score(model, [([7, 8], token) for token in tokens], ended=False)]
    )
    expected = (logits / temperature).softmax(0) * n_draws
    assert (
        sum((found[token] - e) ** 2 / e for token, e in zip(tokens, expected.tolist(), strict=True))
        < 23.5
    )


@given(seeds, st.integers(0, 12), st.floats(0.05, 1.0), st.floats(0.0, 1.0))
def test_random_choice_keeps_the_sets_it_should(options, seed, top_k, top_p, min_p):
    scores = (
        torch.randn(2, 1, 10, generator=torch.Generator().manual_seed(seed))
        .sort(descending=True)
        .values.double()
    )
    found = kept(scores, options(temperature=1.0, top_k=top_k, top_p=top_p, min_p=min_p))
    for row, probs in zip(scores[:, 0].softmax(-1).tolist(), found[:, 0].tolist(), strict=True):
        allowed = [
            p for rank, p in enumerate(row) if p >= min_p * row[0] and (rank < top_k or not top_k)
        ]
        before = [sum(allowed[:rank]) for rank in range(len(allowed))]
        allowed = [
            p for p, b in zip(allowed, before, strict=True) if b < top_p * sum(allowed) - 1e-12
        ]
        assert [p for p in probs if p] == pytest.approx(allowed)
        assert probs[0] > 0


def test_top_k_of_one_is_greedy(build, options):
    greedy = decode(build(2), [[7, 8, 9], [10]], options(beam=1))
    drawn = decode(build(2), [[7, 8, 9], [10]], options(temperature=5.0, top_k=1))
    assert [(o.ids, o.log_prob) for (o,) in drawn] == [(o.ids, o.log_prob) for (o,) in greedy]
    assert all(math.isfinite(o.score) for (o,) in drawn)
