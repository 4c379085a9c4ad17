"""What people type first: it is in the corpora, in one German, as carelessly typed as people type."""

import re
from collections import Counter, defaultdict
from itertools import islice, product
from random import Random

import pytest

from clearhead.demo.show import shipped
from examples.grammars.phrasebook import everyday_pairs, is_held_out
from examples.grammars.phrasebook.everyday import as_typed, everyday
from examples.grammars.reviews import BAD, GOOD, THINGS, some_opinions
from examples.grammars.reviews import is_held_out as is_unseen
from tests.first_typed import FIRST_TYPED


@pytest.fixture(scope="module")
def training():
    return list(zip(shipped("translation.en")[0], shipped("translation.de")[0], strict=True))


def plain(text):
    return text.rstrip(".?!").lower()


@pytest.mark.parametrize(("source", "target"), FIRST_TYPED.items())
def test_what_people_type_first_is_in_the_corpus_in_one_german(training, source, target):
    said = Counter(german for english, german in training if plain(english) == plain(source))
    assert said[target] >= 1
    assert {plain(german) for german in said} == {plain(target)}


def test_greetings_are_there_often_and_typed_in_several_ways(training):
    for phrase in ("hello", "thank you", "good morning", "how are you", "i love you"):
        ways = Counter(english for english, _ in training if plain(english) == phrase)
        assert ways.total() >= 20
        assert len(ways) >= 4


def test_an_everyday_sentence_has_one_german_however_it_is_typed():
    said = defaultdict(set)
    for source, target, _ in islice(everyday(seed=1), 8_000):
        said[plain(source)].add(plain(target))
    assert [each for each in said.items() if len(each[1]) > 1] == []


def test_the_german_is_whole_where_the_english_is_not():
    for source, target, _ in islice(everyday(seed=2), 2_000):
        assert "<" not in source + target
        if source[-1] in ".?!" or " is " in source:
            assert target[-1] in ".?!", source
            assert target[0].isupper()


def test_verbs_in_the_third_person_are_there_for_many_subjects(training):
    subjects = {english.split()[1] for english, german in training if german.endswith(" schläft.")}
    assert {"dog", "cat", "child"} <= subjects


def test_only_the_english_is_typed_carelessly_and_an_exclamation_mark_is_in_both():
    pair = ("I am hungry.", "Ich habe Hunger.")
    kinds = {as_typed(Random(seed), *pair) for seed in range(200)}
    assert {source for source, _ in kinds} >= {"I am hungry.", "I'm hungry", "i am hungry."}
    assert ("I am hungry!", "Ich habe Hunger!") in kinds
    assert {target[:-1] for _, target in kinds} == {"Ich habe Hunger"}
    assert {as_typed(Random(seed), *pair, share=0.0) for seed in range(200)} == {pair}


def test_everyday_sentences_bring_no_held_out_combination_into_training():
    pairs = set(everyday_pairs(3_000))
    drawn = list(islice(everyday(), 3_000))
    kept_out = [each for each in drawn if is_held_out(each)]
    assert len(kept_out) > 10
    assert not {(each.source, each.target) for each in kept_out} & pairs


def test_opinions_are_of_all_labels_and_hold_the_words_that_people_use():
    some = some_opinions(2_000)
    assert {one.labels for one in some} == {("good",), ("bad",), ("mixed",)}
    lines = {plain(line) for line in shipped("classification.tsv")[0]}
    said = Counter(word for one in some for word in plain(one.text).split())
    assert min(said[word] for word in ("love", "hate", "worst", "best", "movie", "great")) >= 10
    assert not set("{}<>|") & set("".join(lines))
    assert some_opinions(20, seed=1) == some_opinions(20, seed=1) != some_opinions(20, seed=2)


def test_an_opinion_is_not_of_a_pair_that_the_test_of_reviews_has():
    for one in some_opinions(1_000):
        words = re.findall(r"\w+", one.text.lower())
        judged = product(
            set(THINGS.split()) & set(words), set(f"{GOOD} {BAD}".split()) & set(words)
        )
        assert not [pair for pair in judged if is_unseen(*pair)], one.text
