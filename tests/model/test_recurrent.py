"""Laws of the recurrent model: it is the textbook's cell, word by word, whatever else is in the batch."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call
from torch.testing import assert_close

from clearhead.config import PRESETS, ModelConfig
from clearhead.errors import ConfigError
from clearhead.model import Trace, masks
from clearhead.model import build as built

SHAPES = [
    {"architecture": architecture, "attention": attention, "input_feeding": feeding}
    for architecture in ("lstm", "gru")
    for attention in ("dot", "additive")
    for feeding in (False, True)
]
every_shape = pytest.mark.parametrize(
    "shape", SHAPES, ids=lambda shape: " ".join(map(str, shape.values()))
)
shapes = st.sampled_from(SHAPES)
lengths = st.lists(st.integers(1, 6), min_size=1, max_size=4)
listening = pytest.mark.parametrize("listening", [False, True], ids=["torch's", "spelled out"])


def same(found, expected):
    assert_close(found, expected, atol=1e-5, rtol=1e-5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def read_by_hand(kind, weights, words, state):
    """The states after each word, as a textbook has the cell, with one loop over the words."""
    w, u, b, c = (value.detach().numpy() for value in weights)
    n, found, cell = len(state), [], np.zeros_like(state)
    for word in words:
        x, h = w @ word + b, u @ state + c
        if kind == "lstm":
            i, f, o = (sigmoid((x + h)[k * n : (k + 1) * n]) for k in (0, 1, 3))
            cell = f * cell + i * np.tanh((x + h)[2 * n : 3 * n])
            state = o * np.tanh(cell)
        else:
            r, z = sigmoid((x + h)[:n]), sigmoid((x + h)[n : 2 * n])
            new = np.tanh(x[2 * n :] + r * h[2 * n :])
            state = (1 - z) * new + z * state
        found.append(state)
    return np.array(found)


def translated_by_hand(model, source, target):
    """The logits of a model of one layer each way, dot attention and no input feeding."""
    kind, tokens = model.config.architecture, model.tokens.weight.detach().numpy()
    root = math.sqrt(tokens.shape[1])
    half = np.zeros(tokens.shape[1] // 2)
    cells = list(model.encoder.layers[0].cells.parameters())
    words = tokens[source] * root
    memory = np.concatenate(
        [
            read_by_hand(kind, cells[:4], words, half),
            read_by_hand(kind, cells[4:], words[::-1], half)[::-1],
        ],
        axis=1,
    )
    start, cross = model.decoder.start, model.decoder.cross
    query, combine = (layer.weight.detach().numpy() for layer in (cross.query, cross.combine))
    known = memory[0, len(half) :] @ start.weight.detach().numpy().T + start.bias.detach().numpy()
    cells = model.decoder.layers[0].cells.parameters()
    states = read_by_hand(kind, cells, tokens[target] * root, np.tanh(known))
    scores = np.exp(states @ query.T @ memory.T / root)
    found = scores / scores.sum(axis=1, keepdims=True) @ memory
    both = np.concatenate([found, states], axis=1)
    return np.tanh(both @ combine.T + cross.combine.bias.detach().numpy()) @ tokens.T


@pytest.mark.parametrize("architecture", ["lstm", "gru"])
@listening
def test_it_is_the_textbook_s_cell(build, ids, architecture, listening):
    layers = {"n_encoder_layers": 1, "n_decoder_layers": 1}
    model = build(architecture=architecture, **layers).double()
    source, target = ids(5), ids(4, seed=1)
    found = model(source[None], target[None], **({"tap": Trace()} if listening else {}))[0]
    same(found, torch.from_numpy(translated_by_hand(model, source.numpy(), target.numpy())))


def test_additive_attention_is_a_small_network_over_every_pair(build, ids):
    model, trace = build(architecture="gru", attention="additive"), Trace()
    model(ids(1, 5), ids(1, 4), tap=trace)
    cross, found = model.decoder.cross, trace["decoder.cross.pattern"][0, 0]
    for row in range(4):
        state = trace["decoder.1.state"][0, row]
        energies = [
            cross.energy((cross.query(state) + cross.key(vector)).tanh())
            for vector in trace["encoder.out"][0]
        ]
        same(found[row], torch.cat(energies).softmax(dim=0))


@every_shape
def test_torch_s_cells_and_the_spelled_out_ones_agree(build, ids, real, shape):
    model = build(**shape)
    inputs = ids(3, 6), ids(3, 5, seed=1), real(6, 2, 4)
    same(model(*inputs, tap=Trace()), model(*inputs))


@given(shapes, st.integers(1, 6), st.integers(1, 4), st.booleans())
def test_future_tokens_do_not_change_past_logits(build, ids, shape, n_past, n_future, alone):
    model = build(**shape, family="decoder" if alone else "encoder-decoder")
    source = {} if alone else {"source": ids(2, 5)}
    target, other = ids(2, n_past + n_future), ids(2, n_past + n_future, seed=1)
    other[:, :n_past] = target[:, :n_past]
    same(model(**source, target=target)[:, :n_past], model(**source, target=other)[:, :n_past])


@given(shapes, lengths, st.integers(0, 99), st.booleans())
def test_padding_and_neighbours_do_not_change_a_translation(
    build, ids, real, shape, lengths, seed, listening
):
    """The encoder's backward half begins at each sentence's own end, not in its padding."""
    model, n_rows, tap = build(**shape), len(lengths), {"tap": Trace()} if listening else {}
    source, target = ids(n_rows, max(lengths), seed=seed), ids(n_rows, 4, seed=seed + 1)
    together = model(source, target, real(*lengths), **tap)
    for row, length in enumerate(lengths):
        same(together[row], model(source[row : row + 1, :length], target[row : row + 1])[0])


@given(lengths, st.sampled_from(["lstm", "gru"]), st.sampled_from(["first", "mean"]))
def test_padding_and_neighbours_do_not_change_a_class(
    build, ids, real, lengths, architecture, pooling
):
    model = build(architecture=architecture, family="encoder", n_classes=3, pooling=pooling)
    source = ids(len(lengths), max(lengths))
    together = model(source, real=real(*lengths))
    for row, length in enumerate(lengths):
        same(together[row], model(source[row : row + 1, :length])[0])


def test_every_source_word_reaches_every_encoder_vector_and_every_logit(build, ids):
    model, source, target = build(architecture="lstm"), ids(1, 6), ids(1, 4, seed=1)
    for place in range(6):
        other = source.clone()
        other[0, place] = (other[0, place] + 1) % 23
        assert ((model.encode(other) - model.encode(source)).abs().amax(dim=-1) > 1e-6).all()
        assert ((model(other, target) - model(source, target)).abs().amax(dim=-1) > 1e-6).all()


def test_input_feeding_lets_an_answer_act_on_the_next_step(build, ids):
    feeding, plain = (build(architecture="gru", input_feeding=fed) for fed in (True, False))

    def moves(model):
        """Which states of the decoder move when the first answer is changed."""
        traces = Trace(), Trace({"decoder.cross.out": first_row_doubled})
        for trace in traces:
            model(ids(1, 5), ids(1, 4, seed=1), tap=trace)
        before, after = (trace["decoder.1.state"][0] for trace in traces)
        return (before != after).any(dim=-1).tolist()

    def first_row_doubled(x):
        return torch.cat([2 * x[:, :1], x[:, 1:]], dim=1)

    assert moves(feeding) == [False, True, True, True]
    assert moves(plain) == [False] * 4


@every_shape
@listening
def test_gradients_are_those_of_finite_differences(build, ids, real, shape, listening):
    tiny = {"d_model": 4, "n_encoder_layers": 1, "n_decoder_layers": 2, "vocab_size": 7}
    model = build(**tiny, **shape).double()
    weights = {name: weight.detach().requires_grad_() for name, weight in model.named_parameters()}
    inputs = (ids(2, 3, n=7), ids(2, 3, seed=1, n=7), real(3, 2))

    def logits(*values):
        tap = {"tap": Trace()} if listening else {}
        return functional_call(model, dict(zip(weights, values, strict=True)), inputs, tap)

    assert torch.autograd.gradcheck(logits, tuple(weights.values()), fast_mode=True)


@every_shape
def test_every_weight_learns(build, ids, real, shape):
    model = build(**shape, tie="none", logit_bias=True).train()
    model(ids(3, 6), ids(3, 6, seed=1), real(6, 3, 4)).logsumexp(dim=-1).sum().backward()
    silent = [
        name
        for name, weight in model.named_parameters()
        if weight.grad is None or not weight.grad.any()
    ]
    assert silent == []


@pytest.mark.parametrize(
    "dtype", [pytest.param(torch.bfloat16, marks=pytest.mark.bf16), torch.float64]
)
@every_shape
def test_trains_and_decodes_in_other_precisions(build, ids, real, dtype, shape):
    model = build(**shape, attention_dropout=0.1).to(dtype)
    logits = model.train()(ids(2, 5), ids(2, 4), real(5, 3))
    logits.float().logsumexp(dim=-1).sum().backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())
    mask = masks.padding(real(5, 3))
    found = model.eval().decode(ids(2, 4), model.encode(ids(2, 5), mask), mask)
    assert logits.dtype == found.dtype == dtype


@torch.no_grad()
def test_threads_sharing_one_model_get_the_answers_of_one(build, ids):
    model = build(architecture="lstm", input_feeding=True)
    work = [(ids(2, 3 + n % 4, seed=n), ids(2, 2 + n % 5, seed=n + 1)) for n in range(16)]

    def logits(inputs):
        with torch.no_grad():
            return torch.cat([model(*inputs), model(*inputs, tap=Trace())], dim=1)

    alone = [logits(inputs) for inputs in work]
    with ThreadPoolExecutor(4) as pool:
        for found, expected in zip(pool.map(logits, work), alone, strict=True):
            same(found, expected)


def test_gates_are_drawn_one_by_one_and_an_lstm_begins_by_remembering():
    model = built(ModelConfig(architecture="lstm", d_model=16, vocab_size=9))
    for cells in (each for each in model.modules() if isinstance(each, nn.LSTM)):
        n = cells.hidden_size
        for gate in cells.weight_hh_l0.chunk(4):
            same(gate @ gate.T, torch.eye(n))
        for gate in cells.weight_ih_l0.chunk(4):
            assert gate.abs().max() <= math.sqrt(6 / sum(gate.shape))
        expected = torch.zeros(4 * n)
        expected[n : 2 * n] = 1
        assert torch.equal(cells.bias_ih_l0 + cells.bias_hh_l0, expected)


@pytest.mark.parametrize("architecture", ["lstm", "gru"])
@pytest.mark.parametrize("size", PRESETS)
def test_a_named_size_has_about_the_weights_of_the_transformer_of_that_name(size, architecture):
    with torch.device("meta"):
        found, expected = (
            sum(
                weight.numel()
                for weight in built(ModelConfig.preset(size, architecture=each)).parameters()
            )
            for each in (architecture, "transformer")
        )
    assert abs(found / expected - 1) < 0.06


def test_a_recurrent_model_has_one_head_and_begins_with_the_size_of_its_own_tiny():
    assert ModelConfig(architecture="gru", n_heads=8).n_heads == 1
    assert ModelConfig(architecture="gru") == ModelConfig.preset("tiny", architecture="gru")
    assert ModelConfig().but(architecture="lstm", d_model=6).d_model == 6


def test_what_a_recurrent_model_ignores_changes_nothing(ids):
    ignored = {
        "d_ff": 7, "norm": "post", "positions": "learned", "max_positions": 1, "embedding_norm": True,
        "n_token_types": 3, "init": "small", "n_heads": 3,
    }  # fmt: skip
    found = []
    for changes in ({}, ignored):
        torch.manual_seed(0)
        model = built(ModelConfig(architecture="lstm", d_model=16, vocab_size=23, **changes)).eval()
        found.append(model(ids(2, 5), ids(2, 4)))
    assert torch.equal(*found)


def test_an_odd_width_cannot_be_read_from_both_ends():
    with pytest.raises(ConfigError, match=r"model\.d_model = 15 is odd.*half from each end"):
        ModelConfig(architecture="lstm", d_model=15)
