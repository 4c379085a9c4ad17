"""`clearhead chat` and `write`: text that is shown as it is being written."""

import secrets
import signal
import sys
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

import clearhead
from clearhead.cli import options
from clearhead.data.lines import Lines, only_text
from clearhead.errors import TextError

if TYPE_CHECKING:
    from clearhead.config import DecodeConfig

V = TypeVar("V")
NO_DIGITS = str.maketrans("", "", "0123456789,")
"""Leaves out of a note what differs each time, so that each kind is told once."""
HELP = """/reset   forget what was said
/retry   answer the last message again
/look    see what happened inside during the last reply
/help    this list
/quit    leave (or Ctrl-D); Ctrl-C stops a reply"""


def chat(
    run: Annotated[str, options.run_argument("a chatbot")],
    *,
    sampling: options.SamplingOptions,
    checkpoint: options.Checkpoint = "",
    settings: options.DecodeSettings = None,
) -> None:
    """Talk with a chatbot. In a pipe, each line gets a line as its answer; an empty one begins anew.

    - `clearhead chat runs/chat`
    - `clearhead chat runs/chat --temperature 0.9 --seed 3`
    - `clearhead chat runs/chat < questions.txt > answers.txt`
    """
    with options.busy(f"loading {run}"):
        bot = clearhead.Chatbot.load(run, checkpoint=checkpoint)
    decode = options.decode_config(bot.config, settings, **vars(sampling))
    if sys.stdin.isatty():
        return Terminal(bot, decode).talk()
    for line in Lines("-"):  # a blank line is answered with a blank line and begins anew
        if not line.strip():
            bot.reset()
        reply = bot.reply(line, decode).text if line.strip() else ""
        print(reply.replace("\n", " "), flush=True)
    return None


class Terminal:
    """A conversation with somebody who types."""

    def __init__(self, bot: "clearhead.Chatbot", decode: "DecodeConfig") -> None:
        self.bot, self.decode = bot, decode
        self.told: set[str] = set()
        self.commands = {"/reset": self.reset, "/retry": self.retry, "/look": self.look}

    def talk(self) -> None:
        with suppress(ImportError):
            import readline  # noqa: F401  # input() then knows arrow keys and earlier lines
        signal.signal(signal.SIGINT, signal.default_int_handler)  # here Ctrl-C ends a line or reply
        options.tell("Type a message and Enter. /help lists what else there is; /quit leaves.")
        while (line := self.next_line()) is not None and line.strip() not in ("/quit", "/exit"):
            if command := self.commands.get(line.strip()):
                command()
            elif line.strip().startswith("/"):
                unknown = "" if line.strip() == "/help" else f"There is no {line.strip()}.\n"
                options.tell(unknown + HELP)
            elif line.strip():
                self.say(line)

    def next_line(self) -> str | None:
        """The next line; Ctrl-C empties it, Ctrl-D is the end."""
        while True:
            try:
                return input("you  ")
            except KeyboardInterrupt:
                sys.stdout.write("\n")
            except EOFError:
                sys.stdout.write("\n")
                return None

    def say(self, text: str) -> None:
        """Show the reply as it comes; Ctrl-C stops it, and what was said stays said."""
        pieces = self.bot.stream(text, self.decode)
        sys.stdout.write("bot  ")
        try:
            reply = show(pieces)
        except KeyboardInterrupt:
            pieces.close()
            sys.stdout.write(" …\n")
            return
        options.tell(self.bot.note_on(text))
        for note in reply.notes:
            kind = note.translate(NO_DIGITS)
            options.tell(note if kind not in self.told else "")
            self.told.add(kind)

    def reset(self) -> None:
        self.bot.reset()
        self.told.clear()
        options.tell("Forgotten.")

    def retry(self) -> None:
        try:
            self.say(self.bot.undo())
        except TextError as error:
            options.tell(error.whole)

    def look(self) -> None:
        if self.bot.turns:
            *before, text, reply = self.bot.turns
            print(self.bot.look(text, target=reply, before=before))
        else:
            options.tell("There is no reply to look into yet.")


Prompt = Annotated[
    str | None,
    typer.Argument(metavar="PROMPT", help="How the text begins; without it, all of stdin."),
]
StopTexts = Annotated[
    list[str] | None,
    typer.Option(metavar="TEXTS", help="Stop before any of these; \\n: the end of a line."),
]


def write(
    run: Annotated[str, options.run_argument("a writer")],
    prompt: Prompt = None,
    *,
    length: Annotated[int | None, typer.Option(help="The most tokens to write.")] = None,
    number: Annotated[int, typer.Option("--number", "-n", help="So many continuations.")] = 1,
    sampling: options.SamplingOptions,
    stop: StopTexts = None,
    as_json: options.Json = False,
    engine: options.Engine = "auto",
    checkpoint: options.Checkpoint = "",
    settings: options.DecodeSettings = None,
) -> None:
    """Continue a text.

    - `clearhead write runs/bard "As aliens entered our planet"`
    - `clearhead write runs/bard "Once" -n 3 --temperature 0.7 --seed 5`
    - `clearhead write runs/bard --stop "\\n" < opening.txt`
    """
    with options.busy(f"loading {run}"):
        writer = clearhead.Writer.load(run, checkpoint=checkpoint)
    is_drawn = sampling.seed is None and not any("decode.seed" in each for each in settings or [])
    if is_drawn:
        sampling = replace(sampling, seed=secrets.randbelow(1_000_000))
    decode = options.decode_config(writer.config, settings, max_length=length, **vars(sampling))
    own_only = {"--checkpoint": checkpoint}
    options.choose_engine(writer, run, decode, engine=engine, own_only=own_only)
    if prompt is None:
        prompt = "" if sys.stdin.isatty() else only_text()
    stops = [text.replace("\\n", "\n") for text in stop or []]
    if number != 1 or as_json:
        found = writer.write(prompt, decode, n_best=number, stop=stops)
        print_all(found, as_json)
    else:
        typer.secho(prompt.rstrip(" "), bold=True, nl=False)
        found = show(writer.stream(prompt, decode, stop=stops))
    if decode.temperature and is_drawn:
        options.tell(f"Random seed: {decode.seed}. For the same text again: --seed {decode.seed}")
    for note in (*found.notes, writer.note_on(prompt)):
        options.tell(note)


def print_all(found: "clearhead.Continuation", as_json: bool) -> None:
    """Print a continuation and the others, each with its seed and how likely it is."""
    for one in (found, *found.alternatives):
        each = one.log_prob / max(1, len(one.log_probs))
        title = f"[seed {one.seed}: log-probability {one.log_prob:.1f}, {each:.2f} per token]"
        as_line = options.json_line(details(one) | {"log_prob": one.log_prob})
        typer.echo(as_line if as_json else f"{title}\n{one}\n")


def details(one: "clearhead.Continuation") -> dict[str, Any]:
    names = "prompt", "text", "tokens", "log_probs", "seed"
    others = [*map(details, one.alternatives)]
    values = {name: getattr(one, name) for name in names}
    return values | {"alternatives": others, "notes": one.notes}


def show(pieces: Generator[str, None, V]) -> V:
    """Print text as it is being written, and end the line; the value that the generator returns."""
    from clearhead.tasks.task import Kept

    kept = Kept(pieces)
    for piece in kept:
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
    return kept.value
