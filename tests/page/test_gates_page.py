"""The page of a recurrent model draws what is there, hides what is not, and its numbers are the model's own."""

import numpy as np
import pytest
import torch
from test_truth import CELLS

SHAPES = {
    "LSTM": {"architecture": "lstm"},
    "LSTM, additive, input feeding": {
        "architecture": "lstm",
        "attention": "additive",
        "input_feeding": True,
    },
    "GRU": {"architecture": "gru"},
    "LSTM that writes": {"architecture": "lstm", "family": "decoder"},
    "GRU that classifies": {"architecture": "gru", "family": "encoder", "n_classes": 3},
}
VIEWS = ["The sentence", "Map", "Attention", "Gates", "Alignment", "Output"]


@pytest.fixture(params=SHAPES.values(), ids=SHAPES)
def look(request, look_at):
    return look_at(**request.param)


def gates(look):
    return [part for part in look.meta()["graph"] if part["kind"] == "gates"]


def test_every_view_of_what_is_there_opens_and_no_other(visit, look):
    tab = visit(look)
    missing = () if look.attentions else ("Attention", "Alignment")
    expected = [view for view in VIEWS if view not in missing]
    assert tab.locator("nav a").all_inner_texts() == expected
    for view in expected:
        tab.locator("nav a", has_text=view).click()
        assert tab.locator("h1").inner_text() == view
        assert not tab.get_by_text("NaN").count()


def test_gates_are_drawn_as_the_model_had_them(visit, look):
    tab = visit(look)
    for part in gates(look):
        tab.evaluate("layer => look.state.set({ view: 'gates', layer })", part["id"])
        assert tab.locator(".gates-wall section").count() == len(part["gates"])
        for name in part["gates"]:
            path = f"{part['id']}.{name}"
            shown = tab.evaluate("path => Array.from(look.trace.tensor(path).data)", path)
            assert torch.equal(torch.tensor(shown), look.seen[path].flatten())


def test_the_arithmetic_of_a_unit_agrees_with_the_model_in_both_directions(visit, look):
    tab, random = visit(look), np.random.default_rng(0)
    for part in gates(look):
        n_rows, n_units = look.seen[f"{part['id']}.state"].shape
        segment = "source" if part["id"].startswith("encoder") else "target"
        places = [
            {"view": "gates", "layer": part["id"], "segment": segment, "pos": row, "dim": unit}
            for row in (0, 1, n_rows - 1)
            for unit in (0, n_units - 1, *random.integers(n_units, size=3).tolist())
        ]
        n_checks = 2 if "cell" in part["gates"] else 1
        for place, checks in zip(places, tab.evaluate(CELLS, places), strict=True):
            assert len(checks) == n_checks
            assert all(check["agrees"] == "true" for check in checks), (place, checks)
            state = look.seen[f"{part['id']}.state"][place["pos"], place["dim"]]
            assert float(checks[-1]["model"]) == float(state)


def test_the_arithmetic_of_its_attention_agrees_with_the_model(visit, look):
    if not look.attentions:
        return
    tab = visit(look)
    places = [
        {"view": "attention", "block": "decoder.cross", "head": 0, "q": q, "k": k}
        for q, k in ((0, 0), (3, 5), (8, 6))
    ]
    # an additive score is not divided
    n_checks = 3 if look.model.config.attention == "additive" else 4
    for place, checks in zip(places, tab.evaluate(CELLS, places), strict=True):
        assert len(checks) == n_checks
        assert all(check["agrees"] == "true" for check in checks), (place, checks)


def test_the_map_leads_into_a_layer_and_to_the_source(visit, look_at):
    tab = visit(look_at(architecture="lstm"), "#/map")
    tab.get_by_role("link", name="LSTM, reads from both ends").first.click()
    assert tab.locator("h1").inner_text() == "Gates"
    tab.go_back()
    tab.get_by_role("link", name="Cross-attention").click()
    assert tab.locator("h1").inner_text() == "Attention"


def test_a_wide_model_in_half_precision_still_adds_up(visit, look_at):
    look = look_at(30, 30, architecture="lstm", d_model=384)
    assert look.tensors()["encoder.0.state"].dtype == np.float16
    places = [
        {"view": "gates", "layer": "encoder.1", "segment": "source", "pos": 9, "dim": unit}
        for unit in (3, 300)
    ]
    for checks in visit(look).evaluate(CELLS, places):
        assert [check["agrees"] for check in checks] == ["true", "true"]
