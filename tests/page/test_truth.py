"""What the page shows is what the model computed."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from clearhead.model import Trace

SHAPES = {
    "the paper's": {},
    "pre-norm": {"norm": "pre"},
    "reads": {"family": "encoder", "n_token_types": 2, "activation": "gelu"},
    "classifies": {"family": "encoder", "n_classes": 3, "norm": "pre", "positions": "learned"},
    "writes": {"family": "decoder", "norm": "pre", "scale_embeddings": False},
}
STAGES = (
    """([id, head]) => look.attention(id).stages(head).map((stage) => Array.from(stage, String))"""
)
CELLS = """(places) => places.map((place) => {
    look.state.set(place);
    return [...document.querySelectorAll("#ledger .check")].map(({ dataset }) => ({ ...dataset }));
})"""


def attentions(look):
    return [part for part in look.meta()["graph"] if part["kind"] == "attention"]


@pytest.fixture(params=SHAPES.values(), ids=SHAPES)
def look(request, look_at):
    return look_at(**request.param)


def test_the_four_stages_are_the_models_own(visit, look):
    tab = visit(look)
    for part in attentions(look):
        for head in (0, 3):
            stages = tab.evaluate(STAGES, [part["id"], head])
            for name, values in zip(("scores", "scaled", "masked", "pattern"), stages, strict=True):
                expected = look.seen[f"{part['id']}.{name}"][head]
                shown = torch.tensor([float(value.replace("Infinity", "inf")) for value in values])
                torch.testing.assert_close(shown.view_as(expected), expected, atol=1e-6, rtol=1e-6)
            pattern = np.array(stages[3], dtype=float).reshape(expected.shape)
            assert np.abs(pattern.sum(axis=1) - 1).max() < 1e-5
            hidden = (np.array(stages[2]) == "-Infinity").reshape(expected.shape)
            assert ((pattern == 0) == hidden).all()
            own = part["id"].startswith("decoder") and part["id"].endswith("self")
            assert (hidden == np.triu(np.ones(expected.shape), 1) * own).all(), (
                "only a decoder hides what comes later"
            )


def test_the_arithmetic_of_every_cell_agrees_with_the_model(visit, look):
    tab, random = visit(look), np.random.default_rng(0)
    for part in attentions(look):
        n_heads, n_rows, n_columns = look.seen[f"{part['id']}.pattern"].shape
        n_cells = 13 if part["id"].endswith("cross") else 9
        cells = zip(
            *(random.integers(n, size=n_cells).tolist() for n in (n_heads, n_rows, n_columns)),
            strict=True,
        )
        places = [
            {"view": "attention", "block": part["id"], "head": h, "q": q, "k": k}
            for h, q, k in cells
        ]
        for place, checks in zip(places, tab.evaluate(CELLS, places), strict=True):
            assert len(checks) == 4, place  # q · k, scaled, weight, z
            assert all(check["agrees"] == "true" for check in checks), (place, checks)
            cell = place["head"], place["q"], place["k"]
            for check, name in zip(checks, ("scores", "scaled", "pattern"), strict=False):
                shown, expected = (
                    float(check["model"]),
                    look.seen[f"{part['id']}.{name}"][cell].item(),
                )
                assert shown == pytest.approx(expected, rel=1e-6, abs=1e-7), (place, name)


def test_the_arithmetic_of_vectors_and_outputs_agrees_with_the_model(visit, look):
    tab, meta = visit(look), look.meta()
    layers = [part["id"].rpartition(".")[0] for part in attentions(look)]
    sides = list(meta["segments"])
    places = [
        {"view": "tokens", "segment": side, "pos": pos, "dim": 5 * pos}
        for side in sides
        for pos in range(3)
    ]
    places += [
        {"view": "block", "layer": layer, "pos": pos, "dim": 7 * pos}
        for layer in layers
        for pos in range(3)
    ]
    places += [{"view": "output", "step": step} for step in range(3) if look.target]
    for place, checks in zip(places, tab.evaluate(CELLS, places), strict=True):
        assert checks, place
        assert all(check["agrees"] == "true" for check in checks), (place, checks)


def test_rows_and_columns_are_not_swapped(visit, look_at):
    look = look_at(7, 23)
    tab = visit(look, "#/attention?block=decoder.1.cross&head=0&q=20&k=5&table=true")
    assert tab.locator(".twin tbody tr").count() == 23
    assert tab.locator(".twin thead th").count() == 7
    row = tab.locator(".twin tbody tr").nth(20)
    assert row.locator("th").inner_text() == f"writing {look.predicted[20].text.strip('▁')}"
    shown = [float(cell.get_attribute("data-value")) for cell in row.locator("td").all()]
    np.testing.assert_allclose(
        shown, look.seen["decoder.1.cross.pattern"][0, 20].numpy(), atol=1e-7
    )


def test_pointing_at_a_row_shows_that_row_in_every_stage(visit, look_at):
    tab = visit(look_at(7, 23), "#/attention?block=decoder.0.cross")
    canvas = tab.locator(".attention > .matrix canvas")
    box = canvas.bounding_box()
    canvas.click(
        position={"x": box["width"] - 56, "y": box["height"] - 3}
    )  # beside the sums, the last cell
    assert tab.evaluate("[look.state.now.q, look.state.now.k]") == [22, 6]
    assert "column 6" in tab.locator(".cell-name").inner_text()


def test_a_masked_cell_is_nothing_and_says_why(visit, look_at):
    tab = visit(look_at(), "#/attention?block=decoder.1.self&q=2&k=5")
    assert "later token" in tab.locator("#ledger").inner_text()
    assert "−∞" in tab.locator("#ledger").inner_text()
    tab.keyboard.press("3")
    tab.keyboard.press("t")
    assert tab.locator(".twin [aria-current]").inner_text() == "−∞"


def test_a_sentence_in_a_padded_batch_looks_as_alone(build, look_at, visit):
    """Padding is cut off before the page; what is left must be the same."""
    look, trace = look_at(), Trace()
    ids = [token.id for token in look.source]
    batch, real = torch.tensor([[*ids, 0, 0], [5] * 9]), torch.ones(2, 9, dtype=torch.bool)
    real[0, 7:] = False
    build()(batch, torch.tensor([[token.id for token in look.target]] * 2), real, tap=trace)
    shown = visit(look).evaluate("Array.from(look.attention('decoder.1.cross').weights(2))")
    np.testing.assert_allclose(
        shown, trace["decoder.1.cross.pattern"][0, 2, :, :7].flatten(), atol=1e-5
    )


def test_the_output_opens_at_the_first_token_that_was_chosen(visit, look_at):
    look = replace(look_at(family="decoder"), n_given=3)
    tab = visit(look, "#/output?pos=0")
    assert tab.evaluate("look.state.now.step") == 3
    tab.evaluate("look.state.set({ step: 0 })")
    pressed = tab.locator(".texts .chip").evaluate_all(
        "(all) => all.map((chip) => chip.getAttribute('aria-pressed'))"
    )
    assert pressed.index("true") == 0
    assert "given, not chosen" in tab.locator(".output .hint").first.inner_text()


def test_the_arithmetic_of_an_unlikely_token_is_its_own(visit, look_at):
    look = look_at(family="decoder")
    outside = [
        row
        for row, token in enumerate(look.predicted)
        if token.id not in {guess.id for guess in look.alternatives(row)}
    ]
    tab = visit(look, f"#/output?step={outside[0]}")
    assert f"id {look.predicted[outside[0]].id}," in tab.locator(".cell-name").inner_text()
    assert tab.locator("#ledger .check").get_attribute("data-agrees") == "true"


def test_texts_tokens_steps_and_search_are_those_of_the_translator(visit, translator):
    look = translator.look("the cat drinks water", beam=3)
    tab, meta = visit(look, "#/output"), look.meta()
    sides = tab.locator(".texts .chips")
    assert sides.nth(0).locator(".chip").count() == len(look.source)
    assert sides.nth(1).locator(".chip").count() == len(meta["steps"])
    won = tab.locator(".node.won").evaluate_all(
        "(nodes) => nodes.map((node) => node.querySelector('title').textContent)"
    )
    assert len(won) == len(meta["beam"]["winner"])
    last = meta["beam"]["steps"][len(won) - 1][meta["beam"]["winner"][-1]]
    assert f"{last['total']:.3f}".replace("-", "−") in won[-1]
    for step in (0, len(meta["steps"]) - 1):
        tab.evaluate("(step) => look.state.set({ step })", step)
        if tab.get_by_role("button", name="more").count():
            tab.get_by_role("button", name="more").click()
        shown = tab.locator(".output .bars li").all_inner_texts()
        assert len(shown) == len(meta["steps"][step]["top"]) + 1
    tab.locator(".node.won").last.click()
    assert f"{last['score']:.4f}".replace("-", "−") in tab.locator("#ledger").inner_text()


def test_temperature_moves_probabilities_and_keeps_their_sum(visit, translator):
    tab = visit(translator.look("the cat"), "#/output?temperature=0.5")
    tab.get_by_role("button", name="more").click()
    shares = "[...document.querySelectorAll('.output .bars .bar')].map((bar) => parseFloat(bar.style.width))"
    cold = tab.evaluate(shares)
    assert sum(cold) == pytest.approx(100, abs=0.1)
    tab.evaluate("look.state.set({ temperature: 2 })")
    warm = tab.evaluate(shares)
    assert sum(warm) == pytest.approx(100, abs=0.1)
    assert warm[0] < cold[0]


def test_the_alignment_is_pythons(visit, translator):
    look = translator.look("the cat sees the dog .", target="ein Hund sieht Katzen")
    tab = visit(look, "#/alignment?table=true")
    assert tab.locator(".links").inner_text() == str(look.alignment())
    rows = [
        [float(cell.get_attribute("data-value")) for cell in row.locator("td").all()]
        for row in tab.locator(".twin tbody tr").all()
    ]
    np.testing.assert_allclose(rows, look.alignment().weights, atol=1e-4)


def test_switching_a_step_off_says_so_and_switching_it_on_restores_every_bit(visit, look_at):
    tab = visit(look_at(), "#/attention?block=decoder.0.self")
    weights = "Array.from(look.attention('decoder.0.self').stages(0, look.state.now)[3])"
    before = tab.evaluate(weights)
    tab.evaluate("look.state.set({ scale: false, mask: false })")
    assert tab.evaluate(weights) != before
    assert "not what was" in tab.locator(".sentence").inner_text()
    tab.evaluate("look.state.set({ scale: true, mask: true })")
    assert tab.evaluate(weights) == before


def test_classes_and_gaps_are_shown(visit, look_at):
    classes = look_at(family="encoder", n_classes=3)
    shown = visit(classes, "#/output").locator(".classes .name").all_inner_texts()
    assert sorted(shown) == ["class 0", "class 1", "class 2"]
    gaps = look_at(family="encoder")
    assert visit(gaps, "#/output").locator(".output .chip").count() == len(gaps.meta()["gaps"]) == 1


def test_the_data_taken_out_is_the_data_put_in(visit, look_at, tmp_path):
    look = look_at()
    tab = visit(look, "#/attention?block=decoder.1.cross&head=2")

    def saved(entry):
        tab.locator("summary").click()
        with tab.expect_download() as download:
            tab.get_by_role("button", name=entry).click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        return path

    tensors = load_file(saved("Numbers, safetensors"))
    assert all((tensors[name] == value).all() for name, value in look.tensors().items())
    assert json.loads(saved("What happened, JSON").read_text())["output"] == "out"
    rows = [line.split(",")[1:] for line in saved("Table, CSV").read_text().splitlines()[1:]]
    np.testing.assert_allclose(
        np.array(rows, dtype=float), look.seen["decoder.1.cross.pattern"][2], atol=1e-7
    )
    drawing = saved("Drawing, SVG").read_text()
    assert "<svg" in drawing
    assert "<script" not in drawing
    assert saved("Picture, PNG").read_bytes().startswith(b"\x89PNG")


def test_a_changed_model_is_shown_as_it_was_changed(visit, translator):
    """Without √d_k the arithmetic divides by nothing and still agrees; without positions the sines do not agree."""
    tab = visit(
        translator.look("the cat", edit="no-scale"), "#/attention?block=encoder.1.self&q=1&k=1"
    )
    assert "Not divided" in tab.locator("#ledger").inner_text()
    assert (
        tab.locator(".check").evaluate_all("(all) => all.map(({ dataset }) => dataset.agrees)")
        == ["true"] * 4
    )
    tab = visit(translator.look("the cat", edit="no-positions"), "#/tokens?pos=1&dim=0")
    assert tab.locator(".differs").inner_text().endswith("the model was changed here")
    assert "no-positions" in tab.locator("header .notice").inner_text()
    tab = visit(
        translator.look("the cat", edit="no-mask"),
        "#/attention?block=decoder.1.self&q=0&k=1&stage=3",
    )
    assert "it may look" in tab.locator("#ledger").inner_text()
