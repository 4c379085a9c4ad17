"""N-grams: linear models of texts that are fitted in seconds, without a neural network.

They are the baseline to beat: beside a classifier a linear support vector machine (SVM) on words
and character n-grams (TF-IDF), beside a writer an n-gram model of bytes. Whoever sees both scores
knows what the network adds. And they fill `model/ngrams.py`, which stands beside the encoder of a
classifier and has n-grams of tokens.
"""

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.batches import Batches, LabelBatch
from clearhead.data.examples import LabelledText
from clearhead.model.ngrams import NO_TOKEN, PIECES, NGrams, pair_keys
from clearhead.text import Tokenizer

WORD = re.compile(r"\w+|[^\w\s]")
LONGEST_WORDS = 2
CHARACTERS = range(2, 6)
"""Lengths of the n-grams of characters, taken from each word and the spaces around it."""
MOST_TEXTS = 50_000
"""Texts that the baseline learns from: more would take minutes."""
COST = 1.0
"""The weight of a mistake, relative to that of large weights."""
NEWTON_STEPS, DIRECTIONS = 10, 12
ORDER = 5
"""Bytes of the longest n-gram: the last is predicted from those before it."""
EIGHT = np.uint64(8)

MOST_TOKENS = 1_000_000
"""Tokens that the n-grams of a model are learned from; of more, some batches are left out."""
MOST_WEIGHTS = 10_000_000
"""Weights of all n-grams for all labels; beyond, the rarest n-grams go."""
RUNS = 0.5
"""What runs of characters count, beside tokens and pairs: each token has many of them."""

Matrix = Tensor
"""A sparse matrix (CSR) with a row for each text and a column for each n-gram."""
Keys = NDArray[np.int64]
"""N-grams by number: above 0 pairs of tokens, below 0 tokens and runs of characters, 0 none."""


def n_grams(text: str) -> Iterator[str]:
    """Words, pairs of words, and pieces of words, all in lower case."""
    words = WORD.findall(text.lower())
    for n in range(1, LONGEST_WORDS + 1):
        yield from ("\t".join(["", *words[i : i + n]]) for i in range(len(words) - n + 1))
    for word in words:
        spaced = f" {word} "
        for n in CHARACTERS:
            yield from (spaced[i : i + n] for i in range(len(spaced) - n + 1))


class LinearClassifier:
    """A linear support vector machine on n-grams: one against the rest for every label."""

    def __init__(self, texts: Sequence[str], labels: Float[Tensor, "N C"]) -> None:
        """Learns at once; `labels` are 1 where a text has the label and -1 elsewhere."""
        rows = [Counter(n_grams(text)) for text in texts]
        n_texts = Counter(gram for row in rows for gram in row)
        known = [gram for gram, n in n_texts.items() if n > 1] or list(n_texts)
        self.columns = {gram: column for column, gram in enumerate(known)}
        # Rare n-grams tell more (inverse document frequency).
        counts = np.array([n_texts[gram] for gram in known])
        self.rarity = np.log((1 + len(rows)) / (1 + counts)) + 1
        self.weights, self.bias = support_vectors(self.matrix(rows), labels)

    def scores(self, texts: Sequence[str]) -> Float[Tensor, "N C"]:
        """Above zero where a label fits."""
        rows = [Counter(n_grams(text)) for text in texts]
        return self.matrix(rows) @ self.weights + self.bias

    def matrix(self, rows: Sequence[Counter[str]]) -> Matrix:
        """TF-IDF: the logarithm of how often, times how rare, each row of length 1."""
        columns, values, starts = list[int](), list[NDArray[np.float64]](), [0]
        for row in rows:
            found = {self.columns[gram]: n for gram, n in row.items() if gram in self.columns}
            value = (1 + np.log([*found.values()])) * self.rarity[[*found]]
            values.append(value / (np.linalg.norm(value) or 1.0))
            columns += found
            starts.append(len(columns))
        return sparse(starts, columns, np.concatenate(values), len(self.columns))


def sparse(
    starts: list[int] | Tensor,
    columns: list[int] | Tensor,
    values: NDArray[np.float64] | Tensor,
    n_columns: int,
) -> Matrix:
    with warnings.catch_warnings():  # torch calls the format "beta"
        warnings.simplefilter("ignore")
        return torch.sparse_csr_tensor(
            torch.as_tensor(starts),
            torch.as_tensor(columns, dtype=torch.long),
            torch.as_tensor(values, dtype=torch.float32),
            size=(len(starts) - 1, n_columns),
        )


