"""Tries the command line in many odd ways, on every processor at once, and tells what failed."""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import clearhead
from clearhead.machine import n_processors
from hostile.cases import CASES, Case

CODES = {0, 1, 2, 3, 4, 5, 129, 130, 143}
SIGN_OF_LIFE = re.compile(
    r"step \d|http|epoch|reading|tokenising|learning tokens|measuring|baseline|\w …$", re.MULTILINE
)


@dataclass(frozen=True)
class Failure:
    """A case that ended as none should."""

    kind: str
    """mistake, hang, signal, noise or stray."""
    case: Case
    answer: dict[str, Any]

    @property
    def told(self) -> str:
        lines = self.answer["stderr"].strip().splitlines()
        wrong = [line for line in lines if "mistake" in line or "Error" in line]
        return (wrong or lines or [""])[-1][:200]

    def __str__(self) -> str:
        command = shlex.join(["clearhead", *self.case["args"]]).encode("unicode_escape").decode()
        edits = "".join(f"\n    {each}" for each in self.case["edits"])
        streams = {
            k: v
            for k, v in self.case.items()
            if k in ("stdin_from", "stdout_to", "ascii", "env", "signal", "meanwhile")
        }
        return (
            f"{self.kind}: {self.told}\n    {command[:1500]} {streams or ''}{edits}\n"
            f"    code {self.answer['code']}, {self.answer['seconds']:.1f} s, strays {self.answer['strays']}"
        )


def failure(case: Case, answer: dict[str, Any]) -> Failure | None:
    """What is wrong with how a case ended, if anything is."""
    code, said = answer["code"], answer["stderr"]
    kind = ""
    if code is None or (code == -9 and answer["seconds"] > 5) or code == -24:
        kind = "hang"
    elif code < 0 and -code not in case.get("signal", [])[:1]:
        kind = "signal"  # a signal may also come before there is anybody to hear it
    elif (
        (code >= 0 and code not in CODES)
        or "a mistake of the program" in said
        or "Traceback" in said
    ):
        kind = "mistake"
    elif answer["stopped"] and code > 128 and not (case["is_long"] or SIGN_OF_LIFE.search(said)):
        kind = "hang"
    elif code > 0 and not (
        code > 128 or said or answer["stdout"] or case.get("stdout_to") == "broken"
    ):
        kind = "noise"
    elif answer["strays"]:
        kind = "stray"
    return Failure(kind, case, answer) if kind else None


def drawn(n: int, start: int) -> list[Case]:
    """So many cases, the same for the same start; each has a seed of its own, so that no two are alike."""
    return [
        one_drawn(CASES[number % len(CASES)], start * 1_000_003 + number) for number in range(n)
    ]


def one_drawn(cases: st.SearchStrategy[Case], own: int) -> Case:
    found: list[Case] = []

    @seed(own)
    @settings(
        max_examples=2,  # the first is always the simplest
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return found[-1]


@contextmanager
def parents(n: int) -> Iterator["SimpleQueue[subprocess.Popen[str]]"]:
    """Processes that fork the cases; see parent.py."""
    places = (Path(__file__).parents[1], Path(clearhead.__file__).parents[1])
    free: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, places)),
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "COLUMNS": "100",
        }
        started = [
            subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "hostile.parent", f"{home}/{number}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for number in range(n)
        ]
        for process in started:
            assert process.stdout
            assert process.stdout.readline() == "ready\n", "no place was made"
            free.put(process)
        yield free
        for process in started:
            process.communicate()


def failures(cases: Iterable[Case]) -> Iterator[Failure]:
    """Try all cases, and answer with those that failed."""
    n_workers = n_processors()
    with parents(n_workers) as free, ThreadPoolExecutor(n_workers) as pool:

        def tried(case: Case) -> Failure | None:
            process = free.get()
            try:
                assert process.stdin
                assert process.stdout
                process.stdin.write(json.dumps(case) + "\n")
                process.stdin.flush()
                return failure(case, json.loads(process.stdout.readline()))
            finally:
                free.put(process)

        yield from filter(None, pool.map(tried, cases))


if __name__ == "__main__":
    n_cases, begin = int(sys.argv[1]), int(sys.argv[2])
    wrong = 0
    for number, each in enumerate(failures(drawn(n_cases, begin)), 1):
        wrong = number
        print(each, flush=True)
    print(f"{n_cases:,} cases from {begin}: {wrong} failures")
    sys.exit(bool(wrong))
