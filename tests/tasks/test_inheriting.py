"""Pre-training, beginning with what it learned, and filling gaps."""

import os

import pytest
import torch

import clearhead
from clearhead.config import layered
from clearhead.errors import ConfigError, FolderError, TextError
from clearhead.folder import RunFolder
from clearhead.tasks import TASKS
from clearhead.tasks.fit import fit
from clearhead.training import Note, StepReport
from tasks.small import small_config, trained, write_prose, write_reviews


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        folder = tmp_path_factory.mktemp("inheriting")
        write_prose(folder / "prose.txt")
        write_reviews(folder / "reviews.tsv")
        yield folder


def pretrained(place, family, name, **settings):
    config = small_config(place / "prose.txt", **{"model__family": family, **settings})
    return trained("pretraining", config, place / name)


@pytest.fixture(scope="module")
def masked(place):
    pretrained(place, "encoder", "masked", steps=12)
    return place / "masked"


def fine_tuned(place, name, **settings):
    """A classifier that begins with the masked-token run."""
    config = small_config(place / "reviews.tsv", **{"train__start": "../masked", **settings})
    config |= {"model": {"dropout": 0.2}, "tokenizer": {}}
    return trained("classification", config, place / name)


@pytest.mark.parametrize("family", ["encoder", "decoder", "encoder-decoder"])
def test_each_objective_makes_its_loss_smaller_and_leaves_a_whole_run(place, family):
    reports = pretrained(place, family, f"learned-{family}", steps=30, train__learning_rate=0.02)
    losses = [report.loss for report in reports if isinstance(report, StepReport)]
    assert sum(losses[-3:]) < sum(losses[:3]) - 0.3
    assert RunFolder(place / f"learned-{family}").problems() == []


@pytest.mark.parametrize("family", ["encoder", "encoder-decoder"])
def test_resumed_pre_training_equals_an_uninterrupted_one(place, family):
    config = small_config(place / "prose.txt", 6, model__family=family, train__save_every=1)
    trained("pretraining", config, place / f"whole-{family}")
    half = fit(TASKS["pretraining"], config, place / f"half-{family}")
    for report in half:
        if getattr(report, "step", 0) == 4:
            break
    half.close()
    trained("pretraining", config, place / f"half-{family}")
    one, other = (
        RunFolder(place / f"{name}-{family}").model().state_dict() for name in ("whole", "half")
    )
    assert all(torch.equal(one[name], other[name]) for name in one)


def sentence_about_weights(reports):
    notes = [report.text for report in reports if isinstance(report, Note)]
    return "".join(text for text in notes if text.startswith("Weights from "))


def test_exactly_the_matching_weights_are_taken_over(place, masked):
    reports = fine_tuned(place, "taken", steps=1, train__freeze=2)
    told = RunFolder(place / "taken").plan().inherited
    assert {name.partition(".")[0] for name in told.taken} == {"tokens", "encoder"}
    assert {name.partition(".")[0] for name in told.left} == {"head"}
    assert {name.partition(".")[0] for name in told.new} == {"classifier"}
    assert told.known_tokens == 1
    assert "left (head)" in sentence_about_weights(reports)
    card = (place / "taken" / "card.md").read_text()
    assert f"{len(told.taken)} of its weights taken" in card
    one, other = RunFolder(place / "taken").config(), RunFolder(masked).config()
    assert one.tokenizer.fingerprint == other.tokenizer.fingerprint
    assert one.model.dropout == 0.2


def test_frozen_layers_stay_and_the_others_learn(place, masked):
    fine_tuned(place, "frozen", steps=3, train__freeze=1)
    before, after = (
        RunFolder(masked).model().state_dict(),
        RunFolder(place / "frozen").model().state_dict(),
    )
    for name, weight in after.items():
        if name in before:
            below = name.startswith(("tokens.", "encoder.layers.0."))
            assert torch.equal(weight, before[name]) == below, name


