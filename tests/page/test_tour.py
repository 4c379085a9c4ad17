"""The tour: every stop can be reached, shows the model's own numbers, and answers when one tries."""

import numpy as np
import pytest

WRITES_FROM_SOURCE = [
    "tokens", "vectors", "positions", "qkv", "scores", "scale", "mask", "softmax", "mixture",
    "heads", "add-norm", "feed-forward", "stack", "decoder", "next-word", "again",
]  # fmt: skip
FAMILIES = {
    "encoder-decoder": ({}, WRITES_FROM_SOURCE),
    "encoder": (
        {"family": "encoder", "n_classes": 3, "norm": "pre"},
        [s for s in WRITES_FROM_SOURCE[:13] if s != "mask"] + ["verdict"],
    ),
    "decoder": (
        {"family": "decoder", "norm": "pre"},
        [stop for stop in WRITES_FROM_SOURCE if stop != "decoder"],
    ),
}
ROW, HEAD = 2, 1
HERE = f"block=encoder.0.self&head={HEAD}&segment=source&pos={ROW}&q={ROW}"
FIGURES = "(all) => all.map((one) => Number(one.dataset.figure))"
VALUES = "(all) => all.map((one) => Number(one.dataset.value))"


def at(visit, look, stop, here=HERE):
    return visit(look, f"#/tour?stop={stop}&{here}")


def figures(tab):
    return tab.locator(".try-it .figure").evaluate_all(FIGURES)


def bars(tab, which=0):
    return tab.locator(".stop-picture .word-bars").nth(which).locator("li").evaluate_all(VALUES)


def drag(tab, value):
    tab.locator(".try-it input[type=range]").first.evaluate(
        "(range, value) => { range.value = value; range.dispatchEvent(new Event('input')); }", value
    )


def softmax(x):
    powers = np.exp(x - x.max())
    return powers / powers.sum()


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.fixture
def look(look_at):
    return look_at()


@pytest.mark.parametrize(("settings", "stops"), FAMILIES.values(), ids=FAMILIES)
def test_space_leads_through_every_stop_and_each_has_a_link(visit, look_at, settings, stops):
    tab = visit(look_at(**settings), "#/tour")
    seen = []
    for number in range(len(stops)):
        seen.append(tab.locator(".stop-name").inner_text())
        assert f"Stop {number + 1} of {len(stops)}" in tab.locator(".count").inner_text()
        assert len(tab.locator(".says").inner_text().split()) > 20
        assert tab.locator(".try-it p").count() >= 1
        assert tab.locator(".stop-picture canvas, .stop-picture li, .stop-picture button").count()
        tab.keyboard.press("Space")
    assert tab.locator("h1").inner_text() == "The sentence"
    assert len(set(seen)) == len(stops)
    for stop, name in zip(stops, seen, strict=True):
        tab.evaluate("(address) => { location.hash = address; }", f"#/tour?stop={stop}")
        assert tab.locator(".stop-name").inner_text() == name
    tab.keyboard.press("ArrowLeft")
    assert tab.locator(".stop-name").inner_text() == seen[-2]
    tab.locator(".stop-text a").click()
    assert tab.locator("h1").inner_text() not in ("Tour", "The sentence")


def test_a_link_to_a_stop_opens_there(visit, look):
    tab = visit(look, "#/tour?stop=softmax")
    assert tab.locator(".stop-name").inner_text().startswith("Softmax")
    assert "stop=softmax" in tab.evaluate("location.hash")


def test_vectors_and_positions_are_the_models(visit, look):
    tokens, places = (look.seen[f"encoder.{name}"].numpy() for name in ("tokens", "positions"))
    tab = at(visit, look, "vectors")
    tab.locator(".stop-picture .vectors button").nth(5).click()
    assert figures(tab) == pytest.approx(
        [cosine(tokens[ROW], tokens[5]), np.linalg.norm(tokens[ROW])], abs=1e-5
    )
    tab = at(visit, look, "positions")
    drag(tab, 6)
    moved, own = tokens[ROW] + places[5], tokens[ROW] + places[ROW]
    assert figures(tab) == pytest.approx([cosine(moved, own), moved[0]], abs=1e-5)


