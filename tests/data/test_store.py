"""What goes into a store comes out of it, and a store is whole or it is not there."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data.examples import Conversation, LabelledText, Pair
from clearhead.data.order import buckets
from clearhead.data.store import (
    AT_ONCE,
    BOT,
    END,
    IN_USE,
    USER,
    Column,
    conversation_encoding,
    label_encoding,
    pair_encoding,
    prepare,
    temporary_store,
    text_encoding,
)
from clearhead.errors import DataError, DiskError
from clearhead.text import Tokenizer


class Letters(Tokenizer):
    """A tokenizer whose ids are code points, and which counts the texts that it sees."""

    vocab_size, fingerprint, after_line = 70_000, "letters", (END,)

    def __init__(self):
        self.n_texts = 0

    def reading(self, ids):
        return [*ids, 2]

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
            temporary_store(pairs, encoding, limit)
        return
    cache = tmp_path_factory.mktemp("cache")
    on_disk = prepare(cache / "pairs", pairs, encoding, max_length=limit)
    store, examples = temporary_store(pairs, encoding, limit)
    assert examples == [pairs[n] for n in kept]
    assert all(equal(getattr(on_disk, name), value) for name, value in vars(store).items())
    assert [rows(store, side) for side in (0, 1)] == [
        [pairs[n][side] for n in kept] for side in (0, 1)
    ]
    assert store.empty == sum(not all(pair) for pair in pairs)
    assert store.too_long == len(pairs) - len(kept) - store.empty
    assert store.n_read == len(pairs)


def equal(one, other):
    """Whether two columns, lists of columns, arrays or values are the same; names may differ."""
    if isinstance(one, Column):
        return one.values.tolist() == other.values.tolist()
    if isinstance(one, list):
        return all(map(equal, one, other))
    return isinstance(one, str) or np.array_equal(one, other)


def test_examples_of_several_chunks_are_sorted_into_their_buckets(tmp_path, encoding):
    pairs = [Pair("a" * (n * 7 % 41 + 1), "b" * (n * 5 % 37 + 1)) for n in range(2 * AT_ONCE + 5)]
    store = prepare(tmp_path / "pairs", pairs, encoding)
    order = store.by_length[:]
    found = buckets(*(np.array([len(pair[side]) for pair in pairs])[order] for side in (0, 1)))
    assert sorted(order) == list(range(len(pairs)))
    assert (np.diff(found) >= 0).all()
    assert np.repeat(store.buckets, store.bucket_sizes).tolist() == found.tolist()


def test_text_is_tokenised_once_and_the_store_reused(tmp_path, letters, encoding):
    first = prepare(tmp_path / "pairs", PAIRS, encoding)
    second = prepare(tmp_path / "pairs", iter(PAIRS), encoding)
    assert letters.n_texts == 2 * len(PAIRS)
    assert first.fingerprint == second.fingerprint
    assert rows(first, 0) == rows(second, 0)


@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
@pytest.mark.parametrize("name", ["0.ids", "1.ids", "0.offsets", "order", "buckets", "meta.json"])
def test_a_damaged_store_is_built_anew(tmp_path, letters, encoding, name, damage):
    path = tmp_path / prepare(tmp_path / "pairs", PAIRS, encoding).fingerprint / name
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    if damage == "remove":
        path.unlink()
    again = prepare(tmp_path / "pairs", PAIRS, encoding)
    assert [rows(again, side) for side in (0, 1)] == [
        [pair[side] for pair in PAIRS] for side in (0, 1)
    ]
    assert letters.n_texts == 4 * len(PAIRS)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_store_deleted_while_open_can_still_be_read(tmp_path, encoding):
    store = prepare(tmp_path / "pairs", PAIRS, encoding)
    shutil.rmtree(tmp_path / store.fingerprint)
    assert rows(store, 0) == [pair.source for pair in PAIRS]


def test_a_build_that_fails_leaves_nothing_behind(tmp_path, letters, encoding):
    letters.encode_batch = lambda texts: [][0]
    with pytest.raises(IndexError):
        prepare(tmp_path / "pairs", PAIRS, encoding)
    assert list(tmp_path.iterdir()) == []


def test_what_a_dead_process_left_is_cleared_when_old_and_left_alone_when_young(tmp_path, encoding):
    for name, age in [("old.tmp-1", IN_USE + 10), ("young.tmp-2", 0)]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.ids").write_bytes(b"half")
        for path in (tmp_path / name / "0.ids", tmp_path / name):
            os.utime(path, (path.stat().st_mtime - age,) * 2)
    store = prepare(tmp_path / "pairs", PAIRS, encoding)
    assert {path.name for path in tmp_path.iterdir()} == {"young.tmp-2", store.fingerprint}


def test_several_at_once_do_each_other_no_harm(tmp_path, encoding):
    with ThreadPoolExecutor(6) as pool:
        stores = list(pool.map(lambda _: prepare(tmp_path / "pairs", PAIRS, encoding), range(12)))
    assert all(rows(store, 1) == [pair.target for pair in PAIRS] for store in stores)
    assert len(list(tmp_path.iterdir())) == 1


def used(cache, store, seconds_ago):
    meta = cache / store.fingerprint / "meta.json"
    os.utime(meta, (meta.stat().st_mtime - seconds_ago,) * 2)


def test_the_least_recently_used_stores_go_when_the_cache_outgrows_its_size(tmp_path, encoding):
    stores = [prepare(tmp_path / name, PAIRS, encoding) for name in ("old", "older", "young")]
    for store, age in zip(stores, (2 * IN_USE, 3 * IN_USE, 0.5 * IN_USE), strict=True):
        used(tmp_path, store, age)
    size = sum(file.stat().st_size for file in (tmp_path / stores[0].fingerprint).iterdir())
    new = prepare(tmp_path / "new", PAIRS, encoding, cache_size=3.5 * size)
    kept = {stores[0].fingerprint, stores[2].fingerprint, new.fingerprint}
    assert {path.name for path in tmp_path.iterdir()} == kept
    newer = prepare(tmp_path / "newer", PAIRS, encoding, cache_size=0.0)
    kept = {stores[2].fingerprint, new.fingerprint, newer.fingerprint}
    assert {path.name for path in tmp_path.iterdir()} == kept, "none that was just used"


def test_pruning_does_not_stumble_over_what_vanishes_meanwhile(tmp_path, encoding):
    store = prepare(tmp_path / "first", PAIRS, encoding)
    (tmp_path / store.fingerprint / "0.ids").unlink()
    (tmp_path / store.fingerprint / "0.ids").symlink_to("nowhere")
    assert prepare(tmp_path / "second", PAIRS, encoding, cache_size=0.0)


def test_a_store_that_is_used_again_is_not_the_least_recently_used(tmp_path, encoding):
    stores = [prepare(tmp_path / name, PAIRS, encoding) for name in ("first", "second")]
    for store in stores:
        used(tmp_path, store, 2 * IN_USE)
    prepare(tmp_path / "first", PAIRS, encoding)
    prepare(tmp_path / "third", PAIRS, encoding, cache_size=0.0)
    assert (tmp_path / stores[0].fingerprint).exists()
    assert not (tmp_path / stores[1].fingerprint).exists()


def test_a_pass_that_fails_at_its_end_leaves_nothing_behind(tmp_path, encoding):
    def changing():
        yield from PAIRS
        raise DataError("The file changed while being read.")

    with pytest.raises(DataError, match="changed while"):
        prepare(tmp_path / "pairs", changing(), encoding)
    assert list(tmp_path.iterdir()) == []


def test_what_was_left_out_and_put_right_is_told(tmp_path, encoding):
    pairs = [Pair("a", "b"), Pair("", "b"), Pair("abc", "d"), Pair("abcd", "d")]
    for _ in range(2):
        store = prepare(
            tmp_path / "pairs", pairs, encoding, max_length=2, notes=lambda: ["a mark was stripped"]
        )
        told = "3 of 4 examples left out: 2 longer than 2 tokens, 1 with an empty side."
        assert store.left_out() == told
        assert store.notes == ["a mark was stripped"]
    assert temporary_store(PAIRS, encoding)[0].left_out() == ""


def test_a_cache_that_cannot_be_written_is_an_error_that_says_where(tmp_path, encoding):
    (tmp_path / "file").touch()
    with pytest.raises(DiskError, match=r"file/cache.* cannot be written: Not a directory"):
        prepare(tmp_path / "file" / "cache" / "pairs", PAIRS, encoding)


@pytest.mark.parametrize(("vocab_size", "n_bytes"), [(65_536, 2), (65_537, 4)])
def test_ids_take_two_bytes_where_two_suffice(tmp_path, letters, vocab_size, n_bytes):
    letters.vocab_size = vocab_size
    store = prepare(tmp_path / "text", ["￿"], text_encoding(letters))
    assert rows(store, 0) == ["￿" + chr(END)]
    assert (tmp_path / store.fingerprint / "0.ids").stat().st_size == 2 * n_bytes


def test_labels_become_numbers_and_unknown_ones_are_refused(letters):
    encoding = label_encoding(letters, ["bad", "good", "odd"])
    store, _ = temporary_store(
        [LabelledText("ab", ("good",)), LabelledText("c", ("odd", "bad"))], encoding
    )
    assert store.rows(1, np.array([0, 1]))[0].tolist() == [1, 0, 2]
    with pytest.raises(DataError, match="fair is not one of the 3"):
        temporary_store([LabelledText("ab", ("fair",))], encoding)


def test_of_a_conversation_only_what_the_bot_says_counts(letters):
    talks = [Conversation(("hi", "yo", "so", "ok"))]
    store, _ = temporary_store(talks, conversation_encoding(letters))
    ids, counts = (store.rows(side, np.array([0]))[0] for side in (0, 1))
    assert ids[counts > 0].tolist() == [*b"yo", END, *b"ok"]
    assert ids.tolist() == [USER, *b"hi", BOT, *b"yo", END, USER, *b"so", BOT, *b"ok"]
