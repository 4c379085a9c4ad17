"""A corpus through a Ray cluster: on each processor an actor loads the run once and answers chunks.

Chunks are cut and saved as in shards, so that the answers are those of a single process and an
interrupted job goes on where it was. A lost node costs the chunks that it had not finished: they
are given to others. Nodes that join while the job runs are put to use.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.data.store import AT_ONCE
from clearhead.errors import ClearheadError, ConfigError
from clearhead.scale.chunks import Chunk
from clearhead.scale.shards import Answer

if TYPE_CHECKING:
    from ray.data import Dataset

WAITING = 2
"""Chunks that an actor has been given at most, so that it need not wait for the next."""


def connected(address: str = "") -> Any:
    """Ray, connected to a cluster, or to one of its own on this machine if there is no address."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # Ray would send them over the network
    try:
        import ray
    except ImportError:
        raise ConfigError(
            "Ray is not installed.", "Install it with: pip install 'clearhead[ray]'"
        ) from None
    if not ray.is_initialized():
        try:
            ray.init(address=address or None, log_to_driver=False, include_dashboard=False)
        except ConnectionError as error:
            raise ConfigError(
                f"No Ray cluster can be reached at {address}: {error}",
                "Start one with: ray start --head, or leave --address out.",
            ) from None
    return ray


class Answerer:
    """A Ray actor. It loads the run in a call of its own, whose errors come back to us."""

    def load(self, load: Callable[[], Answer]) -> None:
        import torch

        torch.set_num_threads(1)
        self.answer = load()

    def answers(self, lines: Sequence[str], first: int) -> list[str]:
        return self.answer(lines, first)


class ActorPool:
    """The actors of a cluster, and the chunks that each has been given."""

    def __init__(self, ray: Any, load: Callable[[], Answer]) -> None:
        self.ray, self.load = ray, load
        self.actors: list[Any] = []
        self.given: dict[Any, tuple[Any, Chunk | None]] = {}
        """By what will be the answer: the actor, and the chunk; none, while the actor loads."""

    def grow(self) -> None:
        """An actor for each processor of the cluster that has none yet."""
        known = {id(actor) for actor in self.actors}
        known |= {id(actor) for actor, _ in self.given.values()}
        for _ in range(int(self.ray.cluster_resources().get("CPU", 0)) - len(known)):
            actor = self.ray.remote(num_cpus=1)(Answerer).remote()
            self.given[actor.load.remote(self.load)] = actor, None

    def free(self) -> Any | None:
        """The actor with least to do, unless all have enough."""
        busy = [id(actor) for actor, _ in self.given.values()]
        found = min(self.actors, key=lambda actor: busy.count(id(actor)), default=None)
        return None if found is None or busy.count(id(found)) >= WAITING else found

    def give(self, actor: Any, chunk: Chunk, lines: Sequence[str]) -> None:
        self.given[actor.answers.remote(lines, chunk.first)] = actor, chunk

    def take(self) -> tuple[Chunk | None, list[str] | None]:
        """The next chunk that comes back, and its answers; none, if its actor is lost."""
        (ready, *_), _ = self.ray.wait(list(self.given))
        actor, chunk = self.given.pop(ready)
        try:
            answers = self.ray.get(ready)
        except self.ray.exceptions.RayActorError:
            self.actors = [each for each in self.actors if each is not actor]
            return chunk, None
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, ClearheadError) else error from None
        if chunk is None:
            self.actors.append(actor)
        return chunk, answers


def answer_on_ray(
    missing: Iterable[Chunk],
    load: Callable[[], Answer],
    read: Callable[[Chunk], list[str]],
    *,
    address: str = "",
) -> Iterator[tuple[Chunk, list[str]]]:
    """Every chunk with its answers, in the order in which actors finish."""
    pool, lost, rest = ActorPool(connected(address), load), deque[Chunk](), iter(missing)
    following = next(rest, None)
    while following or lost or any(chunk for _, chunk in pool.given.values()):
        pool.grow()
        while (following or lost) and (actor := pool.free()) is not None:
            if lost:
                chunk = lost.popleft()
            else:
                assert following is not None
                chunk, following = following, next(rest, None)
            pool.give(actor, chunk, read(chunk))
        done, answers = pool.take()
        if done and answers is None:
            lost.append(done)
        elif done and answers is not None:
            yield done, answers


def translate(
    dataset: "Dataset", run: str, *, column: str = "text", to: str = "translation", **options: Any
) -> "Dataset":
    """A Ray dataset with one more column: the translations of a column of texts.

    On each processor of the cluster an actor loads the run once. Options are those of
    `Translator.translate`.
    """
    ray = connected()
    n_actors = max(1, int(ray.cluster_resources().get("CPU", 1)))
    return dataset.map_batches(
        Translating,
        fn_constructor_args=(run, column, to, options),
        batch_size=AT_ONCE,
        concurrency=(1, n_actors),
        num_cpus=1,
    )


class Translating:
    """Batches of a dataset, each with the translations of one of its columns."""

    def __init__(self, run: str, column: str, to: str, options: dict[str, Any]) -> None:
        import torch

        from clearhead.tasks import Translator

        torch.set_num_threads(1)
        self.translator = Translator.load(run)
        self.column, self.to, self.options = column, to, options

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        texts = [str(text) for text in batch[self.column]]
        found = self.translator.translate(texts, **self.options)
        return {**batch, self.to: np.array([each.text for each in found], dtype=object)}
