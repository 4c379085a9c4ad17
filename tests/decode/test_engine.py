"""The engine is the model, step by step, whatever happens to the sentences in between."""

import gc
import weakref
from copy import deepcopy
from functools import cache
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from clearhead.config import DecodeConfig
from clearhead.decode import decode
from clearhead.decode.engine import TappedEngine, TransformerEngine, fast_engine
from clearhead.decode.flat import LEAST_PRODUCT, MANY_HEADS, added, attended
from clearhead.decode.request import Request, laid_out
from clearhead.errors import ModelError
from clearhead.model import Tap

SHAPES = [
    {},
    {"norm": "pre"},
    {"norm": "pre", "bias": False, "activation": "gelu"},
    {"bias": False, "activation": "silu", "tie": "output", "source_vocab_size": 9},
    {"activation": "gelu_tanh", "tie": "none", "logit_bias": True},
    {"embedding_norm": True, "n_token_types": 2, "norm_eps": 0.1},
    {
        "norm": "pre",
        "positions": "learned",
        "max_positions": 64,
        "scale_embeddings": False,
        "norm_eps": 0.1,
    },
    {"positions": "halves", "activation": "silu", "logit_bias": True},
    {"family": "decoder"},
    {"family": "decoder", "norm": "pre", "bias": False},
]
RECURRENT = [
    {"architecture": "lstm"},
    {"architecture": "lstm", "input_feeding": True, "n_decoder_layers": 1, "bias": False},
    {"architecture": "lstm", "attention": "additive", "tie": "none", "logit_bias": True},
    {"architecture": "lstm", "family": "decoder", "positions": "learned", "max_positions": 1},
    {"architecture": "gru", "attention": "additive", "input_feeding": True},
    {"architecture": "gru", "tie": "output", "source_vocab_size": 9, "scale_embeddings": False},
    {"architecture": "gru", "family": "decoder", "bias": False},
]
shapes = st.sampled_from(SHAPES + RECURRENT)
texts = st.lists(st.integers(0, 7), min_size=1, max_size=6).map(tuple)
pairs = st.lists(st.tuples(texts, texts), min_size=1, max_size=3)
steps = st.integers(1, 6)


