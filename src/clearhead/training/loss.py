"""What training makes small, and what it is judged by: all that the loop knows about a task."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.config import Config
from clearhead.data.batches import (
    Batches,
    LabelBatch,
    MaskedBatch,
    PairBatch,
    TextBatch,
    TokenBatch,
)
from clearhead.model import Model, masks
from clearhead.model.tap import SILENT, Tap
from clearhead.text import END, UNKNOWN

Samples = tuple[tuple[str, str], ...]
"""A few inputs, each with what the model answers."""


class Loss(Protocol):
    """From a model and a batch to the sum of the losses and their number; the model has the tap."""

    def __call__(self, model: Model, batch: Any, tap: Tap = SILENT) -> tuple[Tensor, int]: ...


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Validation: what training is measured by, on examples that it does not see."""

    loss: Callable[[Model], float]
    """The mean loss over all validation examples."""
    n_examples: int = 0
    per_byte: float = 0.0
    """Predictions for each byte of the validation text, where the loss is of all of it."""
    name: str = "loss"
    score: Callable[[Model], float] | None = None
    """The task's own measure on a sample, higher being better; without one, minus the loss."""
    full_score: Callable[[Model], float] | None = None
    """The same on all validation examples: what the weights to use are chosen by."""
    effort: float = 1.0
    """How many times longer the full score takes than that of the sample."""
    samples: Callable[[Model], Samples] = lambda _: ()
    calibrated: Callable[[Model, Config], Config] = lambda _, config: config
    """The settings with what only validation can tell, such as a temperature."""

    def rating(self, model: Model) -> float:
        """What weights are chosen by, higher being better: the full score, or minus the loss."""
        return -self.loss(model) if self.full_score is None else self.full_score(model)


def next_token_loss(smoothing: float = 0.0, word_dropout: float = 0.0) -> Loss:
    """Teacher forcing: the target goes in shifted right, and each position predicts its token."""

    def loss(model: Model, batch: TextBatch, tap: Tap = SILENT) -> tuple[Tensor, int]:
        memory = mask = None
        if isinstance(batch, PairBatch):
            is_read = batch.source_mask
            if not model.config.source_end:
                is_read = is_read & (batch.source != END)
            mask = masks.padding(is_read)
            memory = model.encode(with_unknowns(batch.source, word_dropout), mask, tap=tap)
        x = model.decode(with_unknowns(batch.target_in, word_dropout), memory, mask, tap=tap)
        return token_loss(model, x, batch, smoothing)

    return loss


def masked_token_loss(model: Model, batch: MaskedBatch, tap: Tap = SILENT) -> tuple[Tensor, int]:
    """BERT's: the encoder reads all there is to see, and predicts the tokens that are hidden."""
    return token_loss(model, model.encode(batch.source, tap=tap), batch)


def token_loss(
    model: Model, x: Float[Tensor, "B T D"], batch: TokenBatch, smoothing: float = 0.0
) -> tuple[Tensor, int]:
    """From the vectors of the last stack, at the positions that are judged."""
    head, targets = model.head, batch.target_out[batch.judged]
    vectors, tokens = head.transform(x[batch.judged]), head.matrix(model.tokens.weight)
    return smoothed_cross_entropy(vectors, tokens, head.bias, targets, smoothing), len(targets)


def label_loss(
    smoothing: float = 0.0,
    several: bool = False,
    word_dropout: float = 0.0,
    weights: Sequence[float] = (),
) -> Loss:
    """One label per text (softmax over the labels), or any number of them (a sigmoid each)."""

    def loss(model: Model, batch: LabelBatch, tap: Tap = SILENT) -> tuple[Tensor, int]:
        scores = model(with_unknowns(batch.source, word_dropout), real=batch.source_mask, tap=tap)
        labels = batch.labels.to(scores.dtype)
        weight = scores.new_tensor(weights) if weights else None
        if several:
            losses = F.binary_cross_entropy_with_logits(scores, labels, weight, reduction="sum")
            return losses / labels.size(1), len(labels)
        return F.cross_entropy(
            scores, labels, weight, label_smoothing=smoothing, reduction="sum"
        ), len(labels)

    return loss


