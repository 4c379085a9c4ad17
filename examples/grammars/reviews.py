"""Reviews from a small grammar: labelled text to learn from that needs no download.

A review judges one thing or two. Words like "not" and "anything but" turn a judgement round, and one of each kind makes
the whole mixed, so that no single word tells the label.
"""

from collections.abc import Iterator
from itertools import islice
from random import Random
from zlib import crc32

from clearhead.data.examples import LabelledText
from examples.grammars.templates import drawn

ONE_IN = 10
"""One pair in so many, of a thing and what is said about it, is held out of training."""

GOOD = (
    "good great lovely excellent wonderful delicious brilliant charming delightful superb fantastic beautiful pleasant "
    "perfect amazing enjoyable impressive splendid terrific marvellous"
)
BAD = (
    "bad awful terrible dull boring horrible disappointing poor dreadful disgusting mediocre ugly annoying lousy "
    "pathetic miserable weak tasteless unpleasant ridiculous"
)
THINGS = (
    "film story ending acting music plot food soup dessert coffee wine service hotel room breakfast view concert "
    "singer band book hero game museum guide tour garden beach trip party show"
)
PLAIN = "the <thing> was {{very|really|quite|truly|so} |}<word>"
TURNED = (
    "{the <thing> was {not|never|hardly|anything but|far from} <word>|the <thing> {wasn't|was not} <word>{ at all|}|"
    "I {can't|cannot|wouldn't} say that the <thing> was <word>|nobody could call the <thing> <word>}"
)
BOTH = "{<one>, but <other>|although <one>, <other>|<one>; still, <other>|<one>, yet <other>}"
SAME = "{<one>, and <other>|<one>, and also <other>|<one>; <other>, too}"
AROUND = (
    "{I went there {on Monday|last week|with my sister|with two friends}. |{Well|Honestly|In short|To be fair}, |"
    "We had heard a lot about it. |}<review>."
    "{ We stayed for two hours.| That is all I have to say.| It was raining.||||}"
)


def reviews(seed: int = 0, held_out: bool = False) -> Iterator[LabelledText]:
    """Reviews without end, the same for the same seed: of known pairs only, or each with a pair training never has."""
    random = Random(seed)  # noqa: S311
    while True:
        first, second = random.sample(THINGS.split(), 2)
        (one, good, odd), (other, fine, strange) = (
            judgement(first, random),
            judgement(second, random),
        )
        double = random.random() < 0.6
        joined = (
            drawn(SAME if good == fine else BOTH, {"one": one, "other": other}, random)
            if double
            else one
        )
        text = drawn(AROUND, {"review": joined}, random)
        label = "mixed" if double and good != fine else "good" if good else "bad"
        if (odd or (double and strange)) == held_out:
            yield LabelledText(sentence_case(text), (label,))


def judgement(thing: str, random: Random) -> tuple[str, bool, bool]:
    """A clause about a thing, whether it is praise, and whether training never has such a pair."""
    praises, turned = random.random() < 0.5, random.random() < 0.25
    word = random.choice((GOOD if praises else BAD).split())
    clause = drawn(TURNED if turned else PLAIN, {"thing": thing, "word": word}, random)
    return clause, praises != turned, is_held_out(thing, word)


def is_held_out(thing: str, word: str) -> bool:
    """Whether training never says this of that: a pure function of the words."""
    return crc32(f"{thing} {word}".encode()) % ONE_IN == 0


def sentence_case(text: str) -> str:
    """A capital letter at the beginning of each sentence."""
    return ". ".join(part[:1].upper() + part[1:] for part in text.split(". "))


def some_reviews(n: int, seed: int = 0, held_out: bool = False) -> list[LabelledText]:
    return list(islice(reviews(seed, held_out), n))
