"""Same data, same run: a refactor shows the identical losses, of every task."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from clearhead.config import assigned, layered
from clearhead.tasks import TASKS
from clearhead.tasks.fit import fit
from clearhead.training import StepReport
from hostile.place import TASKS as FILES
from hostile.place import TINY, write_data

RECORD = Path(__file__).with_name("same_run.json")
"""Losses of runs as they were; remove the file to have them recorded anew, when they are meant to change."""


def machine() -> list[str]:
    """What the last bits depend on besides the program; one thread computes."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    processor = next((line for line in lines if line.startswith("model name")), "unknown")
    return [str(torch.__version__), torch.backends.cpu.get_cpu_capability(), processor]


def losses_of(task: str, place: Path) -> list[str]:
    write_data(place)
    files = {"data": {"files": [str(place / name) for name in FILES[task]]}}
    more = [
        "train.max_steps=100",
        "train.validate_every=50",
        f"model.dropout={0.3 if task == 'classification' else 0.1}",
        "model.norm=post",
        "model.init=xavier",
    ]
    given = layered(files, assigned([*TINY, *more]))
    reports = fit(TASKS[task], given, place / "run")
    return [report.loss.hex() for report in reports if isinstance(report, StepReport)]


@pytest.mark.promise(
    28,
    "100 losses of each task: equal on the same torch, processor and threads; elsewhere within 1e-4",
)
@pytest.mark.parametrize("task", FILES)
def test_a_hundred_updates_have_the_losses_that_they_always_had(task, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = losses_of(task, tmp_path)
    recorded = json.loads(RECORD.read_text()) if RECORD.exists() else {"machine": machine()}
    if task not in recorded:
        RECORD.write_text(json.dumps(recorded | {task: found}, indent=1) + "\n")
        pytest.skip("the losses were recorded anew")
    assert len(found) == 100
    if recorded["machine"] == machine():
        assert found == recorded[task]
    else:  # another processor rounds differently; after-norm and this rate do not make more of it
        one, other = (
            [float.fromhex(value) for value in losses] for losses in (found, recorded[task])
        )
        assert one == pytest.approx(other, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("capability", ["avx2", "default"])
def test_another_processor_makes_the_same_run(capability, tmp_path):
    """PyTorch can be told to compute as on an older processor, which rounds otherwise."""
    older = {"avx2": "AVX2", "default": "SSE41"}[capability]
    told = {"ATEN_CPU_CAPABILITY": capability, "ONEDNN_MAX_CPU_ISA": older}
    environment = os.environ | told | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    own = f"{__file__}::test_a_hundred_updates_have_the_losses_that_they_always_had"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", own]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
