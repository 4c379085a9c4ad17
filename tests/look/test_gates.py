"""A look into a recurrent model: the same questions, as far as they mean something, and the gates."""

import json

import numpy as np
import pytest
import torch
from looks import look_at

from clearhead.errors import ConfigError, ModelError
from clearhead.look.edits import edits_of
from clearhead.look.guide import guide


def edited(model, *names):
    edits = edits_of(names, model.config)
    return look_at(model, edits=edits.taps, taps=edits.taps)


def test_meta_and_page_are_whole_for_every_shape(recurrent):
    meta = json.loads(json.dumps(recurrent.meta(), allow_nan=False))
    kinds = [part["kind"] for part in meta["graph"]]
    assert kinds.count("attention") == len(recurrent.attentions) <= 1
    assert kinds[-1] == "output"
    assert set(meta["tensors"]) == set(recurrent.tensors())
    assert meta["model"]["architecture"] == recurrent.model.config.architecture
    assert all(step["lens"] == [] for step in meta["steps"])
    assert "<script" in recurrent.html()
    gates = [part for part in meta["graph"] if part["kind"] == "gates"]
    assert len(gates) == 2 * len(meta["segments"])
    for part in gates:
        shapes = [meta["tensors"][f"{part['id']}.{name}"]["shape"] for name in part["gates"]]
        side = meta["segments"]["source" if part["id"].startswith("encoder") else "target"]
        assert shapes == [[len(side), 16]] * len(shapes)
        assert len(part["ways"]) == (2 if part["id"].startswith("encoder") else 1)


def test_what_is_saved_is_what_was_seen(recurrent, tmp_path):
    recurrent.save(tmp_path)
    meta = json.loads((tmp_path / "meta.json").read_text(encoding="utf-8"))
    assert list(meta["tensors"]) == list(recurrent.paths)


def test_scores_are_divided_by_the_root_of_the_width_only_where_they_are_products(build):
    for attention, scale in (("dot", 4.0), ("additive", 1.0)):
        (part,) = [
            part
            for part in look_at(build(architecture="lstm", attention=attention)).meta()["graph"]
            if part["kind"] == "attention"
        ]
        assert (part["id"], part["n_heads"], part["scale"]) == ("decoder.cross", 1, scale)


def test_its_one_head_aligns(build):
    look = look_at(build(architecture="gru"))
    assert look.alignment().head in ("decoder.cross.0", "decoder.cross")
    pattern = look["decoder.cross.0.pattern"]
    assert np.array_equal(pattern.values, look.attention("decoder.cross").values)
    assert pattern.axes == ("target", "source")
    assert look["decoder.start"].axes == ("layer", "d_model")
    with pytest.raises(ModelError, match="There is no head 1"):
        look.attention("decoder.cross", head=1)


def test_what_z_adds_to_an_answer_goes_through_its_half_of_the_matrix(build):
    look = look_at(build(architecture="lstm"))
    combine = look.part("decoder.cross").combine
    state = look.seen["decoder.1.state"] @ combine.weight[:, 16:].T.detach()
    whole = (look.head_outputs("decoder.cross")[0] + state + combine.bias.detach()).tanh()
    assert torch.allclose(whole, look.seen["decoder.cross.out"], atol=1e-5)


def test_edits_reach_its_attention(build):
    model = build(architecture="lstm", input_feeding=True)
    plain = look_at(model)
    assert not edited(model, "silence:decoder.cross").seen["decoder.cross.z"].any()
    painted = edited(model, "paint:decoder.cross.0:1:2").seen["decoder.cross.pattern"][0]
    assert painted[1].tolist() == [0, 0, 1, 0, 0, 0]
    assert torch.equal(painted[0], plain.seen["decoder.cross.pattern"][0, 0])
    scores = plain.seen["decoder.cross.scores"][0, 0]
    unscaled = edited(model, "no-scale").seen["decoder.cross.masked"][0, 0]
    assert torch.allclose(unscaled, scores, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["no-mask", "no-positions", "no-residual", "no-norm", "one-head:0", "silence:decoder.0"]
)
def test_edits_of_what_it_does_not_have_are_refused(build, name):
    with pytest.raises(ConfigError, match="finds nothing to change"):
        edits_of([name], build(architecture="gru").config)
    with pytest.raises(ConfigError, match="finds nothing to change"):
        edits_of(["no-scale"], build(architecture="gru", attention="additive").config)


def test_reasons_are_those_that_there_are(build):
    found = look_at(build(architecture="lstm", attention="additive")).reasons().measures
    assert list(found) == ["attention", "weighted attention", "gradient × input", "removal"]
    found = look_at(build(architecture="gru", family="decoder")).reasons().measures
    assert list(found) == ["gradient × input", "removal"]
    assert all(np.isfinite(table).any() for table in found.values())


def test_the_guide_is_the_transformer_s(build):
    with pytest.raises(ModelError, match="of a Transformer, and this model is of family gru"):
        guide(look_at(build(architecture="gru")))
