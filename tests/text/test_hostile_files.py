import json
import random
import time

import pytest

from clearhead.errors import TokenizerError
from clearhead.text import Tokenizer

from .conftest import METHODS, SENTENCES

JUNK = [
    None, True, False, 0, 1, -1, 1.0, 1e400, 2**70, "", "a", " ", "</s>", "<0x41>", "\ud800", "(a+)+$",
    [], {}, [[]], ["a", "b"], [["a", "b"]], {"type": "BPE"},
]  # fmt: skip

NAMES = ["<pad>", "<s>", "</s>", "<unk>", "<mask>", "<user>", "<bot>", "<2de>", "<2pt-BR>"]
SPECIAL = '"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true'
EARLIER = (
    '{"version":"1.0","truncation":null,"padding":null,"added_tokens":['
    + ",".join(f'{{"id":{n},"content":"{name}",{SPECIAL}}}' for n, name in enumerate(NAMES))
    + '],"normalizer":null,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"[\\\\s\\\\S]"},'
    '"behavior":"Isolated","invert":false},"post_processor":null,'
    '"decoder":{"type":"Sequence","decoders":[{"type":"Fuse"}]},"model":{"type":"WordLevel","vocab":{'
    + ",".join(f'"{name}":{n}' for n, name in enumerate([*NAMES, "a", "b", " "]))
    + '},"unk_token":"<unk>"}}'
)
"""What an earlier version wrote when tags of languages were asked for."""
FINGERPRINT = "2105c57c13be1b0e34db704a33c36528dab0f0f611710dde32b1cfad7968a2c9"


