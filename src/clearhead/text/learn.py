"""Tokens from text, read once as a stream, in memory bounded by the distinct words; deterministic.

Two of the Rust trainers give another vocabulary on every run. So WordPiece is made from the merges
of BPE, whose trainer does not, and the unigram model is learned in `unigram.py`.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import isqrt

from tokenizers import Tokenizer as Rust
from tokenizers.models import BPE, WordLevel
from tokenizers.trainers import BpeTrainer, WordLevelTrainer

from clearhead.config import TokenizerConfig
from clearhead.errors import ConfigError, TextError
from clearhead.text.document import to_json
from clearhead.text.unigram import learn_unigram
from clearhead.text.vocabulary import (
    BYTE_ALPHABET,
    CONTINUATION,
    MAX_TOKEN,
    Vocabulary,
    refuse_surrogates,
)

SMALLEST, LARGEST = 512, 37_000
"""Sizes that are chosen at least and at most; the paper had the latter for 4.5 million pairs."""
SPARE = 2_000
"""Merges learned beyond those asked for, in the place of those of rare characters, which go."""


def vocab_size_for(characters: int) -> int:
    """The size for so much text: as frequent words do, it grows with the square root (Heaps)."""
    return min(max(2 * isqrt(characters), SMALLEST), LARGEST) // 8 * 8


class CountedTexts:
    """Texts to learn from, checked and counted as they pass, for a stream passes only once."""

    def __init__(self, texts: Iterable[str], config: TokenizerConfig) -> None:
        self.texts = texts
        self.empty = Vocabulary(config.method)
        self.rust = Rust.from_str(to_json(self.empty))
        self.taken = len(self.empty.tokens)
        self.size = config.vocab_size
        if self.size is not None and self.size <= self.taken:
            raise ConfigError(
                f"tokenizer.vocab_size = {self.size} leaves nothing to learn: special tokens and "
                f'bytes fill {self.taken} places of method "{config.method}".',
                f"Use {self.taken + SMALLEST} or more.",
            )
        self.characters = Counter[str]()

    def __iter__(self) -> Iterator[str]:
        for number, text in enumerate(self.texts, 1):
            refuse_surrogates(text, f"Text {number}")
            self.characters.update(text)
            yield text

    @property
    def most(self) -> int:
        """More places than will be filled, before the text has been seen."""
        return (self.size or LARGEST) + SPARE

    def room(self, chosen: int | None = None) -> int:
        """Places for learned tokens, when all text has been seen.

        A size in the settings comes before a chosen one, and that before one that fits the text.
        """
        total = self.characters.total()
        if not total:
            raise TextError(
                "There is no text to learn a tokenizer from.",
                "Give files with at least some lines of text.",
            )
        fitting = max(vocab_size_for(total), self.taken + SMALLEST // 2)
        return (self.size or chosen or fitting) - self.taken

    def letters(self, places: int) -> list[str]:
        """The most frequent characters; those seen once teach nothing, and bytes can spell them."""
        counts = self.characters + Counter(" " * 2)
        return sorted((c for c in counts if counts[c] > 1), key=lambda c: (-counts[c], c))[:places]


def learn_bpe(texts: CountedTexts) -> Vocabulary:
    """Merges (BPE) of the most frequent characters, the others being spelled in bytes, or of bytes."""
    merges, room = learn_merges(texts), texts.room()
    letters = texts.letters(0 if texts.empty.method == "bytes" else room // 2)
    return with_merges(texts.empty, letters, merges, room)


def with_merges(
    empty: Vocabulary, letters: list[str], merges: list[list[str]], room: int
) -> Vocabulary:
    """The vocabulary with letters, then with merges, the earliest first, while there is room."""
    known = {*letters, *(BYTE_ALPHABET if empty.method == "bytes" else ())}
    learned, kept = list(letters), []
    for left, right in merges:
        token = left + right
        if left in known and right in known and (token in known or len(learned) < room):
            kept.append((left, right))
            learned += [token] if token not in known else []
            known.add(token)
    return replace(empty, learned=tuple(learned), merges=tuple(kept))


def learn_merges(texts: CountedTexts) -> list[list[str]]:
    """Merges by frequency, so that a smaller vocabulary is the beginning of a larger one."""
    texts.rust.model = BPE()
    alphabet = sorted(BYTE_ALPHABET) if texts.empty.method == "bytes" else []
    trainer = BpeTrainer(
        vocab_size=texts.most,
        max_token_length=MAX_TOKEN,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    texts.rust.train_from_iterator(iter(texts), trainer)
    merges: list[list[str]] = json.loads(texts.rust.to_str())["model"]["merges"]
    return merges


def learn_wordpiece(texts: CountedTexts) -> Vocabulary:
    """Pieces that begin a word, with its space, or continue one; each letter is both."""
    merges, room = learn_merges(texts), texts.room()
    letters = texts.letters(room // 4)
    both = [form for letter in letters for form in (letter, CONTINUATION + letter)]
    joined = with_merges(texts.empty, letters, merges, room).learned[len(letters) :]
    pieces = [token if token.startswith(" ") else CONTINUATION + token for token in joined]
    fitting = [piece for piece in pieces if len(piece) <= MAX_TOKEN]
    return replace(texts.empty, learned=tuple(dict.fromkeys([*both, *fitting]))[:room])


def learn_pieces(texts: CountedTexts) -> Vocabulary:
    """Pieces of the unigram language model, the likeliest first."""
    words = Counter[str]()
    for text in texts:
        words.update(word for word, _ in texts.rust.pre_tokenizer.pre_tokenize_str(" " + text))
    room = texts.room()
    scores = learn_unigram(words, texts.letters(room // 2), room)
    pieces = sorted(scores, key=lambda piece: (-scores[piece], piece))
    return replace(texts.empty, learned=tuple(pieces), scores=tuple(scores[p] for p in pieces))


def learn_words(texts: CountedTexts) -> Vocabulary:
    """The most frequent words; those seen once are left out, so that a model meets unknown ones."""
    texts.rust.model = WordLevel(unk_token="")
    trainer = WordLevelTrainer(vocab_size=texts.most, min_frequency=2, show_progress=False)
    texts.rust.train_from_iterator(iter(texts), trainer)
    ids = texts.rust.get_vocab(with_added_tokens=False)
    words = [word for word in sorted(ids, key=ids.__getitem__) if len(word) <= MAX_TOKEN]
    return replace(texts.empty, learned=tuple(words[: texts.room(LARGEST)]))


def learn_characters(texts: CountedTexts) -> Vocabulary:
    """Every character, the most frequent first."""
    for _ in texts:
        pass
    counts = texts.characters
    seen = sorted(counts, key=lambda c: (-counts[c], c))
    return replace(texts.empty, learned=tuple(seen[: texts.room(LARGEST)]))


LEARNERS = {
    "bpe": learn_bpe,
    "bytes": learn_bpe,
    "unigram": learn_pieces,
    "wordpiece": learn_wordpiece,
    "words": learn_words,
    "characters": learn_characters,
}
"""By method, how a vocabulary is found in the texts."""