def test_a_frozen_run_goes_on_as_if_it_had_not_stopped(place, masked):
    settings = {"steps": 6, "train__freeze": 1, "train__save_every": 1, "train__start": "../masked"}
    config = small_config(place / "reviews.tsv", **settings) | {"model": {}, "tokenizer": {}}
    trained("classification", config, place / "frozen-whole")
    half = fit(TASKS["classification"], config, place / "frozen-half")
    for report in half:
        if getattr(report, "step", 0) == 3:
            break
    half.close()
    reports = trained("classification", config, place / "frozen-half")
    assert not sentence_about_weights(reports)
    one, other = (
        RunFolder(place / f"frozen-{name}").model().state_dict() for name in ("whole", "half")
    )
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_another_tokenizer_is_refused_unless_new_vectors_are_asked_for(place, masked):
    config = small_config(
        place / "reviews.tsv", 1, train__start="../masked", tokenizer__vocab_size=18
    )
    config |= {"model": {}}
    with pytest.raises(ConfigError, match=r"makes another tokenizer.*\n.*train.new_vectors=true"):
        trained("classification", config, place / "refused")
    asked = layered(config, {"train": {"new_vectors": True, "freeze": 2}})
    trained("classification", asked, place / "new")
    told = RunFolder(place / "new").plan().inherited
    before, after = RunFolder(masked), RunFolder(place / "new")
    theirs, ours = before.tokenizers()[1].vocabulary.ids(), after.tokenizers()[1].vocabulary.ids()
    assert len(ours) == 18
    old, new = before.model().tokens.weight, after.model().tokens.weight
    both = theirs.keys() & ours.keys()
    assert all(torch.equal(new[ours[token]], old[theirs[token]]) for token in both)
    assert told.known_tokens == len(both) / 18


def test_a_run_without_weights_or_without_anything_that_fits_is_refused(place, masked):
    config = small_config(place / "prose.txt", 4, model__family="encoder", train__save_every=1)
    unfinished = fit(TASKS["pretraining"], config, place / "unfinished")
    for report in unfinished:
        if getattr(report, "step", 0) == 2:
            break
    unfinished.close()
    with pytest.raises(FolderError, match="has no weights yet"):
        fine_tuned(place, "early", train__start="../unfinished")
    with pytest.raises(FolderError, match="is not a clearhead run"):
        fine_tuned(place, "nowhere", train__start="../nothing")


def test_a_masked_token_run_fills_gaps_with_ranked_words(masked):
    filler = clearhead.load(masked)
    found = filler.fill("the ____ was ____ , they say", n_best=3)
    assert len(found.gaps) == 2
    for gap in found.gaps:
        assert len(gap) == 3
        chances = [candidate.probability for candidate in gap]
        assert chances == sorted(chances, reverse=True)
    assert str(found) == f"the {found.gaps[0][0]} was {found.gaps[1][0]} , they say"
    with pytest.raises(TextError, match="no gap"):
        filler.fill("the film was good")
    with pytest.raises(TextError, match="longer than the 16"):
        filler.fill("the ____ " * 20)


def test_what_the_model_reads_around_a_gap_is_the_text_with_a_mask(masked):
    filler = clearhead.load(masked)
    tokenizer = filler.tokenizer
    film, mask = tokenizer.encode("the film was"), tokenizer.mask
    rows = []
    filler.model = lambda row: (
        rows.append(row[0].tolist()) or torch.zeros(1, row.size(1), tokenizer.vocab_size)
    )
    filler.model.device = torch.device("cpu")
    filler.fill("the film was ____")
    filler.fill("____ film was")
    assert rows == [[*film, mask, tokenizer.end], [mask, *film[1:], tokenizer.end]]


def test_each_family_that_was_pre_trained_is_used_as_what_it_can_do(place, masked):
    assert isinstance(clearhead.load(masked), clearhead.tasks.Filler)
    pretrained(place, "decoder", "next", steps=1)
    assert isinstance(clearhead.load(place / "next"), clearhead.tasks.Writer)
    pretrained(place, "encoder-decoder", "denoise", steps=1)
    with pytest.raises(FolderError, match="train FILES --from"):
        clearhead.load(place / "denoise")
    with pytest.raises(FolderError, match="cannot fill gaps"):
        clearhead.tasks.Filler.load(place / "next")


def test_a_run_folder_can_move_before_it_is_begun_with(place, masked):
    assert RunFolder(place / "taken").config().train.start == os.path.relpath(
        masked, place / "taken"
    )
