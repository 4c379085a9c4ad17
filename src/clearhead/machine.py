"""What this computer is: its device, its processors and what they can do, where it keeps caches."""

import ctypes
import os
import platform
import resource
import subprocess
import sys
from functools import cache
from pathlib import Path

import torch

from clearhead.errors import ConfigError, DiskError, shown

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEEP = 2**30
BF16_PRODUCT = """
import torch
x, y = (torch.randn(256, 256, requires_grad=True) for _ in range(2))
with torch.autocast("cpu", torch.bfloat16):
    (x @ y).float().sum().backward()
"""
TRIAL_SECONDS = 120.0


def told_by_torchrun(name: str, default: int) -> int:
    """A number that torchrun leaves in the environment of each process that it starts."""
    value = os.environ.get(name, str(default))
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise ConfigError(
            f"The environment says {name} = {shown(value)}, which is no number of a process.",
            f"Start processes that train together with torchrun; else unset {name}.",
        )
    return int(value)


def n_processors() -> int:
    """Processors that this process may use."""
    is_told = hasattr(os, "sched_getaffinity")  # which macOS does not have
    return len(os.sched_getaffinity(0)) if is_told else os.cpu_count() or 1


def n_idle() -> int:
    """Processors that no program computes on at this moment, as far as the system tells."""
    others = max(0, in_proc("/proc/stat", "procs_running") - 1)  # one that runs is this one
    return max(0, (os.cpu_count() or 1) - others)


def processor() -> str:
    """The processor's name, as the system gives it."""
    told = Path("/proc/cpuinfo")  # which only Linux has; elsewhere Python knows the name
    lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), platform.processor() or platform.machine())


def cache_folder() -> Path:
    """Where tokenised text is kept between runs; it can be deleted at any time."""
    try:
        place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "clearhead")
        nearest = next(folder for folder in (place, *place.parents) if folder.exists())
        if nearest.is_dir() and os.access(nearest, os.W_OK):
            return place
        reason = f"{nearest} cannot be written to"
    except (OSError, RuntimeError) as error:  # a home that is closed to its user; no home at all
        reason = str(error).removesuffix(".")
    raise DiskError(
        f"There is no place to keep tokenised text: {reason}.",
        "Set XDG_CACHE_HOME to a folder where you may write.",
    )


def device_for(name: str) -> torch.device:
    """The device of that name, if it is there; for "auto", the best that is."""
    n_cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    cuda = ["cuda", *(f"cuda:{number}" for number in range(n_cuda))] if n_cuda else []
    there = [*cuda, *(["mps"] if torch.backends.mps.is_available() else []), "cpu"]
    if name == "auto" and n_cuda:
        return torch.device("cuda", told_by_torchrun("LOCAL_RANK", 0))
    if name not in ("auto", *there):
        raise ConfigError(
            f"train.device = {shown(name)} is not on this machine.",
            f"There is: {', '.join(there)}.",
        )
    return torch.device(there[0] if name == "auto" else name)


def free_memory() -> int:
    """Bytes that this process may still take, as far as the system tells."""
    left, limit = sys.maxsize, resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        left = limit - in_proc("/proc/self/status", "VmSize:")
    return max(0, min(left, in_proc("/proc/meminfo", "MemAvailable:") or sys.maxsize))


def in_proc(path: str, name: str) -> int:
    """A number that Linux tells, in bytes where it counts kB; 0 elsewhere."""
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    found = next((line.split() for line in lines if line.startswith(name)), ["", "0"])
    return int(found[1]) * (1024 if found[-1] == "kB" else 1)


def wait_for(device: torch.device) -> None:
    """Synchronise: wait until the device has done all that it was given, so that it can be timed."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def keep_freed_memory() -> bool:
    """Tell glibc not to return large blocks to the system; True if it understood.

    A training step allocates and frees the same large tensors each time. By default each comes
    fresh from the kernel, which fills it with zeros page by page, at the price of a tenth of the
    step.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(M_MMAP_THRESHOLD, KEEP) and mallopt(M_TRIM_THRESHOLD, KEEP))


@cache
def survives(program: str) -> bool:
    """Whether a child process can run this Python program to its end on this machine.

    A virtual machine may advertise instructions that it does not have: a process that uses them
    is killed by a signal (SIGILL), which nothing can catch. So a child tries first.
    """
    try:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", program], capture_output=True, timeout=TRIAL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def has_bf16_products(device: torch.device) -> bool:
    """Whether products in bfloat16 work on the device; on a CPU they may kill, so a child tries."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return device.type != "cpu" or survives(BF16_PRODUCT)


def is_bf16(precision: str, device: torch.device) -> bool:
    """Whether a precision ("auto", "fp32", "bf16") means bfloat16 on the device.

    It is refused where it cannot be.
    """
    if precision == "auto":
        return device.type == "cuda" and has_bf16_products(device)
    if precision == "bf16" and not has_bf16_products(device):
        raise ConfigError(
            'train.precision = "bf16": products in bfloat16 do not work on this '
            f"{device.type.upper()}.",
            'Use train.precision = "fp32", or "auto".',
        )
    return precision == "bf16"
