"""Each way in which a file, a setting, a text or a place can be wrong, with what is said about it."""

import base64
import json
import zlib
from typing import Any

import pytest

from hostile.fuzz import failure
from hostile.place import TASKS, TINY

STATE = "runs/half/checkpoints/00000002/state.json"
LOG, FILM = "runs/mt/metrics.jsonl", "runs/mt/film.jsonl"
CONFIG = "runs/chat/config.toml"


def edited(path: str, how: str, value: str = "null", pick: int = 0) -> dict[str, Any]:
    return {"path": path, "how": how, "value": value, "pick": pick, "signed": True}


def training(task: str, *settings: str) -> list[str]:
    return ["train", *TASKS[task], "--task", task, "--into", "new", "--set", *TINY, *settings]


def told(tried: Any, args: list[str], *edits: dict[str, Any], **streams: Any) -> dict[str, Any]:
    """What became of a case; it must have ended as every case has to."""
    answer = tried(args, *edits, **streams)
    wrong = failure({"args": args, "edits": edits, "is_long": False, **streams}, answer)
    assert wrong is None, str(wrong)
    return answer


# what stands at the top of state.json: counters, steps, corrections, average_updates, circumstances
@pytest.mark.parametrize("pick", range(1, 20))
@pytest.mark.parametrize("how", ["drop", "set"])
def test_a_checkpoint_that_is_whole_but_wrong_is_passed_over_or_named(tried, how, pick):
    answer = told(tried, ["train", "runs/half"], edited(STATE, how, "[[]]", pick))
    assert answer["code"] == 1
    assert "checkpoints/00000002/state.json is damaged" in answer["stderr"]


@pytest.mark.parametrize("value", ["-1", "1000000000000", "true", '"2"', "1e300"])
def test_no_step_is_believed_beyond_its_bounds(tried, value):
    assert told(tried, ["train", "runs/half"], edited(STATE, "set", value, 6))["code"] == 1


def test_an_older_checkpoint_takes_the_place_of_a_wrong_one(tried):
    path = "runs/mt/checkpoints/00000004/state.json"
    answer = told(tried, ["train", "runs/mt", "--budget", "6 steps"], edited(path, "drop", pick=1))
    assert answer["code"] == 0
    assert "00000004/state.json is damaged" in answer["stderr"]


@pytest.mark.promise(27, "file and line are named")
@pytest.mark.parametrize("name", ["kind", "step", "loss", "epoch", "seconds"])
@pytest.mark.parametrize("verb", [["info"], ["train"], ["verify"]])
def test_a_line_of_the_log_that_is_wrong_is_named(tried, verb, name):
    line = {"kind": "step", "step": 1, "steps": 4, "epoch": 0.3, "loss": 4.0, "seconds": 0.1}
    wrong = edited(LOG, "line", json.dumps(line | {name: {}}), 1)
    answer = told(tried, [*verb, "runs/mt"], wrong)
    assert answer["code"] == 1
    assert "metrics.jsonl:2 is not a report" in answer["stderr"] + answer["stdout"]


@pytest.mark.parametrize("how", ["empty", "gone"])
def test_a_lost_log_does_not_stop_a_run(tried, how):
    lost = edited("runs/half/metrics.jsonl", how)
    assert told(tried, ["train", "runs/half"], lost)["code"] == 0
    assert told(tried, ["info", "runs/mt"], edited(LOG, how))["code"] == 0


@pytest.mark.parametrize("pick", range(0, 60, 3))
def test_a_film_that_is_wrong_is_named(tried, pick):
    """Every value of its first line, as another kind of value; the line has fewer than sixty."""
    n_lines = 4  # untrained, two validations, and what follows the last line feed
    wrong = edited(FILM, "set", "[[[1e9]]]", n_lines * pick)
    answer = told(tried, ["look", "runs/mt", "--film"], wrong)
    assert answer["code"] == 1
    assert "film.jsonl:1" in answer["stderr"]


def test_a_film_that_unpacks_to_more_than_it_says_is_not_unpacked(tried):
    bomb = base64.b64encode(zlib.compress(bytes(10**8))).decode()
    shot = {
        "source": [9, 2],
        "target": [1, 8],
        "shapes": {"encoder.0.self": [2, 2, 2]},
        "patterns": bomb,
    }
    line = json.dumps({"kind": "frame", "step": 1, "loss": 1.0, "probes": [shot]})
    answer = told(tried, ["look", "runs/mt", "--film"], edited(FILM, "bytes", line + "\n"))
    assert "not as many numbers as it says" in answer["stderr"]


