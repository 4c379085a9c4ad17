"""`clearhead chat`: a conversation in the terminal; piped, one line in is one line out."""

import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from clearhead.cli import options
from clearhead.cli.lines import one_line
from clearhead.errors import TextError

if TYPE_CHECKING:
    from clearhead.config import DecodeConfig
    from clearhead.tasks import Chatbot

NO_DIGITS = str.maketrans("", "", "0123456789,")
HELP = """/reset   forget what was said
/retry   answer the last message again
/look    see what happened inside during the last reply
/help    this list
Ctrl-C stops a reply, Ctrl-D leaves."""


def chat(
    run: Annotated[str, options.run_of("a chatbot")],
    temperature: options.Temperature = None,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    min_p: options.MinP = None,
    repetition_penalty: options.Penalty = None,
    seed: options.Seed = None,
    settings: options.DecodeSettings = None,
) -> None:
    """Talk with a chatbot, which remembers what was said; in a pipe, each line gets one line.

    - `clearhead chat runs/chat`
    - `clearhead chat runs/chat --temperature 0.9 --seed 3`
    - `clearhead chat runs/chat < questions.txt > answers.txt`
    """
    from clearhead.tasks import Chatbot

    bot = Chatbot.load(run)
    decode = options.decode_config(
        bot.config,
        settings,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
    )
    if sys.stdin.isatty():
        Terminal(bot, decode).talk()
    else:
        answer_lines(bot, decode)


def answer_lines(bot: "Chatbot", decode: "DecodeConfig") -> None:
    """Answer the lines of stdin; a blank line is answered with a blank line and begins anew."""
    from clearhead.data.lines import Lines

    for line in Lines("-"):
        if not line.strip():
            bot.reset()
        reply = bot.reply(line, decode).text if line.strip() else ""
        sys.stdout.write(f"{one_line(reply)}\n")
        sys.stdout.flush()


class Terminal:
    """A conversation with somebody who types."""

    def __init__(self, bot: "Chatbot", decode: "DecodeConfig") -> None:
        self.bot, self.decode = bot, decode
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
        from clearhead.tasks.user import Kept

        reply = Kept(self.bot.stream(text, self.decode))
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
