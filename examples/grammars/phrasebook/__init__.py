"""An English-German phrasebook from a small grammar: text to learn from that needs no download.

A sentence is drawn once, as a meaning, and said twice. Its German has what makes translation more than a dictionary:
genders and cases that articles and adjectives agree with, verbs in second place with their other half at the end, and
`nicht` or `kein`. `you` is the polite `Sie` (who is loved is `du`), so every English sentence has one translation.

Read `lexicon.py` for the words, `grammar.py` for how they agree and where they stand, `drawing.py`
and `sentences.py` for what is said. What people say first is in `phrases.py`; `everyday.py` says it
as people type.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from zlib import crc32

from clearhead.data.examples import Pair
from examples.grammars.phrasebook.everyday import as_typed, everyday
from examples.grammars.phrasebook.sentences import Sentence, sentence

__all__ = [
    "Sentence",
    "everyday_pairs",
    "held_out_pairs",
    "is_held_out",
    "mixed",
    "phrasebook",
    "training_pairs",
]

ONE_IN = 10
"""One combination of two words in so many is held out of training."""
AS_TYPED = 0.15
"""How much of the carelessness of everyday sentences the others have."""


def phrasebook(seed: int = 0) -> Iterator[Sentence]:
    """Distinct sentences, practically without end; the same for the same seed."""
    random, seen = Random(seed), set()  # noqa: S311
    while True:
        drawn = sentence(random)
        if drawn.source not in seen:
            seen.add(drawn.source)
            yield drawn


def is_held_out(drawn: Sentence) -> bool:
    """Whether it brings together two words that training shows only apart: a pure function of the words."""
    return any(crc32(combination.encode()) % ONE_IN == 0 for combination in drawn.combinations)


def training_pairs(n: int, seed: int = 0) -> list[Pair]:
    """Distinct pairs without held-out combinations."""
    kept = (each for each in phrasebook(seed) if not is_held_out(each))
    return [Pair(each.source, each.target) for each in islice(kept, n)]


def everyday_pairs(n: int, seed: int = 0) -> list[Pair]:
    """What people say first, common phrases many times, without held-out combinations."""
    kept = (each for each in everyday(seed) if not is_held_out(each))
    return [Pair(each.source, each.target) for each in islice(kept, n)]


def mixed(training: Sequence[Pair], phrases: Sequence[Pair], seed: int = 0) -> list[Pair]:
    """Both in one random order, some of the first typed as people type."""
    random = Random(seed)  # noqa: S311
    careless = [Pair(*as_typed(random, *pair, share=AS_TYPED)) for pair in training]
    return random.sample([*careless, *phrases], len(training) + len(phrases))


def held_out_pairs(n: int, training: Sequence[Pair], seed: int = 0) -> list[Pair]:
    """Distinct pairs, each with a combination that the training lacks, all of words that it has."""
    known = [
        {word for text in side for word in words(text)} for side in zip(*training, strict=True)
    ]
    held_out = (Pair(each.source, each.target) for each in phrasebook(seed) if is_held_out(each))
    familiar = (pair for pair in held_out if all(map(set.issuperset, known, map(words, pair))))
    return list(islice(familiar, n))


def words(text: str) -> list[str]:
    return [word.strip(".,?") for word in text.split()]
