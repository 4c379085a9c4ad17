"""Batches hold every example once per epoch, in an order that is a pure function of where one is."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config import TokenizerConfig
from clearhead.data.batches import (
    ByLength,
    Recut,
    Windows,
    conversation_batch,
    label_batch,
    pair_batch,
)
from clearhead.data.examples import Conversation, LabelledText, Pair, pairs
from clearhead.data.store import (
    conversation_encoding,
    label_encoding,
    pair_encoding,
    temporary_store,
    text_encoding,
)
from clearhead.errors import DataError
from clearhead.text import END, PAD, START, Tokenizer


class Letters(Tokenizer):
    """A tokenizer whose ids are code points."""

    vocab_size, fingerprint, after_line = 256, "letters", (END,)

    def __init__(self):
        pass

    def reading(self, ids):
        return [*ids, 2]

    def encode_batch(self, texts):
        return [list(text.encode()) for text in texts]


LETTERS = Letters()
PAIRS = [Pair("s" * (n * 7 % 23 + 1), "t" * (n * 7 % 23 + n % 4 + 1)) for n in range(600)]
seeds, places = st.integers(0, 2**31 - 1), st.integers(0, 10_000)


@pytest.fixture(scope="module")
def store():
    return temporary_store(PAIRS, pair_encoding(LETTERS, LETTERS))[0]


@pytest.fixture(scope="module")
def text():
    return temporary_store(
        ["".join(chr(33 + (n + m) % 90) for m in range(n)) for n in range(40)],
        text_encoding(LETTERS),
    )[0]


def members(batches, epoch):
    return [
        batches.batch(epoch * len(batches) + index).indices.tolist()
        for index in range(len(batches))
    ]


def seen(batches, first, last):
    return [n for place in range(first, last) for n in batches.batch(place).indices.tolist()]


def equal(a, b):
    return all(torch.equal(getattr(a, name), getattr(b, name)) for name in vars(a))


@given(seed=seeds, epoch=st.integers(0, 50), budget=st.integers(200, 3_000))
def test_every_epoch_holds_every_example_once(store, seed, epoch, budget):
    batches = ByLength(store, pair_batch, budget, seed)
    assert sorted(seen(batches, epoch * len(batches), (epoch + 1) * len(batches))) == list(
        range(len(store))
    )


@given(seed=seeds, place=places)
def test_a_batch_depends_on_seed_and_place_alone(store, seed, place):
    asked, unasked = ByLength(store, pair_batch, 200, seed), ByLength(store, pair_batch, 200, seed)
    asked.batch(place + 1)
    asked.batch(0)
    assert equal(asked.batch(place), unasked.batch(place))


@given(budget=st.integers(100, 1_000))
def test_no_side_of_a_batch_exceeds_the_budget_unless_one_example_does(store, budget):
    for batch in ByLength(store, pair_batch, budget, 0).fixed():
        assert (
            len(batch.indices) == 1 or max(batch.source.numel(), batch.target_in.numel()) <= budget
        )


def test_epochs_differ_in_the_order_of_batches_and_in_who_meets_whom(store):
    batches = ByLength(store, pair_batch, 300, 0)
    first, second = (
        {frozenset(batch) for batch in epoch}
        for epoch in (members(batches, 0), members(batches, 1))
    )
    assert len(first & second) < len(batches) / 3
    widths = [
        [batches.batch(place).source.size(1) for place in range(n, n + len(batches))]
        for n in (0, len(batches))
    ]
    assert widths[0] != widths[1]
    assert widths[0] != sorted(widths[0])


def test_seeds_differ(store):
    assert seen(ByLength(store, pair_batch, 300, 1), 0, 5) != seen(
        ByLength(store, pair_batch, 300, 2), 0, 5
    )


@given(place=places)
def test_a_pair_is_shifted_ended_padded_and_masked(store, place):
    batch = ByLength(store, pair_batch, 300, 0).batch(place)
    for row, example in enumerate(batch.indices.tolist()):
        source, target = (list(side.encode()) for side in PAIRS[example])
        n_pads = batch.target_in.size(1) - len(target) - 1
        assert batch.source[row, batch.source_mask[row]].tolist() == [*source, END]
        assert batch.target_in[row].tolist() == [START, *target, *[PAD] * n_pads]
        assert batch.target_out[row].tolist() == [*target, END, *[PAD] * n_pads]
        assert batch.judged[row].tolist() == [True] * (len(target) + 1) + [False] * n_pads
    assert batch.source_mask.any(dim=0).all()
    assert (batch.source[~batch.source_mask] == PAD).all()
    assert batch.judged.sum() == sum(len(PAIRS[n].target) + 1 for n in batch.indices)


def test_the_fixed_order_goes_once_through_all_and_can_be_undone(store):
    batches = list(ByLength(store, pair_batch, 300, 0).fixed())
    indices = torch.cat([batch.indices for batch in batches])
    lengths = torch.cat([batch.source_mask.sum(dim=1) for batch in batches])
    assert lengths[indices.argsort()].tolist() == [len(pair.source) + 1 for pair in PAIRS]
    widths = [max(batch.source.size(1), batch.target_in.size(1)) for batch in batches]
    assert widths == sorted(widths)


def test_a_batch_moves_to_a_device_whole(store):
    batch = ByLength(store, pair_batch, 300, 0).batch(0).to("meta")
    assert {tensor.device.type for tensor in vars(batch).values()} == {"meta"}


def test_labels_are_marked_in_the_row_of_their_text():
    names = ["a", "b", "c"]
    examples = [
        LabelledText("x" * (n % 9 + 1), tuple({names[n % 3], names[n % 2]})) for n in range(50)
    ]
    batches = ByLength(
        temporary_store(examples, label_encoding(LETTERS, names))[0], label_batch, 40, 0
    )
    for batch in batches.fixed():
        for row, example in enumerate(batch.indices.tolist()):
            assert {names[n] for n in batch.labels[row].nonzero()} == set(examples[example].labels)
            assert batch.source_mask[row].sum() == len(examples[example].text) + 1


def test_a_conversation_is_read_whole_and_judged_by_the_bots_words():
    talks = [Conversation(("hello", "hi" * n, "bye", "so long")[: n % 3 + 2]) for n in range(1, 9)]
    batches = ByLength(
        temporary_store(talks, conversation_encoding(LETTERS))[0], conversation_batch, 200, 0
    )
    for batch in batches.fixed():
        for row, example in enumerate(batch.indices.tolist()):
            judged = [
                token for turn in talks[example].turns[1::2] for token in [*turn.encode(), END]
            ]
            assert batch.target_out[row, batch.judged[row]].tolist() == judged
            n_real = int(batch.target_in[row].count_nonzero())
            assert batch.target_in[row, :n_real].tolist() == [
                START,
                *batch.target_out[row, : n_real - 1].tolist(),
            ]
            assert batch.target_out[row, n_real - 1] == END


@given(
    window=st.integers(5, 900), budget=st.integers(50, 2_000), seed=seeds, epoch=st.integers(0, 20)
)
def test_windows_are_full_and_predict_no_place_twice_in_an_epoch(text, window, budget, seed, epoch):
    ring = text.ids[0][:]
    batches = Windows(text, window, budget, seed)
    offsets = []
    for place in range(epoch * len(batches), (epoch + 1) * len(batches)):
        batch = batches.batch(place)
        assert batch.judged.all()
        assert torch.equal(batch.target_in[:, 1:], batch.target_out[:, :-1])
        offsets += batch.indices.tolist()
    assert sorted(offsets) == list(range((len(ring) - 1) // min(window, len(ring) - 1)))


def test_the_windows_of_an_epoch_are_the_text_cut_at_another_place_each_time(text):
    ring = text.ids[0][:].tolist()
    batches = Windows(text, 50, 100, 0)
    starts = set()
    for epoch in range(3):
        found = [batches.batch(epoch * len(batches) + index) for index in range(len(batches))]
        order = torch.cat([batch.indices for batch in found]).argsort()
        joined = torch.cat([batch.target_in for batch in found])[order].flatten().tolist()
        starts.add(next(n for n in range(len(ring)) if (ring * 2)[n : n + len(joined)] == joined))
    assert len(starts) == 3


@pytest.mark.parametrize("window", [7, 50, 10_000])
def test_fixed_windows_predict_each_token_after_the_first_once(text, window):
    batches = list(Windows(text, window, 300, 0).fixed())
    predicted = torch.cat([batch.target_out[batch.judged] for batch in batches])
    assert predicted.tolist() == text.ids[0][1:].tolist()


def test_text_too_short_to_predict_anything_is_refused():
    with pytest.raises(DataError, match="too little text"):
        Windows(temporary_store([""], text_encoding(LETTERS))[0], 8, 64, 0)


def test_captions_lose_less_than_a_twentieth_to_padding(project, tmp_path):
    folder = project.parent / "shared" / "data" / "multi30k"
    if not folder.exists():
        pytest.skip("the Multi30k captions are not here")
    captions = pairs(folder / "train.en.gz", folder / "train.de.gz")
    tokenizer = Tokenizer.learn(
        (side for pair in captions for side in pair), TokenizerConfig(vocab_size=4_000)
    )
    batches = ByLength(
        temporary_store(captions, pair_encoding(tokenizer, tokenizer))[0], pair_batch, 4_096, 0
    )
    masks = [mask for batch in batches.fixed() for mask in (batch.source_mask, batch.judged)]
    assert sum(int(mask.sum()) for mask in masks) > 0.95 * sum(mask.numel() for mask in masks)


def test_a_real_tokenizer_gets_its_text_back(tmp_path):
    examples = [
        Pair(f"Der Hund sieht {n} Katzen. 🐈", f"The dog sees {n} cats. 🐈") for n in range(40)
    ]
    tokenizer = Tokenizer.learn(
        (side for pair in examples for side in pair), TokenizerConfig(vocab_size=400)
    )
    batches = ByLength(
        temporary_store(examples, pair_encoding(tokenizer, tokenizer))[0], pair_batch, 200, 0
    )
    for batch in batches.fixed():
        for row, example in enumerate(batch.indices.tolist()):
            assert (
                tokenizer.decode(batch.source[row, batch.source_mask[row]].tolist()[:-1])
                == examples[example].source
            )
            assert (
                tokenizer.decode(batch.target_out[row, batch.judged[row]].tolist()[:-1])
                == examples[example].target
            )


def test_words_cut_anew_are_the_same_text_in_other_tokens_and_repeat_with_their_place(tmp_path):
    examples = [
        Pair(f"Der Hund sieht {n} Katzen. 🐈", f"The dog sees {n} cats. 🐈") for n in range(40)
    ]
    tokenizer = Tokenizer.learn(
        (side for pair in examples for side in pair), TokenizerConfig(vocab_size=400)
    )
    whole = ByLength(
        temporary_store(examples, pair_encoding(tokenizer, tokenizer))[0], pair_batch, 200, 0
    )
    recut = Recut(whole, (tokenizer, tokenizer), dropout=0.5, seed=0)
    assert len(recut) == len(whole)
    for place in range(2 * len(recut)):
        batch = recut.batch(place)
        assert equal(batch, recut.batch(place))
        assert batch.judged.sum() > whole.batch(place).judged.sum()
        for row, example in enumerate(batch.indices.tolist()):
            assert (
                tokenizer.decode(batch.source[row, batch.source_mask[row]].tolist()[:-1])
                == examples[example].source
            )
            assert (
                tokenizer.decode(batch.target_out[row, batch.judged[row]].tolist()[:-1])
                == examples[example].target
            )
    assert all(equal(one, other) for one, other in zip(recut.fixed(), whole.fixed(), strict=True))
