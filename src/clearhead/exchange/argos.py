"""A translator as a package of Argos Translate, which LibreTranslate runs, too.

Such a package cuts text with SentencePiece. A unigram tokenizer of ours can be written as one
exactly, and an imported model still has its own; other methods are refused by name.
"""

import json
import struct
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from clearhead import __version__
from clearhead.disk import atomic_file
from clearhead.errors import ConfigError, ExchangeError, shown
from clearhead.exchange.certificate import Certificate
from clearhead.exchange.ct2 import Precision, tokens_of, write_model
from clearhead.exchange.ct2_read import SHARED
from clearhead.exchange.native import as_piece, write_tokenizers
from clearhead.exchange.trial import certify, sample
from clearhead.folder import RunFolder
from clearhead.text import END, PAD, SPECIALS, START, Tokenizer
from clearhead.text import UNKNOWN as UNKNOWN_ID
from clearhead.text.sentencepiece import BYTE, CONTROL, NORMAL, UNKNOWN
from clearhead.text.vocabulary import byte_tokens

UNK = SPECIALS["unknown"]
PACKAGE_VERSION, ARGOS_VERSION = "1.0", "1.9"
"""Of the package, and of Argos Translate from which on it is understood."""


def write_argos(
    run: Path,
    into: Path,
    precision: Precision = "float32",
    test: Sequence[str] = (),
    languages: Sequence[str] = (),
) -> Certificate:
    """Write a translator as one file, for a pair of languages by their codes: ("en", "de"); else
    those that the run knows."""
    folder = RunFolder.open(run)
    data = folder.config().data
    languages = languages or [each for each in (data.source_language, data.target_language) if each]
    if len(languages) != 2:
        raise ConfigError(
            "A package says which languages it translates.", "Name them: --languages en de"
        )
    if folder.config().model.family != "encoder-decoder":
        raise ExchangeError(f"{run} is no translator.", "Export it to ctranslate2 or onnx.")
    model, (source, target) = folder.model(), folder.tokenizers()
    pieces = sentencepiece_of(folder, source)
    check_pieces(pieces, source, sample(folder.config(), folder.path))
    tokens = [[as_piece(token) for token in tokens_of(each)] for each in (source, target)]
    with tempfile.TemporaryDirectory(prefix="clearhead-") as place:
        write_model(model, (tokens[0], tokens[1]), Path(place), precision)
        certificate = certify(folder, model, Path(place), precision, test)
        certificate.require()
        certificate.write(Path(place))
        write_tokenizers((source, target), Path(place))
        with atomic_file(into) as file, zipfile.ZipFile(file.file, "w", zipfile.ZIP_DEFLATED) as to:
            root = f"translate-{'_'.join(languages)}-{PACKAGE_VERSION.replace('.', '_')}"
            for each in sorted(Path(place).iterdir()):
                to.write(each, f"{root}/model/{each.name}")
            to.writestr(f"{root}/{SHARED}", pieces)
            to.writestr(f"{root}/metadata.json", metadata(*languages))
            to.writestr(f"{root}/README.md", f"Made with clearhead {__version__}.\n")
    return certificate


def metadata(source: str, target: str) -> str:
    return json.dumps(
        {
            "package_version": PACKAGE_VERSION,
            "argos_version": ARGOS_VERSION,
            "from_code": source,
            "from_name": source,
            "to_code": target,
            "to_name": target,
        }
    )


def sentencepiece_of(folder: RunFolder, source: Tokenizer) -> bytes:
    """The SentencePiece model that cuts text as the run's tokenizer does."""
    if origin := folder.origin():
        for name in (SHARED, "source.spm"):
            if (origin / name).is_file():
                return (origin / name).read_bytes()
    method = source.vocabulary.method
    if method != "unigram":
        raise ExchangeError(
            f'A tokenizer of method "{method}" cannot be written as SentencePiece exactly.',
            "Train with: --set tokenizer.method=unigram",
        )
    return model_file(source)


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
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise ConfigError(
            "SentencePiece is not installed.", "Install it: pip install 'clearhead[exchange]'"
        ) from None
    processor, tokens = SentencePieceProcessor(model_proto=model), tokens_of(tokenizer)
    for text in texts:
        theirs = processor.encode(text, out_type=str)
        ours = [as_piece(tokens[token]) for token in tokenizer.encode(text)]
        if theirs != ours and UNK not in ours:
            raise ExchangeError(
                f"SentencePiece cuts {shown(text)} otherwise: {shown(theirs)}, we {shown(ours)}.",
                "Train with: --set tokenizer.method=unigram",
            )
