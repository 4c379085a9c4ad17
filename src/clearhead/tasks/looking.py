"""Looking inside a trained model, and filming one while it is trained.

Decode as always, then see the finished output go through the model once more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, replace
from itertools import accumulate, islice
from typing import Any

from clearhead.config import DecodeConfig
from clearhead.decode import BeamRecord, Flat, Hypothesis, Ranking, decode
from clearhead.errors import TextError
from clearhead.look import Look, SearchTree, Token, replayed, search_tree, tokens
from clearhead.look.edits import Edits, edits_of
from clearhead.look.film import LONGEST, Probe
from clearhead.look.search import Recorded
from clearhead.model import Edit, Model, Trace
from clearhead.text import PAD, Tokenizer
from clearhead.training import Job

Encode = Callable[[str], Sequence[int]]
"""A text as the model reads it."""
Asked = str | Sequence[str] | Mapping[str, Edit] | None
"""Edits by name, or functions by the path of what they change."""
NO_MASK = (
    "without the mask: while words are written one by one there is no future to see, so the output "
    "stays as it is; the numbers are of a replay in which every word sees the finished output",
)
MOST_TOKENS = 1_024
"""Tokens of a text that is looked into: a matrix of so many rows and columns is kept for each head."""
MOST_HEADS = 512
"""Heads in all layers together; beyond, a film would take more than some megabytes."""


def look_at_writing(
    flat: Flat,
    tokenizers: tuple[Tokenizer, Tokenizer],
    text: str,
    *,
    encode: Encode,
    options: DecodeConfig,
    task: str,
    target: str | None = None,
    edit: Asked = None,
    decoded: Callable[[Sequence[int]], str] | None = None,
    **search: Any,
) -> Look:
    """A look at what a model writes for a text, or at how likely it finds a given target.

    `encode` makes what the model reads: the encoder's source, or the context that a decoder goes on
    from. Edits are in force while it writes, so that text and picture agree.
    """
    own = tokenizers[1]
    end = search.get("end", own.end)

    def looked(edits: Edits) -> Look:
        source = read(encode, edits.swapped(text))
        found, beam = (
            decoded_with_tree(flat, own, source, options=options, edits=edits, search=search)
            if target is None
            else (None, None)
        )
        ids = list(found.ids) if found else own.encode(target or "")
        # the encoder reads the source, or the decoder goes on from it
        reads = flat.model.config.reads
        context = [own.start] if reads or not source else source
        ended = [end] if found is None or found.finished else []
        whole = with_texts(own, [*context, *ids, *ended])
        return look_through(
            flat.model,
            edits,
            text,
            task=task,
            output=(decoded or own.decode)(ids),
            source=with_texts(tokenizers[0], source if reads else []),
            target=whole[:-1],
            predicted=whole[1:],
            spell=own.tokens,
            n_given=len(context) - 1,
            beam=beam,
            notes=(*(found.notes if found else ()), *(NO_MASK if looks_ahead(edits) else ())),
        )

    return with_before(looked, edits_of(edit, flat.model.config))


def looks_ahead(edits: Edits) -> bool:
    """Whether the edits take away the causal mask, so that the decoder sees later tokens."""
    return any(name == "no-mask" or name.startswith("no-mask:decoder") for name in edits.names)


def decoded_with_tree(
    flat: Flat,
    tokenizer: Tokenizer,
    source: Sequence[int],
    *,
    options: DecodeConfig,
    edits: Edits,
    search: Mapping[str, Any],
) -> tuple[Hypothesis, SearchTree | None]:
    """The output, and the search that found it."""
    record: BeamRecord = {}
    tap = Trace(edits.taps) if edits.taps else None
    found = decode(flat, [source], options, record=record, tap=tap, **search)[0][0]
    if not record:
        return found, None
    end = [search.get("end", tokenizer.end)] if found.finished else []
    (prefix,) = search.get("prefixes") or [()]
    sums = accumulate(found.log_probs)
    steps: list[list[Recorded]] = [
        [(0, 0, token, log_prob, total, "kept")]
        for token, log_prob, total in zip(prefix, found.log_probs, sums, strict=False)
    ]
    steps += [list(map(astuple, candidates)) for candidates in record[0]]
    tree = search_tree(
        steps,
        [*found.ids, *end],
        spell=tokenizer.tokens,
        width=options.beam,
        penalty=(options.penalty, options.length_penalty),
        divisors=[Ranking(options).penalty(number + 1) for number in range(len(steps))],
    )
    return found, tree


def look_at_reading(
    model: Model,
    tokenizer: Tokenizer,
    text: str,
    *,
    encode: Encode,
    task: str,
    edit: Asked = None,
    **of_classes: Any,
) -> Look:
    """A look at an encoder that classifies its text, or fills in what is masked in it."""

    def looked(edits: Edits) -> Look:
        source = read(encode, edits.swapped(text))
        look = look_through(
            model,
            edits,
            text,
            task=task,
            output="",
            source=with_texts(tokenizer, source),
            spell=tokenizer.tokens,
            **of_classes,
        )
        return replace(look, output=look.verdict[0].text) if look.classes else look

    return with_before(looked, edits_of(edit, model.config))


def look_through(
    model: Model,
    edits: Edits,
    text: str,
    *,
    source: Sequence[Token],
    target: Sequence[Token] = (),
    **known: Any,
) -> Look:
    """A replay: an edited model reads a source and, if it writes, a target, and all is recorded."""
    read, written = ([token.id for token in side] for side in (source, target))
    return Look(
        model=model,
        input=edits.swapped(text),
        source=tuple(source),
        target=tuple(target),
        seen=replayed(model, read, written, edits.taps),
        edits=edits.names,
        taps=edits.taps,
        **known,
    )


def read(encode: Encode, text: str) -> list[int]:
    """The ids of a text, which is refused if it is too long to keep all numbers about it."""
    ids = list(encode(text))
    if len(ids) > MOST_TOKENS:
        raise TextError(
            f"A text of {len(ids):,} tokens is too long to look into: each looks at every other.",
            f"Give a text of at most {MOST_TOKENS:,} tokens.",
        )
    return ids


def with_texts(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[Token, ...]:
    return tokens(ids, tokenizer.tokens, len(tokenizer.vocabulary.specials))


def with_before(looked: Callable[[Edits], Look], edits: Edits) -> Look:
    """The look with the edits, and the one without kept beside it."""
    return replace(looked(edits), before=looked(Edits())) if edits.names else looked(edits)


def probes(job: Job) -> list[Probe]:
    """A few examples to film the attention of each head on, cut to what a frame holds.

    Training with several processes, huge models, and models without attention are not filmed.
    """
    config = job.model.config
    has_attention = not config.recurs or config.family == "encoder-decoder"
    n_heads = config.n_heads * (config.n_encoder_layers + 2 * config.n_decoder_layers)
    is_large = job.ranks.world > 1 or n_heads > MOST_HEADS
    if not job.config.film or not has_attention or is_large:
        return []
    for batch in islice(job.batches.fixed(), 200):
        if max(len(side) for side in sides(batch, 0)) >= LONGEST - 3:
            break
    n_rows = len(batch.indices)
    rows = sorted({0, n_rows // 2, n_rows - 1})
    return [Probe(*(tuple(side[:LONGEST]) for side in sides(batch, row))) for row in rows]


def sides(batch: Any, row: int) -> list[list[int]]:
    """What the encoder and the decoder read in a row of a batch."""
    found = (vars(batch).get(name) for name in ("source", "target_in"))
    rows = [[] if ids is None else ids[row].tolist() for ids in found]
    return [[token for token in ids if token != PAD] for ids in rows]