def test_a_run_goes_on_with_its_own_data_only_though_the_log_is_lost(tried):
    gone, other = (
        edited("runs/half/metrics.jsonl", "gone"),
        edited("train.de", "line", "other words"),
    )
    answer = told(tried, ["train", "runs/half"], gone, other)
    assert answer["code"] == 1
    assert "not those that runs/half was begun with" in answer["stderr"]


def test_a_run_whose_files_have_moved_names_them_as_they_were_given(tried):
    answer = told(tried, ["train", "runs/half"], edited("train.de", "gone"))
    assert "runs/half was begun with train.de, and there is no train.de." in answer["stderr"]


def test_a_file_is_named_as_it_was_given(tried, tmp_path):
    (tmp_path / "a.en").write_bytes(b"fine\nnot \xff fine\n")
    (tmp_path / "a.de").write_text("a\nb\n")
    files = [str(tmp_path / "a.en"), str(tmp_path / "a.de")]
    answer = told(tried, ["train", *files, "--into", "new", "--set", *TINY])
    assert f"clearhead: {tmp_path}/a.en:2: not UTF-8" in answer["stderr"]


@pytest.mark.promise(27, "impossible settings are refused by name")
@pytest.mark.parametrize(
    ("task", "setting", "said"),
    [
        ("translation", "model.d_model=65536", "model with d_model = 65,536"),
        ("translation", "train.accumulate=65536", "train.accumulate = 65,536"),
        ("classification", "labels.weights=[1.0]", "labels.weights has 1 values for 2 labels"),
        ("chat", "model.family=encoder", 'model.family = "encoder" is not for chat'),
        ("writing", "data.files=['/dev/zero']", "/dev/zero is a pipe"),
        ("writing", "data.files=['/']", "more than 10,000 files"),
        ("writing", "train.device=cuda:99", "train.device = cuda:99 is not on this machine"),
        ("writing", "train.device=mps", "There is: cpu"),
        ("writing", "train.budget=²s", 'Invalid budget "'),
        ("writing", f"train.budget={'9' * 40}s", 'Invalid budget "'),
        ("writing", f"train.seed={'9' * 5_000}", "train.seed"),
        ("chat", "decode.repetition_penalty=1e-300", "decode.repetition_penalty"),
        ("chat", "decode.temperature=1e-300", "decode.temperature = 1e-300 leaves nothing"),
    ],
)
def test_settings_that_are_impossible_are_refused_by_name(tried, task, setting, said):
    answer = told(tried, training(task, setting))
    assert answer["code"] == 1
    assert said in answer["stderr"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("empty", "runs/chat cannot chat"),
        ("gone", "is not a clearhead run"),
        ("bytes", "not UTF-8"),
    ],
)
def test_a_config_that_is_no_run_s_is_refused(tried, how, said):
    answer = told(tried, ["chat", "runs/chat"], edited(CONFIG, how, "\udcff"), stdin=b"hi\n")
    assert answer["code"] == 1
    assert said in answer["stderr"]


@pytest.mark.parametrize("size", [1, 20, 1_000, 2_000_000])
def test_a_vocabulary_that_is_not_the_weights_is_refused(tried, size):
    line = 6  # after format, task, a blank line, [model], architecture and family
    answer = told(
        tried, ["chat", "runs/chat"], edited(CONFIG, "set", str(size), line), stdin=b"hi\n"
    )
    assert answer["code"] == 1
    assert "weights" in answer["stderr"]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("text", ["", "\n", "a\n", '{"turns": ["a", "b"]}\n', " \n \n"])
def test_too_little_to_learn_from_says_so(tried, task, text):
    edits = [edited(name, "bytes", text) for name in TASKS[task]]
    if not text:
        edits = [edited(name, "empty") for name in TASKS[task]]
    answer = told(tried, training(task), *edits)
    assert answer["code"] == 1


@pytest.mark.parametrize("task", ["translation", "writing"])
def test_one_endless_word_is_learned_from_in_time(tried, task):
    edits = [edited(name, "bytes", "ab" * 200_000 + "\na b c\nd e f\n") for name in TASKS[task]]
    told(tried, training(task, "tokenizer.method=bpe"), *edits)


