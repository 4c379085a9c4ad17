"""What every recipe here needs: its data, or a plain word about where it should be, and the command line."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from clearhead.cli.main import main

ROOT = Path(__file__).resolve().parent.parent


class Recipe:
    """A recipe's options: where the data is, where the run goes, how long it may take, and settings for training."""

    def __init__(self, text: str | None, name: str, budget: str) -> None:
        parser = argparse.ArgumentParser(
            description=text, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument(
            "--data",
            type=Path,
            default=ROOT.parent / "shared" / "data",
            help="the folder of the data",
        )
        parser.add_argument(
            "--into", type=Path, default=Path("runs", name), help="the run folder to make"
        )
        parser.add_argument("--budget", default=budget, help="how long to train")
        parser.add_argument(
            "--set", action="append", default=[], metavar="SECTION.NAME=VALUE", help="any setting"
        )
        options = parser.parse_args()
        self.data: Path = options.data
        self.into: Path = options.into
        self.budget: str = options.budget
        self.sets: list[str] = options.set

    def files(self, *names: str) -> list[str]:
        """The files of these names, which may have wildcards; without one of them the recipe is skipped."""
        found = [sorted(self.data.glob(name)) for name in names]
        missing = [name for name, paths in zip(names, found, strict=True) if not paths]
        if missing:
            sys.exit(
                f"Skipped: there is no {missing[0]} in {self.data}. Say where the data is with --data FOLDER."
            )
        return [os.path.relpath(path) for paths in found for path in paths]

    def train(
        self, task: str, training: Sequence[str], validation: Sequence[str], *sets: str
    ) -> None:
        settings = [part for setting in (*sets, *self.sets) for part in ("--set", setting)]
        self.run("train", *training, "--validation", *validation, "--task", task, "--into", str(self.into),
                 "--budget", self.budget, *settings)  # fmt: skip

    def run(self, *arguments: str) -> None:
        """A command, shown as it would be typed."""
        sys.stdout.write(f"\n$ clearhead {shlex.join(arguments)}\n")
        sys.stdout.flush()
        if code := main(arguments):
            sys.exit(code)
