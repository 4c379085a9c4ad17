"""Packages of Argos Translate, which LibreTranslate runs, too: a CTranslate2 model and its pieces.

Such a package cuts text with SentencePiece. A unigram tokenizer of ours can be written as one
exactly, and an imported model still has its own; other methods are refused by name.
"""

import json
import re
import shutil
import struct
import tempfile
import weakref
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from clearhead import __version__
from clearhead.disk import atomic_file, free_bytes
from clearhead.errors import ConfigError, ExchangeError, shown
from clearhead.exchange.certificate import Certificate, sample
from clearhead.exchange.ct2 import Precision, write_certified
from clearhead.exchange.ct2_file import MODEL
from clearhead.exchange.ct2_read import ADVICE, SHARED, read_ctranslate2
from clearhead.exchange.foreign import (
    METADATA,
    Foreign,
    as_piece,
    json_in,
    require_package,
    write_tokenizers,
)
from clearhead.folder import RunFolder
from clearhead.text import END, PAD, SPECIALS, START, Tokenizer
from clearhead.text import UNKNOWN as UNKNOWN_ID
from clearhead.text.sentencepiece import BYTE, CONTROL, NORMAL, UNKNOWN
from clearhead.text.vocabulary import byte_tokens

NEEDED = re.compile(
    r"model\.bin|config\.json|metadata\.json|sentencepiece\.model|\w*vocabulary\.\w+|"
    r"(source-)?tokenizer\.json"
)
"""The files of a package that are read here."""
UNK = SPECIALS["unknown"]
PACKAGE_VERSION, ARGOS_VERSION = "1.0", "1.9"
"""Of the package, and of Argos Translate from which on it is understood."""


def is_argos(path: Path) -> bool:
    return path.is_file() and zipfile.is_zipfile(path)


def read_argos(path: Path) -> Foreign:
    """The model in a package of Argos Translate or LibreTranslate."""
    place = Path(tempfile.mkdtemp(prefix="clearhead-"))

    def certified(run: RunFolder) -> Certificate:
        return foreign.certify(run)

    # The unpacked files are there as long as they may be asked.
    weakref.finalize(certified, shutil.rmtree, place, ignore_errors=True)
    unpack(path, place)
    roots = [file.parent.parent for file in place.rglob(MODEL)]
    if len(roots) != 1:
        raise ExchangeError(f"{path} holds {len(roots)} models, and a package has one.", ADVICE)
    if json_in(roots[0], METADATA).get("target_prefix"):
        raise ExchangeError(f"{path} has a target_prefix: it is for several languages.", ADVICE)
    foreign = read_ctranslate2(roots[0])
    card = f"# {path.stem}\n\nImported from an Argos package, {path.name}.\n"
    return replace(foreign, certify=certified, card=card)


def unpack(path: Path, into: Path) -> None:
    """Unpack the files of a package that are read here; none is written outside its folder."""
    with zipfile.ZipFile(path) as archive:
        wanted = [
            each
            for each in archive.infolist()
            if not each.is_dir() and NEEDED.fullmatch(PurePosixPath(each.filename).name)
        ]
        needed = sum(each.file_size for each in wanted)
        if needed > free_bytes(into) // 2:
            raise ExchangeError(f"{path} would need {needed:,} bytes.", "Make room, or refuse it.")
        for each in wanted:
            name = PurePosixPath(each.filename)
            if name.is_absolute() or ".." in name.parts or "\\" in each.filename:
                raise ExchangeError(f"{path} names {shown(each.filename)}, outside itself.", ADVICE)
            try:
                archive.extract(each, into)
            except (zipfile.BadZipFile, RuntimeError, EOFError, OSError) as error:
                raise ExchangeError(f"{path} is damaged: {error}.", ADVICE) from None


