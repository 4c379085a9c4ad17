"""The phrasebook: right German, one translation for each sentence, and a test that cannot be learned by heart."""

import re
from collections import defaultdict
from itertools import islice
from random import Random

import pytest

from examples.grammars.phrasebook import held_out_pairs, is_held_out, phrasebook, training_pairs
from examples.grammars.phrasebook.grammar import (
    Adverb,
    Clause,
    english,
    german,
    noun_phrase,
    pronoun,
    with_preposition,
)
from examples.grammars.phrasebook.lexicon import ALL_ADJECTIVES, ALL_NOUNS, ALL_VERBS
from examples.grammars.phrasebook.sentences import Sentence, sentence

GENDERS_OF = {  # every form of an article, with what may follow it: gender or plural, then case
    "der": "m1 f3", "die": "f1 f4 p1 p4", "das": "n1 n4", "den": "m4 p3", "dem": "m3 n3", "im": "m3 n3", "am": "m3 n3",
    "zum": "m3 n3", "zur": "f3", "ins": "n4", "dieser": "m1 f3", "diese": "f1 f4 p1 p4", "dieses": "n1 n4",
    "diesen": "m4 p3", "diesem": "m3 n3",
}  # fmt: skip
for stem in ("ein", "kein", "mein", "ihr", "sein", "unser"):
    GENDERS_OF |= {stem: "m1 n1 n4", stem + "e": "f1 f4 p1 p4", stem + "en": "m4 p3", stem + "em": "m3 n3",
                   stem + "er": "f3"}  # fmt: skip
CASE_AFTER = {"mit": "3", "für": "4", "zum": "3", "zur": "3", "im": "3", "ins": "4", "am": "3"}
FORMS = defaultdict(set)
for each in ALL_NOUNS:
    FORMS[each.german] |= {each.gender + case for case in "134"}
    FORMS[each.german_plural] |= {"p1", "p4"} | (
        {"p3"} if each.german_plural[-1] in "ns" else set()
    )
    FORMS[each.german_plural + "n"] |= {"p3"}


@pytest.fixture(scope="module")
def sentences():
    return list(islice(phrasebook(seed=1), 6_000))


@pytest.fixture(scope="module")
def training():
    return training_pairs(4_000)


@pytest.fixture(scope="module")
def held_out(training):
    return held_out_pairs(200, training)


def words(text):
    return re.findall(r"[\w']+", text)


def test_the_same_seed_makes_the_same_sentences(sentences):
    assert list(islice(phrasebook(seed=1), 100)) == sentences[:100]
    assert list(islice(phrasebook(seed=2), 100)) != sentences[:100]


def test_every_sentence_is_there_once_and_has_one_translation(sentences):
    known = {source: target for source, target, _ in sentences}
    assert len(known) == len(sentences)
    again = [
        (source, target)
        for source, target, _ in islice(phrasebook(seed=2), 3_000)
        if source in known
    ]
    assert len(again) > 30
    assert all(known[source] == target for source, target in again)


def test_sentences_are_written_as_sentences_are(sentences):
    for source, target, _ in sentences:
        assert source[-1] == target[-1]
        assert source[-1] in ".?"
        assert source[0].isupper()
        assert target[0].isupper()
        assert source.isascii() or "café" in source
        assert "  " not in source + target
    text = " ".join(target for _, target, _ in sentences)
    assert set("äöüßÄ") <= set(text)


def test_german_nouns_are_capitalised_and_nothing_else_is(sentences):
    capitalised = {
        *FORMS,
        "Uhr",
        "Zeit",
        "Euro",
        "Nähe",
        "Tag",
        "Morgen",
        "Abend",
        "Woche",
        "Sie",
        "Ihnen",
    }
    for _, target, _ in sentences:
        for word in words(target)[1:]:
            is_name = (
                word in capitalised
                or word.endswith("tag")
                or re.fullmatch("Ihr(e[mnr]?)?|Mittwoch", word)
            )
            assert word[0].isupper() == bool(is_name), target


def test_articles_agree_with_their_nouns_in_gender_number_and_case(sentences):
    adjectives = "|".join(
        {"teuer": "teur", "müde": "müd"}.get(each.german, each.german) for each in ALL_ADJECTIVES
    )
    pattern = re.compile(
        rf"(?:(\w+) )?\b({'|'.join(GENDERS_OF)}) (?:({adjectives})(e[mnrs]?) )?([A-ZÄÖÜ]\w+)", re.I
    )
    n_found = 0
    for _, target, _ in sentences:
        for before, article, _, ending, noun in pattern.findall(target):
            if noun not in FORMS:
                continue
            may_be = set(GENDERS_OF[article.lower()].split()) & FORMS[noun]
            wanted = CASE_AFTER.get(article) or CASE_AFTER.get(before)
            may_be = {each for each in may_be if wanted in (None, each[1])}
            assert may_be, target
            is_bare = article.lower() in ("ein", "kein", "mein", "ihr", "sein", "unser")
            if ending:
                assert ending in ({"er", "es"} if is_bare else {"e", "en"}), target
                assert ending != "en" or any(
                    each[1] == "3" or each[0] in "mp" for each in may_be
                ), target
                assert not is_bare or {"er": "m", "es": "n"}[ending] in {
                    each[0] for each in may_be
                }, target
            n_found += 1
    assert n_found > 3_000


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("I am calling my sister today.", "Ich rufe meine Schwester heute an."),
        ("today I am calling my sister.", "Heute rufe ich meine Schwester an."),
        ("are you eating an apple?", "Essen Sie einen Apfel?"),
        ("she does not have to help the old man.", "Sie muss dem alten Mann nicht helfen."),
        ("he did not buy a red coat.", "Er hat keinen roten Mantel gekauft."),
        (
            "we went to the park with her yesterday.",
            "Wir sind gestern mit ihr in den Park gegangen.",
        ),
        ("they waited for the bus at the station.", "Sie haben am Bahnhof auf den Bus gewartet."),
        ("he drives to the station every day.", "Er fährt jeden Tag zum Bahnhof."),
    ],
)
def test_the_two_languages_say_the_same(source, target):
    clause, order = CLAUSES[source]
    mark = source[-1]
    assert f"{english(clause, order)}{mark}" == source
    said = german(clause, order)
    assert f"{said[0].upper()}{said[1:]}{mark}" == target


