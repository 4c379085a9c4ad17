"""Several processes train as one would with all their batches."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import load_file
from torch import device, testing
from torch import distributed as dist

from clearhead.training import update
from training.runs import checkpoints_in, log_of, losses_in, weights_in

CALM = {"model.dropout": 0.0, "train.save_every": 2, "train.validate_every": 3, "train.ema": 0.9}


def steps_in(run, key):
    return [line[key] for line in log_of(run) if line["kind"] == "step"]


@pytest.fixture(scope="module")
def pair(nursery):
    """A run of two processes."""
    answer = nursery.run("two", 6, CALM, world=2)
    assert answer["codes"] == [0, 0], answer["output"]
    return nursery.place / "two"


def test_processes_wait_for_as_long_as_the_first_may_prepare(monkeypatch):
    given = {}
    for name, value in {"WORLD_SIZE": "2", **dict.fromkeys(update.MEETING, "1")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(update, "rendezvous", lambda url: iter([(dist.HashStore(), 1, 2)]))
    monkeypatch.setattr(
        dist, "init_process_group", lambda backend, **options: given.update(options)
    )
    monkeypatch.setattr(dist, "barrier", lambda: None)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: None)
    with update.joined_ranks(device("cpu")) as ranks:
        assert (ranks.rank, ranks.world) == (1, 2)
    assert given["timeout"] >= timedelta(hours=12)


@pytest.mark.parametrize("name", ["whole", "sharded"])
def test_the_gradient_of_two_processes_is_that_of_one_with_all_batches(nursery, name):
    found = []
    for world in (1, 2):
        path = nursery.place / f"{name}-{world}.safetensors"
        assert nursery.run("none", gradients=str(path), world=world)["codes"] == [0] * world
        with safe_open(path, "pt") as file:
            found.append((load_file(path), float.fromhex(file.metadata()["loss"])))
    (alone, loss), (together, their_loss) = found
    assert loss == pytest.approx(their_loss, rel=1e-5)
    for key, gradient in alone.items():
        testing.assert_close(together[key], gradient, rtol=1e-5, atol=1e-6)


def test_a_run_of_two_processes_is_that_of_one_with_the_same_global_batch(nursery, pair):
    assert nursery.run("one", 6, CALM | {"train.accumulate": 2})["codes"] == [0]
    one = nursery.place / "one"
    assert steps_in(pair, "tokens") == steps_in(one, "tokens")
    assert steps_in(pair, "epoch") == steps_in(one, "epoch")
    assert steps_in(pair, "loss")[:2] == pytest.approx(steps_in(one, "loss")[:2], rel=1e-5)
    assert steps_in(pair, "gradient")[:2] == pytest.approx(steps_in(one, "gradient")[:2], rel=1e-4)
    assert steps_in(pair, "loss") == pytest.approx(steps_in(one, "loss"), rel=1e-3)


def test_two_processes_write_one_log_and_one_set_of_checkpoints(pair):
    assert steps_in(pair, "step") == list(range(1, 7))
    assert checkpoints_in(pair)[-1] == 6


def test_two_processes_that_were_stopped_go_on_as_if_they_had_not_been(nursery, pair):
    answer = nursery.run("two-again", 6, CALM, world=2, signal=signal.SIGTERM, at_step=3, victim=1)
    assert answer["codes"] == [143, 143]
    assert nursery.run("two-again", 6, CALM, world=2)["codes"] == [0, 0]
    assert losses_in(nursery.place / "two-again") == losses_in(pair)
    assert weights_in(nursery.place / "two-again") == weights_in(pair)


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_a_sharded_run_learns_saves_and_goes_on_like_one_that_is_not(nursery, optimizer):
    settings = CALM | {"train.optimizer": optimizer}
    sharded = settings | {"train.shard": True}
    name = f"{optimizer}-whole"
    assert nursery.run(name, 6, settings, world=2)["codes"] == [0, 0]
    answer = nursery.run(f"{optimizer}-sharded", 6, sharded, world=2)
    assert answer["codes"] == [0, 0], answer["output"]
    losses = [steps_in(nursery.place / run, "loss") for run in (name, f"{optimizer}-sharded")]
    assert losses[0][:2] == pytest.approx(losses[1][:2], rel=1e-5)
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)
    nursery.run(f"{optimizer}-stopped", 6, sharded, world=2, signal=signal.SIGTERM, at_step=3)
    assert nursery.run(f"{optimizer}-stopped", 6, sharded, world=2)["codes"] == [0, 0]
    assert weights_in(nursery.place / f"{optimizer}-stopped") == weights_in(
        nursery.place / f"{optimizer}-sharded"
    )


def test_a_change_from_two_processes_to_one_within_an_epoch_leaves_every_example_its_turn(nursery):
    many = CALM | {"data.batch_tokens": 24, "train.save_every": 100, "train.validate_every": 100}
    notes = nursery.place / "examples.jsonl"
    stopped = nursery.run(
        "shrunk", 30, many, world=2, signal=signal.SIGTERM, at_step=3, note_examples=str(notes)
    )
    assert stopped["codes"] == [143, 143]
    resumed = nursery.run("shrunk", 30, many, note_examples=str(notes))
    assert resumed["codes"] == [0], resumed["output"]
    assert "processes was 2 and is 1" in (nursery.place / "shrunk" / "metrics.jsonl").read_text()
    seen = sorted(json.loads(line) for line in notes.read_text().splitlines())
    places = [place for place, _ in seen]
    assert places == list(range(len(places)))
    epoch = next(
        n for n in range(1, len(seen)) if set(seen[n][1]) & {i for _, ids in seen[:n] for i in ids}
    )
    assert epoch > 6
    examples = sorted(example for _, ids in seen[:epoch] for example in ids)
    assert examples == list(range(len(examples)))
    assert len(examples) > 50


def torchrun(nursery, name, steps, settings, *options, before=(), place=None):
    """The real torchrun, in its own process group; its files lie in a place of their own, if one is given."""
    place = place or nursery.place
    program = [
        *before,
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        *options,
    ]
    command = [*program, "-m", "clearhead", *nursery.arguments(name, steps, settings)]
    environment = os.environ | {
        "XDG_CACHE_HOME": str(place / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    with (place / f"{name}.output").open("ab") as output:
        return subprocess.Popen(command, cwd=place, env=environment, stdout=output, stderr=output)


def rank_of(pid):
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    return next(
        (int(entry.partition(b"=")[2]) for entry in environment if entry.startswith(b"RANK=")), None
    )


def children_of(pid):
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


@pytest.mark.promise(6, "either of two processes killed under torchrun: it ends by itself")
@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_lost_process_costs_a_restart_and_not_the_run(nursery, victim):
    settings = CALM | {"train.save_every": 5, "train.validate_every": 50, "model.d_model": 64}
    name, steps = f"restarted-{victim}", 150
    process = torchrun(nursery, name, steps, settings, "2", "--standalone", "--max-restarts", "3")
    killed = []
    while process.poll() is None:
        done = max(checkpoints_in(nursery.place / name), default=0)
        if len(killed) < 3 and done >= 30 * (len(killed) + 1):
            for pid in children_of(process.pid):
                if rank_of(pid) == victim:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(done)
        time.sleep(0.02)
    assert process.returncode == 0, (nursery.place / f"{name}.output").read_text()[-2_000:]
    assert len(killed) == 3
    assert nursery.run(f"{name}-whole", steps, settings, world=2)["codes"] == [0, 0]
    assert losses_in(nursery.place / name) == losses_in(nursery.place / f"{name}-whole")
    assert weights_in(nursery.place / name) == weights_in(nursery.place / f"{name}-whole")


def ip(*arguments):
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture
def two_hosts():
    """Two network namespaces with a cable between them: as near to two hosts as one machine comes."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need root and iproute2")
    tag = f"ch{os.getpid() % 10_000}"
    hosts = [f"{tag}a", f"{tag}b"]
    with ExitStack() as stack:
        try:
            for host in hosts:
                ip("netns", "add", host)
                stack.callback(ip, "netns", "delete", host)
            ip(
                "link",
                "add",
                f"{tag}x",
                "netns",
                hosts[0],
                "type",
                "veth",
                "peer",
                "name",
                f"{tag}y",
                "netns",
                hosts[1],
            )
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine allows no network namespaces: {error.stderr.strip()}")
        for host, cable, address in zip(
            hosts, (f"{tag}x", f"{tag}y"), ("10.99.0.1", "10.99.0.2"), strict=True
        ):
            ip("-n", host, "addr", "add", f"{address}/24", "dev", cable)
            ip("-n", host, "link", "set", cable, "up")
            ip("-n", host, "link", "set", "lo", "up")
        yield [(host, cable) for host, cable in zip(hosts, (f"{tag}x", f"{tag}y"), strict=True)]


