"""Looks at small random models, and a real browser to read them in."""

import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead import Translator
from clearhead.config import Config, ModelConfig, TokenizerConfig
from clearhead.look import Look, replayed, tokens
from clearhead.model import Model, Transformer
from clearhead.model import build as built
from clearhead.text import Tokenizer

SMALL: dict[str, Any] = {
    "vocab_size": 64, "d_model": 16, "d_ff": 24, "n_heads": 4, "n_encoder_layers": 2, "n_decoder_layers": 2,
    "norm": "post", "init": "xavier",
}  # fmt: skip
SPECIAL = ["<pad>", "<s>", "</s>", "<mask>"]


def spelled(ids):
    """Every fourth token stands inside a word."""
    return [SPECIAL[n] if n < 4 else f"{'▁' if n % 4 else ''}w{n}" for n in ids]


@pytest.fixture(scope="session")
def build() -> Callable[..., Model]:
    """Makes a small model; biases and norms are moved from 0 and 1, where a mistake would not show."""

    def make(seed: int = 0, **changes: Any) -> Model:
        torch.manual_seed(seed)
        model = built(ModelConfig(**{**SMALL, **changes})).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight += 0.1 * torch.randn_like(weight)
        return model

    return make


@pytest.fixture(scope="session")
def look_at(build) -> Callable[..., Look]:
    """A look at so many source and target tokens, in a model with these settings; made once."""

    @cache
    def look(
        n_source: int = 7, n_target: int = 9, spell=spelled, words=("in", "out"), **settings: Any
    ) -> Look:
        model = build(**settings)
        draw = lambda n, seed: torch.randint(  # noqa: E731
            4, 64, (n,), generator=torch.Generator().manual_seed(seed)
        ).tolist()
        source = [*draw(n_source - 1, 0), 2] if model.config.family != "decoder" else []
        if model.config.family == "encoder" and not model.config.n_classes:
            source[1] = 3
        target = [1, *draw(n_target - 1, 1)] if model.config.family != "encoder" else []
        both = tokens([*target, 2], spell, 4) if target else ()
        return Look(
            model=model,
            task="test",
            input=words[0],
            output=words[1],
            source=tokens(source, spell, 4),
            target=both[:-1],
            predicted=both[1:],
            seen=replayed(model, source, target),
            spell=spell,
            classes=tuple(f"class {n}" for n in range(model.config.n_classes)),
        )

    return look


@pytest.fixture(scope="session")
def translator() -> Translator:
    """A translator whose weights are random: it speaks nonsense, by beam search."""
    texts = [
        "the cat sees the dog .",
        "ein Hund sieht 12 Katzen !",
        "we eat bread , and they drink water ?",
    ] * 5
    tokenizer = Tokenizer.learn(texts, TokenizerConfig(vocab_size=400))
    shape = ModelConfig(**{**SMALL, "vocab_size": tokenizer.vocab_size})
    torch.manual_seed(0)
    model = Transformer(shape).eval().requires_grad_(False)
    with torch.no_grad():
        model.tokens.weight *= 3
    return Translator([model], (tokenizer, tokenizer), Config(model=shape))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium; where there is none, these tests are skipped, but never in CI."""
    program = (
        os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    )
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        program = None
    if program is None:
        reason = "no browser: needs playwright (pip) and chromium (apt-get install chromium)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def events() -> dict[str, list[str]]:
    """What the pages asked other hosts for, and what they complained of."""
    return {"asked": [], "complaints": []}


@pytest.fixture(scope="session")
def tab_for(browser, events) -> Callable[..., Any]:
    """A tab of that width and those options, to be used again: making one takes longer than drawing a page."""

    def refuse(route: Any) -> None:
        events["asked"].append(route.request.url)
        route.abort()

    @cache
    def tab(width: int, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        context.route(lambda url: not url.startswith(("file:", "data:", "blob:")), refuse)
        tab = context.new_page()
        tab.set_default_timeout(10_000)
        tab.on("pageerror", lambda error: events["complaints"].append(str(error)))
        tab.on(
            "console",
            lambda said: events["complaints"].append(said.text) if said.type == "error" else None,
        )
        return tab

    return tab


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="session")
def file_of(folder) -> Callable[[Look | str], Path]:
    """The page of a look, or a page, as a file; written once."""

    @cache
    def write(look: Look | str) -> Path:
        file = folder / f"{len(list(folder.iterdir()))}.html"
        file.write_text(look if isinstance(look, str) else look.html(), encoding="utf-8")
        return file

    return write


@pytest.fixture
def visit(tab_for, events, file_of) -> Iterator[Callable[..., Any]]:
    """Opens a page from disk, and lets nothing else be asked for; the page must not complain."""
    for list_ in events.values():
        list_.clear()

    def open_(
        look: Look | str, address: str = "", width: int = 1280, ready: bool = True, **options: Any
    ) -> Any:
        tab = tab_for(width, **options)
        tab.goto("about:blank")
        tab.goto(file_of(look).as_uri() + address)
        tab.wait_for_selector("html[data-ready]" if ready else "iframe", state="attached")
        return tab

    yield open_
    assert events == {"asked": [], "complaints": []}
