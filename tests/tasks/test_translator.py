"""Translating: what must hold whatever the model says."""

from dataclasses import FrozenInstanceError
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import clearhead
from clearhead import Translator
from clearhead.config import Config, TokenizerConfig
from clearhead.errors import ClearheadError, ConfigError, FolderError, TextError
from clearhead.folder import RunFolder
from clearhead.metrics import bleu
from clearhead.tasks.translation import LENGTH_PENALTIES, WORTHWHILE, read_glossary, required_terms
from clearhead.text import Tokenizer
from tasks.conftest import random_run
from tasks.small import small_config, trained

WORDS = st.sampled_from(
    ["the cat sees the dog .", "bread", "", "   ", "\u2028", "12", "🙂 عربى", "a\tb", "</s>"]
)
TEXT = st.one_of(
    WORDS,
    st.lists(WORDS, max_size=4).map(" ".join),
    st.text(st.characters(exclude_categories=["Cs"])),
)


@given(st.lists(TEXT, max_size=6))
def test_every_text_gets_one_translation_in_its_place(
    translator: Translator, texts: list[str]
) -> None:
    found = translator.translate(texts)
    assert [one.source for one in found] == texts
    assert [str(one) for one in found] == [str(translator.translate(text)) for text in texts]


@pytest.mark.parametrize("blank", ["", " ", "\t", "\u3000 \u2028"])
def test_blank_text_stays_blank_and_the_model_is_not_asked(blank: str, run: Path) -> None:
    translator = Translator.load(run)
    translator.models = ()
    assert str(translator.translate(blank)) == ""


def test_results_are_values_that_read_as_their_text(translator: Translator) -> None:
    found = translator.translate("the cat sees the dog .")
    assert str(found) == found.text
    with pytest.raises(FrozenInstanceError):
        found.text = "another"


def test_n_best_are_sorted_and_distinct(translator: Translator) -> None:
    best = translator.translate("the cat sees the dog .", n_best=4, beam=4)
    scores = [best.score, *(other.score for other in best.alternatives)]
    assert scores == sorted(scores, reverse=True)
    assert len({best.tokens, *(other.tokens for other in best.alternatives)}) == 4


def test_a_given_translation_has_the_log_probability_that_the_model_gives_it(
    translator: Translator,
) -> None:
    source, target = "the cat sees the dog .", "ein Hund sieht Katzen"
    read, written = translator.source.encode(source), translator.target.encode(target)
    with torch.no_grad():
        logits = translator.models[0](torch.tensor([[*read, 2]]), torch.tensor([[1, *written]]))[0]
    expected = logits.log_softmax(dim=-1)[range(len(written) + 1), [*written, 2]].sum()
    assert translator.score([(source, target)]) == [pytest.approx(float(expected), abs=1e-4)]


@given(st.integers(1, 30), st.sampled_from([". ", " ", "! ", ""]))
def test_long_text_is_split_translated_and_said_so(
    translator: Translator, n: int, end: str
) -> None:
    text = f"the cat sees the dog and the dog sees the cat{end}" * n
    found = translator.translate(text)
    n_tokens = len(translator.source.encode(text))
    assert any("split" in note for note in found.notes) == (n_tokens > translator.limit)


def test_a_megabyte_on_one_line_is_cut_into_pieces_that_fit(translator: Translator) -> None:
    parts = [piece.text for piece in translator.pieces("word " * 20_000, {}, (), "split")]
    assert "".join(parts).replace(" ", "") == "word" * 20_000
    assert all(translator.fits(part) for part in parts)


def test_too_long_text_can_be_cut_off_or_refused(translator: Translator) -> None:
    text = "the cat sees the dog . " * 20
    cut = translator.translate(text, on_too_long="truncate")
    assert any("cut off" in note for note in cut.notes)
    with pytest.raises(TextError, match="longer than the 40"):
        translator.translate(text, on_too_long="error")


def test_several_runs_decide_together_and_one_twice_decides_as_once(
    run: Path, translator: Translator
) -> None:
    texts = ["the cat sees the dog .", "we eat bread"]
    together = Translator.load(run, run)
    assert [str(one) for one in together.translate(texts)] == [
        str(one) for one in translator.translate(texts)
    ]


def test_a_look_at_several_models_says_that_it_shows_one(run: Path) -> None:
    assert any("first of 2" in note for note in Translator.load(run, run).look("bread").notes)
    assert not Translator.load(run).look("bread").notes


