"""Foreign tokenizers here: vocabularies are permuted, so that special ids stay what they are.

Ids 0 to 6 are the special tokens of `text/vocabulary.py` in every run, also in an imported one.
Special tokens that the other model lacks get a row of their own, which is never predicted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.disk import read_inside
from clearhead.errors import ExchangeError, TokenizerError, shown
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
from clearhead.text.vocabulary import METHODS, Vocabulary, byte_tokens

NEVER = -1e4
"""The output bias of a token that the other model does not have: it has no probability."""
TOKENIZER, TOKENIZER_CONFIG, SPECIAL_MAP = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
FILES = (
    TOKENIZER, TOKENIZER_CONFIG, SPECIAL_MAP, "vocab.txt", "vocab.json", "merges.txt",
    "target_vocab.json", "source.spm", "target.spm",
)  # fmt: skip
"""All files of tokenizers that we read, or hand on to an export."""


OPTIONAL = (
    TOKENIZER_CONFIG,
    SPECIAL_MAP,
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "metadata.json",
)


@dataclass(frozen=True)
class Order:
    """Which id of the other model each of ours is; None for special tokens that it lacks."""

    ids: tuple[int | None, ...]
    n_theirs: int
    like: Mapping[int, int] = field(default_factory=dict)
    """A special token that it lacks, and the one of ours whose vector it begins with."""

    def rows(self, theirs: Tensor) -> Tensor:
        """Rows in our order; the new ones begin at the mean, and their bias says never."""
        known = [number for number in self.ids if number is not None]
        mean = torch.tensor(NEVER) if theirs.dim() == 1 else theirs[known].mean(dim=0)
        ours = torch.stack([mean if each is None else theirs[each] for each in self.ids[:SPECIAL]])
        ours = torch.cat([ours, theirs[list(self.ids[SPECIAL:])]])
        for number, other in self.like.items() if theirs.dim() > 1 else ():
            ours[number] = ours[other]
        return ours

    def given_back(self, ours: Tensor) -> Tensor:
        """Rows in the order of the other model."""
        known = [number for number, other in enumerate(self.ids) if other is not None]
        theirs = ours.new_zeros(self.n_theirs, *ours.shape[1:])
        theirs[[self.ids[number] for number in known]] = ours[known]
        return theirs


SPECIAL = len(SPECIALS)


@dataclass(frozen=True)
class Lexicon:
    """The tokenizers of a foreign model here, and the order of its tokens, of source and target."""

    tokenizers: Tokenizers
    orders: tuple[Order, Order]


def read_lexicon(folder: Path, kind: str) -> Lexicon:
    """The tokenizer in a Hugging Face folder, for a `model_type`, if it is of a kind we know."""
    return READERS[kind](folder)


def wordpiece(folder: Path) -> Lexicon:
    """BERT's: WordPiece over words and marks, in small letters or not."""
    settings = json_in(folder, TOKENIZER_CONFIG)
    if (folder / TOKENIZER).exists():
        model, method = known_model(folder, ("bert", "bert-cased"))
        tokens = vocab_tokens(model.get("vocab"))[0]
        refuse_other(model, unk_token="[UNK]", continuing_subword_prefix="##")  # noqa: S106
    else:
        method = "bert" if settings.get("do_lower_case", True) else "bert-cased"
        lines = read_inside(folder, "vocab.txt", MAX_BYTES).decode(errors="replace").split("\n")
        tokens = [line.rstrip("\r") for line in (lines[:-1] if not lines[-1] else lines)]
    names = {"pad": "[PAD]", "start": "[CLS]", "end": "[SEP]", "unknown": "[UNK]", "mask": "[MASK]"}
    order = in_our_order(tokens, names)
    learned = tuple(tokens[number] for number in order.ids[SPECIAL:])  # type: ignore[index]
    return single(Vocabulary(method, learned=learned), order)


