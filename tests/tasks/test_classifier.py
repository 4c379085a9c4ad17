"""Classifying: what must hold whatever the model says, and what training leaves in the folder."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import clearhead
from clearhead.data.examples import LabelledText
from clearhead.errors import DataError, FolderError
from clearhead.folder import RunFolder
from clearhead.tasks import TASKS
from clearhead.tasks.classification import chosen_labels, fitted_temperature, probabilities
from clearhead.tasks.evaluation import evaluate_labels
from clearhead.tasks.fit import fit
from tasks.small import small_config, trained, write_prose, write_reviews

TEXTS = st.lists(
    st.sampled_from(["the film was good", "dull", "", "a b c", "🙂 they say", "the " * 90]),
    max_size=6,
)
SCORES = st.lists(
    st.lists(st.floats(-9, 9, width=32), min_size=3, max_size=3), min_size=1, max_size=8
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield tmp_path_factory.mktemp("classifiers")


@pytest.fixture(scope="module")
def one(place):
    trained(
        "classification",
        small_config(
            write_reviews(place / "one.tsv"), 40, data__max_length=20, train__learning_rate=0.02
        ),
        place / "one",
    )
    return place / "one"


@pytest.fixture(scope="module")
def several(place):
    trained(
        "classification",
        small_config(write_reviews(place / "several.tsv", several=True)),
        place / "several",
    )
    return place / "several"


@given(TEXTS)
def test_a_text_in_a_batch_is_classified_as_alone(one, texts):
    classifier = clearhead.load(one)
    found = classifier.classify(texts)
    assert [each.text for each in found] == texts
    for text, each in zip(texts, found, strict=True):
        alone = classifier.classify(text)
        assert alone.labels == each.labels
        assert [*alone.probabilities.values()] == pytest.approx(
            [*each.probabilities.values()], abs=1e-5
        )


@given(TEXTS)
def test_the_probabilities_of_one_label_add_up_to_1_and_the_likeliest_is_the_answer(one, texts):
    for found in clearhead.load(one).classify(texts):
        assert math.isclose(sum(found.probabilities.values()), 1, abs_tol=1e-5)
        assert (
            str(found)
            == found.label
            == max(found.probabilities, key=found.probabilities.__getitem__)
        )
        assert list(found.probabilities.values()) == sorted(
            found.probabilities.values(), reverse=True
        )


@given(TEXTS)
def test_of_several_labels_all_are_said_that_are_likelier_than_not_or_else_the_likeliest(
    several, texts
):
    for found in clearhead.load(several).classify(texts):
        likely = [label for label, probability in found.probabilities.items() if probability > 0.5]
        assert list(found.labels) == likely or (not likely and len(found.labels) == 1)
        assert str(found) == ",".join(found.labels)


@given(SCORES, st.floats(0.05, 20), st.booleans())
def test_calibration_changes_no_label(scores, temperature, several):
    scores = torch.tensor(scores)
    assert (
        chosen_labels(scores / temperature, several) == chosen_labels(scores, several)
        or (scores / temperature == 0).any()
    )


@given(st.floats(0.2, 5), st.booleans())
def test_the_temperature_that_scores_were_spoiled_with_is_found(temperature, several):
    random = torch.Generator().manual_seed(3)
    scores = torch.randn(4_000, 3, generator=random) * 2
    drawn = probabilities(scores, several)
    if several:
        right = torch.rand(drawn.shape, generator=random) < drawn
    else:
        right = torch.eye(3, dtype=torch.bool)[torch.multinomial(drawn, 1, generator=random)[:, 0]]
    assert fitted_temperature(scores * temperature, right, several) == pytest.approx(
        temperature, rel=0.1
    )


def test_few_texts_that_are_all_right_do_not_make_certain():
    right = torch.eye(2, dtype=torch.bool)[[0, 1, 0]]
    scores = right.float() * 5
    assert probabilities(scores / fitted_temperature(scores, right, False), False).max() < 0.95


def test_the_folder_is_whole_and_names_its_labels(one, several):
    assert RunFolder(one).config().labels.names == ("bad", "good")
    assert not RunFolder(one).config().labels.several
    assert RunFolder(several).config().labels.names == (
        "bad",
        "book",
        "film",
        "game",
        "good",
        "song",
    )
    assert RunFolder(several).config().labels.several
    assert RunFolder(one).config().labels.temperature != 1
    assert RunFolder(one).problems() == RunFolder(several).problems() == []


def test_it_learns_which_words_are_good(one):
    classifier = clearhead.load(one)
    assert str(classifier.classify("the film was lovely , they say")) == "good"
    assert str(classifier.classify("the song was dull , they say")) == "bad"


def test_a_text_that_is_too_long_is_cut_and_says_so(one):
    classifier = clearhead.load(one)
    whole, cut = classifier.classify([" ".join(["the"] * 20), " ".join(["the"] * 20 + ["awful"])])
    assert whole.notes == ()
    assert cut.notes == ("only the first 20 of 21 tokens were read",)
    assert cut.probabilities == pytest.approx(whole.probabilities)
    assert classifier.classify(" ").notes == ("the text is empty",)


def test_a_label_that_was_never_learned_is_an_error(one):
    with pytest.raises(DataError, match=r"Example 2 has the label odd.*\nIt knows: bad, good"):
        evaluate_labels(
            clearhead.load(one), [LabelledText("a", ("good",)), LabelledText("b", ("odd",))]
        )


def test_an_evaluation_counts_what_the_classifier_says(one):
    classifier = clearhead.load(one)
    texts = [f"the film was {word} , they say" for word in ("good", "awful", "lovely", "dull")]
    examples = [LabelledText(text, ("good",)) for text in texts]
    found = evaluate_labels(classifier, examples)
    n_right = sum(str(each) == "good" for each in classifier.classify(texts))
    confusion = {(right, said): count for right, said, count in found.scores["confusion"]}
    assert found.scores["accuracy"]["value"] == 25 * n_right
    assert confusion.get(("good", "good"), 0) == n_right
    assert sum(confusion.values()) == 4
    assert list(found.lines) == [str(each) for each in classifier.classify(texts)]
    assert "right ↓" in str(found)


def test_an_evaluation_of_several_labels_has_no_confusions(several):
    found = evaluate_labels(
        clearhead.load(several), [LabelledText("the film was good , they say", ("good", "film"))]
    )
    assert list(found.scores)[:3] == ["all labels right", "micro F1", "macro F1"]
    assert found.scores["confusion"] == []
    assert str(found).splitlines()[2].startswith("label")


def test_many_labels_are_told_by_their_most_frequent_confusions(one):
    classifier = clearhead.load(one)
    classifier.labels = tuple(f"intent {n}" for n in range(20))
    classifier.scores = lambda _: torch.eye(20)[[*range(19), 3]]
    text = str(
        evaluate_labels(classifier, [LabelledText("x", (label,)) for label in classifier.labels])
    )
    assert text.endswith("most often confused:\n   1 × intent 19 taken for intent 3")
    assert "right ↓" not in text


def test_rare_labels_weigh_more_when_balance_is_asked_for(place):
    file = write_reviews(place / "rare.tsv", 90)
    file.write_text(file.read_text() + "odd\tsomething else\nodd\tanother thing\n")
    trained("classification", small_config(file, 2, labels__balance="true"), place / "rare")
    labels = RunFolder(place / "rare").config().labels
    weights = dict(zip(labels.names, labels.weights, strict=True))
    assert weights["odd"] == pytest.approx(92 / 3 / 2)
    assert weights["odd"] > 10 * weights["good"]


def test_a_resumed_classifier_equals_an_uninterrupted_one(place):
    file = write_reviews(place / "resumed.tsv")
    config = small_config(file, 8, train__save_every=2)
    trained("classification", config, place / "whole")
    half = fit(TASKS["classification"], config, place / "half")
    for report in half:
        if getattr(report, "step", 0) == 5:
            break
    half.close()
    trained("classification", config, place / "half")
    one, other = RunFolder(place / "whole"), RunFolder(place / "half")
    assert one.config() == other.config()
    for name, tensor in one.model().state_dict().items():
        assert torch.equal(tensor, other.model().state_dict()[name]), name


def test_one_label_or_a_thousand_of_them_is_an_error_that_tells_the_order_of_columns(place):
    (place / "same.tsv").write_text("good\tone\ngood\ttwo\n" * 9)
    with pytest.raises(DataError, match="the label comes first"):
        trained("classification", small_config(place / "same.tsv"), place / "same")


def test_a_folder_without_labels_is_no_classifier(place):
    config = small_config(write_prose(place / "prose.txt"), 2, model__family="encoder")
    trained("pretraining", config, place / "prose")
    with pytest.raises(FolderError, match="cannot classify"):
        clearhead.Classifier.load(place / "prose")
