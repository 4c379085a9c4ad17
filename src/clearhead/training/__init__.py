"""batches → weights: one loop that knows no task. It is given a loss to lower and a judge."""

from clearhead.training.loop import Job, stop_on_signals, train
from clearhead.training.loss import (
    Judge,
    Loss,
    Samples,
    label_loss,
    masked_token_loss,
    mean_loss,
    next_token_loss,
    smoothed_cross_entropy,
    total_loss,
)
from clearhead.training.pace import ThreadChange
from clearhead.training.state import (
    Chosen,
    Correction,
    Note,
    Report,
    Saved,
    StepReport,
    Stopped,
    Validation,
    gathered,
    mean_weights,
    worded,
)
from clearhead.training.update import Ranks, joined_ranks

__all__ = [
    "Chosen", "Correction", "Job", "Judge", "Loss", "Note", "Ranks", "Report", "Samples", "Saved",
    "StepReport", "Stopped", "ThreadChange", "Validation", "gathered", "joined_ranks", "label_loss",
    "masked_token_loss", "mean_loss", "mean_weights", "next_token_loss", "smoothed_cross_entropy",
    "stop_on_signals", "total_loss", "train", "worded",
]  # fmt: skip
