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
    BYTE_ALPHABET,
    CONTINUATION,
    MAX_TOKEN,
    METHODS,
    SPECIALS,
    SURROGATE,
    Vocabulary,
    byte_tokens,
)

MAX_BYTES = 32 * 2**20
TAG = re.compile(r"<2[A-Za-z0-9_-]{1,32}>")
ADVICE = "Take the tokenizer.json that was written with the model."


def to_document(vocabulary: Vocabulary) -> dict[str, Any]:
    """The whole file, in the order in which it is written."""
    method = METHODS[vocabulary.method]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [special_token(*pair) for pair in enumerate(vocabulary.specials)],
        "normalizer": {"type": "Prepend", "prepend": " "} if method.spaced else None,
        "pre_tokenizer": pre_tokenizer(vocabulary.method),
        "post_processor": None,
        "decoder": decoder(vocabulary.method),
        "model": model_section(vocabulary),
    }


def to_json(vocabulary: Vocabulary) -> str:
    """The one way in which a tokenizer is written; its hash is the fingerprint."""
    return json.dumps(to_document(vocabulary), ensure_ascii=False, separators=(",", ":"))


def special_token(number: int, token: str) -> dict[str, Any]:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": token, **plain, "special": True}


def pre_tokenizer(method: str) -> dict[str, Any]:
    split = {
        "type": "Split",
        "pattern": {"Regex": METHODS[method].pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    return (
        sequence("pretokenizers", split, byte_level(use_regex=False))
        if method == "bytes"
        else split
    )


def decoder(method: str) -> dict[str, Any]:
    """For other programs that read the file; here a token is its bytes."""
    if method == "bytes":
        return byte_level(use_regex=True)
    whole, strip = {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    joined = {"type": "Replace", "pattern": {"Regex": f"^{CONTINUATION}"}, "content": ""}
    steps = {"wordpiece": (joined, whole, strip), "words": (whole, strip), "characters": (whole,)}
    return sequence("decoders", *steps.get(method, ({"type": "ByteFallback"}, whole, strip)))


def byte_level(use_regex: bool) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


def sequence(name: str, *steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", name: list(steps)}


def model_section(vocabulary: Vocabulary) -> dict[str, Any]:
    """The model section, whose settings are fixed for each method."""
    kind, fallback = METHODS[vocabulary.method].model, METHODS[vocabulary.method].fallback
    ids = vocabulary.ids()
    unknown = SPECIALS["unknown"]
    if kind == "Unigram":
        unscored = len(ids) - len(vocabulary.learned)
        scored = zip(ids, [0.0] * unscored + list(vocabulary.scores), strict=True)
        return {
            "type": kind,
            "unk_id": ids[unknown],
            "vocab": list(map(list, scored)),
            "byte_fallback": fallback,
        }
    if kind == "WordPiece":
        limits = {"continuing_subword_prefix": CONTINUATION, "max_input_chars_per_word": MAX_TOKEN}
        return {"type": kind, "unk_token": unknown, **limits, "vocab": ids}
    if kind == "WordLevel":
        return {"type": kind, "vocab": ids, "unk_token": unknown}
    plain = {"continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False}
    settings = {
        "dropout": None,
        "unk_token": unknown,
        **plain,
        "byte_fallback": fallback,
        "ignore_merges": False,
    }
    return {"type": kind, **settings, "vocab": ids, "merges": list(map(list, vocabulary.merges))}


def from_json(text: str | bytes) -> tuple[Vocabulary, str]:
    """The vocabulary of a file that says what we would have written, and what we would have."""
    document = parsed_json(text)
    found = document.get("model")
    if not isinstance(found, dict):
        raise TokenizerError("The tokenizer has no model section.", ADVICE)
    method = method_of(document, found)
    tokens, scores = tokens_of(found.get("vocab"))
    if bool(scores) != (method == "unigram"):
        raise TokenizerError(
            "The tokenizer has a vocabulary of another kind than its model.", ADVICE
        )
    tags = tuple(itertools.takewhile(TAG.fullmatch, tokens[len(SPECIALS) :]))
    first = len(SPECIALS) + len(tags) + len(byte_tokens(method))
    vocabulary = Vocabulary(
        method,
        learned=tuple(tokens[first:]),
        merges=tuple(merges_of(found.get("merges", []))),
        scores=tuple(scores[first:]),
        tags=tags,
    )
    check_learned(vocabulary)
    ours = to_json(vocabulary)
    if text not in (ours, ours.encode()):
        check_rest(document, json.loads(ours))
    return vocabulary, ours


def method_of(document: dict[str, Any], found: dict[str, Any]) -> str:
    """The method whose kind of model and whose way of cutting text the file names."""
    for name, method in METHODS.items():
        is_cut_so = document.get("pre_tokenizer") == pre_tokenizer(name)
        if is_cut_so and found.get("type") == method.model:
            return name
    what = f"model {shown(found.get('type'))} with this pre_tokenizer"
    raise TokenizerError(f"The tokenizer is not one that clearhead writes: {what}.", ADVICE)


def check_learned(vocabulary: Vocabulary) -> None:
    """Merges join learned tokens into learned tokens, never into special ones; bytes are bytes."""
    plain = set(vocabulary.learned)
    if vocabulary.method == "bytes":
        plain |= BYTE_ALPHABET.keys()
        if not set().union(*plain) <= BYTE_ALPHABET.keys():
            raise TokenizerError("The tokenizer has tokens that are not spelled in bytes.", ADVICE)
    if not all(
        left in plain and right in plain and left + right in plain
        for left, right in vocabulary.merges
    ):
        raise TokenizerError("The tokenizer merges tokens that it does not have.", ADVICE)


def check_rest(document: dict[str, Any], ours: dict[str, Any]) -> None:
    """Nothing is missing, added or changed, not even true to 1; keys may be in any order."""
    for part in ours | document:
        same = (json.dumps(whole.get(part, whole), sort_keys=True) for whole in (ours, document))
        if next(same) != next(same):
            raise TokenizerError(
                f"The tokenizer is not one that clearhead writes: its {shown(part)} differs.",
                ADVICE,
            )


def parsed_json(text: str | bytes) -> dict[str, Any]:
    """The file as JSON, if it is of a size and depth that a tokenizer can have."""
    if len(text) > MAX_BYTES:
        raise TokenizerError(
            f"The tokenizer has {len(text):,} bytes, and at most {MAX_BYTES:,} are read.",
            ADVICE,
        )
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"The tokenizer is not JSON: {shown(str(error))}.", ADVICE) from None
    if not isinstance(document, dict):
        raise TokenizerError(f"The tokenizer is {shown(document)}, not a JSON object.", ADVICE)
    return document


def tokens_of(vocab: Any) -> tuple[list[str], list[float]]:
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
        if not isinstance(token, str) or not 0 < len(token) <= MAX_TOKEN or SURROGATE.search(token):
            raise TokenizerError(
                f"The tokenizer has a token that cannot be one: {shown(token)}.", ADVICE
            )
    if len(set(tokens)) != len(tokens):
        raise TokenizerError("The tokenizer has the same token twice.", ADVICE)
    if not all(type(score) is float and math.isfinite(score) and score <= 0 for score in scores):
        raise TokenizerError("The tokenizer has scores that are not log probabilities.", ADVICE)
    return tokens, scores


def merges_of(merges: Any) -> list[tuple[str, str]]:
    """Pairs of tokens, each pair once."""
    if not isinstance(merges, list) or not all(
        isinstance(p, list) and [*map(type, p)] == [str, str] for p in merges
    ):
        raise TokenizerError("The tokenizer has merges that are not pairs of tokens.", ADVICE)
    pairs = [(left, right) for left, right in merges]
    if len(set(pairs)) != len(pairs):
        raise TokenizerError("The tokenizer has the same merge twice.", ADVICE)
    return pairs
