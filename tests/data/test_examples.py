"""Examples: the files people have, opened without options, and refused where something would be lost."""

import csv
import gzip
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data.examples import (
    Conversation,
    LabelledText,
    Pair,
    conversations,
    labelled,
    pairs,
    running_text,
)
from clearhead.errors import DataError

SHARED = Path(__file__).parents[3] / "shared" / "data"


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def refusal(examples):
    with pytest.raises(DataError) as told:
        list(examples)
    assert len(told.value.whole.splitlines()) <= 3
    return told.value.whole


ROWS = [Pair("a b", "A, B"), Pair('say "x"', "ü\u2028"), Pair("", "")]


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_every_format_holds_the_same_pairs(tmp_path, packed):
    write(tmp_path / f"t.en{packed}", "".join(f"{row.source}\n" for row in ROWS))
    write(tmp_path / f"t.de{packed}", "".join(f"{row.target}\n" for row in ROWS))
    write(tmp_path / f"t.tsv{packed}", "".join(f"{a}\t{b}\n" for a, b in ROWS))
    quoted = "".join(
        '"{}","{}"\r\n'.format(*(cell.replace('"', '""') for cell in row)) for row in ROWS
    )
    write(tmp_path / f"t.csv{packed}", quoted)
    write(
        tmp_path / f"named.csv{packed}",
        "id,target,source\n"
        + "".join(
            '1,"{}","{}"\n'.format(*(cell.replace('"', '""') for cell in row[::-1])) for row in ROWS
        ),
    )
    write(
        tmp_path / f"t.jsonl{packed}",
        "".join(json.dumps({"src": a, "tgt": b}) + "\n" for a, b in ROWS),
    )
    write(
        tmp_path / f"hf.jsonl{packed}",
        "".join(json.dumps({"translation": {"en": a, "de": b}}) + "\n" for a, b in ROWS),
    )
    for names in (["t.en", "t.de"], ["t.tsv"], ["t.csv"], ["named.csv"], ["t.jsonl"], ["hf.jsonl"]):
        source = pairs(*(tmp_path / f"{name}{packed}" for name in names))
        assert list(source) == ROWS, names
        assert list(source) == ROWS, "a second pass"


def test_several_parallel_files_go_by_their_endings(tmp_path):
    for name in ("a.en", "b.en", "a.de", "b.de"):
        write(tmp_path / name, f"{name}\n")
    found = list(pairs(*(tmp_path / name for name in ("a.en", "b.en", "a.de", "b.de"))))
    assert found == [("a.en", "a.de"), ("b.en", "b.de")]
    with pytest.raises(DataError, match="two parallel files"):
        pairs(tmp_path / "a.en")


def test_unequal_files_are_refused_with_both_counts_and_a_hint(tmp_path):
    lengths = [3 + 7 * n % 40 for n in range(500)]
    write(tmp_path / "t.en", "".join("x" * n + "\n" for n in lengths))
    write(
        tmp_path / "t.de",
        "".join("y" * n + ("\n" if row != 200 else "\u2028") for row, n in enumerate(lengths)),
    )
    told = refusal(pairs(tmp_path / "t.en", tmp_path / "t.de"))
    assert "has 500 lines" in told
    assert "499" in told
    assert "holds 1 characters (CR, U+2028" in told
    assert "`clearhead doctor` tells at which line" in told


def test_a_wrong_number_of_columns_is_refused_with_its_line(tmp_path):
    path = write(tmp_path / "t.tsv", "a\tb\nc\td\te\n")
    assert f"{path}:2: expected 2 columns, found 3: c\\td\\te" in refusal(pairs(path))
    assert f"{path}:1:" in refusal(pairs(write(path, "alone\n")))


TABLE = [("Go.", "Geh."), ("Wait!", "Warte!")]


@pytest.mark.parametrize(
    ("name", "lines", "columns"),
    [
        ("t.csv", ["English,German", "Go.,Geh.", "Wait!,Warte!"], ()),
        ("t.tsv", ["en\tde", "Go.\tGeh.", "Wait!\tWarte!"], ()),
        ("t.tsv", ["source\ttarget", "Go.\tGeh.", "Wait!\tWarte!"], ()),
        ("t.csv", ["id,german,english", "7,Geh.,Go.", "8,Warte!,Wait!"], ("english", "German")),
        ("t.csv", ["id,german,english", "7,Geh.,Go.", "8,Warte!,Wait!"], ("3", "2")),
        ("t.tsv", ["7\tGo.\t9\tGeh.", "8\tWait!\t10\tWarte!"], ()),
        (
            "t.tsv",
            ["Go.\tGeh.\tCC-BY 2.0 (France) Attribution: a", "Wait!\tWarte!\tCC-BY 2.0: b"],
            (),
        ),
        ("t.tsv", ["Geh.\tx\tGo.", "Warte!\ty\tWait!"], ("3", "1")),
        ("t.jsonl", ['{"a": "Go.", "b": "Geh.", "c": ""}', '{"a": "Wait!", "b": "Warte!"}'], "ab"),
    ],
)
def test_tables_as_people_have_them_are_read_by_header_place_or_columns_asked_for(
    tmp_path, name, lines, columns
):
    path = tmp_path / name
    path.write_text("".join(f"{line}\n" for line in lines))
    assert list(pairs(path, columns=tuple(columns))) == TABLE


