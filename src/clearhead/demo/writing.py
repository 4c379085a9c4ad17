"""A writer learns to tell little stories, and to keep their heroes in mind."""

import lzma
from typing import ClassVar

from clearhead.config import Given
from clearhead.demo.show import Show
from clearhead.tasks import Writer

N_TOLD = 20
OPENING = "Once upon a time, there was a brave"


class WritingShow(Show):
    task = "writing"
    suffixes = ("txt",)
    settings: ClassVar[Given] = {
        "model": {"n_decoder_layers": 3, "dropout": 0.0},
        "tokenizer": {"vocab_size": 800},
        "data": {"batch_tokens": 2_048, "window": 128},
        # Copying a hero's name appears all at once, around update 400; half as many updates are
        # a matter of luck.
        "train": {"max_steps": 800, "validate_every": 100, "label_smoothing": 0.0},
    }
    about = (
        "Stories",
        "A small grammar tells {train:,} little stories, one a line: a hero, a wish, what came of "
        "it. Some heroes, such as a fox of a certain name, are kept out of training.",
    )
    form = "plain text"
    training = (
        "The model reads windows of the running text and guesses every token from those before "
        "it, all at once; nothing is labelled, the text itself is what it should say. The loss is "
        "how wrong its guesses are."
    )
    limits = "It knows these stories and nothing else; outside them, it guesses."
    asked = OPENING
    yours = "train YOURS.txt --task writing --into runs/yours --budget 45m"

    def print_examples(self) -> None:
        self.say("", self.lines("train")[0])

    def print_results(self) -> list[str]:
        writer, stories = Writer.load(self.into), self.lines("test")
        self.say(
            "Stories that nobody wrote",
            "The first words are given; the second hero is one that it never met.",
        )
        for opening in (OPENING, beginning(stories[1])):
            self.say("", str(writer.write(opening, stop=["\n"])))
        text = "".join(f"{story}\n" for story in stories)
        packed = 8 * len(lzma.compress(text.encode(), preset=9)) / len(text.encode())
        self.say(
            "How good it is",
            f"On {len(stories):,} stories about heroes that it never met: "
            f"{writer.perplexity(text)}. A general compressor (xz) needs {packed:.2f} bits per "
            "byte for them.",
        )
        openings = [beginning(story) for story in stories[:N_TOLD]]
        n_kept = sum(
            hero(opening) in writer.write(opening, stop=["\n"]).text for opening in openings
        )
        self.say(
            "",
            f"Given the first words of {N_TOLD} of them, it came back to the hero's name in "
            f"{n_kept}.",
        )
        return [
            f'write {self.into} "{OPENING}"',
            f'write {self.into} "One day" -n 3 --temperature 1 --stop "\\n"',
            f"evaluate {self.into} {self.file('test')}",
        ]


def beginning(story: str) -> str:
    """The first words of a story, in which its hero gets a name."""
    return " ".join(story.split()[:12]).rstrip(".")


def hero(opening: str) -> str:
    return opening.partition("named ")[2].split(".")[0]
