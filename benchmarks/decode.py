"""Decoding speed: clearhead beside CTranslate2 with the same weights and Hugging Face's generate, interleaved.

    script/bench decode [--run RUN] [--repeats 5] [--sentences 1000] [--sizes small] [--lines 100000] [--quick]

Prints Markdown tables: the share of outputs that equal CTranslate2's, throughput, latency of one sentence, start-up,
memory, and the speed of `clearhead translate` on a long file. Weights are random unless a run is given, so every output
is forced to one length; a run is measured at its natural lengths as well. "backend" is text to text: clearhead with
CTranslate2 as its engine beside a script that uses CTranslate2 and the same tokenizer as well as it can.
"""

import argparse
import gzip
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from conditions import conditions

from clearhead import metrics
from clearhead.config import Config, DecodeConfig, ModelConfig, TokenizerConfig
from clearhead.decode import FlatTransformer, WithBackend, decode, laid_out
from clearhead.exchange.backend import CTranslate2
from clearhead.exchange.ct2 import Precision, write_model
from clearhead.folder import RunFolder
from clearhead.machine import keep_freed_memory
from clearhead.model import Transformer, build
from clearhead.tasks import Translator
from clearhead.tasks.translation import ended
from clearhead.text import END, Tokenizer

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "multi30k"
LENGTH = 15
"""Tokens of every output, where lengths are forced."""
FORCED = {"min_length": LENGTH, "max_length": LENGTH, "guard": False}
PAUSE = 0.3
"""Seconds before each measurement, in which the threads of the engine before it fall asleep."""


PARTS = [
    "agreement",
    "throughput",
    "latency",
    "backend",
    "rounding",
    "start-up",
    "files",
    "backend-files",
]

Sources = dict[str, list[list[int]]]
"""The sentences as each model reads them."""


@dataclass(frozen=True)
class Job:
    """One measurement."""

    engine: str
    model: str
    beam: int
    workers: int = 1
    threads: int = 2
    precision: str = "float32"
    batch: int = 256
    n_sentences: int = 1000
    length: int | None = LENGTH
    longest: int = 256
    """Where an output of no forced length is cut off."""
    outputs: bool = False


Measure = Callable[[Job], dict[str, Any]]
"""Seconds of a job, and its outputs where they are asked for."""

THROUGHPUT = {
    "clearhead fp32, 1 × 2 threads": Job("clearhead", "", 1),
    "clearhead fp32, 2 × 1": Job("clearhead", "", 1, workers=2, threads=1),
    "CTranslate2 fp32, 1 × 2": Job("ct2", "", 1, batch=64),
    "CTranslate2 fp32, 2 × 1": Job("ct2", "", 1, workers=2, threads=1, batch=64),
    "HF generate, 1 × 2": Job("hf", "", 1, batch=64),
    "clearhead int8, 2 × 1": Job("clearhead", "", 1, workers=2, threads=1, precision="int8"),
    "CTranslate2 int8, 2 × 1": Job("ct2", "", 1, workers=2, threads=1, precision="int8", batch=64),
}
LATENCY = {
    "clearhead fp32": Job("clearhead", "", 1, threads=1, batch=1),
    "CTranslate2 fp32": Job("ct2", "", 1, threads=1, batch=1),
    "HF generate": Job("hf", "", 1, threads=1, batch=1),
    "CTranslate2 int8": Job("ct2", "", 1, threads=1, batch=1, precision="int8"),
}
BOTH = Job("", "", 1, workers=2, threads=1, batch=64, length=None)
TEXT_TO_TEXT = {
    f"{engine} {short}{how}": replace(job, precision=precision)
    for precision, short in (("float32", "fp32"), ("int8", "int8"))
    for engine, how, job in (
        ("clearhead by CTranslate2", "", replace(BOTH, engine="backend")),
        ("a script with CTranslate2", ", two processes", replace(BOTH, engine="script")),
        ("a script with CTranslate2", ", inter_threads=2", replace(BOTH, engine="threaded")),
        ("CTranslate2", ", ids to ids", replace(BOTH, engine="ct2")),
    )
}
"""Text in, text out, on both processors; the last of each precision has no text to deal with."""
RATIOS = [
    ("clearhead fp32", "CTranslate2 fp32"),
    ("clearhead fp32", "HF generate"),
    ("clearhead int8", "CTranslate2 int8"),
    *(
        (f"clearhead by CTranslate2 {precision}", f"{peer} {precision}")
        for precision in ("fp32", "int8")
        for peer in ("a script with CTranslate2", "CTranslate2")
    ),
]


