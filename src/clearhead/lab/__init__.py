"""Experiments on the architecture itself: the paper's claims, measured on this machine."""

from clearhead.lab.complexity import Complexity
from clearhead.lab.gradients import Gradients
from clearhead.lab.heads import Heads
from clearhead.lab.notebook import Experiment, Findings, perform
from clearhead.lab.positions import Positions
from clearhead.lab.table3 import Table3
from clearhead.lab.versus import Versus

__all__ = ["EXPERIMENTS", "Experiment", "Findings", "perform"]

EXPERIMENTS: dict[str, type[Experiment]] = {
    "complexity": Complexity,
    "gradients": Gradients,
    "positions": Positions,
    "heads": Heads,
    "versus": Versus,
    "table3": Table3,
}