def support_vectors(
    x: Matrix, labels: Float[Tensor, "N C"]
) -> tuple[Float[Tensor, "F C"], Float[Tensor, " C"]]:
    """Weights that minimise ½ |w|² + COST Σ max(0, 1 - y (x w + b))², by truncated Newton steps.

    Each step solves for a new minimum over the texts that are on the wrong side of their margin,
    by conjugate gradients, for all labels at once. A column of ones at the end of x is the bias.
    """
    transposed = x.t().to_sparse_csr()

    def forwards(w: Tensor) -> Tensor:
        return x @ w[:-1] + w[-1]

    def backwards(z: Tensor) -> Tensor:
        return torch.cat([transposed @ z, z.sum(dim=0, keepdim=True)])

    weights = torch.zeros(x.size(1) + 1, labels.size(1))
    shrinks = torch.ones(len(weights), 1)
    shrinks[-1] = 1e-3  # a bias may be large
    scores, first = torch.zeros_like(labels), None
    for _ in range(NEWTON_STEPS):
        wrong = (labels * scores < 1).to(labels)
        gradient = shrinks * weights + 2 * COST * backwards(wrong * (scores - labels))
        size = gradient.norm(dim=0)
        first = size if first is None else first
        if (size <= 0.001 * first).all():
            break
        step, rest = torch.zeros_like(weights), -gradient
        direction, squares = rest, rest.square().sum(dim=0)
        for _ in range(DIRECTIONS):
            curved = shrinks * direction + 2 * COST * backwards(wrong * forwards(direction))
            length = squares / (direction * curved).sum(dim=0).clamp_min(1e-12)
            step, rest = step + length * direction, rest - length * curved
            before, squares = squares, rest.square().sum(dim=0)
            if (squares.sqrt() <= 0.1 * size).all():
                break
            direction = rest + squares / before.clamp_min(1e-12) * direction
        weights = weights + step
        scores = forwards(weights)
    return weights[:-1], weights[-1]


