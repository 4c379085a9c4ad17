"""A process with everything imported that runs the command line in forked children, and kills them as it is told.

Importing torch takes longer than a tiny training run. One parent that forks makes it possible to end a run at each of
its file events. Orders come as lines of JSON, and answers go out as such.
"""

import json
import os
import resource
import signal
import socket
import sys
import time
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import torch
from safetensors.torch import save_file

from clearhead import disk
from clearhead.cli import main as command_line
from clearhead.config import TrainConfig
from clearhead.folder import Log
from clearhead.training import Job, gathered, joined_ranks, loop, next_token_loss
from clearhead.training.update import Objective, distribute, update
from training.tiny import pair_batch, tiny_model

GRACE = 20.0
"""Seconds that the other processes of a run have when one of them has died."""


class Assassin:
    """Counts what happens to the files of a run, and ends the process at one of these events."""

    def __init__(self, run: Path, victim: int | None) -> None:
        self.run, self.victim = run, victim
        self.events: list[tuple[str, str]] = []

    def watch(self) -> None:
        sys.addaudithook(self.audited)
        sync, write, log = os.fsync, disk.HashedFile.write, Log.write

        def fsync(descriptor):
            self.event("fsync", Path(f"/proc/self/fd/{descriptor}").readlink())
            sync(descriptor)

        def hashed_write(file, content):
            if self.event("torn write", file.file.name, kill=False):
                file.file.write(bytes(content)[: len(content) // 2])
                file.file.flush()
                self.kill()
            write(file, content)

        def log_write(file, report):
            if self.event("torn line", str(file.path), kill=False):
                with file.path.open("ab") as half:
                    half.write(b'{"kind": "st')
                self.kill()
            log(file, report)

        os.fsync, disk.HashedFile.write, Log.write = fsync, hashed_write, log_write

    def audited(self, name: str, args: tuple) -> None:
        if (
            name == "open"
            and isinstance(args[2], int)
            and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        ):
            self.event("open", args[0])
        elif name in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"):
            self.event(name, args[0])

    def event(self, kind: str, path: object, kill: bool = True) -> bool:
        """Note an event, of many writes to one file the first three; whether it is the one to die at."""
        path = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        inside = os.path.relpath(path, self.run) if "/" in path or path == self.run.name else path
        if not inside or inside.startswith("..") or self.events[-3:] == [(kind, inside)] * 3:
            return False
        self.events.append((kind, inside))
        now = len(self.events) - 1 == self.victim
        if now and kill:
            self.kill()
        return now

    def kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def child(order: dict) -> int:
    """Run the command line as the order says."""
    os.environ |= order.get("env", {})
    output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if limit := order.get("file_size"):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    assassin = Assassin(Path(order["run"]), order.get("kill_at"))
    if order.get("watch"):
        assassin.watch()
    if order.get("signal"):
        signal_at(order["signal"], order["at_step"])
    if order.get("spoil_at"):
        spoil_at(order["spoil_at"])
    if order.get("note_examples"):
        note_examples(Path(order["note_examples"]))
    if order.get("gradients"):
        return gradients(Path(order["gradients"]))
    code = command_line.main(order["args"])
    if order.get("watch"):
        Path(order["output"] + ".events").write_text(json.dumps(assassin.events))
    return code


def signal_at(number: int, step: int) -> None:
    """Have the process sent a signal during an update."""
    seed_at = Job.seed_at

    def seed(job, now):
        if now + 1 == step:
            os.kill(os.getpid(), number)
        return seed_at(job, now)

    Job.seed_at = seed


def spoil_at(step: int) -> None:
    """Make what a layer gives NaN during an update, and while it is asked where that arose."""
    update, seen, hooks = loop.update, [], []

    def spoiled(objective, *args, **kwargs):
        seen.append(step)
        for hook in hooks:
            hook.remove()
        if len(seen) == step:
            layer = objective.model.encoder.layers[0]
            hooks.append(
                layer.register_forward_hook(lambda module, inputs, output: output * torch.nan)
            )
        return update(objective, *args, **kwargs)

    loop.update = spoiled


def note_examples(path: Path) -> None:
    """Have the examples of every batch written down, with its place in the data."""
    batches_at = Job.batches_at

    def noted(job, place):
        batches = batches_at(job, place)
        for i, batch in enumerate(batches):
            with path.open("a") as file:
                file.write(
                    json.dumps(
                        [place + i * job.ranks.world + job.ranks.rank, batch.indices.tolist()]
                    )
                    + "\n"
                )
        return batches

    Job.batches_at = noted


def gradients(path: Path) -> int:
    """Compute one update's gradient together with the other processes, and keep it."""
    config = TrainConfig(shard=path.name.startswith("sharded"))
    with joined_ranks(torch.device("cpu")) as ranks:
        model = tiny_model()
        objective = distribute(Objective(model, next_token_loss(0.1), config), config, ranks)
        batches = [pair_batch(n) for n in range(4)][ranks.rank :: ranks.world]
        outcome = update(objective, batches, seed=0, clip=1e9, splits=1, ranks=ranks)
        found = gathered({name: parameter.grad for name, parameter in model.named_parameters()})
    if ranks.first:
        save_file(
            {name: tensor.contiguous() for name, tensor in found.items()},
            path,
            {"loss": outcome.loss.hex()},
        )
    return 0


def fork(order: dict) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        torch.set_num_threads(1)
        code = child(order)
    except BaseException as error:  # the parent's loop must never run in a child
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(code)


def ended(pid: int, seconds: float) -> int | None:
    """The exit code of a child, or minus its signal; None if it is still there after so many seconds."""
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    return None


def carry_out(order: dict) -> dict:
    world, victim = order.get("world", 1), order.get("victim", 0)
    orders = [dict(order, output=f"{order['output']}.{rank}") for rank in range(world)]
    if world > 1:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for rank, each in enumerate(orders):
            shared = {
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "WORLD_SIZE": str(world),
            }
            each["env"] = (
                order.get("env", {}) | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            )
            if rank != victim:
                each |= {"kill_at": None, "signal": None}
    begin = time.monotonic()
    pids = [fork(each) for each in orders]
    codes = {victim: ended(pids[victim], order.get("kill_after", 120.0))}
    patience = GRACE if codes[victim] == 0 or order.get("signal") else 0.3
    for rank, pid in enumerate(pids):
        if (
            codes.get(rank) is None
            and (code := ended(pid, 0.0 if rank == victim else patience)) is not None
        ):
            codes[rank] = code
        if codes.get(rank) is None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            codes[rank] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    output = "".join(
        Path(each["output"]).read_text(errors="replace")
        for each in orders
        if Path(each["output"]).exists()
    )
    return {
        "codes": [codes[rank] for rank in range(world)],
        "seconds": time.monotonic() - begin,
        "output": output,
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        command_line.main(
            sys.argv[1:]
        )  # once, so that all that is imported on the way is there for every child
    for line in sys.stdin:
        print(json.dumps(carry_out(json.loads(line))), flush=True)
