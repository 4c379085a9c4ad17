"""The unigram language model (Kudo, 2018): start from many pieces, keep those most needed.

Learned here and not in Rust, whose trainer gives another vocabulary on every run; this one is
deterministic, for it sums in a fixed order.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import inf, log

LONGEST_PIECE = 16
SEED_WORDS = 300_000
"""Pieces are sought in so many of the most frequent words, which bounds memory."""
SEEDS = 8
"""Pieces at the start for each one that is kept in the end."""
KEPT = 0.75
"""Share of the pieces that survives each round."""

Scores = Mapping[str, float]


def learn_unigram(words: Mapping[str, int], alphabet: Iterable[str], size: int) -> dict[str, float]:
    """Pieces with their log probabilities, at most `size`, with every character of the alphabet."""
    letters = sorted(alphabet)
    scores = log_probabilities(seeds(words, letters, SEEDS * size), letters)
    while True:
        counts = use(words, scores)
        scores = log_probabilities(counts, letters)
        if len(scores) <= size:
            return scores
        losses = {piece: loss(piece, counts[piece], scores) for piece in scores if len(piece) > 1}
        worthy = sorted(losses, key=lambda piece: (-losses[piece], piece))
        room = max(size, int(len(scores) * KEPT)) - len(letters)
        scores = {piece: scores[piece] for piece in (*letters, *worthy[:room])}


def seeds(words: Mapping[str, int], letters: list[str], size: int) -> Counter[str]:
    """Substrings of frequent words, by how much text they would cover."""
    known, counts = set(letters), Counter[str]()
    for word, count in sorted(words.items(), key=lambda item: (-item[1], item[0]))[:SEED_WORDS]:
        for start in range(len(word)):
            for end in range(start + 1, min(start + LONGEST_PIECE, len(word)) + 1):
                if word[end - 1] not in known:
                    break
                counts[word[start:end]] += count
    covering = sorted((p for p in counts if counts[p] > 1), key=lambda p: (-counts[p] * len(p), p))
    return Counter({piece: counts[piece] for piece in covering[:size]})


def use(words: Mapping[str, int], scores: Scores) -> Counter[str]:
    """How often each piece occurs when every word is cut in the likeliest way."""
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


def loss(piece: str, count: int, scores: Scores) -> float:
    """How much likelier the text is with this piece than with the next best cut in its place."""
    rest = best_pieces(piece, {p: s for p, s in substrings(piece, scores) if p != piece})
    return count * (scores[piece] - sum(scores.get(p, -inf) for p in rest))


def substrings(piece: str, scores: Scores) -> Iterable[tuple[str, float]]:
    ends = range(len(piece) + 1)
    return (
        (p, scores[p])
        for start in ends
        for end in ends[start + 1 :]
        if (p := piece[start:end]) in scores
    )


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
