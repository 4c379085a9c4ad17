"""What an evaluation of translations tells beside its scores: by length, by confidence, the worst."""

import math
from pathlib import Path

import pytest

from clearhead import Translator, evaluate
from clearhead.errors import ConfigError
from clearhead.metrics import bleu, chrf, ter
from clearhead.tasks import evaluation
from clearhead.tasks.evaluation import Judged, confidence, scores_by_confidence, scores_by_length
from clearhead.tasks.runs import in_workers
from tasks.small import small_config, trained, write_prose

WORDS = ["the cat", "we eat bread and they drink water", "ein Hund sieht 12 Katzen !", "the dog ."]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    sources = [f"{WORDS[n % 4]} {'the cat ' * (n % 7)}".strip() for n in range(20)]
    paths = [tmp_path / "test.en", tmp_path / "test.de"]
    paths[0].write_text("".join(f"{line}\n" for line in sources))
    paths[1].write_text("".join(f"{line[::-1]}\n" for line in sources))
    return paths


def test_the_scores_are_those_of_the_outputs_and_lengths_part_the_test_set(run, files):
    found = evaluate(run, files)
    references = files[1].read_text().splitlines()
    for score in (bleu, chrf, ter):
        one = score(found.lines, references)
        assert found.scores[one.name] == {"value": one.value, "signature": one.signature}
        assert str(one) in str(found)
    classes = found.scores["by_length"]
    assert sum(row["sentences"] for row in classes) == len(references)
    assert len(classes) > 2
    quarters = found.scores["by_confidence"]["quarters"]
    assert sum(row["sentences"] for row in quarters) == len(references)


def test_worker_processes_say_what_one_process_says(run, files, monkeypatch):
    """Chunks come back in order; a translator that was not loaded from a folder stays here."""
    alone, started = evaluate(run, files), []

    def noted(**asked):
        started.append(asked["n_workers"])
        return in_workers(**asked)

    monkeypatch.setattr(evaluation, "in_workers", noted)
    few = evaluate(run, files, n_workers=2)
    assert (few.lines, started) == (alone.lines, [])
    monkeypatch.setattr(evaluation, "MANY", 1)
    many = evaluate(run, files, n_workers=2)
    assert (many.lines, started) == (alone.lines, [2])
    assert many.scores["BLEU"] == alone.scores["BLEU"]
    here = Translator.load(run)
    here.origin = {}
    assert evaluate(here, files, n_workers=2).lines == alone.lines
    assert started == [2]


def judged(n: int, chrf: float, confidence: float) -> Judged:
    return Judged(source="a " * n, reference="b", output="b", chrF2=chrf, confidence=confidence)


def test_a_model_that_knows_when_it_is_bad_has_a_high_rank_correlation():
    honest = [judged(3, chrf=10.0 * n, confidence=n / 10) for n in range(8)]
    found = scores_by_confidence(honest)
    assert found["rank_correlation"] == pytest.approx(1)
    means = [row["chrF2"] for row in found["quarters"]]
    assert means == sorted(means)
    assert found["quarters"][0]["confidence"] == [0.0, 0.1]
    liar = [judged(3, chrf=10.0 * n, confidence=1 - n / 10) for n in range(8)]
    assert scores_by_confidence(liar)["rank_correlation"] == pytest.approx(-1)
    assert scores_by_confidence(liar[:1])["rank_correlation"] is None


def test_a_class_of_lengths_holds_the_sources_with_so_many_words():
    rows = scores_by_length([judged(n, chrf=50.0, confidence=0.5) for n in (1, 5, 6, 10, 60)])
    assert [(row["words"], row["sentences"]) for row in rows] == [
        ("0-5", 2),
        ("6-10", 2),
        ("51+", 1),
    ]


def test_the_worst_come_first_with_their_references(run, files):
    found = evaluate(run, files, n_worst=3)
    worst = found.scores["worst"]
    assert [one["chrF2"] for one in worst] == sorted(one["chrF2"] for one in worst)
    assert len(worst) == 3
    pairs = list(zip(*(file.read_text().splitlines() for file in files), strict=True))
    for one in worst:
        assert (one["source"], one["reference"]) in pairs
        assert one["reference"] in str(found)
    assert evaluate(run, files).scores["worst"] == []


def test_confidence_is_the_geometric_mean_of_the_tokens_probabilities(translator: Translator):
    found = translator.translate("the cat sees the dog .")
    product = math.prod(math.exp(each) for each in found.log_probs)
    assert confidence(found) == pytest.approx(product ** (1 / len(found.log_probs)))


def test_no_worst_of_what_is_not_translated(tmp_path):
    text = write_prose(tmp_path / "text.txt")
    trained("writing", small_config(text), tmp_path / "run")
    with pytest.raises(ConfigError, match="translations only"):
        evaluate(tmp_path / "run", [text], n_worst=2)
