"""The first view: the sentence, where each word looked, and one selection for all views."""

import numpy as np
import pytest


def test_a_look_opens_on_its_sentence(visit, translator):
    look = translator.look("the cat sees the dog .", target="ein Hund sieht Katzen")
    tab = visit(look, reduced_motion="reduce")
    assert tab.locator("h1").inner_text() == "The sentence"
    found = look.alignment()
    for side in ("source", "target"):
        words = tab.locator(f".side.{side} .word").all_inner_texts()
        assert words == list(getattr(found, side))
    assert tab.get_by_role("link", name="Take the tour").is_visible()


def test_a_ribbon_is_as_wide_as_its_weight(visit, translator):
    look = translator.look("the cat sees the dog .", target="ein Hund sieht Katzen")
    tab = visit(look, "#/sentence?segment=target&pos=1", reduced_motion="reduce")
    weights = look.alignment().weights
    widths = tab.locator(".ribbon[stroke-opacity='1']").evaluate_all(
        "(all) => all.map((one) => Number(one.getAttribute('stroke-width')))"
    )
    row = next(
        place
        for place, places in enumerate(look.meta()["alignment"]["target_places"])
        if 1 in places
    )
    strongest = np.sort(weights[row])[::-1][: len(widths)]
    assert sorted(widths, reverse=True) == pytest.approx(
        [max(1.5, 20 * w) for w in strongest], abs=0.06
    )
    assert weights[row].max() * 20 == pytest.approx(max(widths), abs=0.06)


def test_pointing_at_a_word_tells_where_it_looked_and_what_else_there_was(visit, translator):
    look = translator.look("the cat sees the dog .", target="ein Hund sieht Katzen")
    tab = visit(look, reduced_motion="reduce")
    tab.locator(".side.target .word").nth(0).hover()
    panel = tab.locator(".panel").inner_text()
    assert look.alignment().target[0] in panel
    assert "Where it looked" in panel
    taken = look.predicted[0].id
    others = [guess for guess in look.alternatives(0) if guess.id != taken][:3]
    shown = tab.locator(".panel > div:last-child .name").all_inner_texts()
    assert len(shown) == len(others)
    tab.locator(".side.source .word").nth(1).focus()
    tab.locator(".side.source .word").nth(1).click()
    assert "Looked at while writing" in tab.locator(".panel").inner_text()


def test_words_are_written_one_after_the_other(visit, translator):
    tab = visit(translator.look("the cat", target="ein Hund sieht Katzen"), reduced_motion="reduce")
    written = "document.querySelectorAll('.side.target .word:not(.unwritten)').length"
    assert tab.evaluate(written) == 4, "without motion all of it stands there at once"
    tab.get_by_role("button", name="a word back").click()
    assert tab.evaluate(written) == 3
    tab.get_by_role("button", name="Play").click()
    tab.wait_for_selector(".side.target .word:nth-child(4):not(.unwritten)")
    tab.wait_for_selector("[aria-label^=Play]")
    tab.get_by_role("button", name="Play").click()
    assert tab.evaluate(written) < 4
    tab.get_by_role("button", name="Pause").click()
    before = tab.evaluate(written)
    tab.wait_for_timeout(600)
    assert tab.evaluate(written) == before


def test_a_word_chosen_once_is_chosen_everywhere(visit, look_at):
    look = look_at()
    tab = visit(look, "#/attention?block=decoder.1.cross&head=1")
    tab.locator(".texts .chips").nth(1).locator(".chip").nth(4).click()
    now = tab.evaluate("look.state.now")
    assert (now["q"], now["step"], now["pos"], now["segment"]) == (4, 4, 4, "target")
    row = look.seen["decoder.1.cross.pattern"][1, 4]
    assert now["k"] == int(row.argmax())
    tab.evaluate("look.state.set({ view: 'output' })")
    assert "step 5" in tab.locator(".output h2").first.inner_text()
    tab.evaluate("look.state.set({ view: 'block' })")
    assert tab.evaluate("look.state.now.layer").startswith("decoder")
    tab.locator(".texts .chips").nth(0).locator(".chip").nth(2).click()
    now = tab.evaluate("look.state.now")
    assert (now["segment"], now["pos"], now["layer"]) == ("source", 2, "encoder.0")
    assert (now["q"], now["k"]) == (4, 2), "a source word is what the same row looks at"


def test_attention_begins_at_the_strongest_cell_of_the_aligning_head(visit, translator):
    look = translator.look("the cat sees the dog .", target="ein Hund sieht Katzen")
    tab = visit(look, "#/attention")
    now = tab.evaluate("look.state.now")
    assert look.alignment().head.startswith(now["block"])
    weights = look.seen[f"{now['block']}.pattern"][now["head"]]
    assert now["k"] == int(weights[now["q"]].argmax())
    assert not tab.locator(".stage").nth(3).is_visible(), "nothing is masked here"
    tab.evaluate("look.state.set({ block: 'decoder.0.self' })")
    assert tab.locator(".stage").nth(3).is_visible()


def test_a_verdict_shows_the_words_that_carry_it(visit, look_at):
    look = look_at(family="encoder", n_classes=3, norm="pre")
    tab = visit(look)
    assert tab.locator(".verdict-name").inner_text() == look.verdict[0].text
    removal = look.meta()["removal"]
    effects = [abs(look.verdict[0].prob - word["prob"]) for word in removal]
    chosen = removal[int(np.argmax(effects))]
    assert tab.locator(".panel b").first.inner_text() == chosen["text"].strip("▁")


def test_a_writer_is_shown_with_its_surprises(visit, look_at):
    look = look_at(family="decoder")
    tab = visit(look, "#/sentence?pos=3", reduced_motion="reduce")
    assert tab.locator(".running .word").count() == len(look.predicted)
    bits = -look.log_probs[3] / np.log(2)
    assert f"{bits:.1f} bits" in tab.locator(".panel").inner_text()


def test_parts_of_the_map_lead_inside(visit, look_at):
    tab = visit(look_at(), "#/map")
    assert tab.locator(".figure-map .memory.arrow").count() == 2
    for layer in ("Decoder layer 1", "Decoder layer 2"):
        tab.get_by_role("link", name=layer).focus()
        if tab.evaluate("look.state.now.layer") != f"decoder.{int(layer[-1]) - 1}":
            tab.keyboard.press("Enter")  # it is shut: this opens it, in both stacks
        assert tab.locator(".figure-map .stream").count() == 2 + 3
        assert tab.evaluate("document.activeElement.ariaLabel") == layer
    tab.get_by_role("link", name="Cross-attention").focus()
    tab.keyboard.press("Enter")
    assert tab.evaluate("[look.state.now.view, look.state.now.block]") == [
        "attention",
        "decoder.1.cross",
    ]


def test_a_word_can_be_found_among_the_alternatives(visit, look_at):
    look = look_at()
    tab = visit(look, "#/output?step=2&segment=target&pos=2")
    third = look.alternatives(2)[2]
    tab.get_by_label("find a word").fill(third.text.strip("▁"))
    assert "Number 3" in tab.locator(".output [role=status]").inner_text()
    tab.get_by_label("find a word").fill("nowhere")
    assert "Not among" in tab.locator(".output [role=status]").inner_text()
