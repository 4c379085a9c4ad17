"""Tokens from text, read once as a stream, in memory bounded by the distinct words; deterministic.

Two of the Rust trainers give another vocabulary on every run. So WordPiece is made from the merges
of BPE, whose trainer does not, and the unigram language model (Kudo, 2018) is learned here, where
sums have a fixed order: start from many pieces, keep those most needed.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from math import inf, isqrt, log

from tokenizers import Tokenizer as Rust
from tokenizers.models import BPE, WordLevel
from tokenizers.trainers import BpeTrainer, WordLevelTrainer

from clearhead.config import TokenizerConfig
from clearhead.errors import ConfigError, TextError
from clearhead.text.document import to_json
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
"""Merges learned beyond those asked for: those of rare characters are dropped, and others needed."""
LONGEST_PIECE = 16
LONGEST_WORD = 1_000
"""Characters without a space that are taken for a word."""
SEED_WORDS = 300_000
"""Pieces are sought in so many of the most frequent words, which bounds memory."""
SEEDS = 8
"""Pieces at the start for each one that is kept in the end."""
KEPT = 0.75
"""Share of the pieces that survives each round."""

Scores = Mapping[str, float]


def vocab_size_for(characters: int) -> int:
    """The size for so much text: as frequent words do, it grows with the square root (Heaps)."""
    return min(max(2 * isqrt(characters), SMALLEST), LARGEST) // 8 * 8


def in_words(text: str) -> Iterator[str]:
    """The text, cut where a word is longer than any: merging takes time that grows with its square."""
    if len(text) <= LONGEST_WORD or max(map(len, text.split()), default=0) <= LONGEST_WORD:
        yield text
    else:
        yield from (text[at : at + LONGEST_WORD] for at in range(0, len(text), LONGEST_WORD))


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
            yield from in_words(text)

    @property
    def most(self) -> int:
        """An upper bound of the vocabulary size, before the text has been seen."""
        return (self.size or LARGEST) + SPARE

    def room(self, chosen: int | None = None) -> int:
        """Places for learned tokens, when all text has been seen.

        A size in the settings comes before a chosen one, and that before one that fits the text.
        """
        total = self.characters.total()
        if all(map(str.isspace, self.characters)):
            raise TextError(
                "There is no text to learn a tokenizer from.",
                "Give files with at least some lines of text.",
            )
        fitting = max(vocab_size_for(total), self.taken + SMALLEST // 2)
        return (self.size or chosen or fitting) - self.taken

    def letters(self, places: int) -> list[str]:
        """The most frequent characters; those seen once teach nothing, and bytes can spell them."""
        counts = self.characters + Counter(" " * 2)
        return highest_first({c: count for c, count in counts.items() if count > 1})[:places]


def highest_first(values: Mapping[str, float]) -> list[str]:
    """The keys sorted by their values; equal ones alphabetically, so that the order is certain."""
    return sorted(values, key=lambda key: (-values[key], key))


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
    trainer = BpeTrainer(
        vocab_size=texts.most,
        max_token_length=MAX_TOKEN,
        initial_alphabet=sorted(BYTE_ALPHABET) if texts.empty.method == "bytes" else [],
        show_progress=False,
    )
    texts.rust.train_from_iterator(iter(texts), trainer)
    return list(json.loads(texts.rust.to_str())["model"]["merges"])


def learn_wordpiece(texts: CountedTexts) -> Vocabulary:
    """Pieces that begin a word, with its space, or continue one; each letter is both."""
    merges, room = learn_merges(texts), texts.room()
    letters = texts.letters(room // 4)
    both = [form for letter in letters for form in (letter, CONTINUATION + letter)]
    joined = with_merges(texts.empty, letters, merges, room).learned[len(letters) :]
    pieces = [token if token.startswith(" ") else CONTINUATION + token for token in joined]
    fitting = [piece for piece in pieces if len(piece) <= MAX_TOKEN]
    return replace(texts.empty, learned=tuple(dict.fromkeys([*both, *fitting]))[:room])


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
    room = texts.room(LARGEST)
    return replace(texts.empty, learned=tuple(highest_first(texts.characters)[:room]))


def learn_unigram(texts: CountedTexts) -> Vocabulary:
    """Pieces of the unigram language model, the likeliest first, with every frequent character."""
    words = Counter[str]()
    for text in texts:
        words.update(word for word, _ in texts.rust.pre_tokenizer.pre_tokenize_str(" " + text))
    size = texts.room()
    letters = sorted(texts.letters(size // 2))
    scores = log_probabilities(seed_pieces(words, letters, SEEDS * size), letters)
    while True:
        counts = piece_counts(words, scores)
        scores = log_probabilities(counts, letters)
        if len(scores) <= size:
            break
        losses = {
            piece: loss_without(piece, counts[piece], scores) for piece in scores if len(piece) > 1
        }
        room = max(size, int(len(scores) * KEPT)) - len(letters)
        scores = {piece: scores[piece] for piece in (*letters, *highest_first(losses)[:room])}
    pieces = highest_first(scores)
    return replace(texts.empty, learned=tuple(pieces), scores=tuple(scores[p] for p in pieces))


def seed_pieces(words: Mapping[str, int], letters: list[str], size: int) -> Counter[str]:
    """Substrings of frequent words, by how much text they would cover."""
    known, counts = set(letters), Counter[str]()
    for word in highest_first(words)[:SEED_WORDS]:
        for start in range(len(word)):
            for end in range(start + 1, min(start + LONGEST_PIECE, len(word)) + 1):
                if word[end - 1] not in known:
                    break
                counts[word[start:end]] += words[word]
    covered = {piece: count * len(piece) for piece, count in counts.items() if count > 1}
    return Counter({piece: counts[piece] for piece in highest_first(covered)[:size]})


def piece_counts(words: Mapping[str, int], scores: Scores) -> Counter[str]:
    """How often each piece occurs when every word is cut in its likeliest way."""
    counts = Counter[str]()
    for word, count in words.items():
        for piece in best_pieces(word, scores):
            if piece in scores:
                counts[piece] += count
    return counts


def log_probabilities(counts: Counter[str], letters: Iterable[str]) -> dict[str, float]:
    """Letters keep a place even when no word needs them any more: text to come may."""
    kept = {**counts, **{letter: max(counts[letter], 1) for letter in letters}}
    total = log(sum(kept.values()))
    return {piece: log(count) - total for piece, count in kept.items()}


def loss_without(piece: str, count: int, scores: Scores) -> float:
    """How much likelier the text is with this piece than with the next best cut in its place."""
    parts = {piece[start:end] for start, end in combinations(range(len(piece) + 1), 2)}
    shorter = {part: scores[part] for part in parts if part in scores and part != piece}
    rest = best_pieces(piece, shorter)
    return count * (scores[piece] - sum(scores.get(part, -inf) for part in rest))


def best_pieces(word: str, scores: Scores) -> list[str]:
    """The likeliest cut of a word (Viterbi); a character without a score is very unlikely."""
    unlikely = -1000.0
    best, came_from = [0.0] + [-inf] * len(word), [0] * (len(word) + 1)
    for start in range(len(word)):
        for end in range(start + 1, min(start + LONGEST_PIECE, len(word)) + 1):
            score = best[start] + scores.get(
                word[start:end], unlikely if end == start + 1 else -inf
            )
            if score > best[end]:
                best[end], came_from[end] = score, start
    pieces, end = [], len(word)
    while end:
        pieces.append(word[came_from[end] : end])
        end = came_from[end]
    return pieces[::-1]


LEARNERS = {
    "bpe": learn_bpe,
    "bytes": learn_bpe,
    "unigram": learn_unigram,
    "wordpiece": learn_wordpiece,
    "words": learn_words,
    "characters": learn_characters,
}
"""By method, how a vocabulary is found in the texts."""
