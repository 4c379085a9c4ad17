"""Hostile and clumsy uses of the command line, drawn by hypothesis.

The verbs and their options come from the program itself and the settings from their schema, so that new ones are tried
without a word here. Most of a case is right, so that what is wrong with it gets far.
"""

import inspect
import json
import signal
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer
from hypothesis import strategies as st

from any_settings import FIELDS, values
from clearhead.cli.verb import app
from hostile.edits import KINDS, OF_FOLDERS
from hostile.place import ALL_RUNS, RUNS, TASKS, TINY

Case = dict[str, Any]


def verbs(group: Any, *names: str) -> dict[tuple[str, ...], Any]:
    """All commands of the program, by what is typed."""
    found: dict[tuple[str, ...], Any] = {}
    for name, command in group.commands.items():
        nested = hasattr(command, "commands")
        found |= verbs(command, *names, name) if nested else {(*names, name): command}
    return found


def kinds_of(command: Any) -> dict[str, Any]:
    """By parameter, the type of one value."""
    hints = get_type_hints(inspect.unwrap(command.callback))
    return {name: one_of(hint) for name, hint in hints.items()}


def one_of(hint: Any) -> Any:
    """The type of a value of `int | None`, of `list[str] | None` …"""
    parts = [part for part in get_args(hint) if part is not type(None)]
    if get_origin(hint) is Literal or not parts:
        return hint
    return one_of(parts[0])


