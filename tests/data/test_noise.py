"""Pre-training's questions: how much is hidden, what is shown instead, and that nothing else is asked."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.batches import Noisy, Windows, denoising_batch, masked_batch, spans, taken_out
from clearhead.data.store import temporary_store, text_encoding
from clearhead.text import END, MASK, Tokenizer

FIRST, SIZE = 7, 2_000
"""The first id that is a word, and how many ids there are."""


class Numbers(Tokenizer):
    """A tokenizer of texts that are numbers already."""

    vocab_size, fingerprint, after_line = SIZE, "numbers", (END,)

    def __init__(self):
        pass

    def encode_batch(self, texts):
        return [[int(word) for word in text.split()] for text in texts]


HIDE = {
    "mask": partial(masked_batch, share=0.15, words=range(FIRST, SIZE)),
    "denoise": partial(denoising_batch, share=0.15),
}


@pytest.fixture(scope="module")
def windows():
    random = np.random.default_rng(0)
    lines = [" ".join(map(str, random.integers(FIRST, SIZE, 20))) for _ in range(2_000)]
    return Windows(
        temporary_store(lines, text_encoding(Numbers()))[0],
        64,
        8_192,
        seed=3,
    )


def test_fifteen_of_a_hundred_words_are_hidden_and_shown_80_10_10(windows):
    asked, text = Noisy(windows, HIDE["mask"], 3).batch(1), windows.batch(1).target_out
    words = text >= FIRST
    assert asked.judged.sum() == round(0.15 * int(words.sum()))
    assert not (asked.judged & ~words).any()
    hidden = asked.judged
    is_mask, kept = asked.source[hidden] == MASK, asked.source[hidden] == text[hidden]
    assert is_mask.float().mean() == pytest.approx(0.8, abs=0.04)
    assert kept.float().mean() == pytest.approx(0.1, abs=0.03)
    assert (~is_mask & ~kept).float().mean() == pytest.approx(0.1, abs=0.03)
    assert asked.source[hidden][~is_mask].min() >= FIRST


def test_only_what_is_hidden_differs_and_only_that_is_asked(windows):
    asked, text = Noisy(windows, HIDE["mask"], 3).batch(0), windows.batch(0).target_out
    assert torch.equal(asked.target_out, text)
    assert torch.equal(asked.source[~asked.judged], text[~asked.judged])


@pytest.mark.parametrize("hide", HIDE.values(), ids=HIDE)
def test_what_is_hidden_depends_on_seed_and_place_alone(windows, hide):
    def shown(seed, place):
        return Noisy(windows, hide, seed).batch(place).source

    assert torch.equal(shown(1, 5), shown(1, 5))
    assert shown(1, 5).shape != shown(2, 5).shape or not torch.equal(shown(1, 5), shown(2, 5))
    first, again = (list(Noisy(windows, hide, seed).fixed()) for seed in (1, 2))
    assert all(torch.equal(a.source, b.source) for a, b in zip(first, again, strict=True))


@given(st.integers(1, 300), st.floats(0.01, 0.9), st.integers(0, 99))
def test_the_spans_put_back_in_place_of_their_masks_are_the_text(length, share, seed):
    random = np.random.default_rng(seed)
    text = random.integers(FIRST, SIZE, length)
    hidden = spans(length, share, random)
    assert len(hidden) == length
    assert hidden.sum() == max(1, min(round(length * share), length - 1))
    source, target = taken_out(text, hidden)
    pieces = iter(np.split(target, np.flatnonzero(target == MASK))[1:])
    restored = [n for token in source for n in (next(pieces)[1:] if token == MASK else [token])]
    assert restored == text.tolist()


def test_denoising_reads_a_mask_for_each_span_and_writes_the_spans(windows):
    asked = Noisy(windows, HIDE["denoise"], 0).batch(0)
    for source, target in zip(asked.source, asked.target_out, strict=True):
        assert (source == MASK).sum() == (target == MASK).sum() > 0
    assert (asked.target_out[asked.judged] == END).sum() >= len(asked.indices)
