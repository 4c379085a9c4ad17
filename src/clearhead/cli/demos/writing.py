"""A writer learns to tell little stories, and to keep their heroes in mind."""

import lzma
import os
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.cli.demos.stage import say, suggested, written

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.config import Config
    from clearhead.tasks import Writer

N_TRAINING, N_VALIDATION, N_TEST = 8_000, 100, 200
N_TOLD, OPENING_WORDS = 20, 12
TRAINING = (
    "The model reads windows of the running text and guesses every token from those before it, all at once; nothing is "
    "labelled, the text itself is what it should say. The loss is how wrong its guesses are."
)
OPENING = "Once upon a time, there was a brave"


def settings(data: Path, into: Path) -> "Config":
    """A model that learns the stories in a minute or two without a GPU."""
    from clearhead.config import Config, DataConfig, ModelConfig, TokenizerConfig, TrainConfig

    seen = Path(os.path.relpath(data, into))
    return Config(
        model=ModelConfig.preset("tiny", n_decoder_layers=3, dropout=0.0),
        tokenizer=TokenizerConfig(method="bytes", vocab_size=800),
        data=DataConfig(
            files=(str(seen / "train.txt"),),
            validation_files=(str(seen / "valid.txt"),),
            batch_tokens=2_048,
            window=128,
        ),
        # Copying a hero's name appears all at once, around update 400; half as many updates are a matter of luck.
        train=TrainConfig(max_steps=800, validate_every=100, label_smoothing=0.0),
    )


def prepared(console: "Console", data: Path) -> None:
    """Make the stories to learn from, and show one of them."""
    from clearhead.tasks.stories import some_stories

    say(
        console,
        "Stories",
        f"A small grammar tells {N_TRAINING:,} little stories, one a line: a hero, a wish, what came of it. Some "
        f"heroes, such as a fox of a certain name, are kept out of training.",
    )
    stories = {
        "train": some_stories(N_TRAINING),
        "valid": some_stories(N_VALIDATION, seed=1, held_out=True),
        "test": some_stories(N_TEST, seed=2, held_out=True),
    }
    written(data, {f"{name}.txt": some for name, some in stories.items()})
    say(console, "", stories["train"][0])
    say(console, "", f"The files are in {data}, plain text, as you would bring your own.")


def shown(console: "Console", into: Path, data: Path) -> None:
    """Have it tell stories, measure it, and tell what to type next."""
    from clearhead.tasks import Writer

    writer = Writer.load(into)
    say(
        console,
        "Stories that nobody wrote",
        "The first words are given; the second hero is one that it never met.",
    )
    stories = (data / "test.txt").read_text(encoding="utf-8").splitlines()
    for opening in (OPENING, beginning(stories[1])):
        say(console, "", str(writer.write(opening, stop=["\n"])))
    measured(console, writer, stories)
    commands = [
        f'write {into} "{OPENING}"',
        f'write {into} "One day" -n 3 --temperature 1 --stop "\\n"',
        f"evaluate {into} {data / 'test.txt'}",
        f"info {into}",
        "train YOURS.txt --task writing --into runs/yours --budget 45m",
    ]
    suggested(
        console, "It knows these stories and nothing else; outside them, it guesses. Try:", commands
    )


def beginning(story: str) -> str:
    """The first words of a story, in which its hero gets a name."""
    return " ".join(story.split()[:OPENING_WORDS]).rstrip(".")


def measured(console: "Console", writer: "Writer", stories: list[str]) -> None:
    """How well it knows stories about heroes that it never met, and whether they keep their names."""
    text = "".join(f"{story}\n" for story in stories)
    found = writer.perplexity(text)
    packed = 8 * len(lzma.compress(text.encode(), preset=9)) / len(text.encode())
    openings = [beginning(story) for story in stories[:N_TOLD]]
    heroes = [opening.partition("named ")[2].split(".")[0] for opening in openings]
    n_kept = sum(
        hero in writer.write(start, stop=["\n"]).text
        for start, hero in zip(openings, heroes, strict=True)
    )
    say(
        console,
        "How good it is",
        f"On {len(stories):,} stories about heroes that it never met: {found}. A general compressor (xz) needs "
        f"{packed:.2f} bits per byte for them.",
    )
    say(
        console,
        "",
        f"Given the first words of {N_TOLD} of them, it came back to the hero's name in {n_kept}.",
    )
