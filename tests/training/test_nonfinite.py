"""A number that is not finite never reaches the weights, and is told where it arose."""

import pytest
import torch

from clearhead.errors import NotFiniteError
from clearhead.model.tap import SILENT
from clearhead.training import Note, StepReport, next_token_loss, train
from clearhead.training.update import not_finite
from training.tiny import MemoryKeeper, pair_batch, same, tiny_job, tiny_model, weights_of

AT = 3


def spoiled_loss(job, value):
    def spoil(batch, loss):
        return loss * value

    return spoil, "loss alone|gradient of"


def spoiled_gradient(job, value):
    weight = job.model.decoder.layers[0].feed_forward.inner.weight

    def spoil(batch, loss):
        weight.register_hook(lambda gradient: gradient * value)
        return loss

    return spoil, r"gradient of decoder\.layers\.0\.feed_forward\.inner\.weight"


def spoiled_activation(job, value):
    layer = job.model.encoder.layers[0].norm_ff

    def spoil(batch, loss):
        layer.register_forward_hook(lambda module, inputs, output: output * value)
        return next_token_loss(0.1)(job.model, batch)[0]

    return spoil, r"tensor encoder\.0\.ff\.norm"


def spoiled_weight(job, value):
    def spoil(batch, loss):
        with torch.no_grad():
            job.model.decoder.norm.weight[0] = value
        return next_token_loss(0.1)(job.model, batch)[0]

    return spoil, r"weight decoder\.norm\.weight itself"


def spoiled_embedding(job, value):
    def spoil(batch, loss):
        job.model.tokens.register_forward_hook(lambda module, inputs, output: output * value)
        return next_token_loss(0.1)(job.model, batch)[0]

    return spoil, r"tensor encoder\.tokens"


PLACES = [spoiled_loss, spoiled_gradient, spoiled_activation, spoiled_weight, spoiled_embedding]


def broken_job(place, value, keeper=None, **settings):
    """A job whose update number AT is spoiled."""
    calls = []

    def loss(model, batch, tap=SILENT):
        found, n = next_token_loss(0.1)(model, batch, tap)
        calls.append(0)
        return (spoil(batch, found) if len(calls) == AT else found), n

    job = tiny_job(keeper, loss=loss, **settings)
    spoil, expected = place(job, value)
    return job, expected


@pytest.mark.promise(7, "NaN and Inf at every place: weights unchanged, layer named")
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("place", PLACES)
def test_an_update_that_is_not_finite_changes_no_weight_and_names_the_place(place, value):
    keeper = MemoryKeeper()
    job, expected = broken_job(place, value, keeper, save_every=1)
    reports = train(job)
    while next(reports).step < AT - 1 or len(keeper.kept) < AT - 1:
        pass
    before = weights_of(job)
    with pytest.raises(NotFiniteError, match=expected) as caught:
        list(reports)
    after = weights_of(job)
    if place is spoiled_weight:  # that one was spoiled by us, the others must be as they were
        del before["decoder.norm.weight"], after["decoder.norm.weight"]
    assert same(before, after)
    assert keeper.steps() == [AT - 2, AT - 1]
    assert f"Step {AT} " in caught.value.whole
    assert caught.value.exit_code == 3
    assert len(caught.value.whole.splitlines()) <= 3


def test_a_product_that_overflows_inside_of_attention_is_found():
    model = tiny_model()
    with torch.no_grad():
        model.encoder.layers[0].self_attention.qkv.weight.mul_(1e25)
    error = not_finite(model, next_token_loss(), [pair_batch()], AT)
    assert "tensor encoder.0.self.scores" in error.whole


def test_as_many_updates_as_allowed_are_left_out_and_told():
    job, _ = broken_job(spoiled_loss, torch.nan, skip_nonfinite=1)
    weights, reports = {}, []
    for report in train(job):
        reports.append(report)
        if isinstance(report, StepReport):
            weights[report.step] = weights_of(job)
    assert [report.text for report in reports if isinstance(report, Note)] == [
        "Step 3 is not finite and is left out."
    ]
    assert same(weights[2], weights[3])
    assert not same(weights[3], weights[4])
    assert len(weights) == 10


def test_the_examples_of_the_update_are_named():
    job, _ = broken_job(spoiled_loss, torch.nan)
    with pytest.raises(NotFiniteError, match="Its examples: 8, 9, 10, 11"):
        list(train(job))
