"""A model from elsewhere as a run would hold it: weights, settings, and its tokens in our order.

Ids 0 to 6 are the special tokens of `text/vocabulary.py` in every run, also in an imported one. So
the vocabulary of another model is permuted, and with it each weight that has a row for each token.
Special tokens that the other model lacks get a row of their own, which is never predicted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.config import Config, Given
from clearhead.disk import atomic_folder, read_inside
from clearhead.errors import ConfigError, ExchangeError, TokenizerError, shown
from clearhead.exchange.certificate import Certificate
from clearhead.folder.run import SOURCE_TOKENIZER, TOKENIZER, RunFolder
from clearhead.tasks.task import Tokenizers
from clearhead.text import END, PAD, SPECIALS, START, Tokenizer
from clearhead.text.document import (
    MAX_BYTES,
    merges_of,
    normalizer,
    parsed_json,
    pre_tokenizer,
    vocab_tokens,
)
from clearhead.text.sentencepiece import SentencePiece
from clearhead.text.vocabulary import METHODS, SPACE_MARK, Vocabulary, byte_tokens

N_SPECIAL = len(SPECIALS)
NEVER = -1e4
"""The output bias of a token that the other model does not have: it has no probability."""
BY_TOKEN = ("tokens.weight", "source_tokens.weight", "head.tokens.weight", "head.bias")
"""Our weights that have a row for each token."""
TOKENIZER_CONFIG, SPECIAL_MAP = "tokenizer_config.json", "special_tokens_map.json"
POOLING, LENGTHS = "1_Pooling/config.json", "sentence_bert_config.json"
"""What a sentence encoder says about its vectors (sentence-transformers)."""
METADATA = "metadata.json"
"""What an Argos package says about itself."""
FILES = (
    TOKENIZER, TOKENIZER_CONFIG, SPECIAL_MAP, "vocab.txt", "vocab.json", "merges.txt",
    "target_vocab.json", "source.spm", "target.spm",
)  # fmt: skip
"""All files of tokenizers that we read, or hand on to an export."""
OPTIONAL = (TOKENIZER_CONFIG, SPECIAL_MAP, POOLING, LENGTHS, METADATA)


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
    card: str
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


def require_package(module: str, name: str) -> None:
    if find_spec(module) is None:
        raise ConfigError(
            f"{name} is not installed.", "Install it: pip install 'clearhead[exchange]'"
        )


def json_in(folder: Path, name: str) -> dict[str, Any]:
    """A JSON object of a folder; a file that may be missing says nothing then."""
    if name in OPTIONAL and not (folder / name).exists():
        return {}
    try:
        return parsed_json(read_inside(folder, name, MAX_BYTES), str(folder / name))
    except TokenizerError as error:
        raise ExchangeError(str(error), error.advice) from None


def lines_in(folder: Path, name: str) -> list[str]:
    text = read_inside(folder, name, MAX_BYTES).decode(errors="replace")
    return text.removesuffix("\n").split("\n")


# Tokens in our order


@dataclass(frozen=True)
class Order:
    """Which id of the other model each of ours is; None for special tokens that it lacks."""

    ids: tuple[int | None, ...]
    n_theirs: int
    like: Mapping[int, int] = field(default_factory=dict)
    """A special token that it lacks, and the one of ours whose vector it begins with."""

    def theirs(self, ours: Iterable[int]) -> list[int]:
        """Ids of the other model for ids of ours."""
        return [self.ids[self.like.get(number, number)] or 0 for number in ours]

    @property
    def known(self) -> list[int]:
        """The ids here of the tokens that both have."""
        return [number for number, other in enumerate(self.ids) if other is not None]

    def rows(self, theirs: Tensor) -> Tensor:
        """Rows permuted into our order; new tokens begin at the mean, and their bias says never."""
        known = [number for number in self.ids if number is not None]
        mean = torch.tensor(NEVER) if theirs.dim() == 1 else theirs[known].mean(dim=0)
        special = [mean if each is None else theirs[each] for each in self.ids[:N_SPECIAL]]
        ours = torch.cat([torch.stack(special), theirs[list(self.ids[N_SPECIAL:])]])
        for number, other in self.like.items() if theirs.dim() > 1 else ():
            ours[number] = ours[other]
        return ours

    def given_back(self, ours: Tensor) -> Tensor:
        """Rows permuted back into the order of the other model."""
        theirs = ours.new_zeros(self.n_theirs, *ours.shape[1:])
        theirs[[number for number in self.ids if number is not None]] = ours[self.known]
        return theirs


@dataclass(frozen=True)
class Lexicon:
    """The tokenizers of a foreign model here, and the order of its tokens, of source and target."""

    tokenizers: Tokenizers
    orders: tuple[Order, Order]

    @classmethod
    def of(
        cls, source: tuple[Vocabulary, Order], target: tuple[Vocabulary, Order] | None = None
    ) -> "Lexicon":
        """Tokenizers of source and target, which are one if they cut alike.

        Each is read again as a run would read it, and refused as there.
        """
        (first, order), (second, other) = source, target or source
        made = {each: Tokenizer.from_json(Tokenizer(each).json) for each in (first, second)}
        return cls((made[first], made[second]), (order, other))

    @classmethod
    def native(cls, tokenizers: Tokenizers) -> "Lexicon":
        """Tokenizers of ours, whose order is as it is."""
        source, target = (
            Order(tuple(range(each.vocab_size)), each.vocab_size) for each in tokenizers
        )
        return cls(tokenizers, (source, target))

    @property
    def settings(self) -> Given:
        """What the settings of a run say about its tokenizers."""
        source, target = self.tokenizers
        return {"method": target.vocabulary.method, "shared": source is target}

    def order_of(self, weight: str) -> Order:
        """The order of the rows of a weight of ours."""
        return self.orders[0 if weight.startswith("source") else 1]


def as_piece(token: str) -> str:
    """A token as SentencePiece spells it."""
    return token.replace(" ", SPACE_MARK)


def write_tokenizers(tokenizers: Tokenizers, folder: Path) -> None:
    """Write our tokenizers beside a model in another format; one file, where they are one."""
    source, target = tokenizers
    own = {} if source is target else {SOURCE_TOKENIZER: source}
    for name, tokenizer in {TOKENIZER: target, **own}.items():
        (folder / name).write_text(tokenizer.json, encoding="utf-8")


def read_tokenizers(folder: Path) -> Tokenizers:
    """The tokenizers that `write_tokenizers` wrote beside a model."""
    names = [name for name in (SOURCE_TOKENIZER, TOKENIZER) if (folder / name).is_file()]
    found = [Tokenizer.from_json(read_inside(folder, name, MAX_BYTES)) for name in names]
    return found[0], found[-1]


# Tokenizers of Hugging Face, and pieces of SentencePiece


def read_lexicon(folder: Path, kind: str) -> Lexicon:
    """The tokenizer in a Hugging Face folder, for a `model_type`, if it is of a kind we know."""
    return READERS[kind](folder)


def wordpiece(folder: Path) -> Lexicon:
    """BERT's: WordPiece over words and marks, in small letters or not."""
    settings = json_in(folder, TOKENIZER_CONFIG)
    if (folder / TOKENIZER).exists():
        model, method = known_model(folder, ("bert", "bert-cased"))
        tokens = vocab_tokens(model.get("vocab"))[0]
        for name, only in (("unk_token", "[UNK]"), ("continuing_subword_prefix", "##")):
            if model.get(name, only) != only:
                raise TokenizerError(
                    f"The tokenizer's {name} is {shown(model[name])}, and only {only} is known.",
                    "Such a tokenizer cannot be brought in.",
                )
    else:
        method = "bert" if settings.get("do_lower_case", True) else "bert-cased"
        tokens = [line.rstrip("\r") for line in lines_in(folder, "vocab.txt")]
    names = {"pad": "[PAD]", "start": "[CLS]", "end": "[SEP]", "unknown": "[UNK]", "mask": "[MASK]"}
    order, learned = in_our_order(tokens, names)
    return Lexicon.of((Vocabulary(method, learned=tuple(learned)), order))


