"""Whatever a text holds, it stays text; and the page asks nobody for anything."""

import pytest

from clearhead.look.html import page

EVIL = '</script><img src=x onerror="window.hit=1"><svg onload=window.hit=1>'
TEXTS = {
    "markup": EVIL,
    "end of script": "<!--<script>]]>\u2028\u2029&lt;",
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈 e\u0301\u0323 Z͑ͫ̓",
    "right to left": "שלום עולם مرحبا بالعالم \u202eevil\u202c",
    "long": "x" * 10_000,
    "space": " \t\n\r ",
    "nothing": "",
    "quotes": "\"'`${window.hit=1}\\u003c",
    "not a letter": "\x00\ud800\ufffe",
}
VIEWS = ["sentence", "tour", "map", "tokens", "attention", "heads", "block", "alignment", "output"]


@pytest.mark.promise(25, "hostile text is shown and does nothing")
def test_hostile_text_is_shown_and_does_nothing(visit, look_at):
    texts = list(TEXTS.values())
    whole = "".join(texts)
    look = look_at(
        11, 10, spell=lambda ids: [f"▁{texts[n % len(texts)]}" for n in ids], words=(whole, EVIL)
    )
    tab = visit(look, width=320)
    for view in VIEWS:
        tab.evaluate("(view) => look.state.set({ view, table: true })", view)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 320, view
        assert tab.evaluate("document.documentElement.scrollHeight") < 9_000, view
    assert tab.evaluate("window.hit") is None
    assert tab.locator("img").count() == 0
    tab.evaluate("look.state.set({ view: 'sentence' })")
    assert EVIL[:30] in tab.locator(".side.target").text_content()


def test_text_is_kept_from_reordering_its_neighbours(visit, look_at):
    tab = visit(look_at(4, 5, spell=lambda ids: ["▁שלום"] * len(ids)), "#/attention?table=true")
    assert tab.locator(".twin th bdi").count() == 4 + 5
    assert tab.locator(".cell-name bdi").count() == 2


def test_a_hostile_name_or_note_does_nothing(visit, look_at):
    look = look_at()
    meta = look.meta()
    meta["model"]["name"] = meta["notes"] = meta["edits"] = [EVIL]
    meta["model"]["name"] = EVIL
    meta["change"] = {"words": [["+", EVIL]], "log_prob_before": -1.0, "log_prob_after": -2.0}
    tab = visit(page(meta, look.tensors()))
    assert tab.evaluate("window.hit") is None
    assert EVIL in tab.locator(".model").inner_text()
    assert tab.locator("ins").inner_text() == EVIL


@pytest.mark.promise(25, "no other script runs")
def test_the_policy_forbids_every_other_script(look_at, browser, tmp_path):
    """Even markup that got into the file by another way could not act, nor call home."""
    file = tmp_path / "evil.html"
    more = "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'><script src='https://example.com/x.js'></script>"
    file.write_text(
        look_at().html().replace('<div id="look">', f'{more}<div id="look">'), encoding="utf-8"
    )
    context = browser.new_context()
    tab = context.new_page()
    asked = []
    context.route(
        lambda url: url.startswith("http"),
        lambda route: asked.append(route.request.url) or route.abort(),
    )
    tab.goto(file.as_uri())
    tab.wait_for_selector("html[data-ready]")
    assert tab.evaluate("window.hit") is None
    assert not asked
    context.close()


def test_two_frames_of_a_notebook_do_not_share_what_is_selected(visit, look_at):
    frames = look_at()._repr_html_() + look_at(5, 6)._repr_html_()
    tab = visit(f"<!doctype html><title>notebook</title><main>{frames}</main>", ready=False)
    first, second = tab.frames[1:]
    for frame in (first, second):
        frame.wait_for_selector("html[data-ready]", state="attached")
    before = second.evaluate("look.state.now.q")
    first.get_by_role("link", name="Heads", exact=True).click()
    first.evaluate("look.state.set({ q: 4 })")
    assert first.locator("h1").inner_text() == "Heads"
    assert second.locator("h1").inner_text() == "The sentence"
    assert second.evaluate("look.state.now.q") == before
    assert "notebook" in tab.title()
    assert "#" not in tab.url
