"""A look shows what happened: the replay is the decode, and what it names is there."""

from dataclasses import astuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from looks import look_at, spell
from torch.testing import assert_close

from clearhead.config import DecodeConfig
from clearhead.decode import Request, checked, decode
from clearhead.decode.engine import TransformerEngine
from clearhead.errors import ModelError
from clearhead.look import LabelledTensor, search_tree
from clearhead.look.export import meta

few = settings(max_examples=8)
seeds = st.integers(0, 99)
sources = st.lists(st.integers(4, 22), min_size=1, max_size=6)


def searched(model, source, width):
    """The best output of a beam search, and its record."""
    record = {}
    found = decode(
        model, [source], DecodeConfig(beam=width, max_extra=6, guard=False), record=record
    )[0][0]
    return [*found.ids, *([2] if found.finished else [])], record[0]


def tree(model, source, width):
    """The search as a look keeps it, and what it chose."""
    chosen, record = searched(model, source, width)
    found = search_tree(
        [[astuple(candidate) for candidate in step] for step in record],
        chosen,
        spell=spell,
        width=width,
        penalty=("paper", 0.6),
        divisors=[1.0 + step for step in range(len(record))],
    )
    return found, chosen


def cached_rows(model, source, search):
    """The log-probabilities that the cached decoder saw on the winner's way, beam rows followed by parent."""
    request = Request(models=checked(model), options=DecodeConfig(beam=search.width, max_extra=6))
    engine = TransformerEngine(request.models[0])
    rows = [engine.read([request.sentence(0, source)], search.width)[0, 0]]
    for nodes, rank in zip(search.steps, search.winner[:-1], strict=False):
        kept = nodes[: search.width]
        tokens, parents = (
            torch.tensor([[getattr(node, name) for node in kept]]) for name in ("id", "parent")
        )
        rows.append(engine.step(tokens, parents)[0, rank])
    return torch.stack(rows)


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("family", ["encoder-decoder", "decoder"])
@given(seed=seeds, source=sources)
@few
def test_row_t_of_the_replay_is_step_t_of_the_cached_decode(build, family, width, seed, source):
    model = build(seed, family=family)
    with torch.inference_mode():
        search, chosen = tree(model, source, width)
        rows = cached_rows(model, source, search)
    context = [1] if family == "encoder-decoder" else source
    look = look_at(model, tuple(source), (*context, *chosen[:-1]))
    replayed = look.logits.log_softmax(dim=-1)[len(context) - 1 :]
    assert_close(replayed, rows, atol=1e-5, rtol=1e-5)
    assert torch.equal(replayed.argmax(dim=-1), rows.argmax(dim=-1))


@given(seeds, sources)
@few
def test_the_tree_spells_the_winner_and_says_why_others_lost(build, seed, source):
    search, chosen = tree(build(seed), source, 3)
    assert list(search.text(len(chosen) - 1, search.winner[-1])) == spell(chosen)
    for step, nodes in enumerate(search.steps):
        for node in nodes:
            assert (node.state == "pruned") == ("are kept" in node.why)
            assert node.score == pytest.approx(node.total / (1 + step))
            if step:
                before = search.steps[step - 1][node.parent]
                assert node.total == pytest.approx(before.total + node.log_prob, abs=1e-4)


def test_every_tensor_has_a_name_for_each_of_its_indices(look):
    for path in look.paths:
        found = look[path]
        assert found.values.shape == tuple(map(len, found.labels)), path
        assert len(found.axes) == found.values.ndim
        assert str(np.asarray(found).shape[0]) in repr(found)


def test_a_notebook_shows_every_tensor_as_heat_maps_or_as_a_table(look):
    for path in look.paths:
        tensor = look[path]
        found = tensor._repr_html_()
        n_maps = len(tensor.values) if tensor.values.ndim > 2 else 1
        assert found.count("<svg") == n_maps
        assert found.count("<rect") == tensor.values.size
    wide = LabelledTensor("a <b>", np.zeros((80, 80)), ("a", "b"), (("<i>",) * 80,) * 2)
    assert wide._repr_html_().startswith("<pre>a &lt;b&gt;")


def test_a_table_leaves_out_no_two_columns_only_to_say_so():
    for n, said in ((10, ""), (12, ""), (13, "(3 more columns)")):
        labels = (("row",), tuple(map(str, range(n))))
        printed = str(LabelledTensor("path", np.zeros((1, n)), ("a", "b"), labels))
        assert printed.count("0.000") == min(n, 10 if said else n)
        assert said in printed


def test_a_head_has_a_path_of_its_own(build):
    look = look_at(build())
    of_head = look["decoder.1.cross.3.pattern"]
    assert np.array_equal(of_head, look["decoder.1.cross.pattern"].values[3])
    assert np.array_equal(of_head, look.attention("decoder.1.cross", 3))
    assert np.array_equal(of_head, look.attention("decoder.1.cross.3"))
    mean = look["decoder.1.cross.pattern"].values.mean(axis=0)
    assert np.allclose(look.attention("decoder.1.cross"), mean)
    assert of_head.labels[0][1] == "▁w6 → ▁w10"
    assert "▁w6 → ▁w10" in str(of_head)


def test_an_unknown_path_is_answered_with_the_nearest(build):
    with pytest.raises(ModelError, match=r"Did you mean one of these\? .*decoder.1.cross.pattern"):
        look_at(build())["decoder.1.cross.patern"]


def test_alternatives_are_the_likeliest_and_share_one_probability(build):
    look = look_at(build())
    for number in range(len(look.target)):
        step = look.step(number)
        probs = [guess.prob for guess in step.top]
        assert probs == sorted(probs, reverse=True)
        assert sum(probs) + step.rest == pytest.approx(1)
        assert step.chosen.log_prob == pytest.approx(look.log_probs[number], abs=1e-5)
        assert step.chosen.logit - step.log_sum_exp == pytest.approx(step.chosen.log_prob)
        assert look.alternatives(number)[0].id == int(look.logits[number].argmax())


@pytest.mark.parametrize(
    "shape", [{}, {"norm": "pre"}, {"family": "decoder"}, {"family": "encoder"}], ids=str
)
def test_the_last_layer_of_the_lens_says_what_the_model_says(build, shape):
    look = look_at(build(**shape))
    for number, layers in enumerate(look.lens(4)):
        assert len(layers) == 2
        assert layers[-1] == pytest.approx(look.alternatives(number, 4)) or [
            g.id for g in layers[-1]
        ] == [g.id for g in look.alternatives(number, 4)]


def test_classes_are_told_as_the_classifier_means_them(build):
    look = look_at(build(family="encoder", n_classes=3))
    assert sum(guess.prob for guess in look.verdict) == pytest.approx(1)
    free = look_at(look.model, several=True, temperature=2.0)
    for guess in free.verdict:
        assert guess.prob == pytest.approx(1 / (1 + np.exp(-guess.logit / 2)))


def test_gaps_are_where_the_mask_stands(build):
    look = look_at(build(family="encoder"))
    assert look.gaps == (3,)
    assert str(look).splitlines()[-1].lstrip().startswith("3: ")


def test_an_encoder_without_a_head_can_be_looked_into_and_says_nothing(build):
    look = look_at(build(family="encoder", vectors=True))
    assert look.attention("encoder.0.self").values.shape == (6, 6)
    assert look.gaps == ()
    assert meta(look, {})["gaps"] == []
    with pytest.raises(ModelError, match="without a head"):
        assert look.logits
    with pytest.raises(ModelError, match="Nothing was said"):
        look.reasons()