def byte_pairs(folder: Path) -> Lexicon:
    """GPT-2's: byte-level BPE after a regular expression that the library brings."""
    if (folder / TOKENIZER).exists():
        model, _ = known_model(folder, ("gpt2",))
        found, merges = model.get("vocab"), model.get("merges")
        pairs = [each.split(" ") if isinstance(each, str) else each for each in merges or ()]
    else:
        found = json_in(folder, "vocab.json")
        lines = read_inside(folder, "merges.txt", MAX_BYTES).decode(errors="replace").split("\n")
        pairs = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    tokens = vocab_tokens(found)[0]
    end = token_of_role(
        json_in(folder, SPECIAL_MAP) | json_in(folder, TOKENIZER_CONFIG), "eos_token"
    )
    order = in_our_order(tokens, {"end": end or "<|endoftext|>"}, first=byte_tokens("gpt2"))
    learned = [tokens[number] for number in order.ids[SPECIAL + 256 :]]  # type: ignore[index]
    vocabulary = Vocabulary("gpt2", learned=tuple(learned), merges=tuple(merges_of(pairs)))
    return single(vocabulary, Order(order.ids, order.n_theirs, {START: END}))


def marian(folder: Path) -> Lexicon:
    """Marian's: pieces by SentencePiece, of each language its own; ids by vocab.json."""
    both = []
    for side in ("source", "target"):
        own = folder / "target_vocab.json"
        name = own.name if side == "target" and own.exists() else "vocab.json"
        tokens = vocab_tokens(json_in(folder, name))[0]
        pieces = read_inside(folder, f"{side}.spm", MAX_BYTES)
        # a decoder there begins with the padding token
        names = {"start": "<pad>", "end": "</s>", "unknown": "<unk>"}
        both.append(in_pieces(pieces, tokens, names))
    return of_sides(*both)


def in_pieces(
    content: bytes, tokens: Sequence[str], names: Mapping[str, str], *, of_source: bool = False
) -> tuple[Vocabulary, Order]:
    """How the SentencePiece model in a file cuts text, with ids as in a list of tokens.

    `of_source` says that the text is a target, and that the file may know the source alone.
    """
    model = SentencePiece.read(content)
    spelled = byte_tokens(model.method)
    order = in_our_order(tokens, names, first=spelled)
    rest = order.ids[SPECIAL + len(spelled) :]
    learned = [tokens[number] for number in rest]  # type: ignore[index]
    model = model.for_target(learned) if of_source else model
    return model.vocabulary(learned), Order(order.ids, order.n_theirs, {PAD: START})


def of_sides(*sides: tuple[Vocabulary, Order]) -> Lexicon:
    """Tokenizers of source and target, which are one if they cut alike."""
    (first, source_order), (second, target_order) = sides
    target = Tokenizer(second)
    source = target if first == second else Tokenizer(first)
    return Lexicon((source, target), (source_order, target_order))


READERS: dict[str, Callable[[Path], Lexicon]] = {
    "bert": wordpiece,
    "distilbert": wordpiece,
    "gpt2": byte_pairs,
    "marian": marian,
}


def in_our_order(
    tokens: Sequence[str], names: Mapping[str, str], first: Sequence[str] = ()
) -> Order:
    """Their ids in our order: special tokens by what they are called there, some, the rest."""
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
    return Order((*special, *begin, *rest), len(tokens))


def single(vocabulary: Vocabulary, order: Order) -> Lexicon:
    """One tokenizer for all; it is read again as a run would read it, and refused as there."""
    tokenizer = Tokenizer.from_json(Tokenizer(vocabulary).json)
    return Lexicon((tokenizer, tokenizer), (order, order))


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


def refuse_other(model: Mapping[str, Any], **known: Any) -> None:
    for name, only in known.items():
        if model.get(name, only) != only:
            raise TokenizerError(
                f"The tokenizer's {name} is {shown(model[name])}, and only {only} is known.",
                "Such a tokenizer cannot be brought in.",
            )


def json_in(folder: Path, name: str) -> dict[str, Any]:
    """A JSON object of a folder; a file that may be missing says nothing then."""
    if name in OPTIONAL and not (folder / name).exists():
        return {}
    try:
        return parsed_json(read_inside(folder, name, MAX_BYTES), str(folder / name))
    except TokenizerError as error:
        raise ExchangeError(str(error), error.advice) from None


def token_of_role(found: Mapping[str, Any], role: str) -> str:
    """The token of a role, which stands there as a string or with its properties."""
    token = found.get(role)
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else ""
