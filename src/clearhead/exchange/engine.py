"""Which engine decodes a run: our own, or CTranslate2, exported once into the run folder's cache."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from clearhead.decode import Request, Sentence
from clearhead.disk import atomic_folder, discard
from clearhead.errors import ClearheadError, ExchangeError
from clearhead.exchange.backend import CTranslate2, Result, lacks
from clearhead.exchange.certificate import CERTIFICATE
from clearhead.exchange.ct2 import Precision, write_certified
from clearhead.exchange.foreign import require_package
from clearhead.folder import RunFolder
from clearhead.model import Model

MANY = 500
"""Sentences at once that take longer than processes take to start."""


def ctranslate2_for(
    run: str | Path, model: Model, *, n_workers: int, precision: Precision = "float32"
) -> CTranslate2:
    """The weights in use of a run, ready to be decoded by CTranslate2, if its certificate is good."""
    require_package("ctranslate2", "CTranslate2")
    folder = RunFolder.open(run)
    place = folder.cached(f"ctranslate2-{precision}")
    if not is_certified(place):
        with atomic_folder(place, is_whole=is_certified) as new:
            write_certified(folder, new, precision)
        for other in place.parent.glob(f"ctranslate2-{precision}-*"):
            if other != place:  # of weights that are no longer in use
                discard(other)
    certificate = json.loads((place / f"{CERTIFICATE}.json").read_text(encoding="utf-8"))
    if not certificate["good"]:
        raise ExchangeError(
            f"CTranslate2 does not decode {folder.path} as we do: "
            f"{'; '.join(certificate['faults'])}.",
            "Decode without it: --engine own",
        )
    return CTranslate2(place, model, n_workers=n_workers, precision=precision)


def is_certified(place: Path) -> bool:
    return (place / f"{CERTIFICATE}.json").is_file()


class WhereItPays:
    """A backend that begins when there is enough to decode; where it cannot, it says why once."""

    lacks = staticmethod(lacks)

    def __init__(self, begin: Callable[[], CTranslate2], tell: Callable[[str], None]) -> None:
        self.begin: Callable[[], CTranslate2] | None = begin
        self.tell = tell
        self.backend: CTranslate2 | None = None

    def decode(self, request: Request, sentences: Sequence[Sentence]) -> Iterator[Result]:
        backend = self.begun() if len(sentences) >= MANY else self.backend
        if backend is None:
            yield from ((sentence, []) for sentence in sentences)
        else:
            yield from backend.decode(request, sentences)

    def close(self) -> None:
        if self.backend is not None:
            self.backend.close()

    def is_ready(self) -> bool:
        """Whether it decodes, begun now or before."""
        return self.begun() is not None

    def begun(self) -> CTranslate2 | None:
        """The backend, begun now or before; None, where it cannot begin."""
        if self.begin is not None:
            begin, self.begin = self.begin, None
            try:
                self.backend = begin()
                self.tell("decoding with CTranslate2; --engine own decodes without it")
            except ClearheadError as error:
                self.tell(f"decoding with our own engine: {error}")
        return self.backend
