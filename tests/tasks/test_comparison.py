"""Comparing two systems: the same in both directions, nothing between equals, and chance told from skill."""

import itertools
import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clearhead
from clearhead import Translator, metrics
from clearhead.cli.main import main
from clearhead.errors import ClearheadError, ConfigError, DataError
from tasks.random_runs import random_folder
from tasks.small import small_config, write_reviews

REFERENCES = [f"der Hund sieht {n} Katzen im Garten" for n in range(40)]


def worse(lines: list[str], share: float, seed: int = 0) -> list[str]:
    choice = random.Random(seed)
    return [
        " ".join(word if choice.random() > share else "Quark" for word in line.split())
        for line in lines
    ]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    content = {
        "source": [f"the dog sees {n} cats in the garden" for n in range(40)],
        "reference": REFERENCES,
        "bad": worse(REFERENCES, 0.6),
        "good": worse(REFERENCES, 0.1),
    }
    for name, lines in content.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return {name: tmp_path / name for name in content}


def test_a_clearly_better_system_is_better_by_more_than_chance(files: dict[str, Path]) -> None:
    found = clearhead.compare(files["bad"], files["good"], [files["source"], files["reference"]])
    assert [score.name for score in found.scores] == ["BLEU", "chrF2", "TER"]
    for score in found.scores:
        assert (score.second > score.first) == (score.name != "TER"), "of TER less is better"
        assert score.p_value is not None
        assert score.p_value < 0.05
    assert found.differences[0].gain > 0
    assert found.names == ("bad", "good")


def test_the_scores_are_those_of_evaluation(files: dict[str, Path]) -> None:
    found = clearhead.compare(files["bad"], files["good"], [files["source"], files["reference"]])
    good = files["good"].read_text().splitlines()
    assert found.scores[0].second == pytest.approx(metrics.bleu(good, REFERENCES).value)
    assert found.scores[1].second == pytest.approx(metrics.chrf(good, REFERENCES).value)


def test_the_other_way_round_everything_is_the_other_way_round(files: dict[str, Path]) -> None:
    test = [files["source"], files["reference"]]
    there = clearhead.compare(files["bad"], files["good"], test)
    back = clearhead.compare(files["good"], files["bad"], test)
    for one, other in zip(there.scores, back.scores, strict=True):
        assert (one.first, one.second) == (other.second, other.first)
    gains = {each.number: each.gain for each in there.differences}
    assert gains == {each.number: -each.gain for each in back.differences}


def test_nothing_differs_between_a_run_and_its_own_outputs(tmp_path: Path) -> None:
    run = random_folder(tmp_path / "run", "translation", "encoder-decoder", "words")
    sources = ["the cat sees the dog .", "we eat bread", "they drink"]
    outputs = [str(each) for each in Translator.load(run).translate(sources)]
    for name, lines in (("out", outputs), ("test.en", sources), ("test.de", sources)):
        text = "".join(line.replace("\n", " ") + "\n" for line in lines)
        (tmp_path / name).write_text(text)
    found = clearhead.compare(run, tmp_path / "out", [tmp_path / "test.en", tmp_path / "test.de"])
    assert found.differences == ()
    assert all(score.first == score.second and score.p_value == 1 for score in found.scores)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=9))
def test_mcnemar_counts_the_coin_throws_that_are_as_uneven(hits: list[tuple[bool, bool]]) -> None:
    first, second = zip(*hits, strict=True)
    found = metrics.mcnemar(first, second, [True] * len(hits))
    alone = [a for a, b in hits if a != b]
    far = abs(sum(alone) - len(alone) / 2)
    throws = list(itertools.product((0, 1), repeat=len(alone)))
    as_far = sum(abs(sum(throw) - len(alone) / 2) >= far for throw in throws)
    assert found.p_value == pytest.approx(as_far / len(throws))


def test_classifiers_are_compared_by_what_each_alone_gets_right(tmp_path: Path) -> None:
    reviews = write_reviews(tmp_path / "reviews.tsv")
    run = tmp_path / "run"
    clearhead.train(reviews, into=run, task="classification", settings=small_config(reviews))
    right = [line.partition("\t")[0] for line in reviews.read_text().splitlines()]
    (tmp_path / "right").write_text("".join(f"{label}\n" for label in right))
    found = clearhead.compare(run, tmp_path / "right", [reviews])
    assert [score.name for score in found.scores] == ["accuracy"]
    assert found.scores[0].second == 100
    n_wrong = round(len(right) * (1 - found.scores[0].first / 100))
    assert len(found.differences) == n_wrong
    assert all(each.gain == 100 and each.second == each.right for each in found.differences)


def test_writers_are_compared_by_bits_per_byte(tmp_path: Path) -> None:
    test = tmp_path / "test.txt"
    test.write_text("the cat sees the dog\n" * 3)
    runs = [
        random_folder(tmp_path / method, "writing", "decoder", method, window=32)
        for method in ("bpe", "bytes")
    ]
    found = clearhead.compare(*runs, [test])
    assert [score.name for score in found.scores] == ["bits per byte"]
    assert found.scores[0].first == clearhead.evaluate(runs[0], [test]).scores["bits_per_byte"]
    assert found.scores[0].p_value is None


def test_what_cannot_be_compared_is_refused(files: dict[str, Path], tmp_path: Path) -> None:
    translator = random_folder(tmp_path / "a", "translation", "encoder-decoder")
    writer = random_folder(tmp_path / "b", "writing", "decoder")
    test = [files["source"], files["reference"]]
    with pytest.raises(ConfigError, match="different tasks"):
        clearhead.compare(translator, writer, test)
    with pytest.raises(ConfigError, match="cannot be compared for writing"):
        clearhead.compare(writer, files["good"], test)
    (tmp_path / "short").write_text("one line\n")
    with pytest.raises(DataError, match=r"short has 1 lines, and the test set 40"):
        clearhead.compare(tmp_path / "short", files["good"], test)
    with pytest.raises(ClearheadError):
        clearhead.compare(tmp_path / "missing", files["good"], test)


def test_the_command_tells_people_and_programs_and_writes_a_page(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = files["good"].read_text().replace("Quark", "<script>alert(1)</script>")
    files["good"].write_text(lines)
    named = [str(files[name]) for name in ("bad", "good", "source", "reference")]
    page = tmp_path / "compare.html"
    assert main(["compare", *named, "-o", str(page)]) == 0
    told = capsys.readouterr()
    assert "good is better by most" in told.out
    assert "Written: " in told.err
    html = page.read_text()
    assert "<script" not in html
    assert "default-src 'none'" in html
    assert "<mark>" in html
    assert main(["compare", *named, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [score["name"] for score in found["scores"]] == ["BLEU", "chrF2", "TER"]
    assert html.count("<section>") == len(found["differences"])
