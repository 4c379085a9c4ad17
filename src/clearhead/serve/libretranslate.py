"""LibreTranslate's API, as its clients know it: JSON, forms or the query, and its own sentences.

Its paths are /translate, /detect, /languages, /suggest, /translate_file, /frontend/settings.
"""

import json
import re
from collections.abc import Iterator, Mapping
from html import escape, unescape
from typing import Any

from fastapi import APIRouter, Request

from clearhead.errors import RequestError, shown
from clearhead.serve.models import ServedRun, Shelf
from clearhead.serve.settings import Limits
from clearhead.serve.work import Asking
from clearhead.tasks import Translator
from clearhead.tasks.translation import PATTERNS
from clearhead.text.languages import LANGUAGES
from clearhead.text.words import share_known

KEPT = ("tags", "urls", "emoji")
"""What a translation keeps as it is."""
MOST_KEPT = 20
"""Such places in a text; a text of nothing else is translated without this care."""
TAG = re.compile(r"(<!--.*?-->|<(script|style)\b.*?</\2\s*>|<[^<>]*>)", re.DOTALL | re.IGNORECASE)
LETTER = re.compile(r"[^\W_]")
"""What has none of these stays as it is: between tags there often is nothing but a full stop."""
NO_LANGUAGES = (
    'Say what a run translates in its config.toml: [data] source_language = "en", '
    'target_language = "de".'
)
VALUES: dict[str, dict[str, Any]] = {
    "q": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    "source": {"type": "string"},
    "target": {"type": "string"},
    "format": {"enum": ["text", "html"]},
    "alternatives": {"type": "integer", "minimum": 0},
    "glossary": {"type": "object", "additionalProperties": {"type": "string"}},
    "api_key": {"type": "string"},
    "s": {"type": "string"},
}
"""The values that a request may hold, for the OpenAPI document."""

api = APIRouter(tags=["LibreTranslate"])


def body_of(*names: str, required: int) -> dict[str, Any]:
    """What a route reads, for the OpenAPI document."""
    properties = {name: VALUES[name] for name in (*names, "api_key")}
    schema = {"type": "object", "properties": properties, "required": list(names[:required])}
    kinds = ("application/json", "application/x-www-form-urlencoded")
    return {"requestBody": {"content": {kind: {"schema": schema} for kind in kinds}}}


async def values_of(request: Request) -> dict[str, Any]:
    """What a request says, wherever it says it."""
    if "json" in request.headers.get("content-type", ""):
        found = json.loads(await request.body() or b"null")
        if not isinstance(found, dict):
            raise RequestError("Invalid JSON format")
        return found
    form = await request.form(max_files=1, max_fields=100)
    said = {name: value for name, value in form.multi_items() if isinstance(value, str)}
    found = {**request.query_params, **said}
    for text in found.values():
        if "\ufffd" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise RequestError("Invalid request: the text is not UTF-8")
    # forms end lines with CR LF
    return found | ({"q": found["q"].replace("\r\n", "\n")} if "q" in found else {})


def required(values: Mapping[str, Any], *names: str) -> list[Any]:
    for name in names:
        if not values.get(name):
            raise RequestError(f"Invalid request: missing {name} parameter")
        if not isinstance(values[name], str) and name != "q":
            raise RequestError(f"Invalid request: {name} parameter is not a string")
    return [values[name] for name in names]


def language_name(code: str) -> str:
    return LANGUAGES.get(code.partition("-")[0], code)


class LanguagePairs:
    """Which languages the served runs translate from and to."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        runs = [run for run in shelf.runs.values() if not run.cannot("translate")]
        self.runs = {run.languages: run for run in reversed(runs) if all(run.languages)}

    @property
    def languages(self) -> list[dict[str, Any]]:
        return [
            {
                "code": code,
                "name": language_name(code),
                "targets": [target for source, target in self.runs if source == code],
            }
            for code in sorted({code for pair in self.runs for code in pair})
        ]

    def run(self, source: str, target: str) -> ServedRun:
        advice = "" if self.runs else NO_LANGUAGES
        for code in (source, target):
            if not any(code in pair for pair in self.runs):
                raise RequestError(f"{shown(code, 20)} is not supported", advice)
        if (source, target) not in self.runs:
            raise RequestError(
                f"{language_name(target)} ({target}) is not available as a target language from "
                f"{language_name(source)} ({source})"
            )
        return self.runs[source, target]

    def detect(self, text: str) -> list[dict[str, Any]]:
        """The source languages by the share of the text's words that each run has learned from."""
        found: dict[str, float] = {}
        for (source, _), run in self.runs.items():
            with self.shelf.using(run) as (user, _ticket):
                share = 0.0 if user.words is None else share_known(text, user.words)
            found[source] = max(found.get(source, 0.0), round(100 * share, 1))
        ordered = sorted(found.items(), key=lambda each: -each[1])
        return [{"confidence": confidence, "language": code} for code, confidence in ordered]


def checked_texts(q: Any, limits: Limits) -> list[str]:
    texts = q if isinstance(q, list) else [q]
    if not all(isinstance(text, str) for text in texts):
        raise RequestError("Invalid request: q parameter is not a string")
    sizes = [(len(texts), limits.texts), *((len(text), limits.characters) for text in texts)]
    for size, limit in sizes:
        if size > limit:
            raise RequestError(f"Invalid request: request ({size}) exceeds text limit ({limit})")
    return texts


def checked_number(value: Any, most: int) -> int:
    """A number of alternatives, from 0 to what the server allows."""
    text = str(value or 0)
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise RequestError("Invalid request: alternatives parameter is not a number")
    return min(int(text), most)