@pytest.mark.parametrize("stdin", [b"\xff\xfe\n", b"\xed\xa0\x80\n", b"a\xffb"])
@pytest.mark.parametrize(
    "args", [["write", "runs/bard"], ["look", "runs/mt"], ["translate", "runs/mt"]]
)
def test_bytes_that_are_no_text_are_named(tried, args, stdin):
    answer = told(tried, args, stdin=stdin)
    assert answer["code"] == 1
    assert "-:1: not UTF-8" in answer["stderr"]


@pytest.mark.parametrize("text", ["", " ", "\ud800", "x" * 50_000])
@pytest.mark.parametrize(
    "options", [[], ["--reasons"], ["--search"], ["-o", "new.html"], ["--guide", "new.md"]]
)
def test_any_text_can_be_looked_at_or_is_refused(tried, text, options):
    told(tried, ["look", "runs/mt", text, *options])


def test_a_word_swapped_for_thousands_is_too_long_to_look_into(tried):
    answer = told(tried, ["look", "runs/mt", "the cat", "--edit", "swap:0:" + "dog " * 10_000])
    assert "too long to look into" in answer["stderr"]


def test_hundreds_of_terms_on_one_line_degrade_and_are_reported(tried):
    terms = "".join(f"w{n}\tv{n}\n" for n in range(300))
    line = " ".join(f"w{n}" for n in range(300)).encode()
    answer = told(
        tried,
        ["translate", "runs/mt", "--glossary", "terms.tsv"],
        edited("terms.tsv", "bytes", terms),
        stdin=line,
    )
    assert answer["code"] == 0
    assert "without the term v299" in answer["stderr"]


PLACES = ["/dev/full", "/proc", ".", "", "runs", "missing/file", "train.en/file", "x" * 300]


@pytest.mark.promise(27, "32 outputs to impossible places: exit 4, named")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "args",
    [
        ["translate", "runs/mt", "the cat", "--output"],
        ["evaluate", "runs/mt", "train.en", "train.de", "--output"],
        ["look", "runs/mt", "the cat", "--output"],
        ["look", "runs/mt", "the cat", "--guide"],
    ],
    ids=lambda args: args[0] + args[-1],
)
def test_a_place_where_nothing_can_be_written_is_named(tried, args, place):
    answer = told(tried, [*args, place])
    assert answer["code"] == 4
    assert "cannot be written" in answer["stderr"]


@pytest.mark.parametrize("verb", ["translate", "classify"])
def test_a_folder_is_no_input(tried, verb):
    answer = told(
        tried, [verb, f"runs/{'mt' if verb == 'translate' else 'mood'}", "--input", "runs"]
    )
    assert "is a folder" in answer["stderr"]


@pytest.mark.parametrize(
    "args", [["translate", "runs/mt"], ["write", "runs/bard"], ["look", "runs/mt"]]
)
def test_input_without_an_end_is_refused(tried, args):
    answer = told(tried, args, stdin_from="/dev/zero")
    assert "line of more than" in answer["stderr"]


@pytest.mark.parametrize(
    "args", [["info", "runs/mt"], ["translate", "runs/mt", "the cat"], ["runs"], ["--help"]]
)
@pytest.mark.parametrize("place", ["closed", "/dev/full"])
def test_output_that_goes_nowhere_is_the_disk_s_fault(tried, args, place):
    assert told(tried, args, stdout_to=place)["code"] == 4


@pytest.mark.parametrize("args", [["info", "runs/mt"], ["translate", "runs/mt", "the cat"], ["train", "--help"],
    ["look", "runs/mt", "the cat"], ["doctor", "train.en", "train.de"]], ids=lambda args: args[0])  # fmt: skip
def test_output_is_utf8_whatever_the_locale(tried, args):
    assert told(tried, args, ascii=True)["code"] == 0


@pytest.mark.parametrize("how", ["pipe", "link"])
def test_weights_that_are_no_file_are_not_waited_for(tried, how):
    wrong = edited("runs/mt/weights.safetensors", how, "")
    parts = ["--input", "train.en", "--into", "parts"]
    assert told(tried, ["translate", "runs/mt", *parts], wrong)["code"] == 1
    assert told(tried, ["translate", "runs/mt", "the cat"], wrong)["code"] == 1
