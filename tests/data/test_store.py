"""What goes into a store comes out of it, and a store is whole or it is not there."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data.encoding import (
    BOT,
    END,
    USER,
    conversation_encoding,
    label_encoding,
    pair_encoding,
    text_encoding,
)
from clearhead.data.examples import Conversation, Labelled, Pair
from clearhead.data.order import cells
from clearhead.data.prepare import CHUNK, STALE, prepare
from clearhead.errors import DataError, DiskError


class Letters:
    """A tokenizer whose ids are code points, and which counts the texts that it sees."""

    vocab_size = 70_000

    def __init__(self, fingerprint="letters"):
        self.fingerprint = fingerprint
        self.n_texts = 0

    def encode_batch(self, texts):
        self.n_texts += len(texts)
        return [[ord(letter) for letter in text] for text in texts]


def rows(store, side):
    ids, lengths = store.rows(side, np.arange(len(store)))
    return ["".join(map(chr, row)) for row in np.split(ids, np.cumsum(lengths)[:-1])]


PAIRS = [Pair("ab" * (n % 7 + 1), "c" * (n % 5 + 1)) for n in range(100)]
texts = st.text(st.characters(max_codepoint=69_999, exclude_categories=["Cs"]), max_size=12)


@pytest.fixture
def letters():
    return Letters()


@pytest.fixture
def encoding(letters):
    return pair_encoding(letters, letters)


@settings(max_examples=40, deadline=None)
@given(
    pairs=st.lists(st.builds(Pair, texts, texts), min_size=1, max_size=30), limit=st.integers(1, 12)
)
def test_every_example_is_kept_in_order_or_counted_as_left_out(tmp_path_factory, pairs, limit):
    kept = [n for n, pair in enumerate(pairs) if all(pair) and max(map(len, pair)) <= limit]
    encoding = pair_encoding(Letters(), Letters())
    if not kept:
        with pytest.raises(DataError, match="No example is left"):
            prepare(tmp_path_factory.mktemp("cache"), pairs, encoding, limit)
        return
    store = prepare(tmp_path_factory.mktemp("cache"), pairs, encoding, limit)
    assert [rows(store, side) for side in (0, 1)] == [
        [pairs[n][side] for n in kept] for side in (0, 1)
    ]
    assert store.empty == sum(not all(pair) for pair in pairs)
    assert store.too_long == len(pairs) - len(kept) - store.empty
    assert store.origin(np.arange(len(store))).tolist() == kept


def test_examples_of_several_chunks_are_sorted_into_their_cells(tmp_path, encoding):
    pairs = [Pair("a" * (n * 7 % 41 + 1), "b" * (n * 5 % 37 + 1)) for n in range(2 * CHUNK + 5)]
    store = prepare(tmp_path, pairs, encoding)
    order = store.by_length[:]
    found = cells(*(np.array([len(pair[side]) for pair in pairs])[order] for side in (0, 1)))
    assert sorted(order) == list(range(len(pairs)))
    assert (np.diff(found) >= 0).all()
    assert np.repeat(store.cells, store.cell_sizes).tolist() == found.tolist()


def test_text_is_tokenised_once_and_the_store_reused(tmp_path, letters, encoding):
    first = prepare(tmp_path, PAIRS, encoding)
    second = prepare(tmp_path, list(PAIRS), encoding)
    assert letters.n_texts == 2 * len(PAIRS)
    assert first.fingerprint == second.fingerprint
    assert rows(first, 0) == rows(second, 0)


@pytest.mark.parametrize(
    "other",
    [
        lambda cache: prepare(cache, PAIRS[::-1], pair_encoding(Letters(), Letters())),
        lambda cache: prepare(cache, PAIRS[:-1], pair_encoding(Letters(), Letters())),
        lambda cache: prepare(cache, PAIRS, pair_encoding(Letters(), Letters("others"))),
        lambda cache: prepare(cache, PAIRS, pair_encoding(Letters(), Letters()), max_length=9),
    ],
    ids=["order", "content", "tokenizer", "settings"],
)
def test_another_order_content_tokenizer_or_setting_is_another_store(tmp_path, encoding, other):
    assert prepare(tmp_path, PAIRS, encoding).fingerprint != other(tmp_path).fingerprint


@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
@pytest.mark.parametrize("name", ["0.ids", "1.ids", "0.offsets", "order", "cells", "meta.json"])
def test_a_damaged_store_is_built_anew(tmp_path, letters, encoding, name, damage):
    path = tmp_path / prepare(tmp_path, PAIRS, encoding).fingerprint / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content if damage == "flip" else content[: len(content) // 2])
    if damage == "remove":
        path.unlink()
    again = prepare(tmp_path, PAIRS, encoding)
    assert [rows(again, side) for side in (0, 1)] == [
        [pair[side] for pair in PAIRS] for side in (0, 1)
    ]
    assert letters.n_texts == 4 * len(PAIRS)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_number_changed_in_the_description_of_a_store_is_noticed(tmp_path, letters, encoding):
    path = tmp_path / prepare(tmp_path, PAIRS, encoding).fingerprint / "meta.json"
    path.write_text(path.read_text().replace('"empty": 0', '"empty": 7'))
    assert prepare(tmp_path, PAIRS, encoding).empty == 0


def test_a_store_deleted_while_open_can_still_be_read(tmp_path, encoding):
    store = prepare(tmp_path, PAIRS, encoding)
    shutil.rmtree(tmp_path / store.fingerprint)
    assert rows(store, 0) == [pair.source for pair in PAIRS]


def test_a_build_that_fails_leaves_nothing_behind(tmp_path, letters, encoding):
    letters.encode_batch = lambda texts: [][0]
    with pytest.raises(IndexError):
        prepare(tmp_path, PAIRS, encoding)
    assert list(tmp_path.iterdir()) == []


def test_what_a_dead_process_left_is_cleared_when_old_and_left_alone_when_young(tmp_path, encoding):
    for name, age in [("old.tmp-1", STALE + 10), ("young.tmp-2", 0)]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.ids").write_bytes(b"half")
        for path in (tmp_path / name / "0.ids", tmp_path / name):
            os.utime(path, (path.stat().st_mtime - age,) * 2)
    store = prepare(tmp_path, PAIRS, encoding)
    assert {path.name for path in tmp_path.iterdir()} == {"young.tmp-2", store.fingerprint}


def test_several_at_once_do_each_other_no_harm(tmp_path, encoding):
    with ThreadPoolExecutor(6) as pool:
        stores = list(pool.map(lambda _: prepare(tmp_path, PAIRS, encoding), range(12)))
    assert all(rows(store, 1) == [pair.target for pair in PAIRS] for store in stores)
    assert len(list(tmp_path.iterdir())) == 1


def test_progress_tells_the_examples_done_and_their_number_once_known(tmp_path, encoding):
    told = []
    prepare(
        tmp_path, (PAIRS * CHUNK)[: CHUNK + 1], encoding, progress=lambda *both: told.append(both)
    )
    assert told == [(done, total) for total in (None, CHUNK + 1) for done in (CHUNK, CHUNK + 1)]


def test_examples_that_change_meanwhile_are_refused(tmp_path, encoding):
    class Changing:
        passes = 0

        def __iter__(self):
            self.passes += 1
            return iter([Pair("a", str(self.passes))])

    with pytest.raises(DataError, match="changed while"):
        prepare(tmp_path, Changing(), encoding)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_an_error_that_says_where(tmp_path, encoding):
    (tmp_path / "file").touch()
    with pytest.raises(DiskError, match=r"file/cache: Not a directory\.\nFree there"):
        prepare(tmp_path / "file" / "cache", PAIRS, encoding)


@pytest.mark.parametrize(("vocab_size", "n_bytes"), [(65_536, 2), (65_537, 4)])
def test_ids_take_two_bytes_where_two_suffice(tmp_path, letters, vocab_size, n_bytes):
    letters.vocab_size = vocab_size
    store = prepare(tmp_path, ["￿"], text_encoding(letters))
    assert rows(store, 0) == ["￿" + chr(END)]
    assert (tmp_path / store.fingerprint / "0.ids").stat().st_size == 2 * n_bytes


def test_labels_become_numbers_and_unknown_ones_are_refused(tmp_path, letters):
    encoding = label_encoding(letters, ["bad", "good", "odd"])
    store = prepare(tmp_path, [Labelled("ab", ("good",)), Labelled("c", ("odd", "bad"))], encoding)
    assert store.rows(1, np.array([0, 1]))[0].tolist() == [1, 0, 2]
    with pytest.raises(DataError, match="fair is not one of the 3"):
        prepare(tmp_path, [Labelled("ab", ("fair",))], encoding)


def test_of_a_conversation_only_what_the_bot_says_counts(tmp_path, letters):
    store = prepare(
        tmp_path, [Conversation(("hi", "yo", "so", "ok"))], conversation_encoding(letters)
    )
    ids, counts = (store.rows(side, np.array([0]))[0] for side in (0, 1))
    assert ids[counts > 0].tolist() == [*b"yo", END, *b"ok"]
    assert ids.tolist() == [USER, *b"hi", BOT, *b"yo", END, USER, *b"so", BOT, *b"ok"]
