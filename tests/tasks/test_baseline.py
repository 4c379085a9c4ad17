"""The honest baseline: it learns what is easy, equals its formulas, and stands beside the score."""

import math
from collections import Counter, defaultdict
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.folder import RunFolder
from clearhead.tasks.ngrams import COST, LinearClassifier, n_gram_bits, n_grams
from clearhead.tasks.runs import Ended
from clearhead.training import Note
from tasks.small import small_config, trained, write_prose, write_reviews

TEXTS = ["a lovely film", "a dull film", "so lovely", "so dull", "lovely lovely song", "dull song"]
LABELS = torch.tensor([[1.0], [-1.0], [1.0], [-1.0], [1.0], [-1.0]])


def test_n_grams_are_words_pairs_of_words_and_pieces_within_words():
    found = Counter(n_grams("Go, go"))
    assert found["\tgo"] == 2
    assert found["\tgo\t,"] == 1
    assert found["go"] == 2
    assert found[" go "] == 2
    assert found["o, "] == 0


def test_a_linear_model_tells_apart_what_a_word_tells_apart():
    model = LinearClassifier(TEXTS, LABELS)
    assert (model.scores(TEXTS).sign() == LABELS).all()
    assert model.scores(["the lovely book"]) > 0 > model.scores(["the dull book"])
    assert model.scores([""]) == pytest.approx(model.bias.item())


def test_its_weights_are_the_minimum_of_the_squared_hinge_loss():
    model = LinearClassifier(TEXTS, LABELS)

    def loss(weights: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        x = model.matrix([Counter(n_grams(text)) for text in TEXTS]).to_dense()
        wrong = (1 - LABELS * (x @ weights + bias)).clamp_min(0)
        return weights.square().sum() / 2 + COST * wrong.square().sum()

    least = loss(model.weights, model.bias)
    for _ in range(20):
        other = model.weights + 0.05 * torch.randn_like(model.weights)
        assert loss(other, model.bias) > least


@given(st.text("ab\n", max_size=30), st.text("abc\n", max_size=8), st.integers(1, 4))
def test_n_grams_give_witten_and_bell_s_probabilities(learned, read, order):
    text, asked = f"{learned}\n".encode(), f"{read}\n".encode()
    counts: dict[bytes, Counter[int]] = defaultdict(Counter)
    for n in range(order):
        for place in range(len(text) - n):
            counts[text[place : place + n]][text[place + n]] += 1

    def likely(context: bytes, byte: int) -> float:
        shorter = likely(context[1:], byte) if context else 1 / 256
        if not (seen := counts[context]):
            return shorter
        return (seen[byte] + len(seen) * shorter) / (seen.total() + len(seen))

    bits = [
        -math.log2(likely(asked[max(0, place - order + 1) : place], byte))
        for place, byte in enumerate(asked)
    ]
    found = n_gram_bits(learned.split("\n"), read.split("\n"), order)
    assert found == pytest.approx(sum(bits) / len(bits))


@pytest.mark.parametrize(
    ("task", "write", "said"),
    [
        ("classification", write_reviews, "by a linear model on words and n-grams"),
        ("writing", write_prose, "bits per byte by n-grams"),
    ],
)
def test_the_baseline_stands_beside_the_score_at_the_start_at_the_end_and_on_the_card(
    task, write, said, tmp_path: Path
):
    reports = trained(task, small_config(write(tmp_path / "text.tsv")), tmp_path / "run")
    assert any(isinstance(each, Note) and f"{said}." in each.text for each in reports)
    end = reports[-1]
    assert isinstance(end, Ended)
    assert said in str(end)
    assert f"- to compare: {end.baseline}" in RunFolder(tmp_path / "run").card()
    if task == "writing":
        assert " bits per byte) on " in str(end)


def test_where_one_word_decides_the_baseline_is_always_right(tmp_path: Path):
    reports = trained(
        "classification", small_config(write_reviews(tmp_path / "r.tsv")), tmp_path / "run"
    )
    assert reports[-1].baseline.startswith("accuracy 100.00 ")
