"""Same data, same run: a refactor shows the identical losses."""

import json
from pathlib import Path

import pytest
import torch

from training.runs import losses_in

RECORD = Path(__file__).with_name("same_run.json")
"""Losses of a run as they were; remove the file to have them recorded anew, when they are meant to change."""


def machine() -> list[str]:
    """What the last bits depend on besides the program."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    processor = next((line for line in lines if line.startswith("model name")), "unknown")
    return [str(torch.__version__), torch.backends.cpu.get_cpu_capability(), processor]


def test_a_hundred_updates_have_the_losses_that_they_always_had(nursery):
    settings = {"train.validate_every": 50, "model.norm": "post", "model.init": "xavier"}
    answer = nursery.run("same", 100, settings)
    assert answer["codes"] == [0], answer["output"]
    found = [value for _, value in losses_in(nursery.place / "same")]
    if not RECORD.exists():
        RECORD.write_text(json.dumps({"machine": machine(), "losses": found}, indent=1) + "\n")
        pytest.skip("the losses were recorded anew")
    recorded = json.loads(RECORD.read_text())
    if recorded["machine"] == machine():
        assert found == recorded["losses"]
    else:  # another processor rounds differently, and a hundred updates make more of it
        one, other = (
            [float.fromhex(value) for value in losses] for losses in (found, recorded["losses"])
        )
        assert one[:10] == pytest.approx(other[:10], rel=1e-4)
        assert one == pytest.approx(other, rel=0.1)
