"""The server's page in a real browser: what it shows is what the API says, live and by hand."""

import json
import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from clearhead.folder import RunFolder
from clearhead.tasks import load
from tests.tasks.conftest import random_run
from tests.tasks.random_runs import random_folder
from tests.tasks.small import small_config, trained, write_reviews

SOURCE = Path(__file__).parents[2] / "src"
TEXT = "the cat sees the dog ."


@dataclass
class Served:
    """A server in a process of its own."""

    url: str
    runs: dict[str, Path]
    process: subprocess.Popen[str]

    def post(self, path: str, **body: Any) -> Any:
        return httpx.post(self.url + path, json=body, timeout=30).json()

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("served-page")
    reviews = write_reviews(place / "reviews.tsv")
    trained("classification", small_config(reviews, steps=20), place / "mood")
    waiting = random_folder(place / "waiting", "writing", "decoder", method="bytes", window=64)
    (waiting / "weights.safetensors").unlink()
    return {
        "en-de": random_run(place / "en-de"),
        "chat": random_folder(place / "chat", "chat", "decoder", method="bytes"),
        "bard": random_folder(place / "bard", "writing", "decoder", method="bytes", window=64),
        "mood": place / "mood",
        "gaps": random_folder(place / "gaps", "pretraining", "encoder", method="words"),
    }


def serving(runs: dict[str, Path]) -> Served:
    process = subprocess.Popen(
        [sys.executable, "-m", "clearhead", "serve", *map(str, runs.values()), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
    )
    assert process.stderr
    first = process.stderr.readline()
    match = re.search(r"http://\S+", first)
    assert match, first
    threading.Thread(target=process.stderr.read, daemon=True).start()  # its log is not read
    return Served(match[0], runs, process)


@pytest.fixture(scope="session")
def served(folders) -> Iterator[Served]:
    found = serving(folders)
    yield found
    found.stop()


@pytest.fixture
def open_page(browser, served) -> Iterator[Callable[..., Any]]:
    """Opens the server's page; it may ask this server alone, and must not complain."""
    contexts, complaints, asked = [], [], []

    def open_(
        address: str = "", width: int = 1280, url: str = served.url, quiet: bool = True
    ) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 800}, reduced_motion="reduce"
        )
        contexts.append(context)
        context.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((url, "data:", "blob:"))
                else asked.append(request.url)
            ),
        )
        tab = context.new_page()
        tab.set_default_timeout(15_000)
        if quiet:
            tab.on("pageerror", lambda error: complaints.append(str(error)))
            tab.on(
                "console",
                lambda said: complaints.append(said.text) if said.type == "error" else None,
            )
        tab.goto(f"{url}/{address}")
        tab.wait_for_selector("html[data-ready]", state="attached")
        return tab

    yield open_
    for context in contexts:
        context.close()
    assert (complaints, asked) == ([], [])


def plain(text: str) -> str:
    return "".join(text.split())


def translate(tab: Any, text: str) -> Any:
    """Type a text and wait for its translation, not the example's; what the page asked for."""
    with tab.expect_request(
        lambda request: (
            request.url.endswith("/api/translate") and request.post_data_json["text"] == text
        )
    ) as request:
        tab.locator(".typing textarea").fill(text)
    tab.wait_for_selector(".use:not(.asking)")
    return request.value.post_data_json


def test_a_translation_appears_while_one_types_and_is_the_apis(open_page, served):
    tab = open_page("#/translate")
    translate(tab, TEXT)
    expected = served.post("/api/translate", text=TEXT)
    assert plain(tab.locator(".output-text").inner_text()) == plain(expected["text"])
    href = tab.locator(".after a").get_attribute("href")
    assert "run=en-de" in href
    tab.locator(".typing textarea").fill("")
    assert tab.locator(".output-text").inner_text() == ""