def places(node, path=()):
    """Every place in a JSON tree, only a few of each long list or object."""
    yield path
    children = list(
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, child in children[:12] + children[12:][-12:]:
        yield from places(child, (*path, key))


def mutated(text: str, rng: random.Random) -> str:
    """The file with one thing in it wrong."""
    if rng.random() < 0.3:
        start, end = sorted(rng.randrange(len(text)) for _ in range(2))
        return rng.choice(
            [
                text[:start],
                text[:start] + text[end:],
                text[:start] + rng.choice('"{}[],:\\0é') + text[start + 1 :],
            ]
        )
    document = json.loads(text)
    *above, key = rng.choice([path for path in places(document) if path])
    node = document
    for step in above:
        node = node[step]
    if isinstance(node, list) or rng.random() < 0.6:
        node[key] = rng.choice(JUNK)
    elif rng.random() < 0.5:
        del node[key]
    else:
        node[rng.choice(["extra", "</s", "truncation", "x" * 70])] = node.pop(key)
    return json.dumps(document)


@pytest.mark.promise(12, "60 changed tokenizers of each method")
@pytest.mark.parametrize("method", METHODS)
def test_mutated_files_are_refused_or_work(tokenizers, method):
    text, rng = tokenizers[method].json, random.Random(method)
    lines = []
    for _ in range(60):
        hostile = mutated(text, rng)
        began = time.perf_counter()
        try:
            tokenizer = Tokenizer.from_json(hostile)
            for sentence in [*SENTENCES, "</s><0x41> \u2028", "a" * 5000]:
                tokenizer.decode(tokenizer.encode(sentence))
        except TokenizerError as error:
            lines.append(error.whole.count("\n") + 1)
        assert time.perf_counter() - began < 2
    assert len(lines) > 30
    assert max(lines) <= 3


def changed(tokenizer: Tokenizer, change) -> str:
    document = json.loads(tokenizer.json)
    change(document)
    return json.dumps(document)


ATTACKS = {
    "a regular expression that never ends": lambda d: d["pre_tokenizer"]["pattern"].update(
        Regex="(a+)+$"
    ),
    "a truncation": lambda d: d.update(
        truncation={"max_length": 0, "strategy": "LongestFirst", "stride": 0}
    ),
    "a padding": lambda d: d.update(padding={"strategy": {"Fixed": 10**12}}),
    "a normalizer": lambda d: d.update(
        normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    ),
    "a template": lambda d: d.update(post_processor={"type": "TemplateProcessing"}),
    "a merge of nothing": lambda d: d["model"]["merges"].append(["qq", "zz"]),
    "a merge into a special token": lambda d: d["model"]["merges"].append(["</s", ">"]),
    "a merge twice": lambda d: d["model"]["merges"].append(d["model"]["merges"][0]),
    "an id far away": lambda d: d["model"]["vocab"].update(q=2**31),
    "an id twice": lambda d: d["model"]["vocab"].update(qq=5),
    "an id that is true": lambda d: d["model"]["vocab"].update({"<s>": True}),
    "a special token moved": lambda d: d["model"]["vocab"].update({"<s>": 2, "</s>": 1}),
    "a byte token moved": lambda d: d["model"]["vocab"].update({"<0x41>": 75, "<0x42>": 74}),
    "a token that is no text": lambda d: d["model"]["vocab"].update(
        {"\ud800": len(d["model"]["vocab"])}
    ),
    "a token without end": lambda d: d["model"]["vocab"].update(
        {"x" * 10_000: len(d["model"]["vocab"])}
    ),
    "a special token that is not special": lambda d: d["added_tokens"][2].update(special=False),
    "a special token more": lambda d: d["added_tokens"].append(
        {**d["added_tokens"][0], "id": 999, "content": "a"}
    ),
    "a vocabulary of another kind": lambda d: d["model"].update(
        vocab=[[t, 0.0] for t in d["model"]["vocab"]]
    ),
    "dropout": lambda d: d["model"].update(dropout=0.5),
    "an unknown key": lambda d: d.update(chat_template="{{ loop }}"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_file_with_what_we_never_write_is_refused(tokenizers, attack):
    with pytest.raises(TokenizerError):
        Tokenizer.from_json(changed(tokenizers["bpe"], ATTACKS[attack]))


@pytest.mark.parametrize("score", [float("nan"), float("inf"), 1.0, -1, "0", None, True])
def test_scores_that_are_no_log_probabilities_are_refused(tokenizers, score):
    with pytest.raises(TokenizerError):
        Tokenizer.from_json(
            changed(tokenizers["unigram"], lambda d: d["model"]["vocab"][-1].__setitem__(1, score))
        )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "NaN",
        "1" * 5000,
        "[" * 100_000,
        '{"a":' * 100_000,
        b"\xff\xfe",
        b"\x00" * 100,
    ],
)
def test_what_is_no_tokenizer_is_refused(text):
    with pytest.raises(TokenizerError):
        Tokenizer.from_json(text)


def test_pieces_without_scores_are_refused(tokenizers):
    def unscored(document):
        document["model"]["vocab"] = {
            token: n for n, (token, _) in enumerate(document["model"]["vocab"])
        }

    with pytest.raises(TokenizerError, match="another kind"):
        Tokenizer.from_json(changed(tokenizers["unigram"], unscored))


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_tokenizer_loads_as_itself(tokenizers, method):
    tokenizer = tokenizers[method]
    for text in (tokenizer.json, tokenizer.json.encode()):
        again = Tokenizer.from_json(text)
        assert (again.fingerprint, again.vocabulary) == (
            tokenizer.fingerprint,
            tokenizer.vocabulary,
        )
        assert again.encode_batch(SENTENCES) == tokenizer.encode_batch(SENTENCES)


def test_a_file_of_an_earlier_version_with_tags_of_languages_keeps_its_fingerprint():
    tokenizer = Tokenizer.from_json(EARLIER)
    assert tokenizer.json == EARLIER
    assert tokenizer.fingerprint == FINGERPRINT
    assert tokenizer.tokens(range(7, 12)) == ["<2de>", "<2pt-BR>", "a", "b", "▁"]
    assert tokenizer.encode("ab ") == [9, 10, 11]


@pytest.mark.parametrize("method", METHODS)
def test_a_file_is_written_anew_once_as_it_is_read(tokenizers, method, monkeypatch):
    text, written = tokenizers[method].json, []
    plain = json.dumps
    monkeypatch.setattr(
        json, "dumps", lambda *args, **kw: (written.append(1), plain(*args, **kw))[1]
    )
    assert Tokenizer.from_json(text).fingerprint == tokenizers[method].fingerprint
    assert len(written) == 1


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_keys_does_not_change_the_fingerprint(tokenizers, method):
    shuffled = json.dumps(json.loads(tokenizers[method].json), sort_keys=True, indent=2)
    assert Tokenizer.from_json(shuffled).fingerprint == tokenizers[method].fingerprint


def test_a_file_that_is_too_large_is_refused_before_it_is_parsed():
    with pytest.raises(TokenizerError, match="at most"):
        Tokenizer.from_json(bytes(33 * 2**20))


def test_a_panic_becomes_an_error(tokenizers, monkeypatch):
    class PanicException(BaseException):
        pass

    class Broken:
        def encode_batch_fast(self, texts, add_special_tokens):
            raise PanicException("index out of bounds")

    monkeypatch.setattr(tokenizers["bpe"], "rust", Broken())
    with pytest.raises(TokenizerError, match="index out of bounds"):
        tokenizers["bpe"].encode("a")


@pytest.mark.parametrize("method", ["bpe", "bytes", "unigram"])
@pytest.mark.parametrize("character", ["a", " ", "-", "漢"])
def test_a_long_line_of_one_character_takes_no_time(tokenizers, method, character):
    began = time.perf_counter()
    assert (
        tokenizers[method].decode(tokenizers[method].encode(character * 100_000))
        == character * 100_000
    )
    assert time.perf_counter() - began < 5
