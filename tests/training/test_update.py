"""One update: the gradient of the mean loss, however the work is cut."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config import TrainConfig
from clearhead.errors import ConfigError
from clearhead.training import Ranks, joined_ranks, next_token_loss
from clearhead.training.update import Objective, microbatches, update
from training.tiny import gradients, pair_batch, tiny_model

NO_CLIP = 1e9


def updated(batches, splits=1, clip=NO_CLIP, seed=0, model=None, config=None, **settings):
    model = model or tiny_model(**settings)
    objective = Objective(model, next_token_loss(0.1), config or TrainConfig())
    return model, update(objective, batches, seed=seed, clip=clip, splits=splits, ranks=Ranks())


def assert_same_gradients(one, other):
    for name, gradient in gradients(one).items():
        torch.testing.assert_close(gradient, gradients(other)[name], rtol=1e-5, atol=1e-6)


@given(rows=st.integers(1, 7), splits=st.integers(2, 9), seed=st.integers(0, 99))
def test_a_batch_in_pieces_gives_the_gradient_of_the_whole(rows, splits, seed):
    batch = pair_batch(seed, rows)
    (one, whole), (other, pieces) = updated([batch]), updated([batch], splits)
    assert whole.loss == pytest.approx(pieces.loss, rel=1e-5)
    assert whole.gradient == pytest.approx(pieces.gradient, rel=1e-4)
    assert whole.tokens == pieces.tokens == int(batch.judged.sum())
    assert_same_gradients(one, other)


def test_accumulated_batches_give_the_gradient_of_one_large_batch():
    large = pair_batch(0, rows=12)
    (one, whole), (other, parts) = updated([large]), updated(microbatches(large, 3))
    assert whole.loss == pytest.approx(parts.loss, rel=1e-5)
    assert_same_gradients(one, other)


@given(rows=st.integers(1, 9), n_pieces=st.integers(1, 12))
def test_pieces_of_a_batch_hold_each_row_once_and_none_is_empty(rows, n_pieces):
    batch = pair_batch(0, rows)
    pieces = microbatches(batch, n_pieces)
    assert all(len(piece.indices) for piece in pieces)
    for name in ("indices", "source", "target_out", "judged"):
        assert torch.equal(
            torch.cat([getattr(piece, name) for piece in pieces]), getattr(batch, name)
        )


def test_the_gradient_is_that_of_the_mean_loss():
    model, outcome = updated([pair_batch()])
    again = tiny_model()
    loss, n = next_token_loss(0.1)(again, pair_batch())
    (loss / n).backward()
    assert outcome.loss == pytest.approx(loss.item() / n)
    assert_same_gradients(model, again)


def length(model):
    return float(torch.cat([gradient.flatten() for gradient in gradients(model).values()]).norm())


def test_a_long_gradient_is_clipped_to_its_length_and_a_short_one_is_left():
    model, outcome = updated([pair_batch()], clip=0.01)
    assert outcome.gradient > 0.01
    assert length(model) == pytest.approx(0.01, rel=1e-3)
    model, outcome = updated([pair_batch()], clip=NO_CLIP)
    assert length(model) == pytest.approx(outcome.gradient, rel=1e-5)


def test_each_update_forgets_the_gradient_of_the_one_before():
    model, _ = updated([pair_batch(1)])
    updated([pair_batch(0)], model=model)
    assert_same_gradients(model, updated([pair_batch(0)])[0])


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout"])
def test_dropout_repeats_with_the_seed_and_differs_without(rate):
    losses = [updated([pair_batch()], seed=seed, **{rate: 0.3})[1].loss for seed in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.bf16
def test_bf16_products_come_near_the_gradient_of_fp32():
    exact, rough = (
        updated([pair_batch()])[0],
        updated([pair_batch()], config=TrainConfig(precision="bf16"))[0],
    )
    one = torch.cat([gradient.flatten() for gradient in gradients(exact).values()])
    other = torch.cat([gradient.flatten() for gradient in gradients(rough).values()])
    assert other.dtype == torch.float32
    assert torch.cosine_similarity(one, other, dim=0) > 0.999


def test_a_stop_is_asked_for_after_the_work_so_that_a_late_signal_counts():
    asked = []

    def loss(model, batch):
        asked.append("loss")
        return next_token_loss()(model, batch)

    outcome = update(
        Objective(tiny_model(), loss, TrainConfig()),
        [pair_batch()],
        seed=0,
        clip=1.0,
        splits=1,
        ranks=Ranks(),
        stop=lambda: asked.append("stop") is None,
    )
    assert asked == ["loss", "stop"]
    assert outcome.stop


@pytest.mark.parametrize(
    ("told", "found"),
    [({"WORLD_SIZE": "²"}, "WORLD_SIZE"), ({"WORLD_SIZE": "3"}, "MASTER_ADDR"),
     ({"WORLD_SIZE": "3", "RANK": "first"}, "RANK")],
)  # fmt: skip
def test_an_environment_that_no_torchrun_made_is_told_in_one_sentence(monkeypatch, told, found):
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=found) as caught, joined_ranks(torch.device("cpu")):
        pass
    assert "torchrun" in caught.value.advice
