"""Quality against speed: translators of different sizes, trained for the same time, on the same test set.

    script/bench sizes RUN [RUN …] --test SOURCE REFERENCE [--repeats 3] [--into docs/pictures]

Each run translates the test set with our own engine, greedily and with a beam of 5, in one process with one thread; the
runs take turns, and medians count. Ratios are to the first run. Prints a Markdown table and draws sizes.svg.
"""

import argparse
import statistics
import time
from pathlib import Path

import sacrebleu
import torch
from conditions import conditions

from clearhead.config import DecodeConfig
from clearhead.data.examples import pairs
from clearhead.lab.figures import figure_with_files, require_matplotlib, tick_plainly
from clearhead.tasks import Translator

WAYS = {"greedy": 1, "beam 5": 5}
COLOURS = {"greedy": "#d9730d", "beam 5": "#2f81c8"}


def seconds_of(run: Translator, texts: list[str], options: DecodeConfig) -> tuple[float, list[str]]:
    begin = time.perf_counter()
    found = [str(each) for each in run.translate(texts, decode=options, scored=False)]
    return time.perf_counter() - begin, found


def shape(run: Translator) -> str:
    model = run.config.model
    layers = f"{model.n_encoder_layers} + {model.n_decoder_layers}"
    weights = sum(each.numel() for each in run.models[0].parameters())
    return f"{layers}, {model.d_model} | {model.vocab_size:,} | {weights / 1e6:.1f}"


def draw(points: dict[str, dict[str, tuple[float, float]]], into: Path) -> None:
    """A point for each run and way: to the right faster, upwards better."""
    into.mkdir(parents=True, exist_ok=True)
    with figure_with_files((7, 4.2)) as (figure, files):
        axes = figure.add_subplot(1, 1, 1, xscale="log")
        for way, found in points.items():
            x, y = zip(*sorted(found.values()), strict=True)
            axes.plot(x, y, color=COLOURS[way], marker="o", linestyle=(0, (4, 3)))
            for name, place in found.items():
                label = f"{name}, {way}"
                axes.annotate(label, place, (6, 4), textcoords="offset points", color=COLOURS[way])
        axes.margins(x=0.2, y=0.15)
        rates = sorted(round(rate) for found in points.values() for rate, _ in found.values())
        tick_plainly(axes, rates, most=len(rates))
        axes.set(xlabel="sentences per second, one thread", title="BLEU")
    (into / "sizes.svg").write_bytes(files["svg"])
    print(f"\nDrawn: {into / 'sizes.svg'}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--test", nargs="+", required=True)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--into", type=Path, default=Path("docs/pictures"))
    options = parser.parse_args()
    require_matplotlib()
    print(conditions())
    torch.set_num_threads(1)
    examples = list(pairs(*options.test))
    texts, references = [each.source for each in examples], [each.target for each in examples]
    runs = {Path(path).name: Translator.load(path) for path in options.runs}
    points: dict[str, dict[str, tuple[float, float]]] = {}
    cells = {name: shape(run) for name, run in runs.items()}
    for way, beam in WAYS.items():
        asked = {name: run.config.decode.but(beam=beam) for name, run in runs.items()}
        outputs = {name: seconds_of(run, texts, asked[name])[1] for name, run in runs.items()}
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(options.repeats):
            for name, run in runs.items():
                times[name].append(seconds_of(run, texts, asked[name])[0])
        first = statistics.median(next(iter(times.values())))
        points[way] = {}
        for name, found in times.items():
            taken = statistics.median(found)
            bleu = sacrebleu.corpus_bleu(outputs[name], [references]).score
            points[way][name] = len(texts) / taken, bleu
            cells[name] += f" | {bleu:.1f} | {len(texts) / taken:,.0f} | {first / taken:.2f}"
    columns = " | ".join(f"{way}: BLEU | sentences/s | ratio" for way in WAYS)
    print(f"\n| run | layers, width | tokens | million weights | {columns} |\n|{'---|' * 10}")
    for name, row in cells.items():
        print(f"| {name} | {row} |")
    draw(points, options.into)


if __name__ == "__main__":
    main()
