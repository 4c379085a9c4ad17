"""The verbs of the command line: which there are, how their arguments are read, and their help.

Verbs import what they need when they run, so that `clearhead --help` is instant.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from itertools import groupby
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from clearhead import __version__
from clearhead.cli.chat import chat, write
from clearhead.cli.doctor import doctor
from clearhead.cli.look import look
from clearhead.cli.runs import average, compare, evaluate, info, rm, runs, verify
from clearhead.cli.serve import export, import_, serve
from clearhead.cli.train import demo, lab, pretrain, train
from clearhead.cli.translate import classify, embed, fill, translate


class Verbs(TyperGroup):
    """The program: its help shows the verbs by what they are for (their panels)."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(self.help)
        verbs: Any = self.commands.values()
        for title, panel in groupby(verbs, key=lambda verb: verb.rich_help_panel):
            write_section(formatter, title, [(v.name, v.get_short_help_str(80)) for v in panel])
        write_section(formatter, "Options", option_rows(self, ctx))
        formatter.write_paragraph()
        formatter.write_text("What a verb takes, with examples: clearhead VERB --help")


class Verb(TyperCommand):
    """A command whose repeatable options take all values up to the next option; `--` ends them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        repeatable = {
            name
            for option in self.params
            if getattr(option, "multiple", False)
            for name in option.opts
        }
        return super().parse_args(ctx, one_value_each(args, repeatable))

    @property
    def arguments(self) -> list[Any]:
        return [each for each in self.params if each.param_type_name == "argument"]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return ["[OPTIONS]", *map(in_usage, self.arguments)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help text, its list as examples, then the arguments and options."""
        self.format_usage(ctx, formatter)
        told, _, examples = inspect.cleandoc(self.help or "").partition("\n\n- ")
        for paragraph in told.split("\n\n"):
            formatter.write_paragraph()
            formatter.write_text(paragraph.replace("`", ""))
        with formatter.section("Examples"):
            for example in examples.split("\n- "):
                formatter.write(f"  {' '.join(example.split()).replace('`', '')}\n")
        arguments = [(each.metavar, each.help) for each in self.arguments]
        write_section(formatter, "Arguments", arguments)
        write_section(formatter, "Options", option_rows(self, ctx))


def with_options(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb, with each field of its groups of options (dataclasses) as an option of its own."""
    parameters = inspect.signature(verb).parameters
    groups: dict[str, Any] = {
        name: each.annotation for name, each in parameters.items() if is_dataclass(each.annotation)
    }

    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        verb(**given)

    spread = [
        option.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, each in parameters.items()
        for option in (
            inspect.signature(groups[name]).parameters.values() if name in groups else [each]
        )
    ]
    run.__name__, run.__doc__ = verb.__name__, verb.__doc__
    setattr(run, "__signature__", inspect.Signature(spread))  # noqa: B010  # typer reads it
    return run


def in_usage(argument: Any) -> str:
    """An argument as the usage line shows it: in brackets where it may be left out."""
    name = f"{argument.metavar}{'...' if argument.nargs == -1 else ''}"
    return name if argument.required else f"[{name}]"


def option_rows(command: Any, ctx: Any) -> list[tuple[str, str]]:
    """The options of a command, each with its help."""
    found = [each for each in command.get_params(ctx) if each.param_type_name == "option"]
    return [row for each in found if (row := each.get_help_record(ctx)) is not None]


def write_section(formatter: Any, title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Write names and what they mean below a title, if there are any."""
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


def one_value_each(args: list[str], repeatable: set[str]) -> list[str]:
    """`--test a b` as `--test a --test b`."""
    result: list[str] = []
    current = ""
    for number, argument in enumerate(args):
        if argument == "--":
            return result + args[number:]
        if argument.startswith("-") and argument != "-":
            current = argument if argument in repeatable else ""
        elif current and result[-1] != current:  # a second value, or a later one
            result.append(current)
        result.append(argument)
    return result


app = typer.Typer(
    name="clearhead",
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    rich_markup_mode=None,
)
VERBS = {
    "Make a model": (demo, doctor, train, pretrain, average),
    "Use it": (translate, chat, classify, write, fill, embed, serve),
    "Look inside": (look, evaluate, compare, lab),
    "Exchange models": (import_, export),
    "Keep runs in order": (runs, info, verify, rm),
}
"""All verbs, by what they are for."""
for panel, verbs in VERBS.items():
    for verb in verbs:
        name = verb.__name__.rstrip("_")
        app.command(name, cls=Verb, rich_help_panel=panel)(with_options(verb))


def show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"clearhead {__version__}")
        raise typer.Exit


@app.callback()
def clearhead(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Show where in the program an error arose: clearhead --debug VERB …"
        ),
    ] = False,
) -> None:
    """The Transformer of "Attention Is All You Need": train it, use it, see every step it takes."""
