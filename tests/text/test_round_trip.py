import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.errors import TextError
from clearhead.text import SPECIALS, Tokenizer

from .conftest import METHODS, SENTENCES, TEXTS

EXACT = ["bpe", "bytes", "unigram"]
HARD = [
    "", " ", "   ", "  two  spaces  ", "\n", "\r\n", "\t", "a\u2028b\u2029c\x85d\x0be\x0cf", "\x00", "a\x00b",
    "👩‍👩‍👧‍👦 👍🏽 🏳️‍🌈 ❤️", "שלום עולם", "مرحبا \u202bبالعالم\u202c", "e\u0301 ö vs o\u0308",
    "\u0301", "▁", "▁a ▁ b▁", "<0x41>",
    "<0xE6><0xBC><0xA2>", "</s>", "<s>a</s>", "<pad><unk><mask><user><bot>", "<2de>", "##ing ##",
    "\ufeffBOM", "\ufffd", "\U0010ffff",
    "\u00a0nbsp\u3000ideographic", "Ġbyte-level Ċ", "漢字かな交じり文", "x" * 300, "-" * 300, " " * 300, "ﷺ ǅ ß ẞ İ ı",
]  # fmt: skip

whole_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
pieces = st.lists(st.sampled_from([*HARD, *SENTENCES]), max_size=4).map("".join)


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("text", HARD)
def test_hard_text_comes_back_as_it_was(tokenizers, method, text):
    assert tokenizers[method].decode(tokenizers[method].encode(text)) == text


@pytest.mark.parametrize("method", EXACT)
@given(text=whole_text | pieces)
@settings(max_examples=150, deadline=None)
def test_any_text_comes_back_as_it_was(tokenizers, method, text):
    ids = tokenizers[method].encode(text)
    assert tokenizers[method].decode(ids) == text
    assert min(ids, default=99) >= len(SPECIALS) + 2


@given(text=st.text(st.sampled_from(sorted(set("".join(TEXTS)))), max_size=60))
@settings(max_examples=100, deadline=None)
def test_characters_and_wordpiece_bring_back_known_characters(tokenizers, text):
    assert tokenizers["characters"].decode(tokenizers["characters"].encode(text)) == text
    ids = tokenizers["wordpiece"].encode(text)
    assert (
        tokenizers["wordpiece"].unknown in ids
        or "##" in text
        or tokenizers["wordpiece"].decode(ids) == text
    )


@pytest.mark.parametrize("method", METHODS)
def test_sentences_that_were_learned_from_come_back(tokenizers, method):
    tokenizer = tokenizers[method]
    assert [tokenizer.decode(ids) for ids in tokenizer.encode_batch(SENTENCES)] == SENTENCES


@pytest.mark.parametrize("method", METHODS)
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_stream_of_any_ids_says_what_the_whole_says(tokenizers, method, data):
    tokenizer = tokenizers[method]
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=30))
    stream = tokenizer.stream()
    assert "".join([stream.push(token) for token in ids] + [stream.end()]) == tokenizer.decode(ids)
    text = b"".join(tokenizer.table[token] for token in ids).decode(errors="replace")
    assert tokenizer.decode(ids) == (text.removeprefix(" ") if tokenizer.spaced else text)


def test_a_stream_holds_back_half_a_character_only(tokenizers):
    stream = tokenizers["bytes"].stream()
    said = [stream.push(token) for token in tokenizers["bytes"].encode("é€👍é")]
    assert "".join(said) == "é€👍é"
    assert "\ufffd" not in "".join(said)
    assert stream.end() == ""


def test_a_character_that_never_became_whole_ends_as_a_replacement(tokenizers):
    ids = tokenizers["bytes"].encode("👍")[:-1]
    assert tokenizers["bytes"].decode(ids) == "\ufffd"


@pytest.mark.parametrize("method", METHODS)
def test_text_that_looks_special_is_text(tokenizers, method):
    tokenizer = tokenizers[method]
    for again in (tokenizer, Tokenizer.from_json(tokenizer.json)):
        for look in [*SPECIALS.values(), "<2de>", "<0x41>"]:
            ids = again.encode(f"a {look}{look} b")
            assert set(ids) & set(range(len(SPECIALS) + 2)) <= {again.unknown}


@pytest.mark.parametrize("method", METHODS)
def test_special_ids_decode_to_nothing(tokenizers, method):
    tokenizer = tokenizers[method]
    ids = tokenizer.encode("A man")
    around = [
        tokenizer.start,
        len(SPECIALS),
        *ids,
        tokenizer.end,
        tokenizer.pad,
        tokenizer.pad,
    ]
    assert tokenizer.decode(around) == tokenizer.decode(ids) == "A man"


def test_special_tokens_have_the_ids_that_models_rely_on(tokenizers):
    tokenizer = tokenizers["bpe"]
    names = (
        tokenizer.pad,
        tokenizer.start,
        tokenizer.end,
        tokenizer.unknown,
        tokenizer.mask,
        tokenizer.user,
        tokenizer.bot,
    )
    assert names == (0, 1, 2, 3, 4, 5, 6)
    assert tokenizer.tokens(range(9)) == [*SPECIALS.values(), "<2de>", "<2pt-BR>"]


def test_tokens_are_shown_as_people_read_them(tokenizers):
    tokenizer = tokenizers["bpe"]
    shown = tokenizer.tokens(tokenizer.encode("A man\nҩ"))
    assert shown[0] == "▁A"
    assert shown[-3:] == ["\\n", "<0xD2>", "<0xA9>"]


def test_half_a_character_is_refused_with_its_offset(tokenizers):
    with pytest.raises(TextError, match=r"U\+D83D, at offset 2"):
        tokenizers["bpe"].encode("ab\ud83dc")
    with pytest.raises(TextError, match="offset 0"):
        tokenizers["bpe"].encode_batch(["fine", "\udc00"])


@pytest.mark.parametrize("wrong", [-1, 10**6])
def test_ids_outside_the_vocabulary_are_refused(tokenizers, wrong):
    with pytest.raises(TextError, match="not in the vocabulary"):
        tokenizers["bpe"].decode([wrong])
    with pytest.raises(TextError, match="not in the vocabulary"):
        tokenizers["bpe"].tokens([wrong])


@pytest.mark.parametrize("method", METHODS)
def test_the_file_means_the_same_to_the_library_whose_format_it_is(tokenizers, method):
    from tokenizers import Tokenizer as Rust

    other = Rust.from_str(tokenizers[method].json)
    for text in SENTENCES:
        ids = tokenizers[method].encode(text)
        assert other.encode(text, add_special_tokens=False).ids == ids
        assert other.decode(ids) == text
