"""`clearhead classify`: one line in, its label out, always and in order."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli import options
from clearhead.cli.lines import Notes, source_chunks

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
    """Tell the label of a text, or of each line of stdin or of files; several labels are joined by commas.

    - `clearhead classify runs/mood "What a lovely film!"`
    - `clearhead classify runs/mood --probabilities < reviews.txt > labels.txt`
    """
    from clearhead.tasks import Classifier

    notes = Notes()
    found = Classifier.load(run).in_chunks(source_chunks(text, input, errors))
    for number, classification in enumerate(found, 1):
        sys.stdout.write(line(classification, probabilities, as_json) + "\n")
        sys.stdout.flush()
        notes.add(number, classification.notes)
    notes.print()


def line(found: "Classification", probabilities: bool, as_json: bool) -> str:
    if as_json:
        values = {"text": found.text, "labels": found.labels, "probabilities": found.probabilities}
        return json.dumps(values | {"notes": found.notes}, ensure_ascii=False)
    each = [f"{label} {probability:.4f}" for label, probability in found.probabilities.items()]
    return "\t".join([str(found), *(each if probabilities else [])])
