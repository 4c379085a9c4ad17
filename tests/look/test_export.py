"""A look as data: what is written is what was seen."""

import json
import math
import os
import struct
import xml.etree.ElementTree as ET
import zlib
from dataclasses import replace

import numpy as np
import pytest
from looks import look_at
from safetensors.numpy import load_file

from clearhead.config import ModelConfig
from clearhead.errors import ConfigError
from clearhead.look import export, replayed
from clearhead.look.edits import edits_of
from clearhead.look.labelled import CELL, Heatmap, LabelledTensor
from clearhead.model import Transformer


def test_what_is_saved_is_what_was_seen(look, tmp_path):
    look.save(tmp_path / "look")
    meta = json.loads((tmp_path / "look" / "meta.json").read_text(encoding="utf-8"))
    stored = load_file(tmp_path / "look" / "look.safetensors")
    assert list(meta["tensors"]) == list(look.paths)
    for path, values in stored.items():
        assert np.array_equal(values, look.seen[path].numpy())
        assert meta["tensors"][path]["shape"] == list(values.shape)
        sides = {"source": len(look.source), "target": len(look.target)}
        for axis, size in zip(meta["tensors"][path]["axes"], values.shape, strict=True):
            assert sides.get(axis, size) == size


def test_what_is_saved_can_be_read_by_whom_the_system_allows(build, tmp_path):
    before = os.umask(0o022)
    look_at(build()).save(tmp_path)
    os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o644}


def test_a_page_computes_its_tensors_once(build, monkeypatch):
    asked = []
    monkeypatch.setattr(export, "summaries", lambda look: asked.append(look) or {})
    look = look_at(build())
    look.html()
    assert asked == [look]


def test_meta_is_whole_for_every_family(look):
    meta = json.loads(json.dumps(look.meta(), allow_nan=False))
    assert meta["format"] == "clearhead-look/1"
    kinds = [part["kind"] for part in meta["graph"]]
    assert kinds.count("attention") == len(look.attentions)
    assert kinds[-1] == "output"
    assert all(
        part["scale"] == math.sqrt(part["d_k"])
        for part in meta["graph"]
        if part["kind"] == "attention"
    )
    assert [part["id"] for part in meta["graph"] if part.get("causal")] == [
        path for path in look.attentions if path.startswith("decoder") and path.endswith("self")
    ]
    assert len(meta["steps"]) == len(look.target)
    assert ("classes" in meta) == bool(look.classes)
    assert (meta["alignment"] is not None) == (look.family == "encoder-decoder")
    assert set(meta["tensors"]) == set(look.tensors())
    if look.family == "encoder" and not look.classes:
        assert [gap["row"] for gap in meta["gaps"]] == [3]


def test_summaries_are_of_what_they_sum_up(build):
    look = look_at(build())
    found = look.tensors()
    part = "decoder.1.cross"
    added = look.head_outputs(part)
    assert np.allclose(found[f"{part}.head_norms"], added.norm(dim=-1).numpy())
    bias = look.part(part).out.bias.detach()
    assert np.allclose(
        (added.sum(dim=0) + bias).numpy(), look.seen[f"{part}.out"].numpy(), atol=1e-5
    )
    values, units = found["decoder.0.ff.top_values"], found["decoder.0.ff.top_units"].astype(int)
    assert np.array_equal(
        values, np.take_along_axis(look.seen["decoder.0.ff.hidden"].numpy(), units, axis=1)
    )


def certainty(look, said):
    """The log-probability of what another look said."""
    if look.classes:
        return next(each.log_prob for each in look.verdict if each.text == said.verdict[0].text)
    if look.target:
        return look.log_prob
    rows = list(look.gaps)
    return look.logits.log_softmax(-1)[rows, said.logits[rows].argmax(-1)].sum().item()


def test_a_silenced_head_costs_what_the_edit_takes_away(look):
    found = look.silenced_heads()["attentions"]
    assert set(found) == set(look.attentions)
    source, target = ([token.id for token in side] for side in (look.source, look.target))
    for path in look.attentions:
        for head, lost in enumerate(found[path]["lost"]):
            taps = edits_of([f"silence:{path}.{head}"], look.model.config).taps
            without = replace(look, seen=replayed(look.model, source, target, taps))
            assert lost == pytest.approx(certainty(look, look) - certainty(without, look), abs=2e-4)


@pytest.mark.parametrize(("preset", "most"), [("tiny", 1_500_000), ("base", 7_600_000)])
def test_thirty_tokens_stay_small(preset, most):
    model = Transformer(ModelConfig.preset(preset, vocab_size=500)).eval()
    look = look_at(model, (5,) * 30, (6,) * 30)
    assert sum(values.nbytes for values in look.tensors().values()) < most
    assert len(json.dumps(look.meta(), separators=(",", ":"))) < 250_000


def matrix(values):
    labels = tuple(tuple(f"<&{n}>" for n in range(size)) for size in np.shape(values))
    return LabelledTensor("<path>", np.array(values, dtype=np.float32), ("rows", "columns"), labels)


def test_a_picture_in_svg_is_xml_with_a_cell_for_each_number():
    root = ET.fromstring(Heatmap(matrix([[0, 0.5], [1, -1], [0, 0]])).svg())
    cells = [node for node in root.iter() if node.tag.endswith("rect")]
    assert len(cells) == 6
    assert cells[0].get("fill") == "rgb(255,255,255)"
    assert len({cell.get("fill") for cell in cells}) == 4


def test_a_picture_in_png_has_the_colours_of_the_numbers():
    picture = Heatmap(matrix([[0, 0.5, 1], [-1, -np.inf, 0]]))
    data = picture.png()
    width, height = struct.unpack(">2I", data[16:24])
    assert (width, height) == (3 * CELL, 2 * CELL)
    start = data.index(b"IDAT")
    size = struct.unpack(">I", data[start - 4 : start])[0]
    lines = np.frombuffer(zlib.decompress(data[start + 4 : start + 4 + size]), np.uint8).reshape(
        height, 1 + 3 * width
    )
    pixels = lines[:, 1:].reshape(height, width, 3)
    assert np.array_equal(pixels[CELL // 2 :: CELL, CELL // 2 :: CELL], picture.colours())


def test_a_picture_is_written_as_its_name_asks(build, tmp_path):
    picture = look_at(build()).picture("decoder.0.cross.pattern", head=1)
    picture.save(tmp_path / "a.svg")
    picture.save(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ConfigError, match=r"\.svg or a \.png"):
        picture.save(tmp_path / "a.pdf")
    with pytest.raises(ConfigError, match="Name a head"):
        look_at(build()).picture("decoder.0.cross.pattern")


def test_a_notebook_is_shown_a_frame_that_holds_the_text_too(build):
    frame = look_at(build())._repr_html_()
    assert frame.startswith("<iframe srcdoc=")
    assert "in → out" in frame.rpartition("<pre>")[2]
    assert "<script" not in frame
