"""A process that is stopped at any file event, before it or halfway through a write, leaves the old or the new."""

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from clearhead.folder import RunFolder

from .conftest import (
    CONFIG,
    PLAN,
    TOKENIZER,
    checkpoint_of,
    in_child,
    is_whole,
    same,
    strays,
    weights,
)

KILLED = 137
EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"}


class Watch:
    """Ends this process before its nth file event, or halfway through its nth write."""

    def __init__(self, root: Path, fatal: int, torn: bool) -> None:
        self.root, self.fatal, self.torn, self.seen = str(root), fatal, torn, 0
        sys.addaudithook(self.audit)
        fsync = os.fsync
        os.fsync = lambda descriptor: (self.event(), fsync(descriptor))[1]
        watch = self

        class Watched(io.BufferedWriter):
            def write(self, content: Any) -> int:
                watch.event(
                    lambda: (
                        io.BufferedWriter.write(self, content[: len(content) // 2]),
                        self.flush(),
                    )
                )
                return super().write(content)

        plain = io.open
        io.open = lambda path, mode="r", *rest: (
            Watched(io.FileIO(path, mode)) if mode in ("xb", "ab") else plain(path, mode, *rest)
        )

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event in EVENTS and (event != "open" or str(args[0]).startswith(self.root)):
            self.event()

    def event(self, tear: Callable[[], object] | None = None) -> None:
        self.seen += tear is not None or not self.torn
        if self.seen == self.fatal:
            if tear and self.torn:
                tear()
            os._exit(KILLED)


def kills(pristine: Path, act: Callable[[RunFolder], object]) -> Iterator[RunFolder]:
    """The folder as each kill leaves it, and at last as it is when nothing was killed."""
    path = pristine.with_name("victim")
    for torn in (False, True):
        fatal, code = 0, KILLED
        while code == KILLED:
            fatal += 1
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(pristine, path)
            code, _ = in_child(lambda: (Watch(path, fatal, torn), act(RunFolder(path))))  # noqa: B023
            yield RunFolder(path)
        assert code == 0
        assert fatal > 1, "nothing was watched"


def test_a_kill_during_a_save_leaves_the_old_checkpoint_or_the_new(run):
    for step in (1, 2, 3):
        run.checkpoints.save(*checkpoint_of(step))

    def save(victim: RunFolder) -> None:
        victim.checkpoints.save(*checkpoint_of(4))
        victim.checkpoints.prune(keep_last=2, best=None)

    found = []
    for victim in kills(run.path, save):
        newest = victim.checkpoints.newest()
        assert newest.warnings == ()
        assert is_whole(newest, newest.step)
        with victim.lock():
            assert strays(victim.path) == []
        victim.checkpoints.save(*checkpoint_of(4))
        victim.checkpoints.prune(keep_last=2, best=None)
        assert victim.checkpoints.steps() == [3, 4]
        found.append(newest.step)
    assert set(found) == {3, 4}
    assert len(found) > 50


def test_a_kill_during_the_first_save_leaves_nothing_or_the_first_checkpoint(run):
    for victim in kills(run.path, lambda victim: victim.checkpoints.save(*checkpoint_of(1))):
        newest = victim.checkpoints.newest()
        assert newest is None or is_whole(newest, 1)


def test_a_kill_while_a_damaged_checkpoint_is_replaced_leaves_an_older_one_or_the_new(run):
    for step in (1, 2):
        run.checkpoints.save(*checkpoint_of(step))
    (run.path / "checkpoints/00000002/manifest.json").unlink()
    for victim in kills(run.path, lambda victim: victim.checkpoints.save(*checkpoint_of(2))):
        newest = victim.checkpoints.newest()
        assert is_whole(newest, newest.step)


def test_a_kill_while_weights_are_written_leaves_the_old_or_the_new(run):
    found = set()
    for victim in kills(run.path, lambda victim: victim.write_weights(weights(1))):
        loaded = victim.model().state_dict()
        seed = next(seed for seed in (0, 1) if same(loaded, weights(seed)))
        found.add(seed)
        with victim.lock():
            assert strays(victim.path) == []
    assert found == {0, 1}


def test_a_kill_while_a_run_is_created_leaves_a_run_or_what_can_become_one(tmp_path):
    def create(victim: RunFolder) -> None:
        RunFolder.create(victim.path, CONFIG, TOKENIZER, plan=PLAN)

    empty = tmp_path / "empty"
    empty.mkdir()
    for victim in kills(empty, create):
        if not victim.exists():
            create(victim)
        assert RunFolder.open(victim.path).tokenizers()[1].fingerprint == TOKENIZER.fingerprint
        assert victim.plan() == PLAN


def test_a_kill_while_a_plan_is_corrected_leaves_the_old_or_the_new(run):
    run.write_plan(PLAN)
    corrected = PLAN.model_copy(update={"corrections": ((10, 0.1, 120),)})
    found = [
        victim.plan() for victim in kills(run.path, lambda victim: victim.write_plan(corrected))
    ]
    assert all(plan in (PLAN, corrected) for plan in found)


def test_a_kill_while_the_log_is_cut_leaves_all_lines_or_the_right_ones(run):
    for step in range(1, 6):
        run.log.write({"step": step})
    for victim in kills(run.path, lambda victim: victim.log.cut(3)):
        assert [line["step"] for line in victim.log.lines()] in ([1, 2, 3], [1, 2, 3, 4, 5])


def test_a_kill_while_a_line_is_written_loses_no_other_line(run):
    run.log.write({"step": 1})
    path = run.path.with_name("victim")
    for torn in (False, True):
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(run.path, path)
        victim = RunFolder(path)
        code, _ = in_child(lambda: (Watch(path, 1, torn), victim.log.write({"step": 2})))  # noqa: B023
        assert code == KILLED
        assert [line["step"] for line in victim.log.lines()] == [1]
        victim.log.cut(1)
        victim.log.write({"step": 2})
        assert [line["step"] for line in victim.log.lines()] == [1, 2]


def test_the_watch_sees_what_is_not_atomic(run):
    """A file that is written in place does not survive, so the tests above can fail."""

    def overwrite(victim: RunFolder) -> None:
        path = victim.path / "config.toml"
        content = path.read_bytes()
        path.unlink()
        with path.open("xb") as file:
            file.write(content[:100])
            file.write(content[100:])
            os.fsync(file.fileno())
        os.truncate(path, len(content))

    assert any(victim.problems() for victim in kills(run.path, overwrite))