def test_pointing_at_a_word_lights_its_source(open_page, served):
    tab = open_page("#/translate")
    translate(tab, TEXT)
    tab.wait_for_selector(".joined .ribbon")
    alignment = served.post("/api/translate", text=TEXT, align=True)["alignment"]
    if not tab.locator(".said").count():
        pytest.skip("the random model says something that its tokens do not spell")
    tab.locator(".said").first.hover()
    marks = tab.locator(".behind mark")
    shares = marks.evaluate_all(
        "(all) => all.map((one) => Number(one.style.getPropertyValue('--share')))"
    )
    assert shares == pytest.approx(alignment["weights"][0], abs=1e-3)
    assert marks.all_text_contents() == alignment["source"]


def test_a_chosen_alternative_is_gone_on_from(open_page, served):
    tab = open_page("#/translate")
    translate(tab, TEXT)
    before = tab.locator(".said").first.inner_text()
    tab.locator(".said").first.click()
    tab.wait_for_selector(".choices li")
    options = tab.locator(".choices li button")
    assert options.count() >= 2
    wanted = next(
        name for name in options.locator("b").all_inner_texts() if not before.startswith(name)
    )
    with tab.expect_request("**/api/translate") as request:
        options.filter(has_text=wanted).first.click()
    prefix = request.value.post_data_json["prefix_ids"]
    tab.wait_for_selector(".use:not(.asking)")
    found = served.post("/api/translate", text=TEXT, prefix_ids=prefix)
    assert [token["id"] for token in found["tokens"]][: len(prefix)] == prefix
    assert plain(tab.locator(".output-text").inner_text()) == plain(found["text"])
    assert plain(found["text"]).startswith(wanted)
    tab.locator(".after a").click()
    tab.wait_for_selector(".sentence-view")
    assert tab.evaluate("look.trace.meta.output") == found["text"], "inside, it is the same"


def test_the_glossary_is_asked_for_and_shown_as_the_api_obeys_it(open_page, served):
    tab = open_page("#/translate")
    tab.locator(".glossary summary").click()
    tab.locator(".glossary textarea").fill("cat = KATER\nnot a term")
    assert translate(tab, TEXT)["glossary"] == {"cat": "KATER"}
    found = served.post("/api/translate", text=TEXT, glossary={"cat": "KATER"})
    assert plain(tab.locator(".output-text").inner_text()) == plain(found["text"])


def test_a_conversation_streams_and_can_be_asked_anew(open_page, served):
    tab = open_page("#/chat")
    tab.locator(".say input").fill("hello")
    tab.keyboard.press("Enter")
    tab.wait_for_selector(".turn-tools")
    decoding = {"temperature": RunFolder.open(served.runs["chat"]).config().decode.temperature}
    answer = served.post("/api/chat", turns=["hello"], seed=0, **decoding)
    shown = tab.locator(".theirs").text_content().replace("\x00", "\ufffd")
    assert plain(answer["text"].replace("\x00", "\ufffd"))[:12] in plain(shown)
    assert "seed 0" in tab.locator(".turn-tools").inner_text()
    tab.get_by_role("button", name="another answer").click()
    tab.wait_for_selector("text=seed 1")
    tab.get_by_role("button", name="say it differently").click()
    assert tab.locator(".say input").input_value() == "hello"
    assert tab.locator(".turns li").count() == 0


def test_ghost_text_is_taken_with_tab_and_dropped_with_escape(open_page):
    tab = open_page("#/write")
    text = tab.locator(".typing textarea")
    text.fill("the cat")
    tab.wait_for_selector(".ghost-text:not(:empty)")
    tab.wait_for_selector(".use:not(.asking)")
    ghost = tab.locator(".ghost-text").text_content()
    text.press("Tab")
    assert text.input_value() == "the cat" + ghost
    text.press("Escape")
    assert tab.locator(".ghost-text").text_content() == ""
    tab.get_by_role("button", name="Three ways on").click()
    tab.wait_for_selector(".ways li")
    assert tab.locator(".ways li").count() == 3