@pytest.mark.parametrize(
    ("first", "columns", "said"),
    [
        ("a\tb\tc", (), "expected 2 columns, found 3: a\\tb\\tc"),
        ("a\tb\tc", ("1", "4"), "columns 1, 4 cannot be taken out of 3 columns."),
        ("a\tb\tc", ("1",), "columns 1 cannot be taken out of 3 columns."),
        ("a\tb\tc", ("x", "b"), "no column is called x: the first line is a\\tb\\tc"),
        ("a\tb\tc", ("0", "1"), "columns 0, 1 cannot be taken out of 3 columns."),
    ],
)
def test_columns_that_are_not_there_are_refused_with_what_there_is(tmp_path, first, columns, said):
    path = tmp_path / "t.tsv"
    path.write_text(f"{first}\n")
    with pytest.raises(DataError) as error:
        list(pairs(path, columns=columns))
    assert str(error.value) == f"{path}:1: {said}"
    assert "--columns" in error.value.advice or "numbers from 1 to 3" in error.value.advice


def test_columns_of_labelled_texts_are_the_text_and_then_the_label(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("n,Mood,Review\n1,good,So lovely\n2,bad,So dull\n")
    found = [LabelledText("So lovely", ("good",)), LabelledText("So dull", ("bad",))]
    assert list(labelled(path, columns=("review", "mood"))) == found


def test_bad_csv_and_json_are_refused_with_their_line(tmp_path):
    path = write(tmp_path / "t.csv", 'a,b\nc,"d\ne,f\n')
    assert f"{path}:2: a quote" in refusal(pairs(path))
    assert f"{path}:2: not CSV" in refusal(pairs(write(path, 'a,b\nc,"d"x\n')))
    path = write(tmp_path / "t.jsonl", '{"source":"a","target":"b"}\n{"source":"a"}\n')
    assert f"{path}:2: no field target" in refusal(pairs(path))
    for line in (
        "[1]",
        "{",
        '{"source":1,"target":"b"}',
        '{"source":"\\ud800","target":"b"}',
        "[" * 100_000,
    ):
        assert f"{path}:2:" in refusal(
            pairs(write(path, '{"source":"a","target":"b"}\n' + line + "\n"))
        )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\ufeff")),
            st.text('ab",\n'),
        )
    )
)
def test_csv_keeps_quotes_commas_and_newlines_in_fields(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(
            [("source", "target"), *rows]
        )
    if rows:
        assert list(pairs(path)) == rows
    else:
        refusal(pairs(path))


def test_fields_that_could_be_several_are_asked_for(tmp_path):
    path = write(tmp_path / "t.jsonl", '{"x":"hello","y":"hallo","z":"no"}\n')
    assert "which fields are meant? Found x, y, z." in refusal(pairs(path))


def test_labels_come_first_in_a_table_and_may_be_several(tmp_path):
    path = write(tmp_path / "t.tsv", "joy,love\tso happy\n3\tgood, really\nDoe, John\tname\n")
    assert list(labelled(path)) == [
        LabelledText("so happy", ("joy", "love")),
        LabelledText("good, really", ("3",)),
        LabelledText("name", ("Doe, John",)),
    ]
    path = write(tmp_path / "t.jsonl", '{"text":"a","label":1}\n{"text":"b","label":["x","y"]}\n')
    assert list(labelled(path)) == [("a", ("1",)), ("b", ("x", "y"))]
    path = write(tmp_path / "t.csv", 'review,sentiment\n"two\nlines",bad\n')
    assert list(labelled(path)) == [("two\nlines", ("bad",))]


def test_conversations_come_as_turns_messages_or_pairs(tmp_path):
    path = write(tmp_path / "t.jsonl", '{"id":1,"turns":["a","b","c"]}\n')
    assert list(conversations(path)) == [Conversation(("a", "b", "c"))]
    messages = [
        {"role": "system", "content": "be"},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
    ]
    write(path, json.dumps({"messages": messages}) + "\n")
    assert list(conversations(path)) == [Conversation(("be\na", "b"))]
    write(path, '{"question":"q","answer":"a"}\n')
    assert list(conversations(path)) == [Conversation(("q", "a"))]
    assert list(conversations(write(tmp_path / "t.tsv", "q\ta\n"))) == [Conversation(("q", "a"))]


def test_running_text_is_every_line_even_empty_ones(tmp_path):
    write(tmp_path / "a.txt", "one\n\n\ttwo\n")
    write(tmp_path / "b.txt", "three")
    assert list(running_text(tmp_path)) == ["one", "", "\ttwo", "three"]
    assert list(running_text(write(tmp_path / "c.jsonl", '{"text":"x\\ny"}\n'))) == ["x\ny"]


def test_no_examples_at_all_is_an_error(tmp_path):
    write(tmp_path / "a.en", "")
    write(tmp_path / "a.de", "")
    write(tmp_path / "a.tsv", "")
    refusal(pairs(tmp_path / "a.en", tmp_path / "a.de"))
    refusal(labelled(tmp_path / "a.tsv"))
    refusal(running_text(tmp_path / "a.en"))


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here")
def test_real_files_open_without_options():
    for path in sorted((SHARED / "classification").glob("*.gz")):
        assert all(
            example.labels and example.text for example in itertools.islice(labelled(path), 500)
        ), path
    assert any(
        len(example.labels) > 1
        for example in labelled(SHARED / "classification" / "goemotions.val.tsv.gz")
    )
    for path in sorted((SHARED / "dialogue").glob("*.gz")):
        assert all(
            len(example.turns) >= 2 for example in itertools.islice(conversations(path), 200)
        ), path
    for path in sorted(SHARED.glob("*/[tv]*.en-??.tsv.gz")):
        assert all(len(pair) == 2 for pair in itertools.islice(pairs(path), 200)), path
    captions = SHARED / "multi30k"
    assert sum(1 for _ in pairs(captions / "val.en.gz", captions / "val.de.gz")) == 1_014
