"""The examples of a run: held out by their numbers, read as often as needed, and none lost in silence."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config import Config, DataConfig, Given, TokenizerConfig
from clearhead.data.examples import Pair
from clearhead.data.lines import Lines
from clearhead.data.order import mix
from clearhead.errors import ConfigError, DataError
from clearhead.folder import RunFolder
from clearhead.tasks import TASKS
from clearhead.tasks.corpus import Corpus, HeldOut, Sample
from clearhead.tasks.fit import fit
from clearhead.tasks.runs import card
from clearhead.text import Tokenizer
from clearhead.training import Note, Saved, StepReport

SMALL = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
TRAIN = {"max_steps": 4, "save_every": 2, "validate_every": 2}
PAIRS = [Pair(f"a {n}", f"b {n}") for n in range(9_000)]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "clearhead"


def split(examples, data):
    held_out = HeldOut(data)
    assert list(held_out.watched(examples)) == examples
    numbers, validation = held_out.chosen()
    return [e for n, e in enumerate(examples) if n not in numbers], validation


@given(
    n_examples=st.integers(20, len(PAIRS)),
    share=st.floats(0.001, 0.5),
    limit=st.integers(1, 4_000),
)
def test_one_pass_holds_out_those_that_a_hash_of_their_number_chooses(n_examples, share, limit):
    data = DataConfig(validation_share=share, validation_limit=limit)
    training, validation = split(PAIRS[:n_examples], data)
    wanted = min(max(share, 1.5 / n_examples), limit / n_examples)
    chosen = mix(np.arange(n_examples)) < np.uint64(wanted * 2**64)
    if chosen.any():
        assert validation == [PAIRS[n] for n in np.flatnonzero(chosen)]
    assert sorted(training + validation) == sorted(PAIRS[:n_examples])


@given(n_lines=st.integers(2, 5_000), share=st.floats(0, 0.5), limit=st.integers(1, 3_000))
def test_of_running_text_the_end_is_held_out(n_lines, share, limit):
    lines = [f"line {n}" for n in range(n_lines)]
    data = DataConfig(validation_share=share, validation_limit=limit)
    training, validation = split(lines, data)
    assert training + validation == lines
    assert 1 <= len(validation) <= max(1, limit)


@pytest.mark.parametrize("n_examples", range(2, 12))
def test_however_few_there_are_something_is_left_to_learn_and_to_judge_by(n_examples):
    for examples in (PAIRS[:n_examples], [pair.source for pair in PAIRS[:n_examples]]):
        training, validation = split(examples, DataConfig())
        assert training
        assert validation


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def given_of(path: Path, **data) -> Given:
    return {
        "model": SMALL,
        "tokenizer": {"vocab_size": 512},
        "data": {"files": [str(path)], "batch_tokens": 256, "window": 16, **data},
        "train": TRAIN,
    }


@pytest.mark.parametrize(
    ("name", "text", "task"),
    [
        ("book.txt", "a book without newlines " * 20, "writing"),
        ("t.tsv", "a b\tc d\n", "translation"),
    ],
)
def test_a_single_line_is_refused_with_what_to_do(tmp_path, name, text, task):
    given = given_of(write(tmp_path / name, text))
    with pytest.raises(DataError, match="two are needed") as told:
        list(fit(TASKS[task], given, tmp_path / "run"))
    assert "validate" in told.value.advice


def test_two_lines_of_text_are_enough(tmp_path):
    path = write(tmp_path / "book.txt", "a first line of some length\nand a second one\n")
    reports = list(fit(TASKS["writing"], given_of(path), tmp_path / "run"))
    assert reports[-1].scores


@pytest.fixture
def n_passes(monkeypatch):
    """How often each file is read from its beginning to its end."""
    passes, blocks = Counter(), Lines.blocks

    def counted(self):
        yield from blocks(self)
        passes.update(Path(path).name for path in self.paths)

    monkeypatch.setattr(Lines, "blocks", counted)
    return passes


FILES = {
    "translation": ("t.tsv", "".join(f"a {n} b\tc {n} d\n" for n in range(60))),
    "chat": ("t.jsonl", "".join(json.dumps({"turns": ["a", f"{n}"]}) + "\n" for n in range(60))),
    "writing": ("t.txt", "".join(f"line {n}\n" for n in range(60))),
    "classification": ("l.tsv", "".join(f"{n % 2}\ttext {n % 7} here\n" for n in range(60))),
}


@pytest.mark.parametrize("task", FILES)
@pytest.mark.parametrize("validated", [False, True])
def test_a_new_run_reads_the_text_three_times_and_a_resumed_one_once(
    tmp_path, n_passes, task, validated
):
    name, text = FILES[task]
    data = {"validation_files": (str(write(tmp_path / f"v{name}", text)),)} if validated else {}
    given = given_of(write(tmp_path / name, text), **data)
    reports = fit(TASKS[task], given, tmp_path / "run")
    for report in reports:
        if isinstance(report, StepReport):
            break
    reports.close()
    assert n_passes[name] <= 3
    assert n_passes[f"v{name}"] <= 1
    n_passes.clear()
    list(fit(TASKS[task], given, tmp_path / "run"))
    assert n_passes[name] <= (0 if validated else 1)
    assert n_passes[f"v{name}"] <= 1


def test_what_is_left_out_or_put_right_reaches_the_display_the_log_and_the_card(tmp_path):
    rows = [f"a {n}\tb {n}\r\n" for n in range(80)]
    rows += ["\tempty\r\n", "x " * 300 + "\ty\r\n"] * 3
    path = write(tmp_path / "t.tsv", "\ufeff" + "".join(rows))
    given = given_of(path, max_length=40, validation_share=0.2)
    reports = list(fit(TASKS["translation"], given, tmp_path / "run"))
    told = [each.text for each in reports if isinstance(each, Note)]
    folder = RunFolder(tmp_path / "run")
    logged = [line["text"] for line in folder.log.lines() if line["kind"] == "note"]
    for sentences in (told, logged, folder.card().splitlines()):
        text = "\n".join(sentences)
        assert "examples left out: " in text
        assert "longer than 40 tokens" in text
        assert "with an empty side" in text
        assert "t.tsv: a byte order mark at the start was stripped." in text
        assert "t.tsv: 86 lines ended in CR LF" in text


def test_validation_examples_that_are_too_long_are_left_out_and_told(tmp_path):
    train = write(tmp_path / "t.tsv", FILES["translation"][1])
    validation = write(tmp_path / "v.tsv", "a 1 b\tc 1 d\n" + "x" * 900 + "\ty\n")
    given = given_of(train, validation_files=[str(validation)], max_length=64)
    given["model"] = {**SMALL, "positions": "learned", "max_positions": 80}
    reports = list(fit(TASKS["translation"], given, tmp_path / "run"))
    told = [each.text for each in reports if isinstance(each, Note)]
    assert told == [
        "60 pairs with 240 tokens to predict are few: expect little below 100,000.",
        "Validation: 1 of 2 examples left out: 1 longer than 64 tokens.",
    ]


def name_of(path, text="a 1 b c 2 d", **data):
    tokenizer = Tokenizer.learn([text], TokenizerConfig(vocab_size=300))
    config = Config(data=DataConfig(files=(str(path),), **data))
    corpus = Corpus(TASKS["translation"], config.data, path.parent)
    return corpus.fingerprint(TASKS["translation"](config, (tokenizer, tokenizer)))


def test_a_store_is_named_by_content_tokens_and_settings_and_not_by_its_place(tmp_path):
    path = write(tmp_path / "t.tsv", FILES["translation"][1])
    others = [
        name_of(path, max_length=9),
        name_of(path, validation_share=0.5),
        name_of(path, text="other tokens, other ids"),
        name_of(path, validation_files=(str(path),)),
        name_of(write(tmp_path / "other.tsv", "a\tb\n" * 60)),
    ]
    assert name_of(path) == name_of(write(tmp_path / "copy.tsv", FILES["translation"][1]))
    assert len({name_of(path), *others}) == 6


def interrupted(path, task="translation", **data):
    """A run that was closed after its first checkpoint."""
    given, run = given_of(path, **data), path.parent / "run"
    reports = fit(TASKS[task], given, run)
    for report in reports:
        if isinstance(report, Saved):
            break
    reports.close()
    return given, run


def test_a_run_does_not_go_on_with_other_examples_and_reads_nothing_to_say_so(tmp_path, n_passes):
    path = write(tmp_path / "t.tsv", FILES["translation"][1])
    given, run = interrupted(path)
    n_passes.clear()
    write(path, FILES["translation"][1].replace("7", "8"))
    with pytest.raises(DataError, match="not those that"):
        list(fit(TASKS["translation"], given, run))
    assert not n_passes["t.tsv"]


def test_a_run_goes_on_only_with_its_own_task(tmp_path):
    given, run = interrupted(write(tmp_path / "t.tsv", FILES["translation"][1]))
    with pytest.raises(ConfigError, match="begun with task = translation"):
        list(fit(TASKS["chat"], given, run))


def test_a_run_of_an_earlier_version_goes_on(tmp_path):
    """It named its examples otherwise, and kept its plan in the log."""
    given, run = interrupted(write(tmp_path / "t.tsv", FILES["translation"][1]))
    plan = RunFolder(run).plan()
    line = {"kind": "plan", "reasons": plan.reasons, "seconds": plan.seconds, "examples": "0f" * 16}
    log = run / "metrics.jsonl"
    log.write_text(json.dumps(line) + "\n" + log.read_text())
    (run / "plan.json").unlink()
    reports = list(fit(TASKS["translation"], given, run))
    assert reports[0].reasons == plan.reasons
    assert reports[-1].scores


def test_files_that_change_while_they_are_read_are_refused(tmp_path):
    path = write(tmp_path / "t.tsv", FILES["translation"][1])
    corpus = Corpus(TASKS["translation"], DataConfig(files=(str(path),)), tmp_path)
    path.write_text(FILES["translation"][1] + "another\tline\n")
    with pytest.raises(DataError, match="changed while being read"):
        corpus.tokenizers(TokenizerConfig())


def test_a_card_can_be_written_without_a_log(tmp_path):
    path = write(tmp_path / "t.tsv", FILES["translation"][1])
    reports = list(fit(TASKS["translation"], given_of(path), tmp_path / "run"))
    folder = RunFolder(tmp_path / "run")
    folder.log.path.unlink()
    assert "in use" in card(folder, folder.config(), reports[-1])


@pytest.mark.parametrize("n_examples", [1, 7, 100, 5_000])
def test_a_sample_is_spread_evenly_and_within_its_limit(n_examples, monkeypatch):
    monkeypatch.setattr(Sample, "LIMIT", 1_000)
    sample = Sample()
    for number in range(n_examples):
        sample.add(number, 10)
    assert sample.kept == list(range(0, n_examples, sample.every))
    assert len(sample.kept) <= 101
    assert len(sample.kept) >= min(n_examples, 50)