@given(
    st.sampled_from([1, 15, 16, 40]), st.sampled_from([1, 4]), st.integers(1, 5),
    st.sampled_from([1, 12, 13, 30]), st.sampled_from([8, 32]), st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_both_ways_of_attention_agree(n, n_heads, width, n_slots, d_head, is_masked, seed):
    assert 15 * 4 < MANY_HEADS <= 16 * 4, "both sides of the limits are drawn"
    assert 12 * 32 < LEAST_PRODUCT <= 13 * 32, "both sides of the limits are drawn"
    draw = torch.Generator().manual_seed(seed)
    q = torch.randn(n, width, n_heads, d_head, generator=draw).transpose(1, 2)
    k, v = torch.randn(2, n, n_heads, n_slots + 7, d_head, generator=draw).narrow(3, 0, n_slots)
    mask = None
    if is_masked:
        mask = torch.rand(n, 1, width, n_slots, generator=draw) < 0.6
        mask[..., -1] = True  # everybody sees itself
    expected = F.scaled_dot_product_attention(q, k, v, mask)
    assert_close(attended(q, k, v, added(mask, q.dtype)), expected, rtol=1e-4, atol=1e-5)


def sentences(model, pairs, n_prefix=0):
    """Sources with prompts, of which the last tokens may be a prefix."""
    request = Request(models=(laid_out(model),), options=DecodeConfig())
    made = []
    for index, (source, prompt) in enumerate(pairs):
        n = min(n_prefix, len(prompt))
        context = prompt[: len(prompt) - n]
        sentence = request.sentence(
            index, source if model.config.reads else context, prompt[len(context) :]
        )
        made.append(sentence)
    return made


def whole(model, sentence, tokens=()):
    """What the model itself says of a sentence and what was written after its prompt."""
    target = torch.tensor([[*sentence.prompt, *tokens]])
    source = torch.tensor([sentence.source]) if model.config.reads else None
    return model(source, target)[0].log_softmax(dim=-1)


@pytest.fixture(scope="module")
def exact(build):
    """Makes small models in double precision: some of them are so steep that single precision,
    which rounds differently in another order, is off by 1e-4 in both ways of computing."""
    return cache(lambda **changes: deepcopy(build(**changes)).double())


def same(found, expected):
    assert_close(found, expected, atol=1e-9, rtol=1e-9)


def one_more(engine, tokens):
    """A step with one hypothesis for each sentence."""
    return engine.step(tokens, torch.zeros_like(tokens))


def engines(model):
    return fast_engine(laid_out(model)), TappedEngine(model, Tap())


@given(shapes, pairs, steps, st.integers(0, 3), st.data())
def test_engine_equals_model_at_every_step(exact, shape, pairs, n_steps, n_prefix, data):
    model, asked = exact(**shape), sentences(exact(**shape), pairs, n_prefix)
    written = torch.randint(8, (len(asked), n_steps))
    with torch.inference_mode():
        for engine in engines(model):
            found = engine.read(asked, 1)
            for row, sentence in zip(found, asked, strict=True):
                same(
                    row[-1 - sentence.n_prefix :], whole(model, sentence)[-1 - sentence.n_prefix :]
                )
            for step in range(n_steps):
                found = one_more(engine, written[:, step : step + 1])
                for row, sentence, tokens in zip(found, asked, written.tolist(), strict=True):
                    same(row[0], whole(model, sentence, tokens[: step + 1])[-1])


@given(
    shapes,
    pairs,
    st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=1, max_size=4),
)
def test_hypotheses_that_change_parents_go_on_as_if_alone(exact, shape, pairs, choices):
    """Three hypotheses for each sentence; at every step each goes on from one of its sentence."""
    model, asked = exact(**shape), sentences(exact(**shape), pairs)
    with torch.inference_mode():
        for engine in engines(model):
            engine.read(asked, 3)
            rows = [[(token,) for token in (3, 5, 7)] for _ in asked]
            parents = torch.zeros(len(asked), 3, dtype=torch.long)
            for step, choice in enumerate(choices):
                found = engine.step(
                    torch.tensor([[row[-1] for row in each] for each in rows]), parents
                )
                for sentence, each, log_probs in zip(asked, rows, found, strict=True):
                    for row, ours in zip(each, log_probs, strict=True):
                        same(ours, whole(model, sentence, row)[-1])
                rows = [
                    [(*each[parent], (step + parent) % 8) for parent in choice] for each in rows
                ]
                parents = torch.tensor([choice] * len(asked))


@given(shapes, st.lists(pairs, min_size=2, max_size=3), steps, st.booleans())
def test_sentences_that_leave_and_join_go_on_as_if_alone(exact, shape, parties, n_steps, leave):
    """Batches of different lengths, with different sources, become one after some steps."""
    model = exact(**shape)
    with torch.inference_mode():
        for kind in range(2):
            engine, asked, written = None, [], []
            for n_before, pairs in enumerate(parties):
                other, others = engines(model)[kind], sentences(model, pairs)
                other.read(others, 1)
                texts = [[] for _ in others]
                for step in range(n_before):
                    one_more(other, torch.full((len(others), 1), step))
                    texts = [[*text, step] for text in texts]
                if engine is None:
                    engine = other
                else:
                    engine.join(other)
                asked, written = asked + others, written + texts
                if leave and len(asked) > 1:
                    asked, written = [asked[-1], *asked[1:-1]], [written[-1], *written[1:-1]]
                    engine.keep(torch.tensor([len(asked), *range(1, len(asked))]))
            for step in range(n_steps):
                found = one_more(engine, torch.full((len(asked), 1), 7 - step))
                written = [[*text, 7 - step] for text in written]
                for row, sentence, text in zip(found, asked, written, strict=True):
                    same(row[0], whole(model, sentence, text)[-1])


def test_hypotheses_share_their_sentences_keys_and_do_not_copy_them(build):
    engine = TransformerEngine(laid_out(build()))
    with torch.inference_mode():
        engine.read(sentences(build(), [((4, 5, 6), (1,)), ((7,), (1,))]), 3)
        engine.step(torch.tensor([[4, 5, 6]] * 2), torch.zeros(2, 3, dtype=torch.long))
    assert [keys.shape[0] for keys, _ in engine.cache.source] == [2, 2]


