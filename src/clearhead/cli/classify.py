"""`clearhead classify`: one line in, its label out, always and in order."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli import options
from clearhead.cli.lines import LineNotes, source_chunks

if TYPE_CHECKING:
    from clearhead.tasks import Classification


def classify(
    run: Annotated[str, options.run_of("a classifier")],
    text: options.Text = None,
    input: options.Input = None,  # noqa: A002
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities", help="After the label, a tab and each label with its probability."
        ),
    ] = False,
    as_json: options.Json = False,
    errors: options.OnInvalid = "strict",
) -> None:
    """Tell the label of a text, or of each line of stdin or files; commas join several labels.

    - `clearhead classify runs/mood "What a lovely film!"`
    - `clearhead classify runs/mood --probabilities < reviews.txt > labels.txt`
    """
    from clearhead.tasks import Classifier

    notes = LineNotes()
    found = Classifier.load(run).in_chunks(source_chunks(text, input, errors))
    for number, classification in enumerate(found, 1):
        sys.stdout.write(label_line(classification, probabilities, as_json) + "\n")
        sys.stdout.flush()
        notes.add(number, classification.notes)
    notes.print()


def label_line(found: "Classification", probabilities: bool, as_json: bool) -> str:
    if as_json:
        values = {"text": found.text, "labels": found.labels, "probabilities": found.probabilities}
        return json.dumps(values | {"notes": found.notes}, ensure_ascii=False)
    each = [f"{label} {probability:.4f}" for label, probability in found.probabilities.items()]
    return "\t".join([str(found), *(each if probabilities else [])])
