"""A classifier learns to tell praise from blame, also where "not" turns it round."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.cli.demos.stage import say, suggested, table, written

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.config import Config

N_TRAINING, N_VALIDATION, N_TEST = 6_000, 300, 1_000
TRAINING = (
    "The model reads a review, makes one vector of it and guesses the label from that; at each update it is moved a "
    "little towards the right ones. The loss is how wrong its guesses are; accuracy is the share of right ones."
)
TEXTS = (
    "The soup was lovely.", "The soup was not lovely.", "Nobody could call the film boring.",
    "The food was excellent, but the service was awful.", "I can't say that the hotel was bad.",
)  # fmt: skip


def settings(data: Path, into: Path) -> "Config":
    """A model that learns the reviews in a minute or two without a GPU."""
    from clearhead.config import Config, DataConfig, ModelConfig, TrainConfig

    seen = Path(os.path.relpath(data, into))
    return Config(
        model=ModelConfig.preset("tiny", n_encoder_layers=2, dropout=0.0),
        data=DataConfig(
            files=(str(seen / "train.tsv"),), validation_files=(str(seen / "valid.tsv"),)
        ),
        train=TrainConfig(
            max_steps=450,
            validate_every=75,
            optimizer="muon",
            learning_rate=4e-3,
            word_dropout=0.0,
            label_smoothing=0.02,
        ),
    )


def prepared(console: "Console", data: Path) -> None:
    """Make the reviews to learn from, and show some of them."""
    from clearhead.tasks.reviews import some_reviews

    say(
        console,
        "Reviews",
        f"A small grammar writes {N_TRAINING:,} reviews that are good, bad or mixed. Words such as not, hardly and "
        f"anything but turn a judgement round. Some pairs, of a thing and what is said about it, are kept out of "
        f"training; {N_TEST:,} reviews with them are the test.",
    )
    parts = {
        "train": some_reviews(N_TRAINING),
        "valid": some_reviews(N_VALIDATION, seed=1, held_out=True),
        "test": some_reviews(N_TEST, seed=2, held_out=True),
    }
    written(
        data,
        {
            f"{name}.tsv": (f"{one.labels[0]}\t{one.text}" for one in some)
            for name, some in parts.items()
        },
    )
    table(console, [(one.text, one.labels[0]) for one in parts["train"][:5]])
    say(
        console,
        "",
        f"The files are in {data}, a label, a tab and a text on each line, as you would bring your own.",
    )


def shown(console: "Console", into: Path, data: Path) -> None:
    """Classify some texts, measure it, and tell what to type next."""
    from clearhead.data.examples import labelled
    from clearhead.tasks import Classifier
    from clearhead.tasks.assessment import assess

    classifier = Classifier.load(into)
    say(console, "Texts of your own", "It says how sure it is, and the sureness is calibrated.")
    table(
        console,
        [(one.text, f"{one} ({one.probability:.0%})") for one in classifier.classify(list(TEXTS))],
    )
    say(
        console,
        "How good it is",
        f"On {N_TEST:,} reviews with pairs of words that it never saw together:",
    )
    for line in str(assess(classifier, list(labelled(data / "test.tsv")))).split("\n"):
        console.print(f"  {line}", soft_wrap=True)
    console.print()
    commands = [
        f'classify {into} "{TEXTS[1]}" --probabilities',
        f"classify {into}",
        f"evaluate {into} {data / 'test.tsv'}",
        f"info {into}",
        "train YOURS.tsv --task classification --into runs/yours",
    ]
    suggested(
        console, "It knows these words and no others; outside them, it guesses. Try:", commands
    )