def test_another_head_asks_another_question(visit, look):
    tab = at(visit, look, "qkv")
    q = look.seen["encoder.0.self.q"][:, ROW, 0].tolist()
    assert figures(tab) == pytest.approx([q[HEAD]], abs=1e-6)
    tab.locator(".try-it .choice button").nth(3).click()
    assert figures(tab) == pytest.approx([q[3]], abs=1e-6)


def test_scores_are_the_models_and_come_about_in_sight(visit, look):
    tab = at(visit, look, "scores")
    scores = look.seen["encoder.0.self.scores"][HEAD, ROW].numpy()
    assert bars(tab) == pytest.approx(scores.tolist(), abs=1e-5)
    tab.locator(".stop-picture .word-bars button").nth(4).click()
    assert figures(tab) == pytest.approx([scores[4]], abs=1e-4)
    assert tab.locator(".try-it .check").get_attribute("data-agrees") == "true"


def test_the_scale_can_be_dragged_and_softmax_follows(visit, look):
    tab = at(visit, look, "scale")
    scores = look.seen["encoder.0.self.scores"][HEAD, ROW].double().numpy()
    pattern = look.seen["encoder.0.self.pattern"][HEAD, ROW].numpy()
    assert bars(tab, 1) == pytest.approx(pattern.tolist(), abs=1e-5)
    drag(tab, -1)  # nothing is divided
    assert figures(tab)[1] == pytest.approx(1)
    assert bars(tab, 1) == pytest.approx(softmax(scores).tolist(), abs=1e-5)
    assert bars(tab, 0) == pytest.approx(scores.tolist(), abs=1e-5)
    assert max(bars(tab, 1)) > pattern.max()


def test_without_the_mask_words_look_ahead(visit, look):
    tab = visit(look, "#/tour?stop=mask&block=decoder.0.self&head=2&segment=target&pos=3")
    assert figures(tab) == [0]
    tab.get_by_role("switch", name="mask").click()
    scaled = look.seen["decoder.0.self.scaled"][2, 3].double().numpy()
    assert figures(tab) == pytest.approx([softmax(scaled)[4:].sum()], abs=1e-5)


def test_a_raised_score_takes_from_the_others(visit, look):
    tab = at(visit, look, "softmax")
    scaled = look.seen["encoder.0.self.scaled"][HEAD, ROW].double().numpy()
    tab.locator(".stop-picture .word-bars button").nth(6).click()
    drag(tab, 2.5)
    scaled[6] += 2.5
    assert bars(tab, 1) == pytest.approx(softmax(scaled).tolist(), abs=1e-5)
    assert figures(tab)[1] == pytest.approx(1)


def test_a_word_left_out_of_the_mixture_is_missing(visit, look):
    tab = at(visit, look, "mixture")
    assert tab.locator(".try-it .check").get_attribute("data-agrees") == "true"
    tab.locator(".stop-picture .mixture button").nth(0).click()
    weights = look.seen["encoder.0.self.pattern"][HEAD, ROW].numpy().copy()
    weights[0] = 0
    mixed = weights / weights.sum() @ look.seen["encoder.0.self.v"][HEAD].numpy()
    own = look.seen["encoder.0.self.z"][HEAD, ROW].numpy()
    assert figures(tab) == pytest.approx([cosine(mixed, own), np.linalg.norm(mixed)], abs=1e-5)