def byte_pairs(folder: Path) -> Lexicon:
    """GPT-2's: byte-level BPE after a regular expression that the library brings."""
    if (folder / TOKENIZER).exists():
        model, _ = known_model(folder, ("gpt2",))
        found, merges = model.get("vocab"), model.get("merges")
        pairs = [each.split(" ") if isinstance(each, str) else each for each in merges or ()]
    else:
        found, lines = json_in(folder, "vocab.json"), lines_in(folder, "merges.txt")
        pairs = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    tokens, spelled = vocab_tokens(found)[0], byte_tokens("gpt2")
    roles = json_in(folder, SPECIAL_MAP) | json_in(folder, TOKENIZER_CONFIG)
    end = roles.get("eos_token")
    end = end.get("content") if isinstance(end, dict) else end  # it may have its properties there
    names = {"end": end if end and isinstance(end, str) else "<|endoftext|>"}
    order, learned = in_our_order(tokens, names, first=spelled, like={START: END})
    merged = tuple(merges_of(pairs))
    return Lexicon.of((Vocabulary("gpt2", learned=tuple(learned), merges=merged), order))


def marian(folder: Path) -> Lexicon:
    """Marian's: pieces by SentencePiece, of each language its own; ids by vocab.json."""
    # a decoder there begins with the padding token
    names = {"start": "<pad>", "end": "</s>", "unknown": "<unk>"}
    own, both = "target_vocab.json", []
    for side in ("source", "target"):
        is_own = side == "target" and (folder / own).exists()
        tokens = vocab_tokens(json_in(folder, own if is_own else "vocab.json"))[0]
        pieces = read_inside(folder, f"{side}.spm", MAX_BYTES)
        both.append(in_pieces(pieces, tokens, names))
    return Lexicon.of(*both)