def test_the_cache_grows_when_it_is_full(exact):
    flat = laid_out(exact(family="decoder"))
    cache = flat.new_cache([1], capacity=1)
    with torch.inference_mode():
        found = [flat(torch.tensor([[4]]), cache)]
        for token in (5, 6, 7, 4):
            cache.grow(torch.zeros(1, 1, dtype=torch.long))
            found.append(flat(torch.tensor([[token]]), cache))
    same(torch.cat(found, dim=1), exact(family="decoder")(target=torch.tensor([[4, 5, 6, 7, 4]])))


def test_only_the_last_logits_are_computed_where_only_they_are_asked_for(build):
    flat, target = laid_out(build(family="decoder")), torch.randint(8, (2, 7))
    with torch.inference_mode():
        every = flat(target, flat.new_cache([7, 7], 7))
        assert_close(flat(target, flat.new_cache([7, 7], 7), n_last=3), every[:, -3:])


def test_learned_positions_end_in_the_engine_too(build):
    model = build(family="decoder", positions="learned", max_positions=4)
    engine = TransformerEngine(laid_out(model))
    with torch.inference_mode():
        engine.read(sentences(model, [((), (4, 5, 6, 7))]), 1)
        with pytest.raises(ModelError, match=r"5 tokens .* model\.max_positions = 4"):
            one_more(engine, torch.tensor([[4]]))


def test_the_memory_of_an_engine_that_nobody_needs_is_free_at_once(build):
    engine = TransformerEngine(laid_out(build(family="decoder")))
    engine.read(sentences(build(family="decoder"), [((), (4, 5))]), 1)
    gone = weakref.ref(engine.cache)
    gc.disable()
    try:
        del engine
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("shape", RECURRENT, ids=str)
def test_eight_bits_change_what_a_recurrent_model_says_little(build, shape):
    model, found = build(**shape), []
    for int8 in (False, True):
        engine = fast_engine(laid_out(model, int8))
        with torch.inference_mode():
            found.append(engine.read(sentences(model, [((4, 5, 6), (1, 7, 5))]), 1).exp())
    assert not torch.equal(*found)
    assert (found[0] - found[1]).norm() < 0.15 * found[0].norm()


def test_hypotheses_of_a_recurrent_model_share_their_sentences_keys(build):
    engine = fast_engine(laid_out(build(architecture="gru")))
    with torch.inference_mode():
        engine.read(sentences(build(architecture="gru"), [((4, 5, 6), (1,)), ((7,), (1,))]), 3)
        engine.step(torch.tensor([[4, 5, 6]] * 2), torch.zeros(2, 3, dtype=torch.long))
    assert [each.shape[0] for each in engine.source] == [2, 2]
    assert engine.memory.shape == (2, 2, 3, 16)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_eight_bits_change_the_logits_little(build, shape):
    model, found = build(**shape), []
    torch.manual_seed(0)  # whoever built the model first
    target = torch.randint(8, (2, 7))
    for flat in (laid_out(model), laid_out(model, int8=True)):
        cache = flat.new_cache([7, 7], 7)
        with torch.inference_mode():
            if model.config.reads:
                flat.read(torch.tensor([[5, 6, 7]] * 2), None, cache)
            found.append(flat(target, cache))
    assert not torch.equal(*found)
    assert (found[0] - found[1]).norm() < 0.1 * found[0].norm()


@pytest.mark.parametrize("gone", ["quantized", "linear_dynamic", "quantize_per_channel"])
def test_where_torch_has_no_eight_bits_any_more_the_error_tells_the_way_out(
    build, monkeypatch, gone
):
    if gone == "quantize_per_channel":
        monkeypatch.delattr(torch, gone)
    else:
        left = {"linear_prepack": lambda *_: None} if gone == "linear_dynamic" else {}
        monkeypatch.setattr(torch.ops, "quantized", SimpleNamespace(**left))
    with pytest.raises(ModelError, match="cannot multiply in 8 bits") as error:
        decode(laid_out(build(), int8=True), [[4, 5, 6]])
    assert "--engine ctranslate2" in error.value.advice
    assert decode(laid_out(build()), [[4, 5, 6]])