@pytest.fixture
def on_hosts(nursery, two_hosts, tmp_path):
    """Starts torchrun on both hosts; without a shared disk, the second has the training files and nothing else."""
    begun = []

    def start(name, *options, shared=True, steps=6, settings=CALM):
        places = [nursery.place, nursery.place if shared else tmp_path / "second"]
        if not shared and not places[1].exists():
            places[1].mkdir()
            for file in ("source.txt", "target.txt"):
                shutil.copy(nursery.place / file, places[1])
        master = ["--master-addr", "10.99.0.1", "--master-port", "29555"]
        for number, ((host, cable), place) in enumerate(zip(two_hosts, places, strict=True)):
            where = ["1", "--nnodes", "2", "--node-rank", str(number), *master, *options]
            inside = ["ip", "netns", "exec", host, "env", f"GLOO_SOCKET_IFNAME={cable}"]
            begun.append(
                torchrun(nursery, name, steps, settings, *where, before=inside, place=place)
            )
        return begun[-2:]

    yield start
    for process in begun:
        process.terminate()  # torchrun ends its workers, if there still are any
        process.wait(timeout=60)


def worker_of(process):
    """The training process that a torchrun has started, as soon as there is one."""
    while not (found := [pid for pid in children_of(process.pid) if rank_of(pid) is not None]):
        assert process.poll() is None
        time.sleep(0.02)
    return found[0]


