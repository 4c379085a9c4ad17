"""Foreign tokenizers cut text as their own programs do, and come out of a run as they went in."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.exchange.foreign import read_lexicon
from clearhead.exchange.hugging_face import source_in
from clearhead.text import UNKNOWN, Tokenizer
from clearhead.text.sentencepiece import SentencePiece

LETTERS = st.sampled_from(
    "aeinrst ABÄé,.!?'\"()0123\t\n▁½ﬁ①東京か\u0301\u3099\u00ad\u200b\u3000한ﾊﾟ😀"
)
TEXTS = st.lists(
    LETTERS | st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30
).map("".join)
KINDS = {
    "BERT": ("BertForMaskedLM", {}),
    "BERT with capitals": ("BertForMaskedLM", {"lower": False, "hidden_act": "gelu_new"}),
    "GPT-2": ("GPT2LMHeadModel", {}),
}
many = settings(max_examples=150, deadline=None)


@pytest.fixture(scope="module", params=KINDS)
def pair(request, foreign):
    """A tokenizer as transformers has it, and ours of the same files."""
    import transformers

    kind, changes = KINDS[request.param]
    _, folder = foreign(kind, **changes)
    return transformers.AutoTokenizer.from_pretrained(folder), read_lexicon(
        folder, source_in(folder).kind
    )


@given(TEXTS)
@many
def test_ids_are_those_of_transformers(pair, text):
    theirs, lexicon = pair
    ours = [lexicon.orders[0].ids[number] for number in lexicon.tokenizers[0].encode(text)]
    assert ours == theirs(text, add_special_tokens=False).input_ids


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def pieces(request, foreign):
    """A SentencePiece model as its own program has it, and our tokenizer for a model's list of tokens."""
    import sentencepiece

    changes = {} if request.param == "unigram" else {"pieces": "bpe", "activation_function": "relu"}
    _, folder = foreign("MarianMTModel", **changes)
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    return model, read_lexicon(folder, "marian").tokenizers[0]


@given(TEXTS)
@many
def test_pieces_are_those_of_sentencepiece(pieces, text):
    model, tokenizer = pieces
    names = {name: number for number, name in enumerate(tokenizer.vocabulary.names)}
    found = model.encode(text, out_type=str)
    assert tokenizer.encode(text) == [names.get(piece, UNKNOWN) for piece in found]


@pytest.mark.parametrize("text", ["</s>", "a<s>b", "<unk> <mask>", "<pad><user> x"])
def test_text_that_looks_like_a_special_token_is_text(pieces, text):
    model, tokenizer = pieces
    names = {name: number for number, name in enumerate(tokenizer.vocabulary.learned)}
    first = len(tokenizer.vocabulary.specials)
    found = [
        names.get(piece, UNKNOWN - first) + first for piece in model.encode(text, out_type=str)
    ]
    assert tokenizer.encode(text) == found


def test_a_target_without_a_model_of_its_own_is_cut_by_the_ranks_of_its_tokens(foreign):
    _, folder = foreign("MarianMTModel")
    source = SentencePiece.read((folder / "source.spm").read_bytes())
    tokens = ["▁dogs", "▁hunde", "s", "▁", "h", "u", "n", "d", "e", "▁schlafen"]
    target = Tokenizer(source.for_target(tokens).vocabulary(tokens))
    assert target.tokens(target.encode("hunde schlafen")) == ["▁hunde", "▁schlafen"]
    assert target.tokens(target.encode("hund")) == ["▁", "h", "u", "n", "d"]
    known = list(source.pieces)
    assert source.for_target(known) is source


@given(TEXTS)
@many
def test_text_is_normalised_as_by_sentencepiece(pieces, text):
    model, tokenizer = pieces
    expected = model.normalize(text).replace("▁", " ").removeprefix(" ")
    assert tokenizer.normalise(text).replace("▁", " ") == expected


def test_a_foreign_tokenizer_is_read_from_a_run_as_it_was_written(pair, pieces):
    for tokenizer in (pair[1].tokenizers[0], pieces[1]):
        again = Tokenizer.from_json(tokenizer.json)
        assert again.vocabulary == tokenizer.vocabulary
        assert again.fingerprint == tokenizer.fingerprint


@given(st.text("abcdefghijklmnopqrstuvwxyz \n.,", max_size=30))
@many
def test_gpt2_gives_text_back(foreign, text):
    _, folder = foreign("GPT2LMHeadModel")
    tokenizer = read_lexicon(folder, "gpt2").tokenizers[0]
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_words_come_back_with_spaces_between_them(foreign):
    bert = read_lexicon(foreign("BertForMaskedLM")[1], "bert").tokenizers[0]
    assert bert.decode(bert.encode("A man, sleeping.")) == "a man , sleeping ."
    assert bert.reading([9]) == [bert.start, 9, bert.end]
    marian = read_lexicon(foreign("MarianMTModel")[1], "marian").tokenizers[0]
    assert marian.decode(marian.encode("a man  sleeps")) == "a man sleeps"
    assert marian.reading([9]) == [9, marian.end]
