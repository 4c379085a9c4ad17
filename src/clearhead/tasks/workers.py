"""Several processes that translate side by side: on a CPU, one thread each does more than as many threads together."""

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
    """One thread in each process, which keeps its memory; Ctrl-C is for the one that started it, its end for all."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=leave_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    keep_freed_memory()


def leave_with_parent() -> None:
    """Ends this process with the one that started it, which when killed cannot say that there is no more to do."""
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