def checked_glossary(value: Any) -> dict[str, str]:
    found = value or {}
    if (
        not isinstance(found, dict)
        or len(found) > MOST_KEPT
        or not all(isinstance(term, str) and 0 < len(term) <= 100 for term in found.values())
    ):
        raise RequestError(
            f"Invalid request: glossary holds up to {MOST_KEPT} terms and their translations"
        )
    return found


def parts_of(text: str, is_html: bool) -> Iterator[tuple[str, bool]]:
    """The text in parts, and whether each is to be translated: of HTML, what is between tags."""
    if not is_html:
        yield text, True
        return
    end = 0
    for match in TAG.finditer(text):
        yield unescape(text[end : match.start()]), True
        yield match[0], False
        end = match.end()
    yield unescape(text[end:]), True


def translations(
    translator: Translator, texts: list[str], is_html: bool, n: int, glossary: Mapping[str, str]
) -> list[list[str]]:
    """Each text translated: the best, and as many others as are asked for."""
    parts = [list(parts_of(text, is_html)) for text in texts]
    wanted = [part for each in parts for part, is_text in each if is_text and LETTER.search(part)]
    kept = [
        kind for kind in KEPT if all(len(PATTERNS[kind].findall(w)) <= MOST_KEPT for w in wanted)
    ]
    found = iter(
        translator.translate(
            wanted,
            protect=kept,
            glossary=glossary,
            beam=max(translator.config.decode.beam, n + 1),
            n_best=n + 1,
            scored=False,
        )
    )

    def versions(part: str, is_text: bool) -> list[str]:
        """A part in as many translations as are asked for; the best fills up what is missing."""
        said = [part] * (n + 1)
        if is_text and LETTER.search(part):
            best = next(found)
            others = [other.text for other in best.alternatives]
            said = spaced(part, [best.text, *others, *[best.text] * (n - len(others))])
        return [escape(text, quote=False) for text in said] if is_html and is_text else said

    rows = [[versions(*part) for part in each] for each in parts]
    return [list(dict.fromkeys(map("".join, zip(*row, strict=True)))) for row in rows]


def spaced(part: str, found: list[str]) -> list[str]:
    """With the white space around the part, and no full stop where it has none."""
    before = part[: len(part) - len(part.lstrip())]
    after = part[len(part.rstrip()) :]
    is_sentence = part.rstrip()[-1:] in ".!?…。！？"
    texts = (text.strip() if is_sentence else text.strip().removesuffix(".") for text in found)
    return [before + text + after for text in texts]


@api.post(
    "/translate",
    name="translate",
    openapi_extra=body_of(
        "q", "source", "target", "format", "alternatives", "glossary", required=3
    ),
)
async def translate_q(caller: Asking) -> dict[str, Any]:
    """Translate a text, or each of a list; source may be auto."""
    values, pairs = await values_of(caller.request), LanguagePairs(caller.shelf)
    q, source, target = required(values, "q", "source", "target")
    texts = checked_texts(q, caller.limits)
    if (form := values.get("format") or "text") not in ("text", "html"):
        raise RequestError(f"{shown(form, 20)} format is not supported")
    n = checked_number(values.get("alternatives"), caller.limits.alternatives)
    glossary = checked_glossary(values.get("glossary"))
    guesses = []
    if source == "auto":
        guesses = await caller.in_thread(lambda: [pairs.detect(text)[:1] for text in texts])
        source = guesses[0][0]["language"] if guesses[0] else source
    found = await caller.answer(
        pairs.run(source, target),
        lambda user, _: translations(user, texts, form == "html", n, glossary),
    )
    answer: dict[str, Any] = {"translatedText": [each[0] for each in found]}
    if guesses:
        answer["detectedLanguage"] = [guess for (guess,) in guesses]
    if n:
        answer["alternatives"] = [each[1 : n + 1] for each in found]
    return answer if isinstance(q, list) else {name: each[0] for name, each in answer.items()}


@api.post("/detect", name="detect", openapi_extra=body_of("q", required=1))
async def detect_language(caller: Asking) -> list[dict[str, Any]]:
    """Guess the language of a text among those that the runs translate from."""
    (q,) = required(await values_of(caller.request), "q")
    text = " ".join(checked_texts(q, caller.limits))
    return await caller.in_thread(lambda: LanguagePairs(caller.shelf).detect(text))


@api.get("/languages", name="languages")
async def list_languages(caller: Asking) -> list[dict[str, Any]]:
    """The languages, and what each can be translated to."""
    return LanguagePairs(caller.shelf).languages


@api.post(
    "/suggest",
    name="suggest",
    openapi_extra=body_of("q", "s", "source", "target", required=4),
    status_code=403,
)
async def refuse_suggestion() -> None:
    """Suggestions are not taken: a model learns from files."""
    raise RequestError("Suggestions are disabled on this server.", status=403, code="disabled")


@api.post("/translate_file", name="translate_file", status_code=403)
async def refuse_file() -> None:
    """Files are not taken: `clearhead translate RUN --input FILE` translates them."""
    raise RequestError(
        "Files translation are disabled on this server.", status=403, code="disabled"
    )


@api.get("/frontend/settings", name="settings")
async def describe_frontend(caller: Asking) -> dict[str, Any]:
    """What LibreTranslate's own page wants to know."""
    source, target = next(iter(LanguagePairs(caller.shelf).runs), ("", ""))
    has_key = bool(caller.work.settings.key_hash)
    return {
        "charLimit": caller.limits.characters,
        "frontendTimeout": 500,
        "apiKeys": has_key,
        "keyRequired": has_key,
        "suggestions": False,
        "filesTranslation": False,
        "supportedFilesFormat": [],
        "language": {
            "source": {"code": source, "name": language_name(source)},
            "target": {"code": target, "name": language_name(target)},
        },
    }
