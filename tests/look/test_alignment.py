"""Word alignment: the right head, the right rows, whole words."""

import csv
import io

import numpy as np
import pytest
import torch
from looks import look_at

from clearhead.errors import ModelError
from clearhead.look.labelled import Heatmap
from clearhead.look.words import Alignment, best_alignment, tokens, word_numbers, word_texts

TEXTS = {0: "<s>", 1: "</s>", 2: "▁a", 3: "▁b", 4: "b", 5: "▁c", 6: "▁x", 7: "▁y", 8: "y"}


def side(*ids):
    return tokens(list(ids), lambda ids: [TEXTS[n] for n in ids], 2)


SOURCE = side(2, 3, 4, 5, 1)  # a bb c </s>
TARGET = side(6, 7, 8, 6, 1)  # x yy x </s>: what each row predicts


def rows(*columns):
    """A head whose rows each look at one column."""
    return torch.nn.functional.one_hot(torch.tensor(columns), 5).float()


ALIGNING = rows(3, 1, 2, 0, 4)
OTHERS = {
    "stares at the end": rows(4, 4, 4, 4, 4),
    "stares at one word": rows(0, 0, 0, 0, 0),
    "looks everywhere": torch.full((5, 5), 0.2),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("place", [0, 1])
def test_the_head_that_links_words_is_chosen_whatever_else_there_is(other, place):
    heads = torch.stack([ALIGNING, other] if place == 0 else [other, ALIGNING])
    found = best_alignment({"decoder.0.cross": heads}, SOURCE, TARGET)
    assert found.head == f"decoder.0.cross.{place}"
    assert str(found) == "0-2 1-1 2-0"
    assert found.source == ("a", "bb", "c")
    assert found.target == ("x", "yy", "x")


def test_a_soft_aligner_wins_over_a_sharp_stare():
    soft = 0.6 * ALIGNING + 0.4 * OTHERS["looks everywhere"]
    found = best_alignment(
        {"decoder.0.cross": torch.stack([OTHERS["stares at one word"], soft])}, SOURCE, TARGET
    )
    assert found.head == "decoder.0.cross.1"


def test_heads_that_share_the_work_are_averaged():
    halves = torch.stack([ALIGNING.clone(), ALIGNING.clone()])
    halves[0, :2], halves[1, 2:] = OTHERS["stares at the end"][:2], OTHERS["stares at the end"][2:]
    assert best_alignment({"decoder.0.cross": halves}, SOURCE, TARGET).links == (
        (2, 0),
        (1, 1),
        (0, 2),
    )


def test_the_table_is_what_the_alignment_says():
    found = best_alignment({"decoder.0.cross": ALIGNING[None]}, SOURCE, TARGET)
    table = list(csv.reader(io.StringIO(found.csv())))
    assert table[0] == ["", "a", "bb", "c"]
    assert [row[0] for row in table[1:]] == list(found.target)
    assert [[float(cell) for cell in row[1:]] for row in table[1:]] == found.weights.tolist()


def test_rows_of_an_alignment_sum_to_one(build):
    weights = look_at(build()).alignment().weights
    assert weights.sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_a_model_without_cross_attention_says_that_it_aligns_nothing(build):
    with pytest.raises(ModelError, match="no cross-attention"):
        look_at(build(family="decoder")).alignment()


def test_in_writing_without_spaces_each_token_is_a_word_with_its_punctuation():
    texts = ["▁", "我", "喜欢", "苹果", "。", "ab", "c", "猫"]
    assert word_numbers(texts, [False] * len(texts)) == [0, 0, 1, 2, 2, 3, 3, 4]
    assert word_numbers(["▁見", "Tokyo", "ab"], [False] * 3) == [0, 1, 1]


def test_words_begin_at_a_space_or_behind_a_special_token():
    assert word_numbers(["a", "b", "▁c", "<x>", "d", "▁e"], [False, False, False, True, False, False]) == [
        0, 0, 1, None, 2, 3,
    ]  # fmt: skip
    assert word_texts(side(0, 7, 8, 1)) == ("yy",)


def test_an_alignment_is_drawn_darkest_where_most_is_looked_at():
    weights = np.array([[0.0, 1.0], [0.5, 0.5]], dtype=np.float32)
    alignment = Alignment(source=("I", "go"), target=("gehe", "ich"), weights=weights)
    assert Heatmap(alignment.matrix).blocks() == [
        "     I go",
        "gehe   ██",
        " ich ▒ ▒▒",
    ]
    alignment = Alignment(source=("我", "go"), target=("去", "ich"), weights=weights)
    assert Heatmap(alignment.matrix).blocks() == [
        "    我 go",
        " 去    ██",
        "ich ▒▒ ▒▒",
    ]