def test_a_verdict_and_what_it_would_be_without_a_word(open_page, served):
    tab = open_page("#/classify")
    text = "the film was good ."
    tab.locator(".typing textarea").fill(text)
    tab.locator(".running .word", has_text="film").wait_for()  # not those of the example
    found = served.post("/api/classify", text=text, words=True)
    best = max(found["probabilities"], key=found["probabilities"].get)
    assert tab.locator(".verdict-name").inner_text() == best
    tab.locator(".running .word").nth(3).hover()
    assert "without good" in tab.locator(".sheet-side .hint").last.inner_text()


def test_a_word_becomes_a_gap_and_the_gap_is_filled(open_page, served):
    tab = open_page("#/fill")
    tab.locator(".typing textarea").fill("the cat sees the dog .")
    tab.locator(".running .word").nth(1).click()
    assert tab.locator(".typing textarea").input_value() == "the ____ sees the dog ."
    tab.wait_for_selector(".bars li")
    tab.wait_for_selector(".use:not(.asking)")
    found = served.post("/api/fill", text="the ____ sees the dog .", n_best=10)
    names = tab.locator(".bars .name").all_inner_texts()
    assert names == [guess["word"] for guess in found["gaps"][0]]


def test_sentences_are_compared_where_an_encoder_is_loaded(open_page, served):
    able = [
        run for run in httpx.get(f"{served.url}/api/runs").json()["runs"] if "embed" in run["can"]
    ]
    if not able:
        pytest.skip("no run of this version turns sentences into vectors")
    tab = open_page("#/meaning")
    tab.locator(".typing textarea").fill("the cat\nthe dog")
    tab.wait_for_selector(".sentence b")
    tab.wait_for_selector("text=the same direction")
    a, b = served.post("/api/embed", text=["the cat", "the dog"])["vectors"]
    alike = sum(x * y for x, y in zip(a, b, strict=True))
    alike /= math.hypot(*a) * math.hypot(*b)
    tab.wait_for_selector(f"text={alike:.3f}")


def test_a_tab_that_no_run_can_do_says_why(browser, folders, open_page):
    other = serving({"en-de": folders["en-de"]})
    try:
        tab = open_page("#/classify", url=other.url)
        assert "None of the loaded runs can classify" in tab.locator(".cannot").inner_text()
        assert "clearhead train" in tab.locator(".cannot").inner_text()
        assert tab.locator("nav.tabs .unable").count() >= 4
        tab.close()
    finally:
        other.stop()


def test_inside_shows_what_python_sees_of_live_input(open_page, served):
    tab = open_page("#/sentence?run=en-de&text=the+cat")
    tab.wait_for_selector(".sentence-view")
    look = load(served.runs["en-de"]).look("the cat")
    shown = tab.evaluate("Array.from(look.attention('decoder.1.cross').weights(1))")
    expected = look.seen["decoder.1.cross.pattern"][1].flatten().tolist()
    assert shown == pytest.approx(expected, abs=1e-5)
    tab.get_by_role("link", name="Tour", exact=True).click()
    tab.locator(".ask > input").fill("the dog sees the cat .")
    tab.wait_for_selector(".inside:not(.asking) .texts .chip >> text=dog")
    assert tab.evaluate("look.state.now.view") == "tour", "the view stays"
    assert "text=the+dog" in tab.evaluate("location.hash")
    again = open_page(tab.evaluate("location.hash"))
    again.wait_for_selector(".tour")
    assert again.locator(".ask > input").input_value() == "the dog sees the cat ."


def test_a_part_can_be_switched_off_and_on_again(open_page, served):
    tab = open_page("#/attention?run=en-de&text=the+cat&block=encoder.0.self&head=0")
    tab.wait_for_selector(".attention")
    weights = "Array.from(look.attention('encoder.0.self').weights(0))"
    before = tab.evaluate(weights)
    tab.get_by_role("button", name="no positions").click()
    tab.wait_for_selector("header .notice")
    look = load(served.runs["en-de"]).look("the cat", edit=["no-positions"])
    changed = look.seen["encoder.0.self.pattern"][0].flatten().tolist()
    assert tab.evaluate(weights) == pytest.approx(changed, abs=1e-5)
    assert "no-positions" in tab.evaluate("location.hash")
    tab.get_by_role("button", name="no positions").click()
    tab.wait_for_selector("header .notice", state="detached")
    assert tab.evaluate(weights) == before


