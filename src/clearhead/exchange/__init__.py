"""Models from elsewhere in, models of ours out, each with a certificate that they are the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from clearhead.disk import atomic_folder
from clearhead.errors import ExchangeError, FolderError
from clearhead.exchange.argos import is_argos, read_argos, write_argos
from clearhead.exchange.certificate import Certificate
from clearhead.exchange.ct2 import write_ctranslate2
from clearhead.exchange.ct2_read import is_ctranslate2, read_ctranslate2
from clearhead.exchange.foreign import Foreign, settle
from clearhead.exchange.hf_write import write_hugging_face
from clearhead.exchange.hugging_face import is_hugging_face, read_hugging_face
from clearhead.exchange.onnx import write_onnx
from clearhead.folder import RunFolder

SOURCES: dict[str, tuple[Callable[[Path], bool], Callable[[Path], Foreign]]] = {
    "a Hugging Face folder": (is_hugging_face, read_hugging_face),
    "a CTranslate2 folder": (is_ctranslate2, read_ctranslate2),
    "an Argos package": (is_argos, read_argos),
}
"""What can be brought in: how it is recognised, and how it is read."""
FORMATS: dict[str, Callable[..., Certificate]] = {
    "hf": write_hugging_face,
    "ctranslate2": write_ctranslate2,
    "onnx": write_onnx,
}
"""What can be taken out, as a folder: each writes a run's model into an empty one."""


def import_model(source: str | Path, into: str | Path) -> Certificate:
    """Make a run of a model from elsewhere; nothing is downloaded and nothing in it is run."""
    path = Path(source)
    refuse_existing(Path(into))
    for is_source, read in SOURCES.values():
        if is_source(path):
            return settle(read(path), Path(into))
    raise ExchangeError(
        f"{path} is {'nothing' if path.exists() else 'not there: nothing'} that can be brought in.",
        f"There are: {', '.join(SOURCES)}.",
    )


def export_model(run: str | Path, to: str, into: str | Path, **options: Any) -> Certificate:
    """Write the model of a run in another format, into a folder (argos: a file) that is not there
    yet."""
    into = Path(into)
    refuse_existing(into)
    folder = RunFolder.open(run)
    if to == "argos":
        return write_argos(folder, into, **options)
    with atomic_folder(into) as place:
        certificate = FORMATS[to](folder, place, **options)
        certificate.require()
        certificate.write(place)
    return certificate


def refuse_existing(into: Path) -> None:
    if into.exists():
        raise FolderError(f"{into} is there already.", "Choose another --into.")
