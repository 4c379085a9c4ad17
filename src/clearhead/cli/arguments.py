"""Options that take several values, as people write them: `--test test.en test.de`."""

from typing import Any

from typer.core import TyperCommand


class SeveralValues(TyperCommand):
    """A command whose repeatable options take all values up to the next option; `--` ends them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        repeatable = {
            name
            for option in self.params
            if getattr(option, "multiple", False)
            for name in option.opts
        }
        return super().parse_args(ctx, spelled_out(args, repeatable))


def spelled_out(args: list[str], repeatable: set[str]) -> list[str]:
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
