"""A process with everything imported that tries the command line in forked children, each with limits.

It makes a place of small runs and data once. Every case has its own copy, in which files may be edited first. Orders
come as lines of JSON, and answers go out as such: what became of the child, and what it said.
"""

import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import TextIOWrapper
from pathlib import Path

import torch

from clearhead.cli import main as command_line
from hostile.edits import edit
from hostile.place import make_place

CPU_SECONDS, WALL_SECONDS = 10, 25
"""A case that computes for longer, or does not end, hangs."""
SPARE_MEMORY = 3 * 2**29
"""Address space that a case may take beyond what the parent has."""
LASTING_SECONDS, GRACE = 1.5, 30.0
"""When a case that may last, a training say, is asked to stop, and how long it may take over that."""
TOLD = 4_000


def child(order: dict, place: Path) -> int:
    """Run the command line as the order says, in the folder it was prepared for."""
    os.chdir(place)
    os.environ |= {"XDG_CACHE_HOME": str(place.parent / "cache")} | order.get("env", {})
    for each in order["edits"]:
        edit(Path(), each)
    streams(order, place)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return command_line.main(order["args"])


def streams(order: dict, place: Path) -> None:
    """Standard input and outputs as files of the case, as devices, or closed."""
    outside = place.parent
    (outside / "stdin").write_bytes(bytes.fromhex(order["stdin"]))
    names = {
        0: order.get("stdin_from") or str(outside / "stdin"),
        1: order.get("stdout_to") or str(outside / "stdout"),
        2: str(outside / "stderr"),
    }
    encoding = "ascii" if order.get("ascii") else "utf-8"
    for number, name in names.items():
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        if name == "closed":
            os.close(number)
            stream = None
        elif name == "broken":
            reader, writer = os.pipe()
            os.close(reader)
            os.dup2(writer, number)
        else:
            os.dup2(os.open(name, flags, 0o600), number)
        if name != "closed":
            raw = os.fdopen(number, "rb" if number == 0 else "wb", closefd=False)
            errors = "backslashreplace" if number == 2 else "strict"
            stream = TextIOWrapper(raw, encoding=encoding, errors=errors)
        setattr(sys, ("stdin", "stdout", "stderr")[number], stream)


def fork(order: dict, place: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.setpgid(0, 0)
        code = child(order, place)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except KeyboardInterrupt:  # it came before the program had begun
        code = 130
    except BaseException as error:  # the parent's loop must never run in a child
        with suppress(BaseException):
            sys.stderr.write(f"escaped main(): {type(error).__name__}: {error}\n")
            sys.stderr.flush()
    finally:
        os._exit(code)


def ended(pid: int, seconds: float) -> int | None:
    """The exit code of a child, or minus its signal; None if it is still there after so many seconds."""
    watcher = os.pidfd_open(pid)
    try:
        if not select.select([watcher], [], [], seconds)[0]:
            return None
    finally:
        os.close(watcher)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def carry_out(order: dict, template: Path) -> dict:
    outside = Path(tempfile.mkdtemp(dir=template.parent))
    place = outside / "place"
    (outside / "outside").write_text("not yours\n")
    shutil.copytree(template, place, symlinks=True, ignore=unneeded(template, order["runs"]))
    begin = time.monotonic()
    pid = fork(order, place)
    lasting = order.get("lasting", False)
    code = None
    if "signal" in order:
        number, after = order["signal"]
        if (code := ended(pid, after)) is None:
            os.kill(pid, number)
    if "meanwhile" in order:
        change, after = order["meanwhile"]
        if (code := ended(pid, after)) is None:
            with suppress(OSError):  # the child is writing there
                edit(place, change)
    if code is None:
        code = ended(pid, LASTING_SECONDS if lasting else WALL_SECONDS)
    while code is None and lasting and time.monotonic() - begin < WALL_SECONDS:
        if tail(outside / "stderr") or order["is_long"]:
            break  # it has said how it is doing, or was asked for much
        code = ended(pid, 0.5)
    if was_stopped := lasting and code is None:
        os.kill(pid, signal.SIGTERM)
        code = ended(pid, GRACE)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # it, if it hangs, and what it may have left running
    if code is None:
        os.waitpid(pid, 0)
    said = {name: tail(outside / name) for name in ("stdout", "stderr")}
    left = (path.relative_to(place) for path in place.rglob("*.tmp-*"))
    # who writes into a folder that is moved away meanwhile cannot clear it
    strays = [str(path) for path in left if "elsewhere" not in path.parts]
    is_named = any("outside" in word for word in order["args"])
    if not is_named and (outside / "outside").read_text() != "not yours\n":
        strays.append("what a link leads to was written")
    shutil.rmtree(outside, ignore_errors=True)
    seconds = time.monotonic() - begin
    return {"code": code, "stopped": was_stopped, "seconds": seconds, "strays": strays} | said


def unneeded(template: Path, runs: list[str]):
    """Of the runs, those that a case has no use for are not copied."""
    return lambda folder, names: (
        set(names) - set(runs) if Path(folder) == template / "runs" else set()
    )


def tail(path: Path) -> str:
    return path.read_bytes()[-TOLD:].decode(errors="replace") if path.exists() else ""


if __name__ == "__main__":
    torch.set_num_threads(1)
    home = Path(sys.argv[1])
    os.environ["XDG_CACHE_HOME"] = str(home / "cache")
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        make_place(home / "place", command_line.main)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(carry_out(json.loads(line), home / "place")), flush=True)
