"""What can be looked at and changed. The names in this file are public: look/, the page and people's code use them."""

import pytest
import torch
from torch.testing import assert_close

from clearhead.model import Tap, Trace

ATTENTION = ["q", "k", "v", "scores", "scaled", "masked", "pattern", "z", "concat", "out"]
FEED_FORWARD = ["pre", "hidden", "out"]
EMBEDDING = ["tokens", "positions", "embedded"]


def block(*attentions, norm):
    """The names of one layer, in the order in which they happen."""
    names = ["resid_pre"]
    for part in (*attentions, "ff"):
        inside = [f"{part}.{name}" for name in (FEED_FORWARD if part == "ff" else ATTENTION)]
        around = [f"{part}.norm", f"{part}.add"]
        names += ["resid_mid"] * (part == "ff")
        names += (
            [around[0], *inside, around[1]] if norm == "pre" else [*inside, around[1], around[0]]
        )
    return [*names, "resid_post"]


def stack(name, *attentions, norm, last, embedding=EMBEDDING):
    names = [
        *embedding,
        *(f"{index}.{part}" for index in range(2) for part in block(*attentions, norm=norm)),
    ]
    return [f"{name}.{part}" for part in (*names, "out", *last)]


LSTM = ["input", "forget", "candidate", "output", "cell", "state"]
GRU = ["reset", "update", "candidate", "state"]


def recurrent_names(shape):
    """Every tap name of a recurrent model of two layers per stack."""
    inside = LSTM if shape["architecture"] == "lstm" else GRU
    layers = [f"{index}.{name}" for index in range(2) for name in inside]
    encoder = [f"encoder.{name}" for name in ("tokens", *layers, "out")]
    if shape.get("family") == "encoder":
        return [*encoder, "encoder.logits"]
    if shape.get("family") == "decoder":
        return [f"decoder.{name}" for name in ("tokens", *layers, "out", "logits")]
    scaled = [] if shape.get("attention") == "additive" else ["scaled"]
    asked = ["q", "scores", *scaled, "masked", "pattern", "z", "out"]
    decoder = ["tokens", "start", "cross.k", "cross.v", *layers]
    decoder += [*(f"cross.{name}" for name in asked), "out", "logits"]
    return encoder + [f"decoder.{name}" for name in decoder]


def names(shape):
    """Every tap name of a model of two layers per stack."""
    if "architecture" in shape:
        return recurrent_names(shape)
    family, norm = shape.get("family", "encoder-decoder"), shape.get("norm", "post")
    embedding = [*EMBEDDING[:2], "types", EMBEDDING[2]] if "n_token_types" in shape else EMBEDDING
    if family == "encoder":
        last = ["classes"] if "n_classes" in shape else ["logits"]
        last = ["ngrams", *last] if "n_grams" in shape else last
        return stack("encoder", "self", norm=norm, last=last, embedding=embedding)
    if family == "decoder":
        return stack("decoder", "self", norm=norm, last=["logits"])
    return stack("encoder", "self", norm=norm, last=[]) + stack(
        "decoder", "self", "cross", norm=norm, last=["logits"]
    )


SHAPES = {
    "encoder-decoder": {},
    "encoder-decoder, pre-norm": {"norm": "pre"},
    "encoder": {"family": "encoder", "n_token_types": 2},
    "encoder with classifier": {"family": "encoder", "n_classes": 3},
    "encoder with classifier and n-grams": {"family": "encoder", "n_classes": 3, "n_grams": 5},
    "decoder": {"family": "decoder", "norm": "pre"},
}
RECURRENT = {
    "LSTM": {"architecture": "lstm"},
    "LSTM, additive, input feeding": {
        "architecture": "lstm",
        "attention": "additive",
        "input_feeding": True,
    },
    "LSTM, decoder": {"architecture": "lstm", "family": "decoder", "bias": False},
    "GRU, additive": {"architecture": "gru", "attention": "additive"},
    "GRU, input feeding": {"architecture": "gru", "input_feeding": True},
    "GRU, encoder": {"architecture": "gru", "family": "encoder"},
}
WHERE_WORDS_WAIT = pytest.mark.parametrize("shape", RECURRENT.values(), ids=RECURRENT)


@pytest.fixture(params=[*SHAPES.values(), *RECURRENT.values()], ids=[*SHAPES, *RECURRENT])
def shape(request):
    return request.param


@pytest.fixture
def run(build, ids, real, shape):
    """Runs a model of that shape and gives its output and what the tap saw."""
    model, family = build(**shape), shape.get("family", "encoder-decoder")

    def go(tap):
        inputs = {"source": ids(2, 5), "real": real(5, 3)} if family != "decoder" else {}
        return model(
            **inputs, **({"target": ids(2, 4, seed=1)} if family != "encoder" else {}), tap=tap
        )

    return go


