"""Every experiment at toy size: what its tables say, not only that they are there."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from clearhead.lab.complexity import (
    Complexity,
    exponent,
    layer_over,
    leaf_vectors,
    least_seconds,
    longest_chain,
    shortest_path,
)
from clearhead.lab.gradients import Gradients, gradient_norms, window
from clearhead.lab.notebook import Notebook, perform
from clearhead.lab.positions import Positions, map_error, products_at
from clearhead.model import Tap
from clearhead.model.positions import sinusoids


def rows(folder, name):
    return Notebook(folder).rows(name)


def test_attention_grows_faster_with_the_length_than_a_recurrent_layer(tmp_path):
    experiment = Complexity(
        lengths=(64, 256, 512), widths=(32, 64), width=64, length=32, rounds=5,
        chain_lengths=(2, 4, 8),
    )  # fmt: skip
    found = perform(experiment, [], tmp_path)
    times = [row for row in rows(tmp_path, "times") if row["task"] == "layer"]
    fitted = {
        kind: exponent([(row["n"], row[kind]) for row in times]) for kind in ("matrix part", "lstm")
    }
    assert fitted["matrix part"] > fitted["lstm"] + 0.3
    assert all(row[kind] > 0 for row in times for kind in fitted)
    assert found.table[3][0] == "LSTM"
    assert found.table[3][-1].endswith("·n + 2")
    assert (tmp_path / "time-and-length.svg").read_text().count("</svg>") == 1


@given(power=st.floats(-2, 3), scale=st.floats(1e-6, 1e3))
def test_the_exponent_of_a_power_law_is_found(power, scale):
    points = [(2.0**i, scale * (2.0**i) ** power) for i in range(4, 11)]
    assert exponent(points) == pytest.approx(power, abs=1e-6)


def test_times_of_all_kinds_are_the_least_of_their_samples():
    calls = []
    found = least_seconds({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3)
    assert found.keys() == {"a", "b"}
    assert set(calls) == {"a", "b"}


@given(n=st.integers(3, 20))
def test_only_recurrent_layers_have_chains_and_paths_that_grow_with_the_text(n):
    for kind, grows in (("attention", False), ("lstm", True), ("gru", True)):
        short, long = leaf_vectors(n, 4), leaf_vectors(n + 5, 4)
        ends = [(layer_over(xs, kind), xs[0]) for xs in (short, long)]
        chains = [longest_chain(y) for y, _ in ends]
        paths = [shortest_path(y, x) for y, x in ends]
        assert (chains[1] > chains[0]) is grows
        assert (paths[1] > paths[0]) is grows


@given(k=st.integers(1, 60), half=st.integers(1, 64))
def test_a_position_further_on_is_a_linear_map_of_the_position(k, half):
    table = sinusoids(torch.arange(128), 2 * half)
    assert map_error(table, k) < 1e-5


@given(k=st.integers(0, 63))
def test_dot_products_of_positions_depend_on_their_distance_alone(k):
    found = products_at(sinusoids(torch.arange(128), 64), k)
    assert list(found.values()) == pytest.approx([found["formula"]] * 5, abs=1e-4)


def test_positions_learn_to_copy_and_resume_to_the_same_numbers(tmp_path):
    experiment = Positions(
        d=32,
        n=32,
        offsets=(1, 2),
        longest_seen=6,
        lengths=(4, 12),
        trained_width=32,
        steps=100,
        rate=2.5,
        seeds=1,
    )
    perform(experiment, [], tmp_path / "a")
    trained = {row["positions"]: row for row in rows(tmp_path / "a", "lengths")}
    assert trained["sinusoidal"]["4"] > 0.9 > trained["sinusoidal"]["12"]
    assert max(row["largest_error"] for row in rows(tmp_path / "a", "linear-maps")) < 1e-5

    def stop_at_the_second(what, done, total):
        if "learned" in what:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perform(experiment, [], tmp_path / "b", stop_at_the_second)
    assert len(rows(tmp_path / "b", "lengths")) == 1
    perform(experiment, [], tmp_path / "b")
    assert rows(tmp_path / "b", "lengths") == rows(tmp_path / "a", "lengths")


def test_words_one_step_back_are_recalled_and_gradients_of_recurrent_networks_fade(tmp_path):
    experiment = Gradients(
        d=32, layers=1, backs=(1, 8), steps=150, rate=2.5, rows=8, reach=32, learned_back=1
    )
    perform(experiment, [], tmp_path)
    recalled = {
        (row["architecture"], row["k"]): row["accuracy"] for row in rows(tmp_path, "memory")
    }
    assert min(share for (_, k), share in recalled.items() if k == 1) > 0.9
    assert recalled["lstm", 8] < 0.9
    untrained = {
        row["architecture"]: row for row in rows(tmp_path, "gradients") if not row["trained"]
    }
    for kind in ("lstm", "gru"):
        assert untrained[kind]["k32"] < 0.2 * untrained["transformer"]["k32"]
    paths = rows(tmp_path, "paths")
    assert paths[0]["transformer"] == paths[1]["transformer"]
    assert paths[0]["lstm"] < paths[1]["lstm"]


class Nudge(Tap):
    """Moves one entry of the vector of one word."""

    def __init__(self, place, entry, by):
        self.at, self.by = (slice(None), place, entry), by

    def __call__(self, name, x):
        if name == "tokens":
            x = x.clone()
            x[self.at] += self.by
        return x


@pytest.mark.parametrize("kind", ["transformer", "lstm"])
def test_gradients_are_what_moving_a_words_vector_a_little_does_to_the_loss(kind):
    model = Gradients(d=16, layers=1).untrained(kind).double().eval()
    text, answer = torch.arange(10, 18)[None], torch.tensor([9])

    @torch.no_grad()
    def loss(nudge):
        return float(F.cross_entropy(model.logits(model.decode(text, tap=nudge))[:, -1], answer))

    k, small = 3, 1e-4
    slopes = [
        (loss(Nudge(7 - k, i, small)) - loss(Nudge(7 - k, i, -small))) / (2 * small)
        for i in range(16)
    ]
    norms = gradient_norms(model, text, answer)
    assert float(norms[k]) == pytest.approx(math.hypot(*slopes), rel=1e-4)


def test_the_window_ends_where_memory_first_fails():
    assert window([(1, 1.0), (2, 0.95), (4, 0.2), (8, 0.95)]) == 2
    assert window([(1, 0.5)]) == 0
