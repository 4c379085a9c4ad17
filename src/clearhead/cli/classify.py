"""`clearhead classify`: one line in, its label out, always and in order."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clearhead.cli.evaluation import Evaluation

if TYPE_CHECKING:
    from clearhead.tasks import Classification


def classify(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder of a classifier.")],
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What to classify; else stdin or --input.")
    ] = None,
    input: Annotated[  # noqa: A002
        list[str] | None, typer.Option(metavar="FILES", help="Files to classify.")
    ] = None,
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities", help="After the label, a tab and each label with its probability."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="A line of JSON per text, with all there is.")
    ] = False,
    errors: Annotated[
        Literal["strict", "replace"], typer.Option(help="What to do with invalid UTF-8.")
    ] = "strict",
) -> None:
    """Tell the label of a text, or of each line of stdin or of files; several labels are joined by commas.

    - `clearhead classify runs/mood "What a lovely film!"`
    - `clearhead classify runs/mood --probabilities < reviews.txt > labels.txt`
    """
    from clearhead.cli.translate import source_chunks
    from clearhead.tasks import Classifier

    classifier = Classifier.load(run)
    noted: dict[str, list[int]] = {}
    found = classifier.in_chunks(source_chunks(text, input or [], errors))
    for number, classification in enumerate(found, 1):
        sys.stdout.write(line(classification, probabilities, as_json) + "\n")
        sys.stdout.flush()
        for note in classification.notes:
            noted.setdefault(note, []).append(number)
    for note, numbers in noted.items():
        others = f" and {len(numbers) - 1:,} more" if len(numbers) > 1 else ""
        sys.stderr.write(f"line {numbers[0]:,}{others}: {note}\n")


def line(found: "Classification", probabilities: bool, as_json: bool) -> str:
    if as_json:
        values = {"text": found.text, "labels": found.labels, "probabilities": found.probabilities}
        return json.dumps(values | {"notes": found.notes}, ensure_ascii=False)
    each = [f"{label} {probability:.4f}" for label, probability in found.probabilities.items()]
    return "\t".join([str(found), *(each if probabilities else [])])


def evaluated(
    run: str, files: list[str], beam: int | None, output: Path | None, settings: list[str]
) -> Evaluation:
    """Accuracy, F1, confusions and calibration of a classifier on labelled texts."""
    from clearhead.data.examples import labelled
    from clearhead.errors import ConfigError
    from clearhead.tasks import Classifier
    from clearhead.tasks.assessment import assess

    if beam is not None or settings:
        raise ConfigError(
            "--beam and --set change how text is written, and a classifier writes none.",
            "Leave them out.",
        )
    classifier, examples = Classifier.load(run), list(labelled(*files))
    found = assess(classifier, examples)
    if output:
        said = classifier.stream(example.text for example in examples)
        output.write_text("".join(f"{one}\n" for one in said), encoding="utf-8", newline="\n")
    values = {
        score.name: {"value": score.value, "signature": score.signature} for score in found.scores
    }
    labels = {label: vars(score) for label, score in found.labels.items()}
    wrong = [[*pair, count] for pair, count in found.confused.items()]
    return Evaluation(
        {**values, "texts": found.n_texts, "labels": labels, "confusion": wrong}, str(found)
    )