def linear_scores(
    training: Sequence[LabelledText], test: Sequence[str], names: Sequence[str]
) -> Float[Tensor, "N C"]:
    """Scores of the test texts by a linear model of the training texts; above zero a label fits."""
    some = training[:: -(-len(training) // MOST_TEXTS)]
    labels = torch.tensor([[1.0 if n in each.labels else -1.0 for n in names] for each in some])
    return LinearClassifier([each.text for each in some], labels).scores(test)


def n_gram_bits(training: Iterable[str], test: Iterable[str], order: int = ORDER) -> float:
    """Bits per byte of test lines by byte n-grams of the training lines (Witten–Bell smoothing).

    A byte is as likely after a context as it was there, and, in proportion to how many different
    bytes followed there, as it is after the shorter context.
    """
    learned, read = byte_values(training), byte_values(test)
    likely = np.full(len(read), 1 / 256)
    for n in range(min(order, len(learned))):
        longer, n_longer = np.unique(grams(learned, n + 1), return_counts=True)
        contexts, first = np.unique(longer >> EIGHT, return_index=True)
        n_kinds = np.diff(first, append=len(longer))
        n_contexts = np.add.reduceat(n_longer, first)
        asked = grams(read, n + 1)
        found = count_in(longer, n_longer, asked)
        kinds = count_in(contexts, n_kinds, asked >> EIGHT)
        times = count_in(contexts, n_contexts, asked >> EIGHT)
        seen = times > 0
        likely[n:][seen] = ((found + kinds * likely[n:]) / np.maximum(times + kinds, 1))[seen]
    return float(-np.log2(likely).mean())


def byte_values(lines: Iterable[str]) -> NDArray[np.uint64]:
    text = "".join(f"{line}\n" for line in lines).encode()
    return np.frombuffer(text, np.uint8).astype(np.uint64)


def grams(text: NDArray[np.uint64], n: int) -> NDArray[np.uint64]:
    """Each run of n bytes as one number."""
    found = np.zeros(max(0, len(text) - n + 1), np.uint64)
    for place in range(n):
        found = (found << EIGHT) | text[place : len(found) + place]
    return found


def count_in(
    known: NDArray[np.uint64], counts: NDArray[np.int64], asked: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """How often each was counted; 0 for what is not known."""
    places = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.where(known[places] == asked, counts[places], 0)


def known_ngrams(
    tokenizer: Tokenizer, batches: Batches[LabelBatch], most: int
) -> tuple[Keys, Keys]:
    """The n-grams that are in two texts or more, and in how many; of too many, the most frequent.

    Pairs come first and in ascending order, as `NGrams` searches them.
    """
    pieces = piece_keys(tokenizer)
    found = [text_keys(batch, pieces) for batch in sampled(batches)]
    keys, n_texts = np.unique(np.concatenate([*found, np.zeros(1, np.int64)]), return_counts=True)
    fits = (n_texts > 1) & (keys != 0)
    often = np.argsort(-n_texts[fits], kind="stable")[:most]
    keys, n_texts = keys[fits][often], n_texts[fits][often]
    order = np.lexsort((np.abs(keys), keys < 0))
    return keys[order], n_texts[order]


def fit_ngrams(ngrams: NGrams, tokenizer: Tokenizer, batches: Batches[LabelBatch]) -> None:
    """Fill the tables of a model's n-grams, and find the weights that tell the labels apart best:
    a linear support vector machine."""
    keys, n_texts = known_ngrams(tokenizer, batches, most=len(ngrams.pairs))
    columns = dict(zip(keys.tolist(), range(len(keys)), strict=True))
    pairs = torch.from_numpy(keys[keys > 0] - 1)
    ngrams.pairs.fill_(NO_TOKEN)
    ngrams.pairs[: len(pairs)] = torch.stack(
        [pairs // tokenizer.vocab_size, pairs % tokenizer.vocab_size], dim=1
    ).float()
    place = np.vectorize(lambda key: columns.get(-key, len(ngrams.pairs)), otypes=[np.int64])
    ngrams.pieces.copy_(torch.from_numpy(place(piece_keys(tokenizer))))
    used = list(sampled(batches))
    n_read = sum(len(batch.indices) for batch in used)
    # Rare n-grams tell more (inverse document frequency).
    rarity = np.log((1 + n_read) / (1 + n_texts)) + 1
    rarity[keys < -tokenizer.vocab_size] *= RUNS
    ngrams.rarity[: len(keys)] = torch.from_numpy(rarity).float()
    labels = torch.cat([batch.labels for batch in used]).float() * 2 - 1
    ngrams.weight[:-1], ngrams.bias[:] = support_vectors(sparse_matrix(ngrams, used), labels)


def sparse_matrix(ngrams: NGrams, batches: list[LabelBatch]) -> Matrix:
    """A row for each text, a column for each n-gram."""

    def batch_matrix(batch: LabelBatch) -> Tensor:
        columns, values = ngrams.features(batch.source, batch.source_mask)
        row, place = (values > 0).nonzero(as_tuple=True)
        places = torch.stack([row, columns[row, place]])
        shape = (len(columns), len(ngrams.pairs))
        return torch.sparse_coo_tensor(places, values[row, place], shape, check_invariants=True)

    found = torch.cat([batch_matrix(batch) for batch in batches]).coalesce()
    rows, columns = found.indices()
    starts = torch.searchsorted(rows, torch.arange(len(found) + 1))
    return sparse(starts, columns, found.values(), len(ngrams.pairs))


def sampled(batches: Batches[LabelBatch]) -> Iterator[LabelBatch]:
    """All batches, or of very many some of every length."""
    size = sum(batch.source.numel() for batch in batches.fixed())
    return islice(batches.fixed(), 0, None, -(-size // MOST_TOKENS))


def text_keys(batch: LabelBatch, pieces: Keys) -> Keys:
    """The n-grams of the texts of a batch, each once for a text."""
    real = batch.source_mask.numpy()
    inside = -pieces[batch.source.numpy()] * real[:, :, None]
    pairs = (pair_keys(batch.source, len(pieces)).numpy() + 1) * real[:, 1:]
    keys = np.sort(np.concatenate([inside.reshape(len(real), -1), pairs], axis=1), axis=1)
    is_first = np.diff(keys, axis=1, prepend=keys.min() - 1) != 0
    return np.asarray(keys[is_first])


def piece_keys(tokenizer: Tokenizer) -> Keys:
    """Of each token: its own number, and the numbers of the runs of characters that it spells."""
    spellings = tokenizer.vocabulary.table()
    numbers: dict[str, int] = {}
    keys = np.zeros((len(spellings), PIECES), np.int64)
    for token, spelling in enumerate(spellings):
        lower = spelling.decode(errors="replace").lower()
        runs = {lower[i : i + n] for n in CHARACTERS for i in range(len(lower) - n + 1)}
        found = [numbers.setdefault(run, len(spellings) + len(numbers) + 1) for run in sorted(runs)]
        keys[token, : len(found) + 1] = [token + 1, *found][:PIECES]
    return keys
