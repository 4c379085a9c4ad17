import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.config import TokenizerConfig
from clearhead.errors import ConfigError, TextError
from clearhead.text import Tokenizer
from clearhead.text.learn import vocab_size_for

from .conftest import METHODS, SENTENCES, TEXTS, learned, tagged

MULTI30K = Path(__file__).parents[3] / "shared" / "data" / "multi30k"


@pytest.mark.parametrize("method", METHODS)
def test_the_same_text_gives_the_same_tokenizer(tokenizers, method):
    assert {tagged(learned(method)).fingerprint for _ in range(3)} == {
        tokenizers[method].fingerprint
    }


def test_another_process_learns_the_same_tokenizers():
    code = "from tests.text.conftest import METHODS, learned; print(*(learned(m).fingerprint for m in METHODS))"
    root = Path(__file__).parents[2]
    other = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert other.stdout.split() == [learned(method).fingerprint for method in METHODS]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [300, 340])
def test_the_vocabulary_is_never_larger_than_asked(method, size):
    tokenizer = learned(method, vocab_size=size)
    assert tokenizer.vocab_size <= size
    assert tokenizer.vocab_size == size or method in ("words", "characters", "wordpiece")


@pytest.mark.parametrize("method", ["bpe", "bytes", "unigram"])
def test_a_size_without_room_for_bytes_is_refused(method):
    with pytest.raises(ConfigError, match="fill 263 places"):
        learned(method, vocab_size=263)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("texts", [[], [""], ["", ""]])
def test_no_text_teaches_nothing(method, texts):
    with pytest.raises(TextError, match="no text"):
        Tokenizer.learn(texts, TokenizerConfig(method=method))


@pytest.mark.parametrize("method", METHODS)
def test_errors_in_the_stream_of_texts_reach_the_caller(method):
    with pytest.raises(TextError, match="Text 2 holds half a character, U\\+D800, at offset 1"):
        Tokenizer.learn(iter(["fine", "b\ud800"]), TokenizerConfig(method=method))

    def broken():
        yield "fine"
        raise KeyError("the file went away")

    with pytest.raises(KeyError):
        Tokenizer.learn(broken(), TokenizerConfig(method=method))


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_more_text_never_chooses_a_smaller_vocabulary(one, other):
    small, large = sorted([one, other])
    assert vocab_size_for(small) <= vocab_size_for(large)


def test_chosen_sizes_are_those_of_the_trade():
    assert 3_500 <= vocab_size_for(4_000_000) <= 4_500
    assert 36_000 <= vocab_size_for(600_000_000) == vocab_size_for(10**12) <= 37_000


def test_rare_characters_are_spelled_in_bytes():
    tokenizer = Tokenizer.learn([*TEXTS, "ӝ"], TokenizerConfig())
    assert len(tokenizer.encode("xӝ")) == len(tokenizer.encode("x")) + 2


def test_dropout_cuts_the_same_text_in_several_ways(tokenizers):
    for method in ("bpe", "bytes"):
        cuts = [
            tokenizers[method].encode_batch(SENTENCES, dropout=0.3, seed=seed) for seed in range(5)
        ]
        assert len({str(cut) for cut in cuts}) == 5
        for cut in cuts:
            assert [tokenizers[method].decode(ids) for ids in cut] == SENTENCES


def test_dropout_is_a_function_of_its_seed(tokenizers):
    one, again = (tokenizers["bpe"].encode_batch(SENTENCES, dropout=0.3, seed=7) for _ in range(2))
    assert one == again


@settings(max_examples=100, deadline=None)
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.sampled_from(SENTENCES)
)
def test_hardly_any_dropout_is_none_at_all(tokenizers, text):
    for method in ("bpe", "bytes"):
        assert tokenizers[method].encode_batch([text], dropout=1e-300) == [
            tokenizers[method].encode(text)
        ]


def test_dropout_of_nearly_everything_leaves_characters(tokenizers):
    assert len(tokenizers["bpe"].encode_batch(["A man rides"], dropout=1 - 1e-12)[0]) == len(
        " A man rides"
    )


@pytest.mark.parametrize("method", ["unigram", "wordpiece", "words", "characters"])
def test_dropout_without_merges_is_refused(tokenizers, method):
    with pytest.raises(ConfigError, match=r"tokenizer\.dropout"):
        tokenizers[method].encode_batch(["a"], dropout=0.1)


def test_a_batch_is_its_texts_one_by_one(tokenizers):
    for tokenizer in tokenizers.values():
        assert tokenizer.encode_batch(TEXTS) == [tokenizer.encode(text) for text in TEXTS]
        assert tokenizer.encode_batch([]) == []


def test_a_forked_process_encodes_in_silence_and_without_waiting(tokenizers, capfd):
    expected = tokenizers["bpe"].encode_batch(TEXTS * 50)
    code = f"""
import os
from tests.text.conftest import TEXTS, learned, tagged
t = tagged(learned("bpe"))
ids = t.encode_batch(TEXTS * 50)
child = os.fork()
if not child:
    os._exit(0 if t.encode_batch(TEXTS * 50) == ids else 1)
assert os.waitpid(child, 0)[1] == 0
assert os.environ.get("TOKENIZERS_PARALLELISM") is None
assert sum(map(len, ids)) == {sum(map(len, expected))}
"""
    root, clean = (
        Path(__file__).parents[2],
        {k: v for k, v in os.environ.items() if k != "TOKENIZERS_PARALLELISM"},
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=clean, capture_output=True, timeout=60
    )
    assert (run.returncode, run.stderr) == (0, b"")


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="needs the Multi30k files in ../shared/data")
def test_multi30k_gets_about_four_thousand_tokens_and_comes_back():
    files = (
        gzip.decompress((MULTI30K / name).read_bytes()) for name in ("train.en.gz", "train.de.gz")
    )
    lines = [line for file in files for line in file.decode().split("\n")]
    tokenizer = Tokenizer.learn(iter(lines), TokenizerConfig())
    assert 3_500 < tokenizer.vocab_size < 4_500
    sample = lines[::20]
    ids = tokenizer.encode_batch(sample)
    assert [tokenizer.decode(one) for one in ids] == sample
    assert sum(map(len, ids)) < 20 * len(sample)