def test_two_looks_stand_beside_each_other(open_page):
    tab = open_page("#/sentence?run=en-de&text=the+cat&edits=no-norm")
    tab.wait_for_selector(".sentence-view")
    tab.get_by_role("button", name="Compare A").click()
    tab.wait_for_selector("text=Log-probability")
    assert tab.locator(".compare .card").count() == 2
    assert tab.get_by_label("what is switched off in B").input_value() == "no-norm"
    assert tab.get_by_label("what is switched off in A").input_value() == ""


def test_a_run_is_followed_while_it_learns(open_page, served):
    folder = RunFolder.open(served.runs["mood"])
    lines = [line for line in folder.log.lines() if line["kind"] == "step"]
    tab = open_page("#/train")
    tab.locator("select").first.select_option("mood")
    tab.wait_for_selector(f"text=Step {lines[-1]['step']} of")
    assert tab.locator(".curves svg").count() >= 1
    more = {**lines[-1], "step": lines[-1]["step"] + 7, "loss": 0.125}
    with (served.runs["mood"] / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(more) + "\n")
    tab.wait_for_selector("text=loss 0.125")


def test_a_run_without_weights_says_so(folders, open_page):
    place = folders["bard"].parent / "waiting"
    other = serving({"waiting": place, "en-de": folders["en-de"]})
    try:
        tab = open_page("#/train", url=other.url)
        tab.locator("select").first.select_option("waiting")
        tab.wait_for_selector("text=waits for its first step")
        tab.close()
    finally:
        other.stop()


def test_a_server_that_is_gone_is_told_and_what_was_seen_stays(folders, open_page):
    other = serving({"en-de": folders["en-de"]})
    tab = open_page("#/sentence?run=en-de&text=the+cat", url=other.url, quiet=False)
    tab.wait_for_selector(".sentence-view")
    other.stop()
    tab.locator(".ask > input").fill("the dog")
    tab.wait_for_selector("[role=alert]:not([hidden])")
    assert "does not answer" in tab.locator("[role=alert]:not([hidden])").inner_text()
    assert tab.locator(".sentence-view").is_visible()


@pytest.mark.parametrize("width", [380, 1280])
def test_nothing_leaves_the_screen(open_page, width):
    tab = open_page(width=width)
    for tab_name in ("translate", "chat", "write", "classify", "fill", "meaning", "train"):
        tab.evaluate("(name) => { location.hash = `#/${name}`; }", tab_name)
        tab.wait_for_selector(".use")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, tab_name
        here = tab.locator("nav.tabs [aria-current]").bounding_box()
        assert 0 <= here["x"] <= width - here["width"], f"{tab_name} is not in sight among the tabs"
    tab.evaluate("() => { location.hash = '#/sentence'; }")
    tab.wait_for_selector(".sentence-view")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_text_stays_text(open_page):
    evil = '</script><img src=x onerror="window.hit=1">'
    tab = open_page("#/translate")
    translate(tab, evil)
    tab.evaluate("() => { location.hash = '#/classify'; }")
    tab.locator(".typing textarea").last.fill(evil)
    tab.wait_for_selector(".verdict-name")
    assert tab.evaluate("window.hit") is None
    assert tab.locator("img").count() == 0


