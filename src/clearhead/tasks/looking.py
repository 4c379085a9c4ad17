"""Looking inside a trained model: decode as always, then see the finished output go through the model once more."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from clearhead.config import DecodeConfig
from clearhead.decode import Hypothesis, Record, decode
from clearhead.decode.ranking import Ranking
from clearhead.look import Look, Search, replayed, search_of, tokens
from clearhead.look.edits import Edits, edits_of
from clearhead.model import Edit, Trace, Transformer
from clearhead.text import Tokenizer

Encode = Callable[[str], Sequence[int]]
"""A text as the model reads it."""
Asked = str | Sequence[str] | Mapping[str, Edit] | None
"""Edits by name, or functions by the path of what they change."""


def look_at_writing(
    model: Transformer,
    tokenizers: tuple[Tokenizer, Tokenizer],
    text: str,
    encode: Encode,
    options: DecodeConfig,
    *,
    task: str,
    target: Sequence[int] | None = None,
    edit: Asked = None,
    decoded: Callable[[Sequence[int]], str] | None = None,
    **search: Any,
) -> Look:
    """A look at what a model writes for a text, or at how it finds a given target, as ids without special tokens.

    `encode` makes what the model reads: the encoder's source, or the context that a decoder goes on from. Edits are in
    force while it writes, so that text and picture agree; the look without them is kept beside it.
    """
    edits = edits_of(edit, model.config)
    source = encode(edits.swapped(text))
    found, beam = (
        written(model, tokenizers[1], source, options, edits, search)
        if target is None
        else (None, None)
    )
    ids = list(found.ids if found else target or ())
    end = [search.get("end", tokenizers[1].end)] if found is None or found.finished else []
    reads = model.config.family == "encoder-decoder"
    context = [search.get("start", tokenizers[1].start)] if reads or not source else list(source)
    whole = [*context, *ids, *end]
    encoder, decoder = (list(source) if reads else []), whole[:-1]
    sides = [
        (ids, tokenizer.tokens, len(tokenizer.vocabulary.specials))
        for ids, tokenizer in ((encoder, tokenizers[0]), (whole, tokenizers[1]))
    ]
    read, both = (tokens(*side) for side in sides)
    look = Look(
        model,
        task,
        edits.swapped(text),
        (decoded or tokenizers[1].decode)(ids),
        read,
        both[:-1],
        both[1:],
        replayed(model, encoder, decoder, edits.taps),
        tokenizers[1].tokens,
        n_given=len(context) - 1,
        beam=beam,
        edits=edits.names,
        taps=edits.taps,
        notes=() if found is None else found.notes,
    )
    if not edits:
        return look
    same = {"task": task, "target": target, "decoded": decoded, **search}
    return replace(look, before=look_at_writing(model, tokenizers, text, encode, options, **same))


def written(
    model: Transformer,
    tokenizer: Tokenizer,
    source: Sequence[int],
    options: DecodeConfig,
    edits: Edits,
    search: Mapping[str, Any],
) -> tuple[Hypothesis, Search | None]:
    """The output, and the search that found it."""
    record: Record = {}
    tap = Trace(edits.taps) if edits.taps else None
    found = decode([model], [source], options, record=record, tap=tap, **search)[0][0]
    if not record:
        return found, None
    ids = sorted({candidate.token for step in record[0] for candidate in step})
    texts = dict(zip(ids, tokenizer.tokens(ids), strict=True))
    divisors = [Ranking(options).penalty(length + 1) for length in range(len(record[0]))]
    chosen = [*found.ids, *([search.get("end", tokenizer.end)] if found.finished else [])]
    penalty = options.penalty, options.length_penalty
    return found, search_of(record[0], texts, options.beam, penalty, divisors, chosen)


def look_at_reading(
    model: Transformer,
    tokenizer: Tokenizer,
    text: str,
    encode: Encode,
    *,
    task: str,
    edit: Asked = None,
    **of_classes: Any,
) -> Look:
    """A look at an encoder that classifies its text, or fills in what is masked in it."""
    edits = edits_of(edit, model.config)
    source = encode(edits.swapped(text))
    read = tokens(list(source), tokenizer.tokens, len(tokenizer.vocabulary.specials))
    look = Look(
        model,
        task,
        edits.swapped(text),
        "",
        read,
        (),
        (),
        replayed(model, source, (), edits.taps),
        tokenizer.tokens,
        edits=edits.names,
        taps=edits.taps,
        **of_classes,
    )
    look = replace(look, output=look.verdict[0].text if look.classes else "")
    if not edits:
        return look
    return replace(
        look, before=look_at_reading(model, tokenizer, text, encode, task=task, **of_classes)
    )
