"""The judge of tasks that have no better measure than their loss."""

from collections.abc import Callable

from clearhead.data.batches import Batches, TextBatch
from clearhead.model import Transformer
from clearhead.tasks.perplexity import total_loss

Samples = tuple[tuple[str, str], ...]


class LossJudge:
    """The mean loss over all validation examples; a few samples for people to read."""

    name = "loss"
    effort = 1.0

    def __init__(
        self, batches: Batches[TextBatch], sampled: Callable[[Transformer], Samples]
    ) -> None:
        self.batches, self.samples = batches, sampled

    def loss(self, model: Transformer) -> float:
        total, n_predictions = total_loss(model, self.batches.fixed())
        return total / n_predictions

    def score(self, model: Transformer, whole: bool) -> None:
        """There is none: the lowest loss is best."""
