"""Experiments on the architecture itself: the paper's claims, measured on this machine."""

from clearhead.lab.complexity import Complexity
from clearhead.lab.gradients import Gradients
from clearhead.lab.notebook import Experiment, Findings, perform
from clearhead.lab.positions import Positions

__all__ = ["EXPERIMENTS", "Experiment", "Findings", "perform"]

EXPERIMENTS: dict[str, type[Experiment]] = {
    "complexity": Complexity,
    "gradients": Gradients,
    "positions": Positions,
}