def wait_for_checkpoint(run, step):
    end = time.monotonic() + 400
    while max(checkpoints_in(run), default=0) < step:
        assert time.monotonic() < end
        time.sleep(0.02)


def assert_ended_like(run, other, processes):
    codes = [process.wait(timeout=400) for process in processes]
    assert codes == [0, 0], (run.parent / f"{run.name}.output").read_text()[-3_000:]
    assert losses_in(run) == losses_in(other)
    assert weights_in(run) == weights_in(other)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_two_hosts_train_as_two_processes_of_one(nursery, on_hosts, tmp_path, shared):
    settings = CALM | {"train.average_last": 2}  # checkpoints are read again at the end
    assert nursery.run(f"one-host-{shared}", 6, settings, world=2)["codes"] == [0, 0]
    name = f"hosts-{shared}"
    processes = on_hosts(name, shared=shared, settings=settings)
    assert_ended_like(nursery.place / name, nursery.place / f"one-host-{shared}", processes)
    assert shared or not (tmp_path / "second" / name).exists()


@pytest.mark.slow
def test_other_training_files_on_one_host_are_refused(on_hosts, tmp_path):
    processes = on_hosts("other", shared=False)
    source = tmp_path / "second" / "source.txt"
    source.write_text(source.read_text().replace("cat", "cow"))
    assert 0 not in [process.wait(timeout=400) for process in processes]
    told = (tmp_path / "second" / "other.output").read_text()
    assert "The training examples are not those" in told


LONGER = CALM | {"train.save_every": 5, "train.validate_every": 50, "model.d_model": 64}


@pytest.fixture(scope="module")
def longer(nursery):
    """A run of two processes that takes long enough for something to happen on the way."""
    assert nursery.run("longer", 150, LONGER, world=2)["codes"] == [0, 0]
    return nursery.place / "longer"


@pytest.mark.promise(6, "the first of two hosts' processes killed, also without a shared disk")
@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_a_lost_rank_0_costs_a_restart_of_both_hosts(nursery, longer, on_hosts, shared):
    run = nursery.place / f"lost-{shared}"
    options = ["--max-restarts", "3"]
    processes = on_hosts(run.name, *options, shared=shared, steps=150, settings=LONGER)
    wait_for_checkpoint(run, 30)
    os.kill(worker_of(processes[0]), signal.SIGKILL)
    assert_ended_like(run, longer, processes)


@pytest.mark.slow
def test_a_slow_host_slows_the_others_and_changes_nothing(nursery, longer, on_hosts):
    run = nursery.place / "slow"
    processes = on_hosts(run.name, steps=150, settings=LONGER)
    wait_for_checkpoint(run, 30)
    slow, stops = worker_of(processes[1]), 0
    while processes[1].poll() is None and stops < 5:
        os.kill(slow, signal.SIGSTOP)
        time.sleep(1.0)
        before = checkpoints_in(run)
        time.sleep(1.0)
        assert checkpoints_in(run) == before  # the first waits
        os.kill(slow, signal.SIGCONT)
        stops += 1
        time.sleep(0.2)
    assert stops
    assert_ended_like(run, longer, processes)


@pytest.mark.promise(8, "on the first of two hosts: both end, and go on when there is room")
@pytest.mark.slow
def test_a_full_disk_on_the_first_host_ends_both_and_costs_no_work(nursery, pair, on_hosts):
    run = nursery.place / "full"
    run.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(run)], check=True)
    try:
        processes = on_hosts(run.name)
        assert 0 not in [process.wait(timeout=400) for process in processes]
        assert "a save needs" in (nursery.place / "full.output").read_text()
        subprocess.run(["mount", "-o", "remount,size=64m", str(run)], check=True)
        assert_ended_like(run, pair, on_hosts(run.name))
    finally:
        subprocess.run(["umount", str(run)], check=True)