def corpus() -> tuple[list[str], list[str]]:
    """Text to learn a vocabulary from and sentences to translate: Multi30k, or made-up ones of like lengths."""
    if DATA.exists():
        english, german, test = (
            gzip.decompress((DATA / name).read_bytes()).decode().splitlines()
            for name in ("train.en.gz", "train.de.gz", "test2016.en.gz")
        )
        return english + german, test
    rng = np.random.default_rng(0)
    words = [f"word{n}" for n in range(8_000)]
    texts = [" ".join(rng.choice(words, rng.integers(8, 18))) for _ in range(21_000)]
    return texts[1_000:], texts[:1_000]


def random_model(config: ModelConfig) -> Transformer:
    """Random weights with nothing at zero or one, on which every part and the order of tokens have an effect.

    Larger matrices make more of it in pre-norm; in post-norm they drown the tokens, and beams then tie exactly.
    """
    torch.manual_seed(0)
    model = build(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.02)
            elif config.norm == "pre":
                parameter.mul_(3)
    return model


def ending(config: ModelConfig, sources: list[list[int]]) -> Transformer:
    """A random model whose outputs end by themselves, after about as many tokens as `LENGTH`.

    The end token's bias is found by trying.
    """
    model = random_model(config.but(logit_bias=True))
    assert model.head.bias is not None
    options = DecodeConfig(beam=1, guard=False, max_extra=10)
    low, high = 0.0, 64.0
    for _ in range(12):
        with torch.no_grad():
            model.head.bias[END] = (low + high) / 2
        found = decode(model, sources, options, scored=False)
        is_longer = statistics.mean(len(best.ids) for best, *_ in found) >= LENGTH
        low, high = ((low + high) / 2, high) if is_longer else (low, (low + high) / 2)
    return model


def write_models(
    folder: Path, run: str | None, names: list[str], train: list[str], test: list[str]
) -> Tokenizer:
    """A run folder for each size and for the given run, and the same weights as the peers read them.

    The outputs of "SIZE, ending" end by themselves.
    """
    tokenizer = Tokenizer.learn(train, TokenizerConfig(vocab_size=8_000))
    for name in names:
        size, _, ends = name.partition(", ")
        config = ModelConfig.preset(
            size, vocab_size=tokenizer.vocab_size, tie="none"
        )  # tied, it would repeat itself
        texts = ended(tokenizer, test[:64], config)
        model = ending(config, texts) if ends else random_model(config)
        made = RunFolder.create(folder / name, Config(model=model.config), tokenizer)
        made.write_weights(model.state_dict())
    if run:
        (folder / "run").symlink_to(Path(run).resolve())
    for name in [*names, *(["run"] if run else [])]:
        model = RunFolder.open(folder / name).model()
        (folder / f"{name}.tokenizer.json").write_text(
            RunFolder.open(folder / name).tokenizers()[0].json
        )
        tables = {
            f"{side}.positions.table": getattr(model, side).positions.table
            for side in ("encoder", "decoder")
        }
        np.savez(
            folder / f"{name}.npz",
            **{path: x.numpy() for path, x in (model.state_dict() | tables).items()},
        )
        (folder / f"{name}.json").write_text(model.config.model_dump_json())
    return tokenizer


class Clearhead:
    """Our engine: in this process, or in worker processes that share the sentences."""

    def __init__(self, folder: Path, texts: list[str], sources: Sources, pool: Pool) -> None:
        self.folder, self.texts, self.sources, self.pool = folder, texts, sources, pool

    def __call__(self, job: Job) -> dict[str, Any]:
        sources = self.sources[job.model][: job.n_sentences]
        path, int8 = self.folder / job.model, job.precision == "int8"
        if job.engine == "backend":
            translator, texts = by_ctranslate2(path, job.workers, int8), self.texts
            asked = [texts] if job.batch > 1 else [[text] for text in texts[: job.n_sentences]]
            # Random weights repeat themselves, and would be decoded again.
            options = {"beam": job.beam, "scored": False, "guard": job.model == "run"}
            options |= {} if job.model == "run" else {"max_length": job.longest}
            begin = time.perf_counter()
            for some in asked:
                translator.translate(some[: job.n_sentences], **options)
            return {"seconds": time.perf_counter() - begin, "outputs": None}
        if job.workers == 1:
            torch.set_num_threads(job.threads)
            model = loaded(path, int8)
            begin = time.perf_counter()
            outputs = decoded(model, sources, job)
            return {"seconds": time.perf_counter() - begin, "outputs": outputs}
        ordered = sorted(sources, key=len)
        shares = [
            (self.folder / job.model, ordered[i :: job.workers], job) for i in range(job.workers)
        ]
        begin = time.perf_counter()
        self.pool.starmap(in_worker, shares, chunksize=1)
        return {"seconds": time.perf_counter() - begin, "outputs": None}


