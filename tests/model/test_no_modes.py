"""One forward for training and looking: in every precision, in threads, compiled, with true gradients."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import jaxtyping
import pytest
import torch
from torch.func import functional_call
from torch.testing import assert_close

from clearhead.model import Trace, masks


def same(found, expected):
    assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "shape",
    [{"norm": "post"}, {"norm": "pre", "tie": "none", "logit_bias": True}],
    ids=["post", "pre"],
)
@pytest.mark.parametrize("listening", [False, True], ids=["fused", "spelled out"])
def test_gradients_are_those_of_finite_differences(build, ids, real, shape, listening):
    tiny = {
        "d_model": 4,
        "d_ff": 6,
        "n_heads": 2,
        "n_encoder_layers": 1,
        "n_decoder_layers": 1,
        "activation": "silu",
    }
    model = build(**tiny, vocab_size=7, **shape).double()
    weights = {name: weight.detach().requires_grad_() for name, weight in model.named_parameters()}
    inputs = (ids(2, 3, n=7), ids(2, 3, seed=1, n=7), real(3, 2))

    def logits(*values):
        tap = {"tap": Trace()} if listening else {}
        return functional_call(model, dict(zip(weights, values, strict=True)), inputs, tap)

    assert torch.autograd.gradcheck(logits, tuple(weights.values()), fast_mode=True)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_every_weight_learns(build, ids, norm):
    model = build(
        norm=norm,
        tie="none",
        logit_bias=True,
        embedding_norm=True,
        n_token_types=2,
        positions="learned",
    )
    model(ids(3, 6), ids(3, 6)).logsumexp(dim=-1).sum().backward()
    assert [
        name
        for name, weight in model.named_parameters()
        if weight.grad is None or not weight.grad.any()
    ] == []


@pytest.mark.parametrize(
    "dtype", [pytest.param(torch.bfloat16, marks=pytest.mark.bf16), torch.float64]
)
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_trains_and_decodes_in_other_precisions(build, ids, real, dtype, positions):
    model = build(positions=positions, attention_dropout=0.1).to(dtype)
    logits = model.train()(ids(2, 5), ids(2, 4), real(5, 3))
    logits.float().logsumexp(dim=-1).sum().backward()
    assert all(
        weight.grad.dtype == dtype and weight.grad.isfinite().all() for weight in model.parameters()
    )
    model.eval()
    mask = masks.padding(real(5, 3))
    found = model.decode(ids(2, 4), model.encode(ids(2, 5), mask), mask)
    assert logits.dtype == found.dtype == dtype


def test_double_precision_is_single_precision_with_more_digits(build, ids):
    same(build().double()(ids(2, 5), ids(2, 4)).float(), build()(ids(2, 5), ids(2, 4)))


def decode(model, source, target, tap):
    """A target decoded in silence, and once more under a tap."""
    memory = model.encode(source)
    return torch.cat([model.decode(target, memory), model.decode(target, memory, tap=tap)], dim=1)


@torch.no_grad()
def test_threads_sharing_one_model_get_the_answers_of_one(build, ids):
    model = build()
    work = [(ids(2, 3 + n % 4, seed=n), ids(2, 2 + n % 5, seed=n + 1)) for n in range(16)]
    alone = [decode(model, *inputs, Trace()) for inputs in work]

    def threaded(inputs):
        with torch.no_grad():
            return decode(model, *inputs, Trace())

    with ThreadPoolExecutor(4) as pool:
        for found, expected in zip(pool.map(threaded, work), alone, strict=True):
            same(found, expected)


def everything_on(model):
    """What the modules hold, by identity: attributes, hooks, parameters, buffers."""
    tables = ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks")
    held = {
        (path, name): id(value)
        for path, module in model.named_modules()
        for name, value in vars(module).items()
    }
    inside = {
        (path, table, name): id(value)
        for path, module in model.named_modules()
        for table in tables
        for name, value in vars(module)[table].items()
    }
    return held | inside


def test_a_forward_pass_stores_nothing_on_the_modules(build, ids):
    model = build(norm="pre")
    before, weights = (
        everything_on(model),
        {name: value.clone() for name, value in model.state_dict().items()},
    )
    decode(model, ids(2, 5), ids(2, 4), Trace({"decoder.0.cross.z": torch.zeros_like}))
    model.train()(ids(2, 5), ids(2, 4))
    model.eval()
    assert everything_on(model) == before
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("part", ["encode", "decode", "logits"])
def test_shapes_are_checked_throughout_the_tests(build, part):
    with pytest.raises(jaxtyping.TypeCheckError):
        getattr(build(), part)(torch.zeros(3, dtype=torch.long))


COMPILED = """
import torch
from clearhead.config import ModelConfig
from clearhead.model import Transformer

source, target = torch.randint(11, (2, 5)), torch.randint(11, (2, 4))
real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
small = {"vocab_size": 11, "d_model": 16, "d_ff": 20, "n_heads": 4, "n_encoder_layers": 1, "n_decoder_layers": 1}
for shape, inputs in (
    ({"norm": "post"}, {"source": source, "target": target, "real": real}),
    ({"family": "decoder", "norm": "pre", "positions": "learned"}, {"target": target}),
    ({"family": "encoder", "n_classes": 3}, {"source": source, "real": real}),
):
    for training in (False, True):
        model = Transformer(ModelConfig(**small, **shape)).train(training)
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        torch.manual_seed(1)
        found = compiled(**inputs)
        torch.manual_seed(1)
        torch.testing.assert_close(found, model(**inputs))
"""


def test_compiles_without_graph_breaks_when_silent(project):
    """In a process of its own, where no type checker stands between the compiler and the code."""
    run = subprocess.run(
        [sys.executable, "-c", COMPILED], cwd=project, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-3000:]
