"""Words that a model has seen: a text of these has no new ones, and any other word is told."""

from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.words import WORD, WordsSeen, share_known, told_of_new_words


def seen(*texts: str) -> WordsSeen:
    words = WordsSeen()
    for text in texts:
        words.add(text)
    return words


@given(st.lists(st.text(max_size=40), max_size=5))
def test_no_word_of_the_training_text_is_new_whatever_its_case(texts):
    known = seen(*texts).numbers()
    assert told_of_new_words(" ".join(texts), known) == ""
    assert told_of_new_words(" ".join(text.casefold() for text in texts), known) == ""


def test_new_words_are_told_once_each_in_their_order():
    known = seen("The dog sleeps.").numbers()
    told = told_of_new_words("the Zebra sleeps, the zebu and the Zebra", known)
    assert told == "3 of 5 words are new to this model: Zebra, zebu, and"
    assert told_of_new_words("The dog is", known) == "1 of 3 words is new to this model: is"
    assert told_of_new_words("a b c d e f g", known).endswith("a, b, c, d, e …")


def test_numbers_signs_and_writing_without_spaces_are_no_words():
    assert WORD.findall("12 don’t 3rd … 你好 ภาษา été_x") == ["don’t", "rd", "été", "x"]
    assert told_of_new_words("12 !? 你好", seen("a").numbers()) == ""


def test_a_text_without_words_teaches_none():
    assert len(seen("", "12 …").numbers()) == 0


@given(st.lists(st.sampled_from("abcdefgh")), st.lists(st.sampled_from("abcdefghij")))
def test_new_words_are_those_that_were_not_seen(before, now):
    known, words = seen(" ".join(before)).numbers(), list(dict.fromkeys(now))
    new = [word for word in words if word not in before]
    told = told_of_new_words(" ".join(words), known)
    assert told.startswith(f"{len(new)} of {len(words)} words" if new else "")
    assert bool(told) == bool(new)
    assert share_known(" ".join(words), known) == (1 - len(new) / len(words) if words else 0)