@torch.no_grad()
def total_loss(model: Model, loss: Loss, batches: Iterable[Any]) -> tuple[float, int]:
    """The sum of the losses over all batches, and how many there are."""
    losses = [loss(model, batch.to(model.device)) for batch in batches]
    return sum(float(each) for each, _ in losses), sum(n for _, n in losses)


def mean_loss(loss: Loss, batches: Batches[Any]) -> Callable[[Model], float]:
    """A model's loss over a validation set, always in the same order."""

    def measured(model: Model) -> float:
        total, n_predictions = total_loss(model, loss, batches.fixed())
        return total / n_predictions

    return measured


def with_unknowns(ids: Int[Tensor, "B T"], rate: float) -> Int[Tensor, "B T"]:
    """Word dropout: some tokens are unknown, so that the model does not lean on any one of them."""
    if rate == 0 or not torch.is_grad_enabled():
        return ids
    return ids.masked_fill(
        (torch.rand(ids.shape, device=ids.device) < rate) & (ids > UNKNOWN), UNKNOWN
    )


LOGITS_AT_ONCE = 2**21
"""Entries of the logits at one time: few enough for a CPU's cache, enough to keep its cores busy."""


def smoothed_cross_entropy(
    x: Float[Tensor, "N D"],
    tokens: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """The sum of cross-entropies with label smoothing, for logits = x tokensᵀ + bias.

    The logits of a large vocabulary are the biggest tensor of a training step. Here they exist a
    slice at a time, and their gradient, where one is asked for, is taken while they are there: the
    backward pass has nothing left to compute.
    """
    device = x.device.type
    if torch.is_autocast_enabled(device):  # which knows products one by one, but not this one
        half = torch.get_autocast_dtype(device)
        x, tokens, bias = x.to(half), tokens.to(half), None if bias is None else bias.to(half)
    with torch.autocast(device, enabled=False):
        return _SmoothedCrossEntropy.apply(  # type: ignore[no-untyped-call, no-any-return]
            x, tokens, bias, targets, smoothing, torch.is_grad_enabled()
        )


class _SmoothedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        tokens: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        differentiable: bool,
    ) -> Tensor:
        n_tokens = len(tokens)
        loss = x.new_zeros((), dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)
        if differentiable:
            x_grad, tokens_grad = torch.empty_like(x), torch.zeros_like(tokens)
            bias_grad = None if bias is None else torch.zeros_like(bias)
            ctx.save_for_backward(x_grad, tokens_grad, bias_grad)
        mean_token, mean_bias = tokens.mean(dim=0), 0.0 if bias is None else bias.mean()
        for rows in slices(len(x), max(1, LOGITS_AT_ONCE // n_tokens)):
            logits = F.linear(x[rows], tokens, bias).to(loss.dtype)  # (n, V)
            target = targets[rows, None]
            top, right = logits.amax(dim=1), logits.gather(1, target)[:, 0]
            p = logits.softmax(dim=1)
            log_sum = top - p.amax(dim=1).log()  # of the exponentials, without a second pass of exp
            mean = x[rows] @ mean_token + mean_bias
            loss += (log_sum - (1 - smoothing) * right - smoothing * mean).sum()
            if not differentiable:
                continue
            # The gradient of the logits takes the place of their probabilities; what smoothing
            # takes off all of them alike is taken off the products.
            p.scatter_add_(1, target, p.new_full((1, 1), smoothing - 1).expand_as(target))
            if bias_grad is not None:
                bias_grad += p.sum(dim=0)
            p = p.to(x.dtype)
            torch.addmm(mean_token, p, tokens, beta=-smoothing, out=x_grad[rows])
            tokens_grad.addmm_(p.T, x[rows])
        if differentiable and smoothing:
            tokens_grad -= x.sum(dim=0) * (smoothing / n_tokens)
            if bias_grad is not None:
                bias_grad -= len(x) * smoothing / n_tokens
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if each is None else each * grads[0] for each in ctx.saved_tensors)
        return (*scaled, None, None, None)


def slices(n: int, size: int) -> Iterator[slice]:
    """0 to n in pieces of about equal size, none above `size`."""
    n_pieces = -(-n // size)
    return (slice(n * i // n_pieces, n * (i + 1) // n_pieces) for i in range(n_pieces))
