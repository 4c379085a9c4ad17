"""`clearhead chat`: a conversation in the terminal; piped, one line in is one line out."""

import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.evaluation import Evaluation
from clearhead.cli.translate import one_line
from clearhead.cli.write import MinP, Penalty, Seed, Sets, Temperature, TopK, TopP, asked, surprise
from clearhead.errors import TextError

if TYPE_CHECKING:
    from clearhead.tasks import Chatbot

NO_DIGITS = str.maketrans("", "", "0123456789,")
HELP = """/reset   forget what was said
/retry   answer the last message again
/look    see what happened inside during the last reply
/help    this list
Ctrl-C stops a reply, Ctrl-D leaves."""


def chat(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder of a chatbot.")],
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    repetition_penalty: Penalty = None,
    seed: Seed = None,
    settings: Sets = None,
) -> None:
    """Talk with a chatbot: line by line on a terminal, with what was said before in mind; in a pipe, line for line.

    - `clearhead chat runs/chat`
    - `clearhead chat runs/chat --temperature 0.9 --seed 3`
    - `clearhead chat runs/chat < questions.txt > answers.txt`
    """
    from clearhead.tasks import Chatbot

    bot = Chatbot.load(run)
    given = {
        "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p,
        "repetition_penalty": repetition_penalty, "seed": seed,
    }  # fmt: skip
    options = asked(bot.config, given, settings or [])
    if sys.stdin.isatty():
        Terminal(bot, options).talk()
    else:
        piped(bot, options)


def piped(bot: "Chatbot", options: dict[str, Any]) -> None:
    """One conversation from stdin; a blank line is answered with a blank line and begins another."""
    from clearhead.data.lines import Lines

    for line in Lines("-"):
        if not line.strip():
            bot.reset()
        reply = bot.reply(line, **options).text if line.strip() else ""
        sys.stdout.write(f"{one_line(reply)}\n")
        sys.stdout.flush()


class Terminal:
    """A conversation with somebody who types."""

    def __init__(self, bot: "Chatbot", options: dict[str, Any]) -> None:
        self.bot, self.options = bot, options
        self.told: set[str] = set()
        self.commands = {
            "/reset": self.reset,
            "/retry": self.retry,
            "/look": self.look,
            "/help": self.help,
        }

    def talk(self) -> None:
        with suppress(ImportError):
            import readline  # noqa: F401  # input() then knows arrow keys and earlier lines
        self.note("Type a message and Enter. /help lists what else there is; Ctrl-D leaves.")
        while (line := self.typed()) is not None:
            if command := self.commands.get(line.strip()):
                command()
            elif line.strip().startswith("/"):
                self.note(f"There is no {line.strip()}.\n{HELP}")
            elif line.strip():
                self.say(line)

    def typed(self) -> str | None:
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
        from clearhead.tasks.streams import Kept

        reply = Kept(self.bot.stream(text, **self.options))
        sys.stdout.write("bot  ")
        try:
            self.show(reply)
        except KeyboardInterrupt:
            reply.generator.close()
            sys.stdout.write(" …\n")
            return
        sys.stdout.write("\n")
        for note in reply.value.notes:
            kind = note.translate(NO_DIGITS)
            if kind not in self.told:
                self.told.add(kind)
                self.note(note)

    def show(self, pieces: Iterable[str]) -> None:
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()

    def reset(self) -> None:
        self.bot.reset()
        self.told.clear()
        self.note("Forgotten.")

    def retry(self) -> None:
        try:
            self.say(self.bot.undo())
        except TextError as error:
            self.note(error.whole)

    def look(self) -> None:
        if not self.bot.turns:
            self.note("There is no reply to look into yet.")
            return
        *before, text, reply = self.bot.turns
        sys.stdout.write(f"{self.bot.look(text, target=reply, before=before)}\n")

    def help(self) -> None:
        self.note(HELP)

    def note(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")


def evaluated(
    run: str,
    files: list[str],
    beam: int | None,  # noqa: ARG001
    output: Path | None,  # noqa: ARG001
    settings: list[str],  # noqa: ARG001
) -> Evaluation:
    """How surprised a chatbot is by what the bot says in the conversations of files."""
    from clearhead.tasks import Chatbot
    from clearhead.tasks.chat import read_conversations

    return surprise(Chatbot.load(run).perplexity(each.turns for each in read_conversations(*files)))
