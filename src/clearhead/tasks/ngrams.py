"""The n-grams of training texts, found and weighed: what `model/ngrams.py` is filled with."""

from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.data.batches import Batches, LabelBatch
from clearhead.model.ngrams import NO_TOKEN, PIECES, NGrams, pair_keys
from clearhead.tasks.baseline import CHARACTERS, Matrix, sparse, support_vectors
from clearhead.text import Tokenizer

MOST_TOKENS = 1_000_000
"""Tokens that are learned from; where there are more, some batches are left out."""
MOST_WEIGHTS = 10_000_000
"""Weights of all n-grams for all labels; beyond, the rarest n-grams go."""

RUNS = 0.5
"""What runs of characters count, beside tokens and pairs: each token has many of them."""

Keys = NDArray[np.int64]
"""N-grams by number: above 0 pairs of tokens, below 0 tokens and runs of characters, 0 none."""


def known_ngrams(
    tokenizer: Tokenizer, batches: Batches[LabelBatch], most: int
) -> tuple[Keys, Keys]:
    """The n-grams that are in two texts or more, and in how many; of too many, the most frequent.

    Pairs come first and in ascending order, as `NGrams` searches them.
    """
    pieces = piece_keys(tokenizer)
    found = [text_keys(batch, pieces) for batch in some(batches)]
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
    used = list(some(batches))
    n_read = sum(len(batch.indices) for batch in used)
    # Rare n-grams tell more (inverse document frequency).
    rarity = np.log((1 + n_read) / (1 + n_texts)) + 1
    rarity[keys < -tokenizer.vocab_size] *= RUNS
    ngrams.rarity[: len(keys)] = torch.from_numpy(rarity).float()
    labels = torch.cat([batch.labels for batch in used]).float() * 2 - 1
    ngrams.weight[:-1], ngrams.bias[:] = support_vectors(sparse_matrix(ngrams, used), labels)


def sparse_matrix(ngrams: NGrams, batches: list[LabelBatch]) -> Matrix:
    """A row for each text, a column for each n-gram."""
    parts, n_rows = [], 0
    for batch in batches:
        columns, values = ngrams.features(batch.source, batch.source_mask)
        rows = torch.arange(n_rows, n_rows + len(columns))[:, None].expand_as(columns)
        is_there = values > 0
        parts.append((torch.stack([rows[is_there], columns[is_there]]), values[is_there]))
        n_rows += len(columns)
    places, values = (torch.cat(each, dim=-1) for each in zip(*parts, strict=True))
    found = torch.sparse_coo_tensor(places, values, check_invariants=True).coalesce()
    rows, columns = found.indices()
    starts = [0, *torch.bincount(rows, minlength=n_rows).cumsum(dim=0).tolist()]
    return sparse(starts, columns.tolist(), found.values().double().numpy(), len(ngrams.pairs))


def some(batches: Batches[LabelBatch]) -> Iterator[LabelBatch]:
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
    found: Keys = keys[is_first]
    return found


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