def test_a_subordinate_clause_ends_with_its_verb():
    clause, _ = CLAUSES["I am calling my sister today."]
    assert german(clause, "clause") == "ich meine Schwester heute anrufe"
    clause, _ = CLAUSES["we went to the park with her yesterday."]
    assert german(clause, "clause") == "wir gestern mit ihr in den Park gegangen sind"
    clause, _ = CLAUSES["she does not have to help the old man."]
    assert german(clause, "clause") == "sie dem alten Mann nicht helfen muss"


def test_no_test_sentence_and_no_held_out_combination_is_in_training(training, held_out):
    assert len(training) == len(set(training)) == 4_000
    assert len(held_out) == len(set(held_out)) == 200
    assert not {pair.source for pair in training} & {pair.source for pair in held_out}
    text = "\n".join(pair.source for pair in training)
    combinations = {each for drawn in islice(phrasebook(), 1_500) for each in drawn.combinations}
    adjectives = {adjective.english for adjective in ALL_ADJECTIVES}
    kept_out = [
        each for each in combinations if each.split()[0] in adjectives and is_kept_out(each)
    ]
    assert len(kept_out) > 10
    assert not [each for each in kept_out if re.search(rf"\b{each}\b", text)]


def is_kept_out(combination):
    return is_held_out(Sentence("", "", frozenset([combination])))


def test_every_word_of_the_test_is_in_training(training, held_out):
    for side in (0, 1):
        known = {word for pair in training for word in words(pair[side])}
        assert known.issuperset(word for pair in held_out for word in words(pair[side]))


def test_the_supply_is_far_from_its_end_after_thousands_of_sentences():
    random = Random(0)
    drawn = {sentence(random).source for _ in range(5_000)}
    assert len(drawn) > 4_500


def noun(name):
    return next(each for each in ALL_NOUNS if each.english == name)


def verb(name, particle=""):
    return next(each for each in ALL_VERBS if (each.english, each.particle) == (name, particle))


def adjective(name):
    return next(each for each in ALL_ADJECTIVES if each.english == name)


def place(prepositions, name, case):
    phrase = noun_phrase(noun(name), "the")
    return Adverb(f"{prepositions[0]} the {name}", with_preposition(prepositions[1], phrase, case))


SISTER, COAT = (
    noun_phrase(noun("sister"), "my"),
    noun_phrase(noun("coat"), "no", adjective=adjective("red")),
)
OLD_MAN = noun_phrase(noun("man"), "the", adjective=adjective("old"))
CALLING = Clause(pronoun("I"), verb("call"), "p", objects=(SISTER,), time=Adverb("today", "heute"))
CLAUSES = {
    "I am calling my sister today.": (CALLING, "statement"),
    "today I am calling my sister.": (CALLING, "time first"),
    "are you eating an apple?": (
        Clause(pronoun("you"), verb("eat"), "p", objects=(noun_phrase(noun("apple"), "a"),)),
        "question",
    ),
    "she does not have to help the old man.": (
        Clause(pronoun("she"), verb("help"), "must", negated=True, objects=(OLD_MAN,)),
        "statement",
    ),
    "he did not buy a red coat.": (
        Clause(pronoun("he"), verb("buy"), "t", negated=True, objects=(COAT,)),
        "statement",
    ),
    "we went to the park with her yesterday.": (
        Clause(
            pronoun("we"), verb("go"), "t", goal=place(("to", "in"), "park", 1),
            company=Adverb("with her", "mit ihr"), time=Adverb("yesterday", "gestern"),
        ),
        "statement",
    ),
    "they waited for the bus at the station.": (
        Clause(
            pronoun("they"), verb("wait", "for"), "t", objects=(noun_phrase(noun("bus"), "the"),),
            place=place(("at", "an"), "station", 2),
        ),
        "statement",
    ),
    "he drives to the station every day.": (
        Clause(
            pronoun("he"), verb("drive"), "h", goal=place(("to", "zu"), "station", 2),
            time=Adverb("every day", "jeden Tag"),
        ),
        "statement",
    ),
}  # fmt: skip
