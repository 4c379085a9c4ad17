"""The doctor: every planted fault is found, nothing is found in clean files, and fixed files are clean."""

import gzip
import json
import random
from pathlib import Path

import pytest

from clearhead.data.examples import conversations, labelled, pairs, running_text
from clearhead.doctor import examine, fix
from clearhead.doctor.survey import corpus_of
from clearhead.errors import DataError

SHARED = Path(__file__).parents[3] / "shared" / "data"
N_PAIRS = 10_000


class Corpus:
    """Sentences of an invented language and their word by word translation, a little longer or shorter."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
        words = {self.word(syllables) for _ in range(600)}
        self.lexicon = {
            word: self.word(syllables) + self.random.choice(["", "en", "er"])
            for word in sorted(words)
        }
        self.words = list(self.lexicon)
        self.pairs = {}

    def word(self, syllables):
        return "".join(self.random.choices(syllables, k=self.random.randint(1, 3)))

    def sentence(self):
        """Few long, many middling; now and then a question; a target that drops or adds a word."""
        source = self.random.choices(self.words, k=max(4, round(self.random.gauss(12, 4))))
        target = [self.lexicon[word] for word in source if self.random.random() > 0.06]
        target += self.random.choices(list(self.lexicon.values()), k=self.random.choice([0, 0, 1]))
        end = self.random.choices([".", "?"], [8, 1])[0]
        return " ".join(source).capitalize() + end, " ".join(target).capitalize() + end

    def make(self, n_pairs):
        """Pairs of which no side comes twice."""
        found = []
        while len(found) < n_pairs:
            source, target = self.sentence()
            if source not in self.pairs and target not in self.pairs:
                self.pairs[source] = self.pairs[target] = True
                found.append((source, target))
        return found


@pytest.fixture(scope="module")
def corpus():
    maker = Corpus(1)
    return maker.make(N_PAIRS), maker.make(500)


def write(folder, name, pairs):
    paths = [folder / f"{name}.xx", folder / f"{name}.yy"]
    for side, path in enumerate(paths):
        path.write_bytes(
            b"".join(
                text if isinstance(text, bytes) else text.encode() + b"\n"
                for text in (p[side] for p in pairs)
            )
        )
    return paths


def by_name(diagnosis):
    return {finding.name: finding for finding in diagnosis.findings}


def test_a_clean_corpus_has_no_findings(tmp_path, corpus):
    train, test = corpus
    diagnosis = examine(write(tmp_path, "train", train), write(tmp_path, "test", test))
    assert diagnosis.findings == ()
    assert (diagnosis.examples, diagnosis.test_examples) == (N_PAIRS, 500)
    assert sum(diagnosis.sides[0].histogram) == N_PAIRS
    assert diagnosis.sides[0].unseen_words < 0.01


@pytest.fixture(scope="module")
def sick(tmp_path_factory, corpus):
    """The planted corpus: a shifted block, 1 % duplicates, 20 leaks, 5 invalid lines, 10 copies, 10 outliers."""
    train, test = corpus
    pairs = list(train)
    pairs[6_000:6_060] = zip(
        [s for s, _ in pairs[6_000:6_060]],
        [t for _, t in pairs[6_001:6_060]] + [pairs[6_000][1]],
        strict=True,
    )
    for n in range(N_PAIRS // 100):
        pairs[9_000 + n] = pairs[n]
    for n in range(20):
        pairs[1_000 + 10 * n] = (test[n][0].upper(), test[n][1].replace(" ", "  "))
    for n in range(5):
        pairs[2_000 + 10 * n] = (
            pairs[2_000 + 10 * n][0],
            b"b\xe4d " + pairs[2_000 + 10 * n][1].encode() + b"\n",
        )
    for n in range(10):
        pairs[3_000 + 10 * n] = (pairs[3_000 + 10 * n][0],) * 2
        pairs[4_000 + 10 * n] = (" ".join([pairs[4_000 + 10 * n][0]] * 6), pairs[4_000 + 10 * n][1])
    folder = tmp_path_factory.mktemp("sick")
    paths = write(folder, "train", pairs), write(folder, "test", test)
    return *paths, examine(*paths)


def test_every_planted_fault_is_found_where_it_stands(sick):
    train, _, diagnosis = sick
    found = by_name(diagnosis)
    assert {
        name: finding.count for name, finding in found.items() if name != "misaligned lines"
    } == {
        "not UTF-8": 5,
        "test examples in training": 20,
        "duplicates": 100,
        "copies": 10,
        "length outliers": 10,
    }
    assert (found["not UTF-8"].path, found["not UTF-8"].line) == (str(train[1]), 2_001)
    assert found["not UTF-8"].example.startswith("b\\xe4d ")
    assert found["test examples in training"].line == 1_001
    assert found["duplicates"].line == 9_001
    assert found["copies"].line == 3_001
    assert found["length outliers"].line == 4_001
    assert abs(found["misaligned lines"].line - 6_001) <= 5
    assert abs(found["misaligned lines"].count - 60) <= 10
    assert all(finding.example and finding.advice for finding in found.values())


def test_fixed_files_are_clean_and_the_originals_untouched(sick, tmp_path):
    train, test, diagnosis = sick
    before = [path.read_bytes() for path in train]
    fixed = fix(diagnosis, tmp_path / "out")
    again = examine(fixed.paths, test)
    assert again.findings == ()
    assert again.examples == fixed.kept == N_PAIRS - sum(fixed.left_out.values())
    assert [path.read_bytes() for path in train] == before
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["train.xx", "train.yy"], (
        "no strays"
    )
    with pytest.raises(DataError, match="exists already"):
        fix(diagnosis, train[0].parent)
    with pytest.raises(DataError, match="exists already"):
        fix(diagnosis, tmp_path / "out")


@pytest.mark.parametrize("offset", [-3, -1, 1, 4])
def test_a_file_that_slips_by_some_lines_is_found_at_that_line(tmp_path, corpus, offset):
    sources, targets = map(list, zip(*corpus[0][:3_000], strict=True))
    del (targets if offset < 0 else sources)[1_500 : 1_500 + abs(offset)]
    n_pairs = min(len(sources), len(targets))
    paths = write(tmp_path, "train", list(zip(sources[:n_pairs], targets[:n_pairs], strict=True)))
    found = by_name(examine(paths))["misaligned lines"]
    assert abs(found.line - 1_501) <= 10
    assert f"{offset:+d} lines" in found.advice
    assert found.count > 1_400


def test_files_of_unequal_length_are_examined_but_not_fixed(tmp_path, corpus):
    paths = write(tmp_path, "train", corpus[0][:500])
    lines = paths[1].read_bytes().splitlines(keepends=True)
    paths[1].write_bytes(b"".join(lines[:200] + lines[202:]))
    diagnosis = examine(paths)
    found = by_name(diagnosis)
    assert (found["lines without a partner"].count, found["lines without a partner"].line) == (
        2,
        499,
    )
    assert abs(found["misaligned lines"].line - 201) <= 10
    with pytest.raises(DataError, match="unequal"):
        fix(diagnosis, tmp_path / "out")


def test_small_faults_of_a_table_are_found_and_fixed_in_the_same_format(tmp_path):
    path = tmp_path / "pairs.tsv.gz"
    good = [f"a small sentence number {n}\tein kleiner Satz Nummer {n}" for n in range(300)]
    bad = [
        "three\tcolumns\there",
        "only one",
        "\tempty source",
        " \t ",
        "это не тот язык\tein Satz auf deutsch",
        "a\u2028b cd\tein b",
    ]
    path.write_bytes(gzip.compress("\r\n".join([*good, *bad]).encode()))
    diagnosis = examine([path])
    assert {finding.name: finding.count for finding in diagnosis.findings} == {
        "broken records": 2,
        "one side empty": 1,
        "empty lines": 1,
        "wrong script": 1,
        "line ends of other tools": 1,
    }
    assert "CR" in diagnosis.notes[str(path)][0]
    fixed = fix(diagnosis, tmp_path / "out")
    written = gzip.decompress((tmp_path / "out" / "pairs.tsv.gz").read_bytes()).decode()
    assert written == "\n".join([*good, "a b cd\tein b"]) + "\n"
    assert fixed.kept == 301


def test_labels_that_contradict_each_other_are_found(tmp_path):
    path = tmp_path / "labels.tsv"
    path.write_text(
        "".join(
            f"{'good' if n % 2 else 'bad'}\tthe film number {n} was shown\n" for n in range(100)
        )
        + "bad\tThe film number 1 was shown\n"
    )
    diagnosis = examine([path])
    assert diagnosis.kind == "labelled"
    assert diagnosis.labels == {"bad": 51, "good": 50}
    assert [(finding.name, finding.count, finding.line) for finding in diagnosis.findings] == [
        ("contradicting labels", 1, 101)
    ]


def test_csv_and_jsonl_keep_their_header_and_records(tmp_path):
    table, lines = tmp_path / "t.csv", tmp_path / "t.jsonl"
    table.write_text(
        'source,target\n"a ""quoted"" text","ein\nText"\nsame text here,same text here\n'
    )
    lines.write_text(
        "".join(
            json.dumps({"src": s, "tgt": t, "id": 1}) + "\n"
            for s, t in (("one day", "ein Tag"), ("", "leer"))
        )
    )
    for path in (table, lines):
        fix(examine([path]), tmp_path / "out")
        assert (tmp_path / "out" / path.name).read_text() == "".join(
            path.read_text().splitlines(keepends=True)[: 3 if path is table else 1]
        )


def test_empty_lines_of_running_text_are_no_fault(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("A first paragraph.\n\nA second one.\n\n")
    diagnosis = examine([path])
    assert [(finding.name, finding.severity) for finding in diagnosis.findings] == [
        ("empty lines", "note")
    ]
    fix(diagnosis, tmp_path / "out")
    assert (tmp_path / "out" / "book.txt").read_text() == path.read_text()


def test_a_diagnosis_is_json_for_programs(sick):
    values = json.loads(json.dumps(sick[2].as_dict()))
    assert values["examples"] == N_PAIRS
    assert {"name", "severity", "count", "path", "line", "example", "advice"} == set(
        values["findings"][0]
    )


def test_progress_reaches_the_end(tmp_path, corpus):
    heard = []
    paths = write(tmp_path, "train", corpus[0])
    examine(paths, progress=lambda _, done, size: heard.append((done, size)))
    assert heard == sorted(heard)
    assert {size for _, size in heard} == {sum(path.stat().st_size for path in paths)}
    assert heard[-1][0] <= heard[-1][1]


def test_empty_files_are_refused(tmp_path):
    (tmp_path / "a.tsv").touch()
    with pytest.raises(DataError, match="empty"):
        examine([tmp_path / "a.tsv"])


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here")
def test_real_corpora_raise_no_false_alarm_of_misalignment():
    captions = [SHARED / "multi30k" / f"val.{language}.gz" for language in ("en", "de")]
    for paths in (
        captions,
        [SHARED / "tatoeba" / "val.en-fr.tsv.gz"],
        [SHARED / "tatoeba" / "val.en-de.tsv.gz"],
    ):
        assert "misaligned lines" not in by_name(examine(paths))


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("t.tsv", "one day\tein Tag\ntwo days\tzwei Tage\n", "pairs"),
        ("t.csv", 'target,source\n"ein\nTag",one day\nzwei,two\n', "pairs"),
        ("t.jsonl", '{"text": "fine", "label": ["good", 1]}\n', "labelled"),
        ("t.jsonl", '{"turns": ["Hi", "Hello!", "Bye"]}\n{"turns": ["So", ""]}\n', "conversations"),
        ("t.txt", "one\n\ntwo\n", "text"),
    ],
)
def test_the_doctor_sees_the_examples_that_training_reads(tmp_path, name, text, kind):
    path = tmp_path / name
    path.write_text(text)
    reads = {"pairs": pairs, "labelled": labelled, "text": running_text}
    read = (reads | {"conversations": conversations})[kind]
    assert examine([path]).kind == kind
    rows = corpus_of([str(path)], kind).rows()
    assert [row.example for row in rows if not row.is_header] == list(read(path))


def test_what_training_refuses_the_doctor_marks_as_a_fault_and_reads_on(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("a\tb\nbroken\nc\td\n")
    rows = list(corpus_of([str(path)], "pairs").rows())
    assert [row.fault is not None for row in rows] == [False, True, False]
    with pytest.raises(DataError, match=str(rows[1].fault())):
        list(pairs(path))


def test_columns_are_read_as_training_reads_them_also_when_fixed(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("1\tone day\tein Tag\n2\tone day\tein Tag\n3\ttwo\tzwei\n3\ttwo\n")
    diagnosis = examine([path], columns=("2", "3"))
    found = {finding.name: finding.count for finding in diagnosis.findings}
    assert found["duplicates"] == found["broken records"] == 1
    fixed = fix(diagnosis, tmp_path / "out")
    assert fixed.kept == 2
    assert (tmp_path / "out" / "t.tsv").read_text() == "1\tone day\tein Tag\n3\ttwo\tzwei\n"


def test_a_file_of_nothing_but_faults_is_not_fixed_into_an_empty_one(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("a\tb\n" + "a\tb\tc\n" * 3)
    diagnosis = examine([path])
    fix(diagnosis, tmp_path / "out")  # one is good
    path.write_text("a\t\nb\t\n")
    with pytest.raises(DataError, match="nothing would be left"):
        fix(examine([path]), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_files_of_unequal_length_are_not_offered_a_fix(tmp_path):
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.de").write_text("eins\n")
    diagnosis = examine([tmp_path / "a.en", tmp_path / "a.de"])
    assert not diagnosis.can_be_fixed
