"""A certificate is good if and only if nothing is beyond tolerance, and says what is."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import ExchangeError
from clearhead.exchange.certificate import Beside, Certificate, largest_difference, same_tokens

rows = st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=4)


def certificate(**changes):
    return Certificate(**{"title": "x", "other": "another program", "n_texts": 1, **changes})


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"logit_difference": 2e-4}, "logits differ by 0.0002"),
        ({"logit_difference": float("nan")}, "logits differ by nan"),
        ({"tokens_same": 0.99}, "99.00% of the tokens"),
        (
            {"scores": {"BLEU": Beside(ours=30, theirs=29)}, "max_loss": {"BLEU": 0.3}},
            "BLEU falls by 1.00",
        ),
    ],
)
def test_what_is_beyond_tolerance_is_refused_by_name(changes, fault):
    found = certificate(first_difference="text 2, token 5", **changes)
    assert not found.is_good
    assert fault in str(found)
    with pytest.raises(ExchangeError, match="First difference: text 2, token 5") as caught:
        found.require()
    assert fault in str(caught.value)


def test_a_good_one_is_written_for_people_and_for_programs(tmp_path):
    found = certificate(
        logit_difference=1e-6, tokens_same=1.0, scores={"BLEU": Beside(ours=30, theirs=29.9)},
        max_loss={"BLEU": 0.3}, tensors={"used": ["a"], "tied": []},
    )  # fmt: skip
    found.require()
    found.write(tmp_path)
    assert "The two agree." in (tmp_path / "certificate.md").read_text()
    read = json.loads((tmp_path / "certificate.json").read_text())
    assert read["good"]
    assert read["scores"]["BLEU"] == {"ours": 30, "theirs": 29.9}
    assert read["versions"]["torch"] == torch.__version__


@given(rows)
def test_equal_rows_are_the_same(some):
    assert same_tokens(some, some) == (1.0, "")


@given(rows, st.integers(0, 9))
def test_the_first_difference_is_found(some, place):
    flat = [(row, token) for row, ids in enumerate(some) for token in range(len(ids))]
    if not flat:
        return
    row, token = flat[place % len(flat)]
    other = [list(ids) for ids in some]
    other[row][token] += 1
    share, first = same_tokens(some, other)
    assert share == pytest.approx(1 - 1 / len(flat))
    assert first == f"text {row + 1}, token {token + 1}"


def test_what_is_cut_off_differs_where_it_ends():
    assert same_tokens([[1, 2, 3]], [[1, 2]]) == (pytest.approx(2 / 3), "text 1, token 3")


def test_the_largest_difference_is_found_and_the_first_is_named():
    ours = {"a": torch.zeros(2), "b": torch.zeros(2), "c": torch.zeros(2)}
    theirs = {"a": torch.tensor([0, 5e-5]), "b": torch.tensor([0.01, 0]), "c": torch.ones(2)}
    assert largest_difference(ours, theirs) == (1.0, "b, by 0.01")
    assert largest_difference(ours, ours) == (0.0, "")
