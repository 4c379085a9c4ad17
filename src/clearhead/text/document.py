"""A vocabulary as a `tokenizer.json` of the Hugging Face format, and back, trusting nothing.

Everything but tokens, merges and scores follows from the method. So a file is read by taking these
out, writing the document anew and comparing: what we would not have written is refused, be it a
regular expression that never ends or a component that nobody thought of, and Rust sees our own
document only.
"""

import itertools
import json
import math
import re
from typing import Any

from clearhead.errors import TokenizerError, shown
from clearhead.text.vocabulary import (
    ABSENT,
    BYTE_ALPHABET,
    BYTE_LEVEL,
    CONTINUATION,
    MAX_TOKEN,
    METHODS,
    SENTENCEPIECE,
    SPACE_MARK,
    SPECIALS,
    SURROGATE,
    WORDPIECE,
    Vocabulary,
    byte_tokens,
)

MAX_BYTES = 32 * 2**20
MAX_NAME = 512
"""Characters in the name of a token: other programs have tokens longer than ours."""
TAG = re.compile(r"<2[A-Za-z0-9_-]{1,32}>")
FOREIGN = "is not one that clearhead writes"
ADVICE = "Take the tokenizer.json that was written with the model."
WHOLE_FILE = "Take the file that was written with the model."