def test_ribbons_come_while_a_translation_is_written(open_page, served):
    """The stream is held up after some words; what is drawn then is the API's alignment of them."""
    found = served.post("/api/translate", text=TEXT)
    half = found["tokens"][: max(1, len(found["tokens"]) // 2)]
    said = " ".join("".join(token["text"] for token in half).replace("▁", " ").split())
    tab = open_page("#/translate")
    tab.wait_for_selector(".use:not(.asking)")
    tab.evaluate(
        """([said, tokens]) => {
          const real = window.fetch;
          window.fetch = (path, options) => {
            if (path !== "/api/translate") return real(path, options);
            const data = JSON.stringify({ text: said, tokens });
            const bytes = new TextEncoder().encode(`event: piece\\ndata: ${data}\\n\\n`);
            const body = new ReadableStream({ start: (out) => out.enqueue(bytes) });
            return Promise.resolve(new Response(body));
          };
        }""",
        [said, half],
    )
    with tab.expect_response("**/api/align") as answer:
        tab.locator(".typing textarea").fill(TEXT)
    alignment = answer.value.json()["alignment"]
    assert alignment == served.post("/api/align", text=TEXT, target=said)["alignment"]
    tab.wait_for_selector(".use.asking .joined .ribbon", state="attached")
    shown = tab.locator(".joined .side.target .word").all_inner_texts()
    assert list(map(plain, shown)) == list(map(plain, alignment["target"]))
    tab.keyboard.press("Escape")


def test_a_dropped_word_of_the_search_is_gone_on_from(open_page, served):
    tab = open_page("#/output?run=en-de&text=the+cat")
    tab.wait_for_selector(".tree .node")
    assert "No word is chosen" in tab.locator(".going-on").inner_text()
    tree = tab.evaluate("look.trace.meta.beam")
    step, index = next(
        (step, index)
        for step, nodes in enumerate(tree["steps"])
        for index, node in enumerate(nodes)
        if node["state"] == "pruned" and node["id"] > 3
    )
    place, ids = index, []
    for depth in range(step, -1, -1):
        ids.insert(0, tree["steps"][depth][place]["id"])
        place = tree["steps"][depth][place]["parent"]
    tab.locator(".tree [tabindex='0']").focus()
    for key, times in (("ArrowRight", step), ("ArrowDown", index)):
        for _ in range(times):
            tab.keyboard.press(key)
    tab.keyboard.press("Enter")
    assert tab.evaluate("look.state.now.beam") == f"{step}.{index}", "the keyboard goes everywhere"
    tab.get_by_role("button", name="Go on from here").click()
    tab.wait_for_selector("text=Let it begin by itself again")
    expected = load(served.runs["en-de"]).look("the cat", prefix=ids)
    assert tab.evaluate("look.trace.meta.output") == expected.output
    shown = tab.evaluate("look.trace.tokens('target').map((token) => token.predicts_id)")
    assert shown[: len(ids)] == ids
    assert f"prefix={'+'.join(map(str, ids))}" in tab.evaluate("location.hash")
    tab.get_by_role("button", name="Let it begin by itself again").click()
    tab.wait_for_selector("text=Let it begin by itself again", state="detached")
    assert (
        tab.evaluate("look.trace.meta.output") == load(served.runs["en-de"]).look("the cat").output
    )


def test_a_slash_goes_to_the_text_and_is_a_letter_there(open_page):
    tab = open_page("#/translate")
    tab.wait_for_selector(".use:not(.asking)")
    for address, field in (("#/translate", ".typing textarea"), ("#/sentence", ".ask > input")):
        tab.evaluate("(address) => { location.hash = address; }", address)
        tab.wait_for_selector(field)
        tab.evaluate("document.activeElement.blur()")
        tab.keyboard.press("/")
        assert tab.evaluate("(name) => document.activeElement.matches(name)", field)
        tab.keyboard.press("End")
        tab.keyboard.press("/")
        assert tab.locator(field).input_value().endswith("/")


def test_a_server_measures_heads_when_they_are_looked_at(open_page, served):
    tab = open_page("#/heads?run=en-de&text=the+cat")
    tab.wait_for_selector(".head-card")
    found = load(served.runs["en-de"]).look("the cat").silenced_heads()["attentions"]
    costs = {(path, head): lost for path in found for head, lost in enumerate(found[path]["lost"])}
    cards = tab.locator(".head-card").evaluate_all(
        "(all) => all.map((one) => [one.dataset.id, Number(one.dataset.head)])"
    )
    shown = [costs[path, head] for path, head in cards]
    assert sorted(map(tuple, cards)) == sorted(costs)
    assert shown == sorted(shown, reverse=True)