def decoded(model: FlatTransformer, sources: list[list[int]], job: Job) -> list[list[int]]:
    options = DecodeConfig(beam=job.beam, batch_size=job.batch, **(FORCED if job.length else {}))
    if job.outputs:  # compared with an engine that has no guard and blocks nothing
        return [
            list(best.ids)
            for best, *_ in decode(model, sources, options.but(guard=False), blocked=())
        ]
    # Without scores, as CTranslate2 does, unless it is asked.
    return [list(best.ids) for best, *_ in decode(model, sources, options, scored=False)]


@cache
def by_ctranslate2(path: Path, n_workers: int, int8: bool) -> Translator:
    """CTranslate2's processes behind our own entries, with our guard, order and rules.

    Without a certificate: random weights decide by a hair, and in 8 bits otherwise.
    """
    translator = Translator.load(path)
    model, precision = translator.model, cast("Precision", "int8" if int8 else "float32")
    folder = path / f"ct2-{precision}"
    if not folder.exists():
        folder.mkdir()
        source, target = (each.vocabulary.names for each in translator.tokenizers)
        write_model(model, (source, target), folder, precision)
    backend = CTranslate2(folder, model, n_workers=n_workers, precision=precision)
    translator.searching = WithBackend(backend)
    return translator


@cache
def loaded(path: Path, int8: bool) -> FlatTransformer:
    """A model, read once by each process."""
    return laid_out(RunFolder.open(path).model(), int8)


def in_worker(path: Path, sources: list[list[int]], job: Job) -> None:
    decoded(loaded(path, job.precision == "int8"), sources, job)


def begin_alone() -> None:
    torch.set_num_threads(1)
    keep_freed_memory()


class Peers:
    """The process of the other engines."""

    def __init__(self, python: Path, folder: Path) -> None:
        command = [python, ROOT / "benchmarks" / "peers.py", folder]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.versions = self.answer()

    def __call__(self, job: Job) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asdict(job)) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


@contextmanager
def engines(
    folder: Path, python: Path, texts: list[str], sources: Sources
) -> Iterator[tuple[Measure, dict[str, str]]]:
    """How to measure a job on any engine, and the versions of the peers."""
    with multiprocessing.get_context("spawn").Pool(2, begin_alone) as pool:
        ours, peers = Clearhead(folder, texts, sources, pool), Peers(python, folder)

        def measure(job: Job) -> dict[str, Any]:
            time.sleep(PAUSE)
            return ours(job) if job.engine in ("clearhead", "backend") else peers(job)

        try:
            yield measure, peers.versions
        finally:
            peers.process.kill()
            peers.process.wait()


