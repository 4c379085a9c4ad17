"""Promise 14: a drop-in for LibreTranslate, its own client unchanged."""

import urllib.error

import pytest
from libretranslatepy import LibreTranslateAPI

import clearhead

SENTENCE = "the cat sees the dog ."


@pytest.fixture
def lt(served):
    return LibreTranslateAPI(served.url)


@pytest.mark.promise(14, "libretranslatepy")
def test_libretranslatepy_works_unchanged(lt, runs):
    assert (
        lt.translate(SENTENCE, "en", "de") == clearhead.load(runs["en-de"]).translate(SENTENCE).text
    )
    assert lt.languages() == [
        {"code": "de", "name": "German", "targets": []},
        {"code": "en", "name": "English", "targets": ["de"]},
    ]
    assert lt.detect(SENTENCE)[0]["language"] == "en"
    with pytest.raises(urllib.error.HTTPError, match="400"):
        lt.translate(SENTENCE, "en", "zz")


@pytest.mark.promise(14, "JSON, form and query are one")
def test_json_form_and_query_are_one(served):
    asked = {"q": SENTENCE, "source": "en", "target": "de"}
    found = [
        served.client.post("/translate", json=asked),
        served.client.post("/translate", data=asked),
        served.client.post("/translate", params=asked),
        served.client.post(
            "/translate", files={name: (None, value) for name, value in asked.items()}
        ),
    ]
    assert {each.status_code for each in found} == {200}
    assert len({each.text for each in found}) == 1
    assert list(found[0].json()) == ["translatedText"]


def test_batches_guesses_and_alternatives(served):
    one = served.post("/translate", q=SENTENCE, source="auto", target="de", alternatives=2).json()
    assert set(one) == {"translatedText", "detectedLanguage", "alternatives"}
    assert one["detectedLanguage"]["language"] == "en"
    assert len(one["alternatives"]) == 2
    two = served.post("/translate", q=[SENTENCE, "", "a dog"], source="en", target="de").json()
    assert two["translatedText"][0] == one["translatedText"]
    assert two["translatedText"][1] == ""
    many = served.post("/translate", q=SENTENCE, source="en", target="de", alternatives=1000).json()
    assert len(many["alternatives"]) <= 5


def test_tags_placeholders_emoji_and_terms_are_kept(served):
    html = '<p class="x">the cat &amp; <b>the dog</b><br/></p><script>the cat</script>'
    found = served.post("/translate", q=html, source="en", target="de", format="html").json()
    for kept in ('<p class="x">', "<b>", "</b><br/></p>", "<script>the cat</script>"):
        assert kept in found["translatedText"]
    text = "the cat 🐈‍⬛ sees {name} at https://example.org/a 👍🏽 ."
    found = served.post("/translate", q=text, source="en", target="de").json()["translatedText"]
    for kept in ("🐈‍⬛", "{name}", "https://example.org/a", "👍🏽"):
        assert kept in found
    glossary = {"cat": "Hund 12"}
    found = served.post(
        "/translate", q=SENTENCE, source="en", target="de", glossary=glossary
    ).json()
    assert "Hund 12" in found["translatedText"]


ERRORS = [
    ({"source": "en", "target": "de"}, 400, "Invalid request: missing q parameter"),
    ({"q": "", "source": "en", "target": "de"}, 400, "Invalid request: missing q parameter"),
    ({"q": "a", "target": "de"}, 400, "Invalid request: missing source parameter"),
    ({"q": "a", "source": "en"}, 400, "Invalid request: missing target parameter"),
    ({"q": "a", "source": "zz", "target": "de"}, 400, "zz is not supported"),
    ({"q": "a", "source": "en", "target": "zz"}, 400, "zz is not supported"),
    (
        {"q": "a", "source": "de", "target": "en"}, 400,
        "English (en) is not available as a target language from German (de)",
    ),
    ({"q": "a", "source": "en", "target": "de", "format": "pdf"}, 400, "pdf format is not supported"),
    (
        {"q": "a" * 5001, "source": "en", "target": "de"}, 400,
        "Invalid request: request (5001) exceeds text limit (5000)",
    ),
    (
        {"q": ["a"] * 65, "source": "en", "target": "de"}, 400,
        "Invalid request: request (65) exceeds text limit (64)",
    ),
]  # fmt: skip


@pytest.mark.promise(14, "errors in its words")
@pytest.mark.parametrize(("asked", "status", "sentence"), ERRORS)
def test_errors_are_the_sentences_of_libretranslate(served, asked, status, sentence):
    answer = served.client.post("/translate", json=asked)
    assert (answer.status_code, answer.json()) == (status, {"error": sentence})


def test_what_is_switched_off_says_so(served):
    for path, sentence in (
        ("/suggest", "Suggestions are disabled on this server."),
        ("/translate_file", "Files translation are disabled on this server."),
    ):
        answer = served.client.post(path, data={"q": "a"})
        assert (answer.status_code, answer.json()) == (403, {"error": sentence})
    answer = served.client.post("/translate", json=["q"])
    assert (answer.status_code, answer.json()) == (400, {"error": "Invalid JSON format"})


def test_its_page_finds_its_settings(served):
    found = served.client.get("/frontend/settings").json()
    assert found["charLimit"] == 5000
    assert found["language"]["source"] == {"code": "en", "name": "English"}
    assert served.client.get("/health").json() == {"status": "ok"}
