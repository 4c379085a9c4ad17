"""Keyboard, eyes and screens of every kind."""

import numpy as np
import pytest

from clearhead.look.html import page

VIEWS = ["sentence", "tour", "map", "tokens", "attention", "heads", "block", "alignment", "output"]


def test_the_keyboard_alone_reaches_the_arithmetic_of_a_cell(visit, look_at):
    tab = visit(look_at(), "#/map?block=decoder.0.cross&head=0&q=0&k=0")
    for _ in range(40):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.textContent") == "Attention":
            break
    tab.keyboard.press("Enter")
    assert tab.locator("h1").inner_text() == "Attention"
    for _ in range(60):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.className") == "matrix-frame":
            break
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    for key in ["ArrowDown", "ArrowDown", "ArrowRight"]:
        tab.keyboard.press(key)
    assert tab.evaluate("[look.state.now.q, look.state.now.k]") == [2, 1]
    assert "decoder.0.cross.0, row 2, column 1" in tab.locator(".cell-name").inner_text()
    assert "It looks at" in tab.locator(".live[role=status]").inner_text()
    for key in ["]", ",", ".", "2"]:
        tab.keyboard.press(key)
    now = tab.evaluate("look.state.now")
    assert (now["q"], now["block"], now["stage"]) == (2, "decoder.1.cross", 2)
    tab.keyboard.press("End")
    assert tab.evaluate("look.state.now.k") == 6
    tab.keyboard.press("Control+Home")
    assert tab.evaluate("[look.state.now.q, look.state.now.k]") == [0, 0]
    tab.keyboard.press("l")
    assert not tab.locator("#ledger").is_visible()
    tab.keyboard.press("?")
    assert tab.locator("dialog").is_visible()
    tab.keyboard.press("Escape")
    assert not tab.locator("dialog").is_visible()


def test_choosing_in_a_list_triggers_no_shortcut(visit, look_at):
    tab = visit(look_at(), "#/attention")
    tab.locator("select").first.focus()
    tab.keyboard.press("t")
    assert tab.evaluate("look.state.now.table") is False


def test_the_table_holds_what_the_picture_shows(visit, look_at):
    look = look_at()
    tab = visit(look, "#/heads?block=encoder.1.self&head=3&table=true")
    shown = [
        float(text)
        for text in tab.locator(".twin td[data-value]").evaluate_all(
            "(all) => all.map((cell) => cell.dataset.value)"
        )
    ]
    np.testing.assert_allclose(
        np.reshape(shown, (7, 7)), look.seen["encoder.1.self.pattern"][3], atol=1e-7
    )


def test_a_cell_is_as_dark_as_its_weight(visit, look_at):
    """Read off the pixels: the picture, and not only the table, is the model's."""
    look = look_at()
    tab = visit(look, "#/attention?block=encoder.0.self&head=1&q=0&k=0", device_scale_factor=1)
    light = tab.evaluate("""() => {
        const canvas = document.querySelector(".attention .stage:nth-child(5) canvas"), c = canvas.getContext("2d");
        const w = canvas.width / 7, h = canvas.height / 7;
        return [...Array(49)].map((_, i) => {
            const [r, g, b] = c.getImageData((i % 7 + 0.5) * w, (Math.floor(i / 7) + 0.5) * h, 1, 1).data;
            return r + g + b;
        });
    }""")
    weights = look.seen["encoder.0.self.pattern"][1].flatten().numpy()
    assert np.corrcoef(light, weights)[0, 1] < -0.98


@pytest.mark.parametrize(
    "settings", [{}, {"family": "encoder", "n_classes": 2}, {"family": "decoder"}], ids=str
)
def test_every_view_of_every_family_fits_the_screen(visit, look_at, settings):
    tab = visit(look_at(**settings), width=640)
    names = tab.evaluate(
        "[...document.querySelectorAll('nav a')].map((link) => /\\w+/.exec(link.hash)[0])"
    )
    assert len(names) >= 8
    assert names[:2] == ["sentence", "tour"]
    assert ("alignment" in names) == (not settings)
    for name in names:
        tab.evaluate("(view) => look.state.set({ view })", name)
        for width in (320, 1280):
            tab.set_viewport_size({"width": width, "height": 900})
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, name
        assert tab.locator("h1").inner_text()
        assert tab.locator(".lead, .says").first.text_content() or name == "tour"
        assert tab.evaluate("document.querySelectorAll('*').length") < 3_000, name


def test_fingers_find_what_they_touch(visit, look_at):
    tab = visit(look_at(), "#/attention?q=0&k=0", width=320)
    sizes = tab.locator(".stepper button, .choice button, nav a, .icon").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().height)"
    )
    assert min(sizes) >= 43
    tab.get_by_role("button", name="row below").click()
    assert tab.evaluate("look.state.now.q") == 1


def test_light_and_dark_follow_the_system_and_the_switch(visit, look_at):
    def looks(tab):
        return tab.evaluate("""[getComputedStyle(document.documentElement).backgroundColor,
            document.querySelector(".attention > .matrix canvas").toDataURL()]""")

    day, night = (
        visit(look_at(), "#/attention", color_scheme=scheme) for scheme in ("light", "dark")
    )
    by_day, by_night = looks(day), looks(night)
    assert by_day[0] != by_night[0]
    assert by_day[1] != by_night[1]
    day.get_by_role("button", name="Dark colours").click()
    assert looks(day) == by_night
    day.reload()
    day.wait_for_selector("html[data-ready]")
    assert looks(day) == by_night
    day.evaluate("localStorage.clear()")
    night.emulate_media(color_scheme="light")
    night.wait_for_selector("[aria-label='Dark colours']")
    assert looks(night) == by_day
    night.emulate_media(color_scheme="dark")