def interleaved(measure: Measure, jobs: dict[str, Job], repeats: int) -> dict[str, list[float]]:
    """Seconds of each job in each round; the round before the first warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for repeat in range(repeats + 1):
        for name, job in jobs.items():
            warm = (
                replace(job, n_sentences=min(job.n_sentences, 2 * job.batch))
                if repeat == 0
                else job
            )
            found = measure(warm)["seconds"]
            print(
                f"round {repeat}, {job.model}, beam {job.beam}, {name}: {found:.2f} s",
                file=sys.stderr,
            )
            if repeat:
                seconds[name].append(found)
    return seconds


def table(
    title: str,
    columns: dict[str, dict[str, list[float]]],
    show: Callable[[float], str],
    better: Callable[..., float],
) -> None:
    """A row per engine, a column per case, and below them how clearhead's best compares with the peers' best."""
    if not columns:
        return
    rows = list(dict.fromkeys(name for column in columns.values() for name in column))
    print(f"\n| {title} | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for row in rows:
        cells = [
            show(statistics.median(column[row])) if row in column else "–"
            for column in columns.values()
        ]
        print(f"| {row} | {' | '.join(cells)} |")
    for engine, peer in RATIOS:
        cells = [ratio(column, engine, peer, better) for column in columns.values()]
        if {*cells} == {"–"}:
            continue
        print(f"| {engine} ÷ {peer} | {' | '.join(cells)} |", flush=True)


def ratio(
    column: dict[str, list[float]], engine: str, peer: str, better: Callable[..., float]
) -> str:
    """The median over the rounds of our figure to theirs, both in the configuration that does best."""

    def best(engine: str) -> list[float]:
        return better(
            (column[name] for name in column if name.startswith(engine)),
            key=statistics.median,
            default=[],
        )

    ours, theirs = best(engine), best(peer)
    return (
        f"{statistics.median(a / b for a, b in zip(ours, theirs, strict=True)):.2f}"
        if ours and theirs
        else "–"
    )


def agreement(measure: Measure, models: list[str], n_sentences: int) -> None:
    """How many outputs are those of CTranslate2, token by token.

    No rule is on: CTranslate2 applies rules before the softmax, clearhead after, so their beams would differ.
    """
    print(
        "\n| outputs equal to CTranslate2's | greedy | beam 4 | distinct tokens |\n|---|---|---|---|"
    )
    for model in models:
        # At natural lengths the beams are ranked by other penalties, so only greedy outputs must be the same.
        natural = model == "run"
        length = None if natural else LENGTH
        job = Job(
            "clearhead", model, 1, threads=1, n_sentences=n_sentences, length=length, outputs=True
        )
        cells, tokens = ["–", "–"], set()
        for column, beam in enumerate([1] if natural else [1, 4]):
            ours, theirs = (
                measure(replace(job, engine=name, beam=beam))["outputs"]
                for name in ("clearhead", "ct2")
            )
            cells[column] = (
                f"{sum(a == b for a, b in zip(ours, theirs, strict=True))} of {len(ours)}"
            )
            tokens |= {token for output in ours for token in output}
        print(f"| {model} | {' | '.join(cells)} | {len(tokens):,} |", flush=True)


def throughput(
    measure: Measure, models: list[str], n_sentences: int, repeats: int, forced: bool
) -> None:
    unit = LENGTH * n_sentences if forced else n_sentences
    columns = {}
    for model in models:
        for name, beam in (("greedy", 1), ("beam 4", 4)):
            jobs = {
                engine: replace(
                    job,
                    model=model,
                    beam=beam,
                    n_sentences=n_sentences,
                    length=LENGTH if forced else None,
                )
                for engine, job in THROUGHPUT.items()
                # The weights of "hf" are not ours, so it would not stop where we do.
                if forced or job.engine != "hf"
            }
            found = interleaved(measure, jobs, repeats)
            columns[f"{model} {name}"] = {
                row: [unit / seconds for seconds in found[row]] for row in found
            }
    table(
        "target tokens/s" if forced else "sentences/s, natural lengths",
        columns,
        "{:,.0f}".format,
        max,
    )


def latency(measure: Measure, models: list[str], n_sentences: int, repeats: int) -> None:
    columns = {}
    for model in models:
        for name, beam in (("greedy", 1), ("beam 4", 4)):
            jobs = {
                engine: replace(
                    job,
                    model=model,
                    beam=beam,
                    n_sentences=n_sentences,
                    length=None if model == "run" else LENGTH,
                )
                for engine, job in LATENCY.items()
                if job.engine != "hf" or model != "run"
            }
            found = interleaved(measure, jobs, repeats)
            columns[f"{model} {name}"] = {
                row: [1e3 * each / n_sentences for each in found[row]] for row in found
            }
    table("ms per sentence, batch 1, one thread", columns, "{:.1f}".format, min)


def backend(measure: Measure, models: list[str], n_sentences: int, repeats: int) -> None:
    """Text to text at natural lengths: many sentences with both processors, and one with one."""
    for title, n, is_alone in (
        ("sentences/s, text to text, natural lengths", n_sentences, False),
        ("ms per sentence, one after the other, one thread", min(50, n_sentences), True),
    ):
        columns = {}
        for model in models:
            # A beam of random weights hardly ever ends, and all must do the same work.
            ways = (("greedy", 1), ("beam 4", 4)) if model == "run" else (("greedy", 1),)
            for name, beam in ways:
                jobs = {
                    engine: replace(
                        job,
                        model=model,
                        beam=beam,
                        n_sentences=n,
                        longest=256 if model == "run" else 2 * LENGTH,
                        **({"batch": 1, "workers": 1} if is_alone else {}),
                    )
                    for engine, job in TEXT_TO_TEXT.items()
                    if not (is_alone and job.engine == "script")  # the same, in another process
                }
                found = interleaved(measure, jobs, repeats)
                columns[f"{model} {name}"] = {
                    row: [1e3 * each / n if is_alone else n / each for each in found[row]]
                    for row in found
                }
        table(title, columns, ("{:.2f}" if is_alone else "{:,.0f}").format, [max, min][is_alone])


def timed(command: list[str | Path]) -> tuple[float, float, float]:
    """Seconds that a command takes, GB that it needs at most, and processor time, its children's included."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    assert status == 0, f"{command} failed"
    return seconds, usage.ru_maxrss / 1e6, usage.ru_utime + usage.ru_stime