COMMANDS = {
    " ".join(names): command for names, command in verbs(typer.main.get_command(app)).items()
}
UNTRIED = {"help", "on"}
"""Options that say nothing here: where Ray is installed, it takes longer to start than a case may last."""
LASTING = {"train", "pretrain", "demo", "serve", "lab"}
"""Verbs that may last as long as they say how they are doing."""
SIGNALS = [int(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
ENVIRONMENTS = [
    {"HOME": "/nonexistent"},
    {"HOME": "/nonexistent", "XDG_CACHE_HOME": ""},
    {"XDG_CACHE_HOME": "/proc/nothing"},
    {"XDG_CACHE_HOME": "train.en"},
    {"XDG_CACHE_HOME": "relative"},
    {"TMPDIR": "/nonexistent"},
    {"TERM": "dumb", "COLUMNS": "10"},
    {"COLUMNS": "0", "LINES": "0"},
    {"COLUMNS": "x", "NO_COLOR": "1"},
    {"FORCE_COLOR": "1", "COLUMNS": "30"},
    {"PYTHONIOENCODING": "latin-1", "LC_ALL": "C"},
    {"LOCAL_RANK": "x", "RANK": "1"},
    {"WORLD_SIZE": "²", "RANK": "0", "LOCAL_RANK": "0"},
    {"CUDA_VISIBLE_DEVICES": "7"},
]
"""Surroundings that a program may find itself in."""
LONG = {
    "--length",
    "--number",
    "-n",
    "--n-best",
    "decode.max_length",
    "decode.min_length",
    "decode.max_extra",
}
"""Options that ask for much: such a case may last, too, if it can be stopped."""
RUN_OF = {"chat": "chat", "classify": "mood", "write": "bard", "fill": "books"}
DATA = ["train.en", "train.de", "pairs.tsv", "talk.jsonl", "mood.tsv", "prose.txt", "terms.tsv"]

NUMBERS = st.sampled_from(
    [
        "0",
        "1",
        "2",
        "3",
        "-1",
        "7",
        "16",
        "100",
        "1000",
        "65536",
        "1000000",
        "2147483648",
        "9223372036854775808",
        "1e3",
        "0.5",
        "1e-300",
        "1e308",
        "nan",
        "inf",
        "-inf",
        "²",
        "٣",
        "1_000",
        "0x10",
        "true",
        "",
        " ",
        "9" * 40,
        "1" + "0" * 5000,
        "0." + "0" * 400 + "1",
    ]
)
OUTSIDE = "../outside"
"""A file that is not the case's own, but that no harm is done with: nothing of the machine is named
that a program run by root could change."""
PLACES = st.sampled_from(
    ["/dev/full", "/dev/null", "/dev/zero", "/proc", ".", "..", "", " ", "-", "missing", "missing/file",
     "new", "folder/new", "runs", "runs/mt", "train.en", "train.en/file", "a\nb", "~", "$HOME",
     "x" * 300, "\udcff", "ü.txt", "--help", "/proc/self/mem", OUTSIDE, "new.html", "new.svg", "new.png"]
)  # fmt: skip
ODD_TEXTS = st.sampled_from(
    ["", " ", "\n", "\t", "\udcff", "\ud800", "\u2028", "é" * 3, "👩‍👩‍👧", "____", "the ____", "</s>",
     "<pad>", "a " * 3_000, "x" * 20_000, "٣ ²", "\r", "\x1b[31m", "{}", "%s", "--", "-", "the cat " * 40]
)  # fmt: skip
TEXTS = st.one_of(st.just("the cat sees the dog ."), ODD_TEXTS, st.text(max_size=12))
JSON_VALUES = st.sampled_from(
    ["null", "true", "-1", "0", "1", "1e308", "1.5", "1000000000000", "9223372036854775808", "NaN",
     "1" + "0" * 400, '""', '"x"', '"²"', "[]", "{}", "[[]]", "[null]", '{"a": 1}', '"\\ud800"', '"../../x"',
     '"' + "x" * 5_000 + '"', "[" * 50 + "]" * 50, '["encoder.0.self"]', "65536", '"cuda"', '"/dev/zero"']
)  # fmt: skip
PATHS = (
    "config.toml", "plan.json", "metrics.jsonl", "film.jsonl", "card.md", "tokenizer.json", "words.safetensors",
    "weights.safetensors", "checkpoints/00000004/state.json", "checkpoints/00000002/state.json",
    "checkpoints/00000004/manifest.json", "checkpoints/00000004/weights.safetensors",
    "checkpoints/00000004/optimizer.safetensors", "checkpoints",
)  # fmt: skip
READERS = {
    "metrics.jsonl": ["info", "runs", "train", "train", "verify"],
    "film.jsonl": ["look", "look", "look", "verify"],
    "state.json": ["train"] * 6,
    "plan.json": ["train"] * 4,
}
"""Verbs that read a file, each to be tried as often as it is named beside all others."""
RARELY = st.integers(0, 3).map(lambda number: number == 0)
FORMATS = ["hf", "ctranslate2", "onnx", "argos", "x", ""]
SHARDS = [
    "1/1",
    "1/2",
    "2/2",
    "3/2",
    "0/1",
    "1/0",
    "²/2",
    "1/1000000000",
    "-1/2",
    "1",
    "a/b",
    "1/2/3",
]
JOINS = st.sampled_from([[], ["--join"], ["--join", "--output", "joined.txt"]])
LABS = ["complexity", "gradients", "positions", "heads", "table3", "versus", "x"]
FOREIGN = [
    "config.json", "model.safetensors", "tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "source.spm",
    "model.bin", "shared_vocabulary.json", "metadata.json", "pytorch_model.bin", "model.safetensors.index.json",
]  # fmt: skip
FOREIGN_NAMES = ["model_type", "hidden_size", "num_attention_heads", "d_model", "vocab_size", "architectures",
    "layer_norm_epsilon", "weight_map", "add_source_bos", "unk_token"]  # fmt: skip
ODD = [
    "bert",
    "marian",
    "gpt2",
    0,
    1,
    -1,
    2**70,
    None,
    [],
    {},
    ["BertModel"],
    {"x": "../../x"},
    "",
    1e308,
    True,
]
"""Names and values in the settings of other programs."""


@st.composite
def settings(draw: st.DrawFn, section: str = "") -> str:
    """An assignment for --set: mostly one that the schema allows."""
    name = draw(st.sampled_from([name for name in FIELDS if name.startswith(section)]))
    kind = draw(
        st.sampled_from(["valid", "valid", "bound", "bound", "bound", "number", "json", "text"])
    )
    schema = FIELDS[name]
    if kind in ("valid", "bound"):
        parts = schema.get("anyOf", [schema])
        bounds = [part[end] for part in parts for end in ("minimum", "maximum") if end in part]
        value = draw(st.sampled_from(bounds) if kind == "bound" and bounds else values(schema))
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = draw({"number": NUMBERS, "json": JSON_VALUES, "text": ODD_TEXTS}[kind])
    return f"{name}={text}"


@st.composite
def options(draw: st.DrawFn, verb: str, most: int = 3) -> list[str]:
    """Options that a verb has, with odd values."""
    offered = [
        p for p in COMMANDS[verb].params if p.param_type_name == "option" and p.name not in UNTRIED
    ]
    found: list[str] = []
    for option in draw(st.lists(st.sampled_from(offered), max_size=most)) if offered else []:
        found += [option.opts[-1], *draw(option_values(option, verb))]
    return found


def option_values(option: Any, verb: str) -> st.SearchStrategy[list[str]]:
    kind, metavar = kinds_of(COMMANDS[verb]).get(option.name, str), option.metavar or ""
    if getattr(option, "is_flag", False):
        return st.just([])
    if metavar.endswith("NAME=VALUE"):
        one = settings("decode." if metavar.startswith("decode") else "")
    elif get_origin(kind) is Literal:
        one = st.one_of(st.sampled_from(get_args(kind)), ODD_TEXTS)
    elif kind in (int, float):
        one = NUMBERS
    elif metavar in ("FILES", "TSV"):
        one = st.one_of(st.sampled_from(DATA), PLACES)
    elif metavar in ("RUN", "RUNS"):
        one = st.one_of(st.sampled_from([f"runs/{run}" for run in ALL_RUNS]), PLACES)
    elif kind is Path or metavar in ("FILE", "FOLDER", "HTML"):
        one = PLACES
    elif metavar == "TIME":
        one = st.one_of(
            st.sampled_from(["1s", "2 steps", "0s", "1 epochs", "²s", "9" * 30 + "d"]), NUMBERS
        )
    elif metavar.startswith("PATH") or metavar == "NAMES":
        one = st.sampled_from(
            ["encoder.0.self.0", "decoder.0.cross.1", "encoder.0.self.0.pattern", "decoder.logits", "no-scale",
             "no-mask", "swap:0:dog", "swap:99:dog", "swap:²:x", "silence:encoder.0.self.0", "silence:x", "x", "",
             "paint:encoder.0.self.0:0:0", "0", "1", "²", "-1", "9" * 30, "encoder.9.self.9", "swap:0:" + "dog " * 500]
        )  # fmt: skip
        return st.lists(one, min_size=1, max_size=3)
    else:
        one = TEXTS
    return st.lists(one, min_size=1, max_size=2 if option.multiple else 1)


@st.composite
def arguments(draw: st.DrawFn, verb: str, run: str) -> list[str]:
    """What a verb must be given, rightly as a rule."""
    found: list[str] = []
    for argument in COMMANDS[verb].params:
        if argument.param_type_name != "argument":
            continue
        is_right = draw(st.integers(0, 7)) > 0
        match argument.metavar or argument.name.upper():
            case "RUN" | "RUNS":
                found.append(f"runs/{run}" if is_right else draw(PLACES))
            case "FILES":
                right = TASKS[RUNS.get(run, "writing")]
                wrong = st.lists(st.one_of(st.sampled_from(DATA), PLACES), min_size=1, max_size=3)
                found += right if is_right else draw(wrong)
            case "FOLDER":
                found.append("runs" if is_right else draw(PLACES))
            case _ if argument.required or draw(st.booleans()):
                found.append(draw(TEXTS))
            case _:
                pass
    return found


@st.composite
def uses(draw: st.DrawFn) -> Case:
    """Any verb on whole runs, with odd options, texts and streams."""
    verb = draw(st.sampled_from(sorted(COMMANDS)))
    run = RUN_OF.get(verb) or draw(st.sampled_from(ALL_RUNS))
    args = [*verb.split(), *draw(arguments(verb, run)), *draw(options(verb))]
    if verb in ("train", "pretrain") and draw(st.booleans()):
        args += ["--into", "new", "--set", *TINY]
    return case(args, run, **draw(streams()))


@st.composite
def trainings(draw: st.DrawFn) -> Case:
    """A new run with settings drawn from the schema, from whole or odd data."""
    task = draw(st.sampled_from(list(TASKS)))
    sets = [*TINY, *draw(st.lists(settings(), min_size=1, max_size=2))]
    files, edits = TASKS[task], []
    if draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(files))
        edits = [draw(edits_of([name]))]
    args = ["train", *files, "--task", task, "--into", "new", "--set", *sets]
    return case(args, "mt", edits=edits)


@st.composite
def edits_of(draw: st.DrawFn, paths: list[str]) -> dict[str, Any]:
    path = draw(st.sampled_from(paths))
    how = draw(st.sampled_from(KINDS if path.startswith("runs/") else KINDS[:-1]))
    if path.endswith((".json", ".jsonl", ".toml")):
        how = draw(st.sampled_from(["set", "set", "set", "set", "drop", "add", how]))
    value = draw(JSON_VALUES if how in ("set", "add", "drop", "line") else TEXTS)
    if how == "link":
        value = draw(st.sampled_from(["", "/dev/zero", "config.toml", ".", "missing"]))
    return {
        "path": path,
        "how": how,
        "pick": draw(st.integers(0, 2**20)),
        "value": value,
        "signed": True,
    }


@st.composite
def broken_runs(draw: st.DrawFn) -> Case:
    """A run with a file that is wrong, used in a way that reads it, as a rule."""
    run = draw(st.sampled_from([*ALL_RUNS, "half", "half"]))
    path = draw(st.sampled_from(PATHS))
    edits = [draw(edits_of([f"runs/{run}/{path}"]))]
    own = next((verb for verb, of in RUN_OF.items() if of == run), "translate")
    anything = ["info", "runs", "verify", "train", "look", "average", "evaluate", own]
    verb = draw(st.sampled_from([*READERS.get(path.rpartition("/")[2], ()), *anything]))
    args = [verb, *draw(arguments(verb, run))]
    if verb == "train":
        args = ["train", f"runs/{run}", *draw(st.sampled_from([[], ["--budget", "8 steps"]]))]
    elif verb == "look":
        args = ["look", f"runs/{run}", *draw(st.sampled_from([["--film"], ["the cat sees"]]))]
    return case(args, run, edits=edits, stdin=b"the cat sees\n")


@st.composite
def odd_data(draw: st.DrawFn) -> Case:
    """Files of examples that are odd, examined, learned from or measured on."""
    name = draw(st.sampled_from(DATA))
    task = next((task for task, files in TASKS.items() if name in files), "translation")
    files = TASKS[task] if name in TASKS[task] else [name]
    edits = draw(st.lists(edits_of([name]), min_size=1, max_size=2))
    verb = draw(st.sampled_from(["doctor", "doctor", "train", "evaluate", "translate"]))
    run = next(run for run, of in RUNS.items() if of == task)
    args = {
        "doctor": ["doctor", *files, *draw(st.sampled_from([[], ["--fix", "fixed"], ["--json"]]))],
        "train": ["train", *files, "--task", task, "--into", "new", "--set", *TINY],
        "evaluate": ["evaluate", f"runs/{run}", *files],
        "translate": ["translate", "runs/mt", "--input", name, "--output", "out.txt"],
    }[verb]
    return case(args, "mt" if verb == "translate" else run, edits=edits)


@st.composite
def exchanges(draw: st.DrawFn) -> Case:
    """Models that come from elsewhere or go there, and what works on several runs or on parts."""
    run = draw(st.sampled_from(ALL_RUNS))
    task = RUNS.get(run, "translation")
    other = draw(st.one_of(st.just("runs/mt"), st.sampled_from([f"runs/{r}" for r in ALL_RUNS])))
    shards = ["--into", "parts", "--shard", draw(st.sampled_from(SHARDS)), *draw(JOINS)]
    args = draw(
        st.sampled_from(
            [
                ["export", f"runs/{run}", "--to", draw(st.sampled_from(FORMATS)), "--into", "out"],
                ["import", f"runs/{run}", "--into", "new"],
                ["import", "foreign", "--into", "new"],
                ["compare", f"runs/{run}", other, *TASKS[task]],
                ["average", f"runs/{run}"],
                ["embed", f"runs/{run}", "--input", "train.en"],
                ["embed", f"runs/{run}", "--input", "train.en", "--beside", "train.de"],
                ["embed", f"runs/{run}", "the cat", "--among", "train.en"],
                ["translate", f"runs/{run}", "--input", "train.en", "--with", other],
                ["translate", f"runs/{run}", "--input", "train.en", *shards],
                ["classify", f"runs/{run}", "--input", "train.en", *shards],
                ["serve", f"runs/{run}", other, "--port", "0"],
                ["lab", draw(st.sampled_from(LABS)), "--quick", "--into", "lab"],
                ["rm", f"runs/{run}"],
            ]
        )
    )
    edits = [draw(edits_of([f"runs/{run}/{path}" for path in PATHS]))] if draw(RARELY) else []
    if args[:2] == ["import", "foreign"]:
        edits = draw(st.lists(foreign_files(), min_size=1, max_size=4))
    more = draw(options(args[0], most=2)) if draw(RARELY) else []
    return case([*args, *more], run, edits=edits, **draw(streams()))


@st.composite
def foreign_files(draw: st.DrawFn) -> dict[str, Any]:
    """A file of a model that was made by another program, or by nobody."""
    name = draw(st.sampled_from(FOREIGN))
    kind = draw(st.sampled_from(["json", "text", "bytes", "config"]))
    value = {
        "json": draw(JSON_VALUES),
        "text": draw(TEXTS),
        "bytes": draw(st.text(max_size=40)),
        "config": json.dumps({draw(st.sampled_from(FOREIGN_NAMES)): draw(st.sampled_from(ODD)) for _ in range(4)}),
    }[kind]  # fmt: skip
    return {"path": f"foreign/{name}", "how": "made", "pick": 0, "value": value}


@st.composite
def meanwhiles(draw: st.DrawFn) -> Case:
    """A run, or one of its files, that is moved, deleted or changed while it is in use."""
    run = draw(st.sampled_from(["mt", "mt", "half"]))
    args = draw(
        st.sampled_from(
            [
                ["train", "runs/half"],
                ["train", *TASKS["translation"], "--into", "runs/mt2", "--set", *TINY, "train.max_steps=100000",
                 "train.save_every=5"],
                ["translate", f"runs/{run}", "--input", "train.en", "--output", "out.txt"],
                ["evaluate", f"runs/{run}", *TASKS["translation"]],
                ["serve", f"runs/{run}", "--port", "0"],
                ["look", f"runs/{run}", "the cat sees", "--reasons"],
                ["average", f"runs/{run}"],
                ["export", f"runs/{run}", "--to", "hf", "--into", "out"],
                ["runs"],
            ]
        )
    )  # fmt: skip
    where = "runs/mt2" if "runs/mt2" in args else f"runs/{run}"
    path = draw(st.sampled_from([where, where, where, "runs", *(f"{where}/{p}" for p in PATHS)]))
    how = draw(st.sampled_from(OF_FOLDERS))
    change = {"path": path, "how": how, "pick": 0, "value": "missing"}
    return case(args, run, meanwhile=[change, draw(st.floats(0.0, 1.5))])


@st.composite
def streams(draw: st.DrawFn) -> dict[str, Any]:
    """Standard streams as they may be: bytes of any kind, devices, closed, of a poor locale."""
    lines = st.lists(TEXTS, max_size=4).map(
        lambda found: "\n".join(found).encode(errors="surrogatepass")
    )
    found: dict[str, Any] = {"stdin": draw(st.one_of(lines, st.binary(max_size=20)))}
    odd = draw(st.integers(0, 9))
    if odd == 0:
        found["stdin_from"] = draw(st.sampled_from(["closed", "/dev/zero", "/dev/null"]))
    elif odd == 1:
        found["stdout_to"] = draw(st.sampled_from(["closed", "broken", "/dev/full"]))
    elif odd in (2, 3):
        found["ascii"] = True
    elif odd in (4, 5):
        found["env"] = draw(st.sampled_from(ENVIRONMENTS))
    elif odd == 6:
        found["signal"] = [draw(st.sampled_from(SIGNALS)), draw(st.floats(0.01, 1.0))]
    return found


def case(args: list[str], run: str, *, edits: Any = (), stdin: bytes = b"", **streams: Any) -> Case:
    used = {run, *(name for name in ALL_RUNS if any(f"runs/{name}" in arg for arg in args))}
    # an experiment takes minutes, and with -q it does not say that it lives
    is_long = args[0] == "lab" or any(each.partition("=")[0] in LONG for each in args)
    return {
        "args": args,
        "runs": sorted(used),
        "edits": list(edits),
        "stdin": stdin.hex(),
        "lasting": is_long or args[0] in LASTING,
        "is_long": is_long,
        **streams,
    }


CASES = (
    broken_runs(),
    uses(),
    trainings(),
    exchanges(),
    broken_runs(),
    uses(),
    meanwhiles(),
    broken_runs(),
    trainings(),
    odd_data(),
)
"""The kinds of cases, each as often as it is named."""
