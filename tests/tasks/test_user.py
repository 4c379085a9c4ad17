"""What holds for every use of a trained model, whatever its task."""

from pathlib import Path
from typing import get_type_hints

import pytest

import clearhead
from clearhead import Chatbot, Classifier, Filler, Translator, User, Writer
from clearhead.errors import ConfigError, FolderError
from clearhead.folder import RunFolder
from clearhead.tasks.task import DEFAULTS
from tasks.random_runs import random_folder

KINDS = {
    "translation": ("encoder-decoder", Translator),
    "chat": ("decoder", Chatbot),
    "writing": ("decoder", Writer),
    "pretraining": ("encoder", Filler),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("runs")
    return {
        task: random_folder(place / f"my-{task}", task, family, window=64)
        for task, (family, _) in KINDS.items()
    }


@pytest.mark.parametrize("task", KINDS)
def test_a_folder_is_loaded_as_what_it_is_for(task: str, runs: dict[str, Path]) -> None:
    assert type(clearhead.load(runs[task])) is KINDS[task][1]


def test_load_tells_type_checkers_what_it_returns() -> None:
    assert get_type_hints(clearhead.load)["return"] is User


@pytest.mark.parametrize("task", KINDS)
def test_repr_tells_the_run_its_task_and_its_size(task: str, runs: dict[str, Path]) -> None:
    user = clearhead.load(runs[task])
    n_parameters = sum(weight.numel() for weight in user.model.parameters())
    for part in (type(user).__name__, f"my-{task}", task, f"{n_parameters:,}"):
        assert part in repr(user)


@pytest.mark.parametrize("task", KINDS)
@pytest.mark.parametrize("use", [Translator, Chatbot, Classifier, Writer, Filler])
def test_a_folder_for_another_use_is_refused_before_its_weights_are_read(
    task: str, use: type[User], runs: dict[str, Path]
) -> None:
    if use is KINDS[task][1]:
        assert use.load(runs[task]).name == f"my-{task}"
        return
    with pytest.raises(FolderError, match=f"my-{task} cannot {use.ability}") as refused:
        use.load(runs[task])
    assert use.remedy in refused.value.advice


def test_settings_of_decoding_are_the_same_whole_or_one_by_one(runs: dict[str, Path]) -> None:
    translator, writer = Translator.load(runs["translation"]), Writer.load(runs["writing"])
    bot = Chatbot.load(runs["chat"])
    for user, ask in (
        (translator, translator.translate),
        (writer, writer.write),
        (bot, lambda text, *all, **some: bot.answer([text], *all, **some)),
    ):
        decode = user.config.decode.but(beam=1, temperature=1.0, seed=5, max_length=7)
        one_by_one = ask("the cat", beam=1, temperature=1.0, seed=5, max_length=7)
        whole = ask("the cat", decode=decode) if user is translator else ask("the cat", decode)
        assert whole == one_by_one


def test_a_run_without_a_length_writes_as_much_as_its_tasks_default(tmp_path: Path) -> None:
    folder = RunFolder(random_folder(tmp_path / "run", "writing", "decoder", window=64))
    config = folder.config()
    folder.write_config(config.but(decode=config.decode.but(max_length=None)))
    found = Writer.load(folder.path).write("the cat")
    assert len(found.log_probs) == DEFAULTS["writing"]["decode"]["max_length"]


def test_a_text_that_fits_by_its_bytes_alone_leaves_room_for_the_space_before_it(
    tmp_path: Path,
) -> None:
    n_positions = 30
    run = random_folder(tmp_path / "run", "translation", "encoder-decoder", positions=n_positions)
    translator = Translator.load(run)
    assert translator.limit == n_positions - 1
    for n in range(translator.limit - 3, translator.limit + 3):
        text = "\x07" * n
        assert translator.fits(text) == (len(translator.source.encode(text)) <= translator.limit)
        assert translator.translate(text).source == text


@pytest.mark.parametrize(
    ("task", "content", "names"),
    [
        ("translation", "the cat\tein Hund\n", {"BLEU", "chrF2"}),
        ("chat", "the cat\tein Hund\n", {"perplexity", "bits_per_byte"}),
        ("writing", "the cat sees\n", {"perplexity", "bits_per_byte"}),
    ],
)
def test_a_run_is_evaluated_from_python_by_its_path_or_as_it_is_used(
    task: str, content: str, names: set[str], runs: dict[str, Path], tmp_path: Path
) -> None:
    test = tmp_path / ("test.txt" if task == "writing" else "test.tsv")
    test.write_text(content * 3)
    by_path = clearhead.evaluate(runs[task], [test])
    again = clearhead.evaluate(clearhead.load(runs[task]), [test])
    assert names <= by_path.scores.keys()
    assert all(by_path.scores[name] == again.scores[name] for name in names)
    assert len(by_path.lines) == (3 if task == "translation" else 0)
    assert str(by_path) == by_path.text


def test_decoding_settings_are_refused_where_nothing_is_decoded(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "test.txt").write_text("the cat\n")
    with pytest.raises(ConfigError, match="this test writes none"):
        clearhead.evaluate(runs["writing"], [tmp_path / "test.txt"], beam=2)
    with pytest.raises(ConfigError, match="there is no test for it"):
        clearhead.evaluate(runs["pretraining"], [tmp_path / "test.txt"])