def translate_command(run: Path, *arguments: str | Path, beam: int = 1) -> list[str | Path]:
    settings = [f"--set=decode.{name}={str(value).lower()}" for name, value in FORCED.items()]
    return [
        sys.executable,
        "-m",
        "clearhead",
        "translate",
        run,
        f"--beam={beam}",
        *settings,
        *arguments,
    ]


def start_up(folder: Path, repeats: int) -> None:
    """From the shell's prompt to the first translation."""
    commands: dict[str, list[str | Path]] = {
        "import torch": [sys.executable, "-c", "import torch"],
        "clearhead translate (tiny)": translate_command(folder / "tiny", "A man rides a bike."),
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            seconds[name].append(timed(command)[0])
    torch_alone, ours = (statistics.median(each) for each in seconds.values())
    print("\n| start-up | seconds |\n|---|---|")
    print(f"| import torch | {torch_alone:.2f} |\n| first translation, tiny | {ours:.2f} |")
    print(f"| difference | {ours - torch_alone:.2f} |", flush=True)


def files(folder: Path, measure: Measure, model: str, texts: list[str], n_lines: int) -> None:
    """`clearhead translate` on a long file beside the engine on its sentences, and the memory of base."""
    lines = [texts[i % len(texts)] for i in range(n_lines)]
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in lines))
    job = Job("clearhead", model, 1, workers=2, threads=1, n_sentences=len(texts))
    before = interleaved(measure, {model: job}, 2)[model]
    whole = timed(
        translate_command(
            folder / model, "--input", folder / "lines.txt", "--output", folder / "out.txt"
        )
    )
    batch = statistics.median(before + interleaved(measure, {model: job}, 2)[model])
    speeds = n_lines / whole[0], len(texts) / batch
    print(f"\n| {model} greedy, 2 × 1 threads | lines/s | GB |\n|---|---|---|")
    print(f"| clearhead translate, {n_lines:,} lines | {speeds[0]:,.0f} | {whole[1]:.2f} |")
    print(f"| decode() | {speeds[1]:,.0f} | |\n| ratio | {speeds[0] / speeds[1]:.2f} | |")
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in texts))
    _, memory, _ = timed(
        translate_command(folder / "base", "--input", folder / "lines.txt", beam=5)
    )
    print(f"\nPeak memory of base, {len(texts):,} lines, beam 5: {memory:.2f} GB", flush=True)