def test_a_silenced_head_adds_nothing(visit, look):
    tab = at(visit, look, "heads")
    tab.get_by_role("switch", name="head 3").click()
    added = look.head_outputs("encoder.0.self").numpy()[:, ROW]
    left = added[[0, 1, 3]].sum(axis=0)
    expected = [np.linalg.norm(left), cosine(left, added.sum(axis=0))]
    assert figures(tab) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_without_the_stream_a_word_is_lost(visit, look_at, norm):
    look = look_at(norm=norm)
    tab = at(visit, look, "add-norm")
    before, out = (
        look.seen[path][ROW].numpy() for path in ("encoder.embedded", "encoder.0.self.out")
    )
    normed = look.seen["encoder.0.self.norm" if norm == "post" else "encoder.0.ff.norm"][ROW]
    expected = [cosine(before + out, before), normed.std(correction=0).item()]
    assert figures(tab) == pytest.approx(expected, abs=1e-4)
    tab.get_by_role("switch", name="add to the stream").click()
    assert figures(tab)[0] == pytest.approx(cosine(out, before), abs=1e-4)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_without_the_activation_every_unit_speaks(visit, look_at, activation):
    look = look_at(activation=activation)
    tab = at(visit, look, "feed-forward")
    hidden, pre = (look.seen[f"encoder.0.ff.{name}"][ROW] for name in ("hidden", "pre"))
    assert figures(tab) == pytest.approx(
        [(hidden <= 0).float().mean().item(), (hidden > 0).sum().item()]
    )
    tab.get_by_role("switch").click()
    assert figures(tab)[1] == (pre > 0).sum().item()


def test_layers_can_be_dragged_through(visit, look):
    tab = at(visit, look, "stack")
    drag(tab, 0)
    assert figures(tab) == pytest.approx([1, 1], abs=1e-6)
    drag(tab, 1)
    first, after = (
        look.seen[path][ROW].numpy() for path in ("encoder.embedded", "encoder.0.resid_post")
    )
    mean = look.seen["encoder.0.self.pattern"].mean(dim=0)[ROW].numpy()
    expected = [mean[ROW] / 2 + 0.5, cosine(first, after)]
    assert figures(tab) == pytest.approx(expected, abs=1e-4)


def test_the_decoder_looks_where_the_aligning_head_looks(visit, look):
    tab = visit(look, "#/tour?stop=decoder&segment=target&pos=4")
    path, head = look.alignment().head, None
    if path.count(".") == 3:
        path, _, head = path.rpartition(".")
    pattern = look.seen[f"{path}.pattern"][:, 4].numpy()
    shown = bars(tab)
    rows = [pattern[int(head)]] if head is not None else list(pattern)
    assert any(shown == pytest.approx(row.tolist(), abs=1e-6) for row in rows)
    tab.locator(".shift").nth(6).click()
    assert tab.evaluate("look.state.now.step") == 6


def test_the_next_word_is_likely_as_the_model_says_and_as_heat_makes_it(visit, look):
    tab = visit(look, "#/tour?stop=next-word&segment=target&pos=3")
    step = look.step(3)
    assert bars(tab)[:8] == pytest.approx([guess.prob for guess in step.top[:8]], abs=1e-6)
    drag(tab, 2)
    logits = np.array([guess.logit for guess in step.top])
    assert bars(tab)[:8] == pytest.approx(softmax(logits / 2)[:8].tolist(), abs=1e-5)


def test_all_passes_together_are_as_likely_as_the_output(visit, look):
    tab = visit(look, "#/tour?stop=again")
    assert figures(tab)[0] == pytest.approx(np.exp(look.log_prob), rel=1e-3)
    drag(tab, 2)
    assert tab.locator(".again li").count() == 2
    assert figures(tab)[0] == pytest.approx(np.exp(sum(look.log_probs[:2])), rel=1e-3)


def test_a_verdict_without_a_word_is_what_the_model_would_say(visit, look_at):
    look = look_at(family="encoder", n_classes=3, norm="pre")
    tab = visit(look, "#/tour?stop=verdict")
    assert figures(tab) == pytest.approx([look.verdict[0].prob], abs=1e-6)
    tab.locator(".stop-picture .word").nth(1).click()
    lost = look.reasons()["removal"].values[0][1]
    assert figures(tab) == pytest.approx([look.verdict[0].prob * np.exp(-lost)], abs=1e-4)
