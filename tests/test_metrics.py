import subprocess
import sys

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import DataError
from clearhead.metrics import Score, accuracy, bleu, chrf, confusion, mean_f1, per_label

REFERENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "A man rides a bike through the town.",
]
HYPOTHESES = ["The fast brown fox jumps over the lazy dog.", "A man is riding a bike through town."]

labels = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=30
)


def test_scores_are_those_of_sacrebleu():
    assert (
        bleu(HYPOTHESES, REFERENCES).value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    )
    assert (
        chrf(HYPOTHESES, REFERENCES).value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    )


@pytest.mark.parametrize("metric", [bleu, chrf])
def test_a_perfect_output_scores_100_and_an_empty_one_0(metric):
    assert metric(REFERENCES, REFERENCES).value == pytest.approx(100)
    assert metric(["", ""], REFERENCES).value == 0


def test_a_score_says_how_it_was_computed():
    score = bleu(HYPOTHESES, REFERENCES)
    assert f"tok:13a|smooth:exp|version:{sacrebleu.__version__}" in score.signature
    assert str(score) == f"BLEU {score.value:.1f} ({score.signature})"
    assert str(Score("accuracy", 93.26)) == "accuracy 93.3"
    assert chrf(HYPOTHESES, REFERENCES).name == "chrF2"


@pytest.mark.parametrize("metric", [bleu, chrf, accuracy, per_label, confusion])
@pytest.mark.parametrize("sides", [([], []), (["a"], []), (["a"], ["a", "b"])])
def test_sides_of_unequal_length_or_none_are_refused(metric, sides):
    with pytest.raises(DataError, match="one reference for each"):
        metric(*sides)


def test_a_case_counted_by_hand():
    right, predicted = "aaabbc", "aabbbb"
    assert accuracy(predicted, right).value == pytest.approx(100 * 4 / 6)
    scores = per_label(predicted, right)
    assert (scores["a"].precision, scores["a"].recall, scores["a"].f1) == pytest.approx(
        (100, 200 / 3, 80)
    )
    assert (scores["b"].precision, scores["b"].recall, scores["b"].f1) == pytest.approx(
        (50, 100, 200 / 3)
    )
    assert (scores["c"].precision, scores["c"].recall, scores["c"].f1, scores["c"].count) == (
        0,
        0,
        0,
        1,
    )
    assert mean_f1(scores).value == pytest.approx((80 + 200 / 3) / 3)
    assert confusion(predicted, right) == {
        ("a", "a"): 2,
        ("a", "b"): 1,
        ("b", "b"): 2,
        ("c", "b"): 1,
    }


def macro_f1(predicted, right):
    """Of texts that have one label each."""
    scores = per_label([(label,) for label in predicted], [(label,) for label in right])
    return mean_f1(scores).value


@given(labels)
def test_what_labels_are_called_does_not_matter(pairs):
    right, predicted = zip(*pairs, strict=True)
    renamed = dict(zip("abc", [3, None, "z"], strict=True))
    new_right, new_predicted = (
        [renamed[label] for label in right],
        [renamed[label] for label in predicted],
    )
    assert accuracy(new_predicted, new_right) == accuracy(predicted, right)
    assert macro_f1(new_predicted, new_right) == pytest.approx(macro_f1(predicted, right))


@given(labels)
def test_the_confusions_add_up(pairs):
    right, predicted = zip(*pairs, strict=True)
    counts = confusion(predicted, right)
    assert counts.total() == len(pairs)
    hits = sum(count for (true, said), count in counts.items() if true == said)
    assert accuracy(predicted, right).value == pytest.approx(100 * hits / len(pairs))
    assert macro_f1(right, right) == accuracy(right, right).value == 100


def test_importing_metrics_and_text_loads_neither_torch_nor_sacrebleu():
    code = "import sys, clearhead.metrics, clearhead.text; print({'torch', 'sacrebleu'} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
        == "set()"
    )