def in_pieces(
    content: bytes, tokens: Sequence[str], names: Mapping[str, str], *, of_source: bool = False
) -> tuple[Vocabulary, Order]:
    """How the SentencePiece model in a file cuts text, with ids as in a list of tokens.

    `of_source` says that the text is a target, and that the file may know the source alone.
    """
    model = SentencePiece.read(content)
    order, learned = in_our_order(tokens, names, byte_tokens(model.method), like={PAD: START})
    model = model.for_target(learned) if of_source else model
    return model.vocabulary(learned), order


READERS: dict[str, Callable[[Path], Lexicon]] = {
    "bert": wordpiece,
    "distilbert": wordpiece,
    "gpt2": byte_pairs,
    "marian": marian,
}


def in_our_order(
    tokens: Sequence[str],
    names: Mapping[str, str],
    first: Sequence[str] = (),
    like: Mapping[int, int] | None = None,
) -> tuple[Order, list[str]]:
    """Their ids in our order: special tokens by what they are called there, some, the rest; and
    this rest."""
    ids = {token: number for number, token in enumerate(tokens)}
    special = [ids.get(names.get(role, "")) for role in SPECIALS]
    if missing := [name for name in (names["end"], *first) if name not in ids]:
        raise TokenizerError(
            f"The tokenizer lacks {shown(', '.join(missing))}.",
            "Take the tokenizer that was written with the model.",
        )
    begin = [ids[token] for token in first]
    taken = {*special, *begin}
    rest = [number for number in range(len(tokens)) if number not in taken]
    order = Order((*special, *begin, *rest), len(tokens), like or {})
    return order, [tokens[number] for number in rest]


def known_model(folder: Path, methods: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The model section of a tokenizer.json, if all around it is of one of these methods."""
    document = parsed_json(read_inside(folder, TOKENIZER, MAX_BYTES), str(folder / TOKENIZER))
    model = document.get("model")
    if not isinstance(model, dict):
        raise TokenizerError(f"{folder / TOKENIZER} has no model section.")
    kind = model.get("type", METHODS[methods[0]].model)
    found = kind, document.get("normalizer"), document.get("pre_tokenizer")
    different = {}
    for method in methods:
        made = METHODS[method].model, normalizer(Vocabulary(method)), pre_tokenizer(method)
        parts = zip(("model", "normalizer", "pre_tokenizer"), found, made, strict=True)
        different[method] = [each for each in parts if each[1] != each[2]]
        if not different[method]:
            return model, method
    part, theirs, ours = min(different.values(), key=len)[0]
    raise TokenizerError(
        f"{folder / TOKENIZER}: its {part} is {shown(theirs, 200)}, and of such models only "
        f"{shown(ours, 200)} is known.",
        "No tokenizer runs here that is not on the list in docs/exchange.md.",
    )