def test_runs_with_different_tokenizers_cannot_decide_together(run: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.learn(["quite other text"] * 3, TokenizerConfig(vocab_size=300))
    other = RunFolder.create(tmp_path / "other", Config(), tokenizer).path
    with pytest.raises(ConfigError, match="different tokenizers"):
        Translator.load(run, other)


def test_a_term_of_the_glossary_appears_or_its_absence_is_told(translator: Translator) -> None:
    for target in ("Hund", "Katzen"):
        found = translator.translate(
            "the cat sees the dog .", glossary={"dog": target, "horse": "Pferd"}, beam=4
        )
        assert (target in found.text) != any(target in note for note in found.notes)
        assert "Pferd" not in " ".join(found.notes)


def test_protected_numbers_come_out_as_they_went_in_or_are_told(translator: Translator) -> None:
    found = translator.translate("the cat sees 12 dogs", protect=["numbers"], beam=4)
    assert ("12" in found.text) != any("12" in note for note in found.notes)


def test_terms_are_whole_words_and_protected_kinds_are_found() -> None:
    assert required_terms("a catalogue of cats", {"cat": "Katze"}, ()) == []
    assert required_terms("one cat.", {"cat": "Katze"}, ()) == ["Katze"]
    text = "See https://example.org/a?b=c, <b>3,5</b> or {name}: 12."
    assert required_terms(text, {}, ["urls"]) == ["https://example.org/a?b=c"]
    assert required_terms(text, {}, ["tags"]) == ["<b>", "</b>", "{name}"]
    assert required_terms(text, {}, ["numbers"]) == ["3,5", "12"]
    with pytest.raises(ConfigError, match="urls, tags, numbers"):
        required_terms(text, {}, ["words"])


def test_a_glossary_is_a_table_of_two_columns(tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("dog\tHund\nred car\trotes Auto\n", encoding="utf-8")
    assert read_glossary(tmp_path / "terms.tsv") == {"dog": "Hund", "red car": "rotes Auto"}


def test_an_alignment_gives_each_output_word_its_source_word(translator: Translator) -> None:
    alignment = translator.align("the cat sees the dog .", "ein Hund sieht Katzen")
    assert alignment.source == ("the", "cat", "sees", "the", "dog", ".")
    assert alignment.target == ("ein", "Hund", "sieht", "Katzen")
    assert alignment.weights.sum(axis=1) == pytest.approx([1, 1, 1, 1], abs=1e-5)
    assert len(str(alignment).split()) == 4


def test_load_gives_what_the_folder_holds(run: Path, tmp_path: Path) -> None:
    assert isinstance(clearhead.load(run), Translator)
    with pytest.raises(FolderError, match="not a clearhead run"):
        clearhead.load(tmp_path / "nothing")


def test_a_lone_surrogate_is_refused_in_words(translator: Translator) -> None:
    with pytest.raises(ClearheadError):
        translator.translate("broken \ud800 text")


def test_another_seed_is_another_translator(tmp_path: Path, translator: Translator) -> None:
    other = Translator.load(random_run(tmp_path / "other", seed=1))
    assert str(other.translate("the cat sees the dog .")) != str(
        translator.translate("the cat sees the dog .")
    )


def test_the_length_penalty_of_a_run_rises_as_long_as_its_validation_pairs_gain(
    tmp_path: Path,
) -> None:
    words = ["one", "two", "three", "four", "five", "six"]
    lines = [" ".join(words[n % 5 : n % 5 + 1 + n % 2] * (1 + n % 3)) for n in range(60)]
    file, held = tmp_path / "pairs.tsv", tmp_path / "held.tsv"
    for path, some in ((file, lines), (held, lines[:20])):
        path.write_text("".join(f"{line}\t{line.upper()}\n" for line in some))
    given = small_config(file, 60, train__fit_decoding="true", train__learning_rate=0.02)
    given["data"]["validation_files"] = [str(held)]
    trained("translation", given, tmp_path / "run")
    translator = Translator.load(tmp_path / "run")
    found = {}
    for alpha in LENGTH_PENALTIES:
        said = translator.translate(lines[:20], length_penalty=alpha)
        found[alpha] = bleu(
            [str(each) for each in said], [line.upper() for line in lines[:20]]
        ).value
    n_worthwhile = 1
    for lower, higher in pairwise(LENGTH_PENALTIES):
        if found[higher] < found[lower] + WORTHWHILE:
            break
        n_worthwhile += 1
    assert translator.config.decode.length_penalty == LENGTH_PENALTIES[n_worthwhile - 1]
