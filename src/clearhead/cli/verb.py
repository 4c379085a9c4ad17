"""How a command line is read and explained: verbs in groups, help that fits 80 columns."""

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from typer.core import TyperCommand, TyperGroup

GROUPS = {
    "Make a model": ("demo", "doctor", "train", "pretrain", "average"),
    "Use it": ("translate", "chat", "classify", "write", "fill", "embed", "serve"),
    "Look inside": ("look", "evaluate", "compare", "lab"),
    "Exchange models": ("import", "export"),
    "Keep runs in order": ("runs", "info", "verify", "rm"),
}
"""The verbs as `clearhead --help` shows them."""


class Verbs(TyperGroup):
    """The program: its help shows the verbs by what they are for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [verb for verbs in GROUPS.values() for verb in verbs]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(self.help)
        for title, verbs in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(verb, self.commands[verb].get_short_help_str(80)) for verb in verbs]
                )
        write_options(self, ctx, formatter)
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

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [each for each in self.get_params(ctx) if each.param_type_name == "argument"]
        return ["[OPTIONS]", *map(in_usage, arguments)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help text, its list as examples, then the arguments and options."""
        self.format_usage(ctx, formatter)
        told, _, examples = inspect.cleandoc(self.help or "").partition("\n\n- ")
        for paragraph in told.split("\n\n"):
            formatter.write_paragraph()
            formatter.write_text(paragraph.replace("`", ""))
        if examples:
            with formatter.section("Examples"):
                for example in examples.split("\n- "):
                    formatter.write(f"  {' '.join(example.split()).replace('`', '')}\n")
        write_options(self, ctx, formatter)


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
    name = f"{argument.metavar or argument.name.upper()}{'...' if argument.nargs == -1 else ''}"
    return name if argument.required else f"[{name}]"


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write a command's arguments and options, each with its help."""
    arguments, options = [], []
    for parameter in command.get_params(ctx):
        if parameter.param_type_name == "argument":
            arguments.append((parameter.metavar or parameter.name.upper(), parameter.help))
        elif (record := parameter.get_help_record(ctx)) is not None:
            options.append(record)
    for title, rows in (("Arguments", arguments), ("Options", options)):
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def one_value_each(args: list[str], repeatable: set[str]) -> list[str]:
    """`--test a b` as `--test a --test b`."""
    result: list[str] = []
    current, is_first = "", False
    for number, argument in enumerate(args):
        if argument == "--":
            return result + args[number:]
        if argument.startswith("-") and argument != "-":
            current, is_first = (argument, True) if argument in repeatable else ("", False)
        elif current and not is_first:
            result.append(current)
        else:
            is_first = False
        result.append(argument)
    return result
