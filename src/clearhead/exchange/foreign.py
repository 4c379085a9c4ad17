"""A model from elsewhere, as a run would hold it; and how such a run comes to be, whole or not at
all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from clearhead.config import Config
from clearhead.disk import atomic_folder
from clearhead.exchange.certificate import Certificate
from clearhead.folder import RunFolder
from clearhead.tasks.task import Tokenizers


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """All that a run needs, in clearhead's names, shapes and order of tokens."""

    config: Config
    tokenizers: Tokenizers
    weights: Mapping[str, Tensor]
    certify: Callable[[RunFolder], Certificate]
    """Runs a sample through the new run and through the source."""
    origin: Mapping[str, bytes] = field(default_factory=dict)
    """Files of the source that an export needs to give the model back as it came, by name."""
    card: str = ""
    """Where it comes from, in Markdown."""


def settle(foreign: Foreign, into: Path) -> Certificate:
    """Make a run folder of a model from elsewhere, if its certificate is good."""
    needed = sum(weight.nbytes for weight in foreign.weights.values())
    with atomic_folder(into, needed) as folder:
        source, target = foreign.tokenizers
        own = None if source is target else source
        run = RunFolder.create(folder, foreign.config, target, own, origin=foreign.origin)
        run.write_weights(foreign.weights)
        run.write_card(foreign.card)
        certificate = foreign.certify(run)
        certificate.require()
        certificate.write(folder)
    return certificate