def write_argos(
    folder: RunFolder,
    into: Path,
    precision: Precision = "float32",
    test: Sequence[str] = (),
    languages: Sequence[str] = (),
) -> Certificate:
    """Write a translator as one file, for a pair of languages by their codes: ("en", "de"); else
    those that the run knows."""
    config = folder.config()
    known = (config.data.source_language, config.data.target_language)
    languages = languages or [each for each in known if each]
    if len(languages) != 2:
        raise ConfigError(
            "A package says which languages it translates.", "Name them: --languages en de"
        )
    if config.model.family != "encoder-decoder":
        raise ExchangeError(f"{folder.path} is no translator.", "Export it to ctranslate2 or onnx.")
    source, target = languages
    metadata = {
        "package_version": PACKAGE_VERSION,
        "argos_version": ARGOS_VERSION,
        "from_code": source,
        "from_name": source,
        "to_code": target,
        "to_name": target,
    }
    pieces = sentencepiece_of(folder)
    with tempfile.TemporaryDirectory(prefix="clearhead-") as name:
        place = Path(name)
        write_tokenizers(folder.tokenizers(), place)
        certificate = write_certified(folder, place, precision, test, spelled=as_piece)
        certificate.require()
        with atomic_file(into) as file, zipfile.ZipFile(file.file, "w", zipfile.ZIP_DEFLATED) as to:
            root = f"translate-{'_'.join(languages)}-{PACKAGE_VERSION.replace('.', '_')}"
            for each in sorted(place.iterdir()):
                to.write(each, f"{root}/model/{each.name}")
            to.writestr(f"{root}/{SHARED}", pieces)
            to.writestr(f"{root}/{METADATA}", json.dumps(metadata))
            to.writestr(f"{root}/README.md", f"Made with clearhead {__version__}.\n")
    return certificate


def sentencepiece_of(folder: RunFolder) -> bytes:
    """The SentencePiece model that cuts text as the run's tokenizer does."""
    source, origin = folder.tokenizers()[0], folder.origin()
    kept = [origin / name for name in (SHARED, "source.spm")] if origin else []
    method = source.vocabulary.method
    if found := [file for file in kept if file.is_file()]:
        model = found[0].read_bytes()
    elif method == "unigram":
        model = model_file(source)
    else:
        raise ExchangeError(
            f'A tokenizer of method "{method}" cannot be written as SentencePiece exactly.',
            "Train with: --set tokenizer.method=unigram",
        )
    check_pieces(model, source, sample(folder))
    return model


def model_file(tokenizer: Tokenizer) -> bytes:
    """A unigram tokenizer as a SentencePiece model: a protocol buffer of pieces and settings."""
    vocabulary = tokenizer.vocabulary
    special = [(name, 0.0, UNKNOWN if name == UNK else CONTROL) for name in vocabulary.specials]
    spelled = [(name, 0.0, BYTE) for name in byte_tokens(vocabulary.method)]
    learned = zip(map(as_piece, vocabulary.learned), vocabulary.scores, strict=True)
    pieces = [*special, *spelled, *((name, score, NORMAL) for name, score in learned)]
    named = b"".join(
        field(1, field(1, name.encode()) + real(2, score) + integer(3, kind))
        for name, score, kind in pieces
    )
    numbers = zip((40, 41, 42, 43), (UNKNOWN_ID, START, END, PAD), strict=True)
    trainer = integer(3, 1) + integer(35, 1) + b"".join(integer(*pair) for pair in numbers)
    normaliser = field(1, b"identity") + integer(3, 1) + integer(4, 0) + integer(5, 1)
    return named + field(2, trainer) + field(3, normaliser)


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def integer(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def real(number: int, value: float) -> bytes:
    return varint(number << 3 | 5) + struct.pack("<f", value)


def varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; all but the last have the eighth bit set."""
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def check_pieces(model: bytes, tokenizer: Tokenizer, texts: Sequence[str]) -> None:
    """Refuse a package whose SentencePiece model cuts text otherwise than the run does."""
    require_package("sentencepiece", "SentencePiece")
    from sentencepiece import SentencePieceProcessor

    processor, names = SentencePieceProcessor(model_proto=model), tokenizer.vocabulary.names
    for text in texts:
        theirs = processor.encode(text, out_type=str)
        ours = [as_piece(names[token]) for token in tokenizer.encode(text)]
        if theirs != ours and UNK not in ours:
            raise ExchangeError(
                f"SentencePiece cuts {shown(text)} otherwise: {shown(theirs)}, we {shown(ours)}.",
                "Train with: --set tokenizer.method=unigram",
            )