def to_json(vocabulary: Vocabulary) -> str:
    """The one way in which a tokenizer is written; its hash is the fingerprint."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": token, **plain, "special": True}
            for number, token in enumerate(vocabulary.specials)
        ],
        "normalizer": normalizer(vocabulary),
        "pre_tokenizer": pre_tokenizer(vocabulary.method),
        "post_processor": None,
        "decoder": decoder(vocabulary.method),
        "model": model_section(vocabulary),
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def normalizer(vocabulary: Vocabulary) -> dict[str, Any] | None:
    method = vocabulary.method
    if method in WORDPIECE:
        return {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": method == "bert",
        }
    if method in SENTENCEPIECE:
        spaces = [
            {"type": "Strip", "strip_left": True, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        ]
        first = {"type": "Precompiled", "precompiled_charsmap": vocabulary.charsmap}
        steps = [first, *spaces] if vocabulary.charsmap else spaces
        return {"type": "Sequence", "normalizers": steps}
    return {"type": "Prepend", "prepend": " "} if METHODS[method].spaced else None


def charsmap_of(found: Any) -> str:
    """The character map in the normaliser of a document, if there is one."""
    match found:
        case {"normalizers": [{"precompiled_charsmap": str(charsmap)}, *_]}:
            return charsmap
    return ""


def pre_tokenizer(method: str) -> dict[str, Any]:
    if method in WORDPIECE:
        return {"type": "BertPreTokenizer"}
    if method in SENTENCEPIECE:
        return metaspace()
    if method == "gpt2":
        return byte_level_part(use_regex=True)
    split = {
        "type": "Split",
        "pattern": {"Regex": METHODS[method].pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    both = {"type": "Sequence", "pretokenizers": [split, byte_level_part(use_regex=False)]}
    return both if method == "bytes" else split


def decoder(method: str) -> dict[str, Any]:
    """For other programs that read the file; here a token is its bytes."""
    if method in BYTE_LEVEL:
        return byte_level_part(use_regex=True)
    if method in WORDPIECE:
        return {"type": "WordPiece", "prefix": CONTINUATION, "cleanup": True}
    if method in SENTENCEPIECE:
        steps = [{"type": "ByteFallback"}, metaspace()]
        return {"type": "Sequence", "decoders": steps} if METHODS[method].fallback else steps[1]
    whole, strip = {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    joined = {"type": "Replace", "pattern": {"Regex": f"^{CONTINUATION}"}, "content": ""}
    ways = {"wordpiece": [joined, whole, strip], "words": [whole, strip], "characters": [whole]}
    spelled = [{"type": "ByteFallback"}, whole, strip]
    return {"type": "Sequence", "decoders": ways.get(method, spelled)}


def metaspace() -> dict[str, Any]:
    return {
        "type": "Metaspace",
        "replacement": SPACE_MARK,
        "prepend_scheme": "always",
        "split": True,
    }


def byte_level_part(use_regex: bool) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


def model_section(vocabulary: Vocabulary) -> dict[str, Any]:
    """The model section, whose settings are fixed for each method."""
    kind, fallback = METHODS[vocabulary.method].model, METHODS[vocabulary.method].fallback
    ids, unknown = vocabulary.ids(), SPECIALS["unknown"]
    if vocabulary.beyond:
        # a name that no text has stands between the model's tokens and those beyond
        more = (ABSENT, *vocabulary.beyond)
        ids |= {token: number for number, token in enumerate(more, start=len(ids))}
    if kind == "Unigram":
        return {
            "type": kind,
            "unk_id": ids[unknown],
            "vocab": list(map(list, zip(ids, scores_of(vocabulary), strict=True))),
            "byte_fallback": fallback,
        }
    if kind == "WordPiece":
        return {
            "type": kind,
            "unk_token": unknown,
            "continuing_subword_prefix": CONTINUATION,
            "max_input_chars_per_word": 100 if vocabulary.method in WORDPIECE else MAX_TOKEN,
            "vocab": ids,
        }
    if kind == "WordLevel":
        return {"type": kind, "vocab": ids, "unk_token": unknown}
    return {
        "type": kind,
        "dropout": None,
        "unk_token": unknown,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": vocabulary.method in SENTENCEPIECE,
        "byte_fallback": fallback,
        "ignore_merges": False,
        "vocab": ids,
        "merges": list(map(list, vocabulary.merges)),
    }


def scores_of(vocabulary: Vocabulary) -> list[float]:
    """A score for each token of a Unigram model; those that were not learned have none, that is 0."""
    n_learned, given = len(vocabulary.learned), vocabulary.scores
    n_first = len(vocabulary.specials) + len(byte_tokens(vocabulary.method))
    between = [0.0] * bool(vocabulary.beyond)
    return [*[0.0] * n_first, *given[:n_learned], *between, *given[n_learned:]]


def from_json(text: str | bytes) -> tuple[Vocabulary, str]:
    """The vocabulary of a tokenizer.json that is as we would write it, and what we would write."""
    document = parsed_json(text)
    found: Any = document.get("model")
    require(isinstance(found, dict), "has no model section")
    cut, kind = document.get("pre_tokenizer"), found.get("type")
    charsmap = charsmap_of(document.get("normalizer"))
    parts = kind, cut, document.get("normalizer"), found.get("byte_fallback", False)

    def parts_of(method: str) -> tuple[Any, ...]:
        way, empty = METHODS[method], Vocabulary(method, charsmap=charsmap)
        return way.model, pre_tokenizer(method), normalizer(empty), way.fallback

    method = next((method for method in METHODS if parts_of(method) == parts), "")
    require(bool(method), f"{FOREIGN}: model {shown(kind)} with this pre_tokenizer")
    tokens, scores = vocab_tokens(found.get("vocab"))
    require(
        bool(scores) == (METHODS[method].model == "Unigram"),
        "has a vocabulary of another kind than its model",
    )
    tags = tuple(itertools.takewhile(TAG.fullmatch, tokens[len(SPECIALS) :]))
    first = len(SPECIALS) + len(tags) + len(byte_tokens(method))
    last = tokens.index(ABSENT) if ABSENT in tokens else len(tokens)
    vocabulary = Vocabulary(
        method,
        learned=tuple(tokens[first:last]),
        merges=tuple(merges_of(found.get("merges", []))),
        scores=(*scores[first:last], *scores[last + 1 :]),
        tags=tags,
        beyond=tuple(tokens[last + 1 :]),
        charsmap=charsmap,
    )
    check_learned(vocabulary)
    ours = to_json(vocabulary)
    if text not in (ours, ours.encode()):
        check_rest(document, json.loads(ours))
    return vocabulary, ours


def check_learned(vocabulary: Vocabulary) -> None:
    """Refuse merges of tokens that are not learned, and byte-level tokens not spelled in bytes."""
    plain = {*vocabulary.learned, *vocabulary.beyond}
    if vocabulary.method in BYTE_LEVEL:
        plain |= BYTE_ALPHABET.keys()
        require(
            BYTE_ALPHABET.keys() >= set().union(*plain), "has tokens that are not spelled in bytes"
        )
    merged = (part for left, right in vocabulary.merges for part in (left, right, left + right))
    require(plain.issuperset(merged), "merges tokens that it does not have")


def check_rest(document: dict[str, Any], ours: dict[str, Any]) -> None:
    """Refuse what differs from ours in more than the order of keys; true and 1 differ."""
    for part in ours | document:
        # a part that is missing becomes the whole, which is like no part
        both = [json.dumps(whole.get(part, whole), sort_keys=True) for whole in (ours, document)]
        require(both[0] == both[1], f"{FOREIGN}: its {shown(part)} differs")


def parsed_json(text: str | bytes, name: str = "The tokenizer") -> dict[str, Any]:
    """A file as JSON, if it is of a size and depth that a tokenizer can have; errors name it."""
    require(len(text) <= MAX_BYTES, f"has {len(text):,} bytes, and at most {MAX_BYTES:,} are read")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{name} is not JSON: {shown(str(error))}.", WHOLE_FILE) from None
    if not isinstance(document, dict):
        raise TokenizerError(f"{name} is {shown(document)}, not a JSON object.", WHOLE_FILE)
    return document


def vocab_tokens(vocab: Any) -> tuple[list[str], list[float]]:
    """Tokens in the order of their ids, and scores if there are any."""
    scores: list[float] = []
    if isinstance(vocab, list) and all(isinstance(item, list) and len(item) == 2 for item in vocab):
        tokens, scores = [token for token, _ in vocab], [score for _, score in vocab]
    elif isinstance(vocab, dict) and sorted(n for n in vocab.values() if type(n) is int) == [
        *range(len(vocab))
    ]:
        tokens = sorted(vocab, key=vocab.__getitem__)
    else:
        raise TokenizerError("The tokenizer has no tokens with ids that count from 0.", ADVICE)
    for token in tokens:
        if not isinstance(token, str) or not 0 < len(token) <= MAX_NAME or SURROGATE.search(token):
            raise TokenizerError(
                f"The tokenizer has a token that cannot be one: {shown(token)}.", ADVICE
            )
    require(len(set(tokens)) == len(tokens), "has the same token twice")
    are_logs = all(type(score) is float and math.isfinite(score) and score <= 0 for score in scores)
    require(are_logs, "has scores that are not log probabilities")
    return tokens, scores


def merges_of(merges: Any) -> list[tuple[str, str]]:
    """Pairs of tokens, each pair once."""
    are_pairs = isinstance(merges, list) and all(
        isinstance(pair, list) and [*map(type, pair)] == [str, str] for pair in merges
    )
    require(are_pairs, "has merges that are not pairs of tokens")
    pairs = [(left, right) for left, right in merges]
    require(len(set(pairs)) == len(pairs), "has the same merge twice")
    return pairs


def require(holds: bool, otherwise: str, name: str = "The tokenizer", advice: str = ADVICE) -> None:
    """Refuse a file of which something does not hold, saying what it is or has otherwise."""
    if not holds:
        raise TokenizerError(f"{name} {otherwise}.", advice)