def test_tap_names_are_these_in_this_order(run, shape):
    trace = Trace()
    run(trace)
    assert list(trace.seen) == names(shape)


def test_listening_changes_nothing(run):
    trace = Trace()
    assert_close(run(trace), run(Tap()), atol=1e-5, rtol=1e-5)


def test_rows_of_every_pattern_sum_to_one_and_masked_cells_are_exactly_zero(run):
    trace = Trace()
    run(trace)
    paths = [path.removesuffix("pattern") for path in trace.seen if path.endswith(".pattern")]
    for path in paths:
        pattern, masked = trace[path + "pattern"], trace[path + "masked"]
        assert_close(pattern.sum(dim=-1), torch.ones(pattern.shape[:-1]))
        assert torch.equal(pattern == 0, masked == -torch.inf)
        if path.startswith("decoder") and ".self." in path:
            assert torch.equal(masked[0, 0] == -torch.inf, torch.ones(4, 4).triu(1).bool())
        else:  # the source's second sentence has three tokens
            assert (masked[1, ..., 3:] == -torch.inf).all()
            assert masked[0].isfinite().all()
            assert masked[1, ..., :3].isfinite().all()


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_an_edit_changes_what_follows_and_nothing_before_it(run):
    plain = Trace()
    before = run(plain)
    paths = list(plain.seen)
    for place, path in enumerate(paths):
        edited = Trace(
            {path: lambda x: x + torch.randn(x.shape, generator=torch.Generator().manual_seed(0))}
        )
        after = run(edited)
        assert not torch.allclose(before, after, atol=1e-3), f"{path} is edited in vain"
        assert not torch.equal(plain[path], edited[path]), path
        for earlier in paths[:place]:
            assert torch.equal(plain[earlier], edited[earlier]), (
                f"an edit of {path} reached back to {earlier}"
            )


@WHERE_WORDS_WAIT
def test_an_edit_of_one_word_changes_what_follows_it_in_time(run):
    plain = Trace()
    before = run(plain)
    paths = [path for path in plain.seen if not path.endswith(("start", "cross.k", "cross.v"))]
    own = [path for path in paths if path.startswith("decoder")]
    for path in paths:
        edited = Trace(
            {path: lambda x: torch.where(torch.arange(x.size(-2))[:, None] == 2, 2 * x, x)}
        )
        assert not torch.allclose(before, run(edited), atol=1e-4), f"{path} is edited in vain"
        for other in own if path in own else ():
            # What comes earlier has read the edited word itself as it was.
            n_same = 3 if own.index(other) < own.index(path) else 2
            rows = plain[other][..., :n_same, :], edited[other][..., :n_same, :]
            assert torch.equal(*rows), f"an edit of {path} reached back to {other}"


def test_closing_the_forget_gate_is_to_forget(build, ids):
    model = build(architecture="lstm", family="decoder", n_decoder_layers=1)
    closed = Trace({"decoder.0.forget": torch.zeros_like})
    model(target=ids(2, 5), tap=closed)
    found, expected = closed["decoder.0.cell"], closed["decoder.0.input"]
    assert_close(found, expected * closed["decoder.0.candidate"])


def test_silencing_a_head_equals_a_model_whose_output_matrix_ignores_it(build, ids):
    model, head = build(), 2

    def silence(z):
        return z.index_fill(1, torch.tensor(head), 0)

    edited = model(ids(2, 5), ids(2, 4), tap=Trace({"decoder.1.cross.z": silence}))
    with torch.no_grad():
        model.decoder.layers[1].cross_attention.out.weight[:, head * 4 : head * 4 + 4] = 0
    assert_close(edited, model(ids(2, 5), ids(2, 4)), atol=1e-5, rtol=1e-5)


def test_resid_mid_and_resid_post_are_the_sums_along_the_stream(build, ids):
    trace = Trace()
    build(norm="pre", family="decoder")(target=ids(2, 4), tap=trace)
    at = "decoder.1."
    assert_close(trace[at + "resid_pre"] + trace[at + "self.out"], trace[at + "resid_mid"])
    assert_close(trace[at + "resid_mid"] + trace[at + "ff.out"], trace[at + "resid_post"])
    assert torch.equal(trace["decoder.0.resid_post"], trace[at + "resid_pre"])


def test_a_trace_keeps_no_graph(run):
    trace = Trace()
    assert run(trace).requires_grad
    assert not any(tensor.requires_grad for tensor in trace.seen.values())
