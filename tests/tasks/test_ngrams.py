"""A linear model beside the encoder: what it is fitted to, and that training and files keep it."""

import pytest
import torch

import clearhead
from clearhead.errors import ExchangeError
from clearhead.exchange.hf_write import check_fits
from clearhead.folder import RunFolder
from clearhead.tasks import TASKS
from clearhead.tasks.fit import fit
from clearhead.training.state import mean_weights
from tasks.small import small_config, trained, write_reviews

HARD = [("good", "not bad at all"), ("bad", "not good at all"), ("good", "good"), ("bad", "bad")]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield tmp_path_factory.mktemp("ngrams")


@pytest.fixture(scope="module")
def run(place):
    trained("classification", small_config(write_reviews(place / "table.tsv"), 2), place / "run")
    return place / "run"


def scores(run, text):
    found = clearhead.load(run)
    ids = torch.tensor([found.tokenizer.reading(found.tokenizer.encode(text))])
    return found.model.ngrams(ids, None)[0]


def test_pairs_of_words_tell_labels_apart_where_single_words_do_not(place):
    table = place / "hard.tsv"
    table.write_text("".join(f"{label}\t{text}\n" for label, text in HARD * 30))
    trained("classification", small_config(table, 1), place / "hard")
    assert all(clearhead.load(place / "hard").labels[scores(place / "hard", text).argmax()] == label
               for label, text in HARD)  # fmt: skip


def test_an_ngram_of_no_training_text_changes_nothing_but_the_length(run):
    known, other = scores(run, "the film was good"), scores(run, "the film was good zzz qqq")
    assert known.argmax() == other.argmax()
    assert scores(run, "zzz").abs().max() < known.abs().max()


def test_what_is_used_is_the_sum_and_what_is_trained_the_encoder_alone(run):
    model = RunFolder(run).model()
    source = torch.tensor([[8, 9, 10, 2]])
    deep = model.classifier(model.encode(source), None)
    beside = model.config.ngram_weight * model.ngrams(source, None)
    torch.testing.assert_close(model(source), deep + beside)
    for each in model.modules():
        each.training = each is model  # no dropout
    torch.testing.assert_close(model(source), deep)


def test_a_resumed_run_has_the_same_tables_and_weights(place):
    config = small_config(place / "table.tsv", 6, train__save_every=1, train__ema=0.9)
    trained("classification", config, place / "whole")
    half = fit(TASKS["classification"], config, place / "half")
    for report in half:
        if getattr(report, "step", 0) == 4:
            break
    half.close()
    trained("classification", config, place / "half")
    one, other = (RunFolder(place / name).model().state_dict() for name in ("whole", "half"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_mean_of_checkpoints_leaves_the_tables_as_they_are(run):
    weights = RunFolder(run).model().state_dict()
    mean = mean_weights([weights] * 3)
    names = ("pairs", "pieces", "rarity", "weight")
    assert all(torch.equal(weights[f"ngrams.{name}"], mean[f"ngrams.{name}"]) for name in names)


def test_the_card_and_the_settings_tell_how_many_there_are(run):
    n_grams = RunFolder(run).config().model.n_grams
    assert 0 < n_grams < 1_000
    assert f"a linear model of {n_grams:,} n-grams" in (run / "card.md").read_text()


def test_there_are_no_more_of_them_than_a_person_allows(place):
    few = small_config(place / "table.tsv", 2, data__max_n_grams=7)
    for _ in ("begun", "resumed"):
        trained("classification", few, place / "few")
    assert RunFolder(place / "few").config().model.n_grams == 7


def test_they_can_be_left_out_and_a_run_from_another_has_none(place, run):
    config = small_config(place / "table.tsv", 1)
    trained(
        "classification", small_config(place / "table.tsv", 1, data__max_n_grams=0), place / "off"
    )
    trained("classification", config | {"tokenizer": {}, "train": config["train"] | {"start": "../run"}},
            place / "from")  # fmt: skip
    for name in ("off", "from"):
        assert not hasattr(RunFolder(place / name).model(), "ngrams")


def test_a_layout_of_others_refuses_them_by_name(run):
    folder = RunFolder(run)
    with pytest.raises(ExchangeError, match=r"model\.n_grams"):
        check_fits(folder, folder.config().model, "bert")
