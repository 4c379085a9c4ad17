"""Looking through the public face: every task can be looked into, and text and picture agree."""

import json

import pytest
import torch

from clearhead import Translator
from clearhead.cli.main import main
from clearhead.config import (
    Config,
    DataConfig,
    DecodeConfig,
    LabelConfig,
    ModelConfig,
    TokenizerConfig,
)
from clearhead.decode import FlatTransformer
from clearhead.errors import ClearheadError
from clearhead.folder import RunFolder
from clearhead.look.film import Probe, film_of, frame
from clearhead.look.guide import guide
from clearhead.model import Transformer
from clearhead.tasks import load
from clearhead.tasks.evaluation import ablate_heads
from clearhead.text import Tokenizer

TEXTS = [
    "the cat sees the dog .",
    "ein Hund sieht 12 Katzen !",
    "we eat bread , and they drink water ?",
] * 5
SMALL = {"d_model": 16, "d_ff": 16, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 2}
RUNS = {
    "translation": {"norm": "post", "init": "xavier"},
    "chat": {"family": "decoder", "norm": "pre"},
    "writing": {"family": "decoder"},
    "classification": {"family": "encoder", "n_classes": 2},
    "pretraining": {"family": "encoder"},
}
TEXT = {"pretraining": "the ____ sees the dog ."}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run folder for every task, with random weights, sharpened so that no two outputs are equally good."""
    place, tokenizer = (
        tmp_path_factory.mktemp("runs"),
        Tokenizer.learn(TEXTS, TokenizerConfig(vocab_size=400)),
    )
    for task, shape in RUNS.items():
        config = Config(
            task=task, model=ModelConfig(vocab_size=tokenizer.vocab_size, **SMALL, **shape),
            data=DataConfig(max_length=40), decode=DecodeConfig(beam=2, max_extra=5, guard=False),
            labels=LabelConfig(names=("bad", "good") if "n_classes" in shape else ()),
        )  # fmt: skip
        torch.manual_seed(0)
        model = Transformer(config.model)
        with torch.no_grad():
            model.tokens.weight *= 3
        folder = RunFolder.create(place / task, config, tokenizer)
        folder.write_weights(model.state_dict())
        family = config.model.family
        probe = Probe(
            (5, 6, 2) if "encoder" in family else (), (1, 7) if "decoder" in family else ()
        )
        for step, loss in ((0, 5.0), (10, 4.0)):
            folder.film.write(frame(model, [probe], step, loss))
    return place


@pytest.fixture(scope="module")
def translator(runs):
    return load(runs / "translation")


@pytest.fixture(params=RUNS)
def task(request):
    return request.param


def test_every_task_can_be_looked_into(runs, task):
    look = load(runs / task).look(TEXT.get(task, TEXTS[0]))
    meta = json.loads(json.dumps(look.meta(), allow_nan=False))
    assert meta["task"] == task
    assert meta["segments"][look.rows]
    assert look.input in str(look)


def test_a_look_shows_what_the_user_gets(runs):
    said = load(runs / "translation").translate(TEXTS[0])
    look = load(runs / "translation").look(TEXTS[0])
    assert look.output == said.text
    assert look.log_probs == pytest.approx(said.log_probs, abs=1e-4)
    said = load(runs / "classification").classify(TEXTS[0])
    assert load(runs / "classification").look(TEXTS[0]).verdict[0].prob == pytest.approx(
        said.probability, abs=1e-5
    )
    options = {"temperature": 0.8, "seed": 3, "max_length": 9}
    for kind, verb in (("chat", "reply"), ("writing", "write")):
        said = getattr(load(runs / kind), verb)(TEXTS[0], **options)
        look = load(runs / kind).look(TEXTS[0], **options)
        assert look.output == said.text
        assert look.log_probs[look.n_given :] == pytest.approx(said.log_probs, abs=1e-4)


def test_a_look_decodes_with_the_weights_that_its_user_has_laid_out(translator, monkeypatch):
    def refuse(*_):
        raise AssertionError("laid out anew")

    monkeypatch.setattr(FlatTransformer, "__init__", refuse)
    assert translator.look(TEXTS[0]).output == translator.translate(TEXTS[0]).text


def test_any_given_translation_can_be_looked_at(translator):
    look = translator.look(TEXTS[0], target=TEXTS[1])
    assert look.output == TEXTS[1]
    assert look.log_prob == pytest.approx(translator.score([(TEXTS[0], TEXTS[1])])[0], abs=1e-4)
    assert look.beam is None


@pytest.mark.parametrize(
    "edit", ["no-positions", "silence:decoder.0", "swap:1:dog", ["no-scale", "no-norm"]]
)
def test_an_edited_look_decodes_through_the_edit_and_remembers_how_it_was(translator, edit):
    look = translator.look(TEXTS[0], edit=edit)
    assert look.before.output == translator.translate(TEXTS[0]).text
    again = translator.look(TEXTS[0], target=look.output, edit=edit)
    assert (
        again.log_prob == pytest.approx(look.log_prob, abs=1e-3) or not look.predicted[-1].special
    )
    change = look.change()
    assert change.log_prob_before == pytest.approx(look.before.log_prob)
    kept = {mark: [word for sign, word in change.words if sign in ("=", mark)] for mark in "-+"}
    assert (kept["-"], kept["+"]) == (look.before.output.split(), look.output.split())


def test_an_edit_may_be_a_function(translator):
    look = translator.look(TEXTS[0], edit={"encoder.tokens": torch.zeros_like})
    assert not look["encoder.tokens"].values.any()
    assert look.edits == ("a function at encoder.tokens",)


def test_a_text_too_long_to_be_read_at_once_is_refused(translator):
    with pytest.raises(ClearheadError, match="longer than the 40"):
        translator.look("cat " * 100)


def test_an_empty_text_can_be_looked_into_like_any_other(runs, task):
    if task != "pretraining":  # which needs a gap
        look = load(runs / task).look("")
        assert json.dumps(look.meta(), allow_nan=False)
        assert str(look)


def test_a_classifier_says_that_it_chooses_no_tokens(runs):
    look = load(runs / "classification").look(TEXTS[0])
    for question in (look.lens, lambda: look.alternatives(0), look.alignment):
        with pytest.raises(ClearheadError):
            question()


def test_silencing_by_weights_is_silencing_by_edit(translator):
    """The map of heads takes a shortcut; it must lead to the same place."""
    pairs = [(TEXTS[0], TEXTS[1]), (TEXTS[2], TEXTS[0])]
    weights = {name: weight.clone() for name, weight in translator.models[0].state_dict().items()}
    found = ablate_heads(translator, pairs)
    assert all(
        torch.equal(weights[name], now) for name, now in translator.models[0].state_dict().items()
    )
    assert len(found.changes) == 2 * 6
    n_tokens = sum(len(translator.target.encode(target)) + 1 for _, target in pairs)
    looks = [translator.look(*pair, edit="silence:decoder.1.cross.1") for pair in pairs]
    rise = -sum(look.log_prob for look in looks) / n_tokens - found.loss
    assert found.changes["decoder.1.cross.1"][0] == pytest.approx(rise, abs=1e-4)
    assert "decoder.1.cross" in str(found)


def test_the_guide_tells_only_numbers_that_agree(translator):
    text = guide(translator.look(TEXTS[0]), "picture.svg")
    assert text.count("agrees") == text.count("computed anew") > 10
    assert "picture.svg" in text


def test_a_film_holds_every_head_at_every_step(runs, translator):
    film = film_of(RunFolder.open(runs / "translation").film.lines())
    assert film.steps == (0, 10)
    assert film.patterns["decoder.1.cross"].shape == (2, 2, 2, 3)
    assert film.patterns["decoder.1.cross"].sum(axis=-1) == pytest.approx(1, abs=0.01)
    with pytest.raises(ClearheadError, match="No film"):
        film_of([])


# The command line


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "alignment by decoder."),
        (["--head", "decoder.1.cross.1"], "decoder.1.cross.pattern, head 1"),
        (["--by-hand", "decoder.1.cross.1.pattern", "1", "0"], "agrees"),
        (["--edit", "no-scale", "no-mask"], "log-probability of the old output"),
        (["--edit", "no-mask"], "note: without the mask: while words are written one by one"),
        (["--reasons"], "rank agreement"),
        (["--search"], "beam of 2"),
        (["--target", TEXTS[1]], TEXTS[1]),
    ],
)
def test_the_terminal_answers_what_is_asked(runs, capsys, options, says):
    assert main(["look", str(runs / "translation"), TEXTS[0], *options]) == 0
    assert says in capsys.readouterr().out


def test_the_terminal_shows_every_task(runs, task, capsys):
    assert main(["look", str(runs / task), TEXT.get(task, TEXTS[0])]) == 0
    assert "%" in capsys.readouterr().out


def test_files_are_written_where_they_are_asked_for(runs, tmp_path, capsys):
    asked = ["-o", "look.html", "--save", "look", "--picture", "head.png", "--guide", "guide.md"]
    places = [str(tmp_path / each) if not each.startswith("-") else each for each in asked]
    assert main(["look", str(runs / "translation"), TEXTS[0], *places]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert [line.split()[1] for line in told.err.splitlines()] == places[1::2]
    names = {"look.html", "look", "head.png", "guide.md", "guide.svg"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_the_page_is_opened_in_a_browser_on_request(runs, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("typer.launch", opened.append)
    monkeypatch.chdir(tmp_path)
    assert main(["look", str(runs / "translation"), TEXTS[0], "--open"]) == 0
    assert main(["look", str(runs / "translation"), TEXTS[0], "-o", "mine.html", "--open"]) == 0
    assert opened == [(tmp_path / name).as_uri() for name in ("look.html", "mine.html")]
    assert all((tmp_path / name).exists() for name in ("look.html", "mine.html"))


def test_a_film_is_played(runs, task, capsys):
    assert main(["look", str(runs / task), "--film"]) == 0
    out = capsys.readouterr().out
    assert "step 0, loss 5.000" in out
    assert "step 10, loss 4.000" in out


def test_heads_are_silenced_on_files(runs, tmp_path, capsys):
    for name, text in (("a", TEXTS[0]), ("b", TEXTS[1])):
        (tmp_path / name).write_text(f"{text}\n")
    assert (
        main(
            [
                "look",
                str(runs / "translation"),
                "--ablate",
                str(tmp_path / "a"),
                str(tmp_path / "b"),
            ]
        )
        == 0
    )
    assert "encoder.0.self" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [["--by-hand", "decoder.logits", "x", "1"], ["--edit", "no-sense"], ["--head", "decoder.9.cross"],
     ["--by-hand", "decoder.logits", "99", "1"]],
)  # fmt: skip
def test_what_cannot_be_shown_is_told_in_three_lines(runs, capsys, options):
    assert main(["look", str(runs / "translation"), TEXTS[0], *options]) == 1
    assert len(capsys.readouterr().err.splitlines()) <= 3


def test_an_ensemble_is_looked_into_through_its_first_model(runs):
    both = Translator.load(runs / "translation", runs / "translation")
    look = both.look(TEXTS[0])
    assert look.model is both.models[0]
    assert "note: only the first of 2 models" in str(look)
