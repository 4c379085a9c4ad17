"""The address of the page is what is selected: a link lands on the exact cell."""

import pytest

EVERYTHING = {
    "view": "heads", "stop": "scale", "run": "en-de", "text": "a b & c", "edits": "no-norm,no-mask", "prefix": "7 8",
    "block": "decoder.1.cross", "head": 3, "q": 6, "k": 5, "stage": 2,
    "scale": False, "mask": False,
    "segment": "target", "pos": 4, "dim": 13, "layer": "decoder.1", "mix": "max", "sort": "entropy", "words": False,
    "aligner": "decoder.0.cross.2", "specials": True, "step": 3, "temperature": 0.7, "beam": "1.2", "frame": 0,
    "ledger": False, "table": True,
}  # fmt: skip
BROKEN = [
    "#/attention?q=99999&k=-4&head=1e9&block=no.such&stage=NaN", "#/nowhere?view=map&__proto__=1&constructor=x",
    "#/tokens?pos=1e308&dim=-1&segment=%00", "#/output?step=77&beam=a.b&temperature=-3", "#/film", "#%E0%A4%A",
    "#/?", "#/block?layer=<img>",
]  # fmt: skip
NOW = "({ ...look.state.now })"


@pytest.fixture
def look(look_at):
    return look_at()


def test_every_field_survives_a_reload(visit, look):
    tab = visit(look)
    assert set(tab.evaluate(NOW)) == set(EVERYTHING)
    tab.evaluate("(wanted) => look.state.set(wanted, { push: true })", EVERYTHING)
    tab.reload()
    tab.wait_for_selector("html[data-ready]")
    assert tab.evaluate(NOW) == EVERYTHING


def test_zero_false_and_the_empty_text_are_values_like_others(visit, look):
    tab = visit(look, "#/attention?head=2&q=3&ledger=true&mix=mean")
    nothing = {"head": 0, "q": 0, "ledger": False, "mix": "", "temperature": 0.05, "words": False}
    tab.evaluate("(wanted) => look.state.set(wanted, { push: true })", nothing)
    again = visit(look, tab.evaluate("location.hash"))
    assert {name: again.evaluate(NOW)[name] for name in nothing} == nothing


def test_back_and_forward_go_through_what_was_seen(visit, look):
    tab = visit(look)
    tab.get_by_role("link", name="Heads", exact=True).click()
    tab.get_by_role("link", name="Block", exact=True).click()
    tab.go_back()
    assert tab.locator("h1").inner_text() == "Heads"
    tab.go_back()
    assert tab.locator("h1").inner_text() == "The sentence"
    tab.go_forward()
    assert tab.locator("h1").inner_text() == "Heads"


def test_no_address_breaks_the_page(visit, look):
    tab = visit(look, BROKEN[0])
    for address in BROKEN:
        tab.evaluate("(address) => { location.hash = address; }", address)
        assert tab.locator("h1").inner_text()


def test_a_link_to_a_cell_shows_that_cell(visit, look):
    tab = visit(look, "#/attention?block=encoder.1.self&head=2&q=4&k=3&stage=1")
    assert "encoder.1.self.2, row 4, column 3" in tab.locator(".cell-name").inner_text()
    assert "q · k" in tab.locator(".attention > h2").inner_text()
