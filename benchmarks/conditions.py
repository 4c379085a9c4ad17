"""What a figure depends on besides the program: the first line of every benchmark."""

import os

import torch

from clearhead.machine import n_processors, processor


def conditions() -> str:
    """The processor, its instruction set, how many there are, how busy they are, and torch."""
    return (
        f"{processor()} ({torch.backends.cpu.get_cpu_capability()}), {n_processors()} processors, "
        f"load {os.getloadavg()[0]:.1f}; torch {torch.__version__}."
    )