def test_text_can_be_read_by_day_and_by_night(visit, look_at):
    """WCAG's contrast: 4.5 for text."""
    contrast = """() => {
        const style = getComputedStyle(document.documentElement);
        const light = (hex) => {
            const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)
                .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const name = (key) => light(style.getPropertyValue(`--${key}`).trim());
        return ["ink", "muted", "accent", "good", "bad"].flatMap((text) => ["paper", "card", "soft"].map((under) => {
            const [a, b] = [name(text), name(under)].sort((x, y) => y - x); return (a + 0.05) / (b + 0.05); }));
    }"""
    for scheme in ("light", "dark"):
        assert min(visit(look_at(), color_scheme=scheme).evaluate(contrast)) >= 4.5


def test_nothing_moves_where_motion_is_not_wanted(visit, look_at):
    tab = visit(look_at(), "#/output", reduced_motion="reduce")
    assert (
        tab.evaluate("getComputedStyle(document.querySelector('.bars .bar')).transitionDuration")
        == "0s"
    )


def test_a_long_text_is_pooled_and_says_so(visit, look_at):
    look = look_at(n_target=600, family="decoder", n_decoder_layers=1, n_heads=1)
    tab = visit(look, "#/attention?q=500&k=123")
    assert "600 × 600" in tab.locator(".attention > .matrix .notice").inner_text()
    assert "row 500, column 123" in tab.locator(".cell-name").inner_text()
    canvas = tab.locator(".attention > .matrix canvas")
    canvas.scroll_into_view_if_needed()
    canvas.click(position={"x": 1, "y": 1})
    row, column = tab.evaluate("[look.state.now.q, look.state.now.k]")
    pool = look.seen["decoder.0.self.pattern"][0, :3, :3]
    assert pool[row, column] == pool.max()
    tab.keyboard.press("t")
    assert tab.locator(".twin tbody tr").count() == 60


@pytest.mark.parametrize("n_tokens", [9, 70])
def test_what_may_not_be_seen_is_hatched_however_long_the_text(visit, look_at, n_tokens):
    look = look_at(n_target=n_tokens, family="decoder", n_decoder_layers=1, n_heads=1)
    tab = visit(look, "#/attention", device_scale_factor=1)
    above, below = tab.evaluate("""() => {
        const canvas = document.querySelector(".attention .stage:nth-child(4) canvas");
        const { width, height } = canvas, pen = canvas.getContext("2d");
        return [[0.6, 0.05], [0.05, 0.6]].map(([x, y]) => {
            const part = pen.getImageData(x * width, y * height, 0.3 * width, 0.3 * height).data;
            const alphas = part.filter((_, i) => i % 4 === 3);
            return alphas.filter((alpha) => alpha > 250).length / alphas.length;
        });
    }""")
    assert above < 0.1, "a cell above the diagonal has a colour"
    assert below > 0.5


def test_the_map_counts_tokens(visit, look_at):
    assert "64 tokens to choose from" in visit(look_at(), "#/map").locator(".map").inner_text()


def test_a_film_plays_through_its_checkpoints(visit, look_at):
    look = look_at()
    film = {
        "steps": [0, 20, 30],
        "loss": [None, 2.0, 1.5],
        "source": ["a"] * 4,
        "target": ["b"] * 4,
    }
    frames = np.random.default_rng(0).random((3, 4, 4, 4), dtype=np.float32)
    tab = visit(
        page({**look.meta(), "film": film}, {**look.tensors(), "film.encoder.0.self": frames}),
        "#/film?frame=1",
    )
    assert "step 20, loss 2.00" in tab.locator("output").inner_text()
    picture = "document.querySelector('.film canvas').toDataURL()"
    before = tab.evaluate(picture)
    tab.evaluate("look.state.set({ frame: 2 })")
    assert tab.evaluate(picture) != before
    tab.evaluate("look.state.set({ frame: 0, table: true })")
    assert "untrained" in tab.locator("output").inner_text()
    assert not tab.locator(".texts").is_visible(), "the film has its own sentence"


@pytest.mark.parametrize("width", [380, 1280])
def test_a_head_says_what_it_does_and_what_it_costs(visit, look_at, width):
    look = look_at()
    tab = visit(look, "#/heads", width=width)
    costs = look.silenced_heads()["attentions"]
    dearest = max(
        ((path, head) for path in costs for head in range(4)),
        key=lambda one: costs[one[0]]["lost"][one[1]],
    )
    first = tab.locator(".head-card").first
    assert (first.get_attribute("data-id"), int(first.get_attribute("data-head"))) == dearest
    assert tab.locator(".head-card b:empty").count() == 0, "each has a role in words"
    first.click()
    assert tab.locator(".preview").inner_text().count("This head")
    gap = tab.evaluate(
        """() => document.querySelector('.preview').getBoundingClientRect().top
           - document.querySelector('.head-card').getBoundingClientRect().bottom"""
    )
    assert abs(gap) < 200, "what a tap shows is in sight"


def test_numbers_that_are_none_do_not_break_the_page(visit, look_at):
    """A model whose training failed can be looked at too."""
    look = look_at()
    tensors = {name: np.full_like(value, np.nan) for name, value in look.tensors().items()}
    tab = visit(page(look.meta(), tensors))
    for view in VIEWS:
        tab.evaluate("(view) => look.state.set({ view, table: true })", view)
        assert tab.locator("h1").inner_text()
