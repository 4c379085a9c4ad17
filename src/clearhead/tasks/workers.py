"""Processes that translate side by side: on a CPU, faster than as many threads of one process."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import cache
from typing import Any

import torch

from clearhead.machine import keep_freed_memory
from clearhead.tasks.translation import Translation, Translator

MANY = 4_096
"""Lines that take longer to translate than processes take to start."""


def in_workers(
    runs: Sequence[str],
    chunks: Iterable[Sequence[str]],
    *,
    n_workers: int,
    int8: bool,
    **options: Any,
) -> Iterator[Translation]:
    """The translations of chunks of texts, in order; at most a few chunks are read ahead."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_workers, context, initializer=begin) as pool:
        waiting: deque[Future[list[Translation]]] = deque()
        for chunk in chunks:
            waiting.append(pool.submit(translated, tuple(runs), int8, list(chunk), options))
            if len(waiting) > 2 * n_workers:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


def begin() -> None:
    """Set up a worker: one thread, memory kept; Ctrl-C and the end come from the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=leave_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    keep_freed_memory()


def leave_with_parent() -> None:
    """End this process with its parent, which when killed cannot say that all is done."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker was started by somebody"
    parent.join()
    os._exit(1)


@cache
def loaded(runs: tuple[str, ...], int8: bool) -> Translator:
    """The translator, read once by each process."""
    return Translator.load(*runs, int8=int8)


def translated(
    runs: tuple[str, ...], int8: bool, texts: list[str], options: dict[str, Any]
) -> list[Translation]:
    return loaded(runs, int8).translate(texts, **options)
