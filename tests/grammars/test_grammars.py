"""The texts that the grammars make: whole sentences, and a test that cannot be learned by heart."""

import re
from itertools import islice

from examples.grammars.reviews import BAD, GOOD, THINGS, some_reviews
from examples.grammars.reviews import is_held_out as is_unseen
from examples.grammars.smalltalk import conversations, smalltalk
from examples.grammars.stories import HE, HEROES, SHE, is_held_out, some_stories


def test_the_same_seed_makes_the_same_text() -> None:
    assert (
        conversations(20, seed=1)
        == list(islice(smalltalk(seed=1), 20))
        != conversations(20, seed=2)
    )
    assert some_stories(20, seed=1) == some_stories(20, seed=1) != some_stories(20, seed=2)


def test_nothing_is_left_open_in_a_text() -> None:
    turns = [turn for each in conversations(500) for turn in each.turns]
    for text in (*turns, *some_stories(200)):
        assert not set("{}<>|") & set(text)
        assert text == text.strip() != ""
        assert "  " not in text


def test_a_conversation_ends_with_the_bot_and_is_varied() -> None:
    some = conversations(1_000)
    assert all(len(each.turns) % 2 == 0 for each in some)
    assert {len(each.turns) // 2 for each in some} >= {1, 2, 3, 4, 5}
    assert len(set(some)) > 950


def test_the_bot_is_fine_when_it_is_asked() -> None:
    asked = re.compile(r"(hi|hello|hey)?,? ?how are you( today| doing)?\W*", re.IGNORECASE)
    answers = [
        answer
        for each in conversations(2_000)
        for said, answer in zip(each.turns[::2], each.turns[1::2], strict=True)
        if asked.fullmatch(said)
    ]
    assert len(answers) > 30
    assert all(answer.startswith("I am fine") for answer in answers)


def test_a_name_that_was_told_is_the_one_that_comes_back() -> None:
    for each in conversations(2_000):
        told = re.findall(r"to meet you, (\w+)|Hello (\w+)! ", "\n".join(each.turns[1::2]))
        for answer in each.turns[1::2]:
            if found := re.match(r"Your name is (\w+)", answer):
                assert found[1] in {name for names in told for name in names}


def test_no_held_out_hero_is_in_training() -> None:
    named = re.compile(r"there was a \w+ (\w+) named (\w+)\.")
    for held_out in (False, True):
        for story in some_stories(300, held_out=held_out):
            hero, name = named.search(story).groups()
            assert is_held_out(name, hero) == held_out
    share = (
        sum(is_held_out(name, hero) for name in f"{SHE} {HE}".split() for hero in HEROES.split())
        / 640
    )
    assert 0.05 < share < 0.15


def test_no_conversation_of_the_test_is_in_training() -> None:
    assert not set(conversations(3_000)) & set(conversations(300, held_out=True))


def test_no_held_out_pair_is_in_the_reviews_of_training() -> None:
    known, unseen = some_reviews(800), some_reviews(200, held_out=True)
    pairs = [
        (thing, word)
        for thing in THINGS.split()
        for word in f"{GOOD} {BAD}".split()
        if is_unseen(thing, word)
    ]
    assert 0.05 < len(pairs) / (len(THINGS.split()) * len(f"{GOOD} {BAD}".split())) < 0.15
    told = re.compile(
        r"the (\w+) (?:was|wasn't) [^,;.]*?\b(\w+)(?: at all)?(?=[,;.])", re.IGNORECASE
    )
    assert not {pair for one in known for pair in told.findall(one.text)} & set(pairs)
    assert not {one.text for one in known} & {one.text for one in unseen}


def test_a_review_that_turns_both_ways_is_mixed_and_every_label_is_there() -> None:
    some = some_reviews(600)
    assert {one.labels for one in some} == {("good",), ("bad",), ("mixed",)}
    for one in some:
        turns = any(word in one.text for word in (", but ", "lthough ", "; still", ", yet "))
        assert turns == (one.labels == ("mixed",))
    assert some_reviews(20, seed=1) == some_reviews(20, seed=1) != some_reviews(20, seed=2)