def backend_files(
    folder: Path, python: Path, model: str, texts: list[str], n_lines: int, repeats: int
) -> None:
    """A long file through `clearhead translate --engine ctranslate2` and through a script with CTranslate2 in two
    processes, text to text, both from a cold start.
    """
    print(
        f"\n| {model} greedy, {n_lines:,} lines | lines/s | a script's | ratio | the same by processor time |"
        "\n|---|---|---|---|---|"
    )
    for precision, options in (("float32", []), ("int8", ["--int8"])):
        given, ours_to, theirs_to = (folder / f"{name}.txt" for name in ("lines", "ours", "theirs"))
        ours = [sys.executable, "-m", "clearhead", "translate", folder / model, "--beam=1"]
        ours += ["--engine=ctranslate2", "--input", given, "--output", ours_to, *options]
        theirs = [python, ROOT / "benchmarks" / "peers.py", folder, model, precision]
        theirs += [given, theirs_to]
        rounds = []
        for n in (1_000, *[n_lines] * repeats):  # the first time, both write the model
            given.write_text("".join(f"{texts[i % len(texts)]}\n" for i in range(n)))
            rounds.append((timed(ours), timed(theirs)))
        speeds = [
            n_lines / statistics.median(each[0] for each in side)
            for side in zip(*rounds[1:], strict=True)
        ]
        ratios = [
            statistics.median(theirs[place] / ours[place] for ours, theirs in rounds[1:])
            for place in (0, 2)
        ]
        print(
            f"| {precision} | {speeds[0]:,.0f} | {speeds[1]:,.0f} | {ratios[0]:.2f} | {ratios[1]:.2f} |",
            flush=True,
        )


def rounding(run: str, texts: list[str]) -> None:
    """What 8 bits cost a trained run."""
    references = (
        gzip.decompress((DATA / "test2016.de.gz").read_bytes()).decode().splitlines()[: len(texts)]
    )
    torch.set_num_threads(2)
    print("\n| beam 5 | BLEU |\n|---|---|")
    for name, int8 in (("fp32", False), ("int8", True)):
        found = Translator.load(run, int8=int8).translate(texts, beam=5)
        print(
            f"| {name} | {metrics.bleu([str(one) for one in found], references).value:.2f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", help="a trained translator to measure as well")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=1_000)
    parser.add_argument("--lines", type=int, default=100_000, help="lines of the long file")
    parser.add_argument("--only", nargs="*", choices=PARTS)
    parser.add_argument(
        "--sizes", nargs="*", default=["small", "base"], help="models whose throughput is measured"
    )
    parser.add_argument("--quick", action="store_true", help="a few sentences, two rounds")
    parser.add_argument("--peers", type=Path, default=ROOT / ".venv-peers" / "bin" / "python")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.sentences, options.lines = 2, 64, 1_000
    wanted = options.only or PARTS
    train, test = corpus()
    texts, trained = test[: options.sentences], ["run"] if options.run else []
    n_sentences = len(texts)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        natural = [f"{size}, ending" for size in options.sizes if "backend" in wanted]
        names = [
            *(["tiny", "small", "base"] if {*wanted} - {"backend", "backend-files"} else []),
            *natural,
        ]
        tokenizer = write_models(folder, options.run, names, train, test)
        ids = ended(tokenizer, texts, ModelConfig())
        sources = dict.fromkeys(names, ids)
        if options.run:
            run = RunFolder.open(options.run)
            sources["run"] = ended(run.tokenizers()[0], texts, run.config().model)
        (folder / "sources.json").write_text(json.dumps(sources))
        (folder / "texts.json").write_text(json.dumps(texts))
        with engines(folder, options.peers, texts, sources) as (measure, versions):
            known = ", ".join(f"{name} {version}" for name, version in versions.items())
            length = statistics.mean(map(len, ids))
            print(f"{conditions()} {n_sentences:,} sentences of {length:.1f} tokens; {known}.")
            if "agreement" in wanted:
                agreement(measure, ["tiny", "small", "base", *trained], min(200, n_sentences))
            if "throughput" in wanted:
                throughput(measure, options.sizes, n_sentences, options.repeats, forced=True)
            if "throughput" in wanted and trained:
                throughput(measure, trained, n_sentences, options.repeats, forced=False)
            if "latency" in wanted:
                latency(measure, ["tiny", "small", *trained], min(50, n_sentences), options.repeats)
            if "backend" in wanted:
                backend(measure, [*trained, *natural], n_sentences, options.repeats)
            if "rounding" in wanted and options.run and DATA.exists():
                rounding(options.run, texts)
            if "start-up" in wanted:
                start_up(folder, options.repeats)
            if "files" in wanted:
                files(folder, measure, "small", texts, options.lines)
            if "backend-files" in wanted and trained:
                # Half of the other text is in the same language; lines that come often would suit
                # whoever sorts them into batches of the same.
                lines = [*texts, *train[: len(train) // 2]]
                backend_files(folder, options.peers, "run", lines, options.lines, 1)


if __name__ == "__main__":
    main()
