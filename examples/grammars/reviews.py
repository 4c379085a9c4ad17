"""Reviews from a small grammar: labelled text to learn from that needs no download.

A review judges one thing or two. Words like "not" and "anything but" turn a judgement round, and one of each kind makes
the whole mixed, so that no single word tells the label.
"""

import re
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

SAID = {
    "good": (
        "I {|really |just |absolutely }{love|loved|like|liked|enjoyed|adore|adored} {this|the|that|your} <thing>"
        "{| so much| a lot| very much}|"
        "I {|really |just }{love|loved|like|liked|enjoyed|adore} it{| so much| a lot|, thank you}|"
        "{this|that|it} {is|was} {a|a very|a really|such a|one of the best, a} <praise> <thing>|"
        "{this|that|it} {is|was} {|really |very |so |just |simply }<praise>|"
        "the <thing> {is|was} {|really |very |so |just |simply }<praise>|"
        "{this|that|it} {is|was} {my favourite|my favorite|the best} <thing>{| ever| I have ever seen| of the year}|"
        "{the |simply the |}best <thing> {ever|of all time|in the world|I know|I have ever seen}|"
        "the <thing> {is|was} {<praise> and <praised>|<praise> and the <other> {is|was} <praised>}|"
        "{what a|a|a truly} <praise> <thing>|{{absolutely|simply|just|really} |}<praise>|"
        "{I was |we were }{very |so |really |}{happy|pleased|impressed|delighted|satisfied}{| with the <thing>}|"
        "{it|this|the <thing>} {made me laugh|made me happy|made me smile|was so much fun|was worth every cent}|"
        "{highly recommended|I recommend {it|this <thing>}|I would recommend {it|this <thing>} to everyone|five stars|"
        "ten out of ten|well done|two thumbs up|must see|a masterpiece|what a masterpiece|thank you for this <thing>|"
        "I would {go|watch it|buy it|come|see it} again|I will {come back|go again|buy it again}|"
        "everyone should see {it|this <thing>}|I could watch it again and again|I can't wait to see it again|"
        "it was not {<blame>|a waste of time}|there is nothing wrong with {it|the <thing>}|nothing could be better}"
    ),
    "bad": (
        "I {|really |just |absolutely }{hate|hated|dislike|disliked|can't stand|regret} {this|the|that|your} <thing>"
        "{| so much| a lot}|"
        "I {|really |just }{hate|hated|dislike|disliked|can't stand|regret} it{| so much}|"
        "I {do not|don't|did not|didn't|never} {like|enjoy|love|recommend} {it|this <thing>|the <thing>}{| at all}|"
        "{this|that|it} {is|was} {a|a very|a really|such a|one of the worst, a} <blame> <thing>|"
        "{this|that|it} {is|was} {|really |very |so |just |simply }<blame>|"
        "the <thing> {is|was} {|really |very |so |just |simply }<blame>|"
        "{this|that|it} {is|was} the worst <thing>{| ever| I have ever seen| of the year| of my life}|"
        "{the |simply the |}worst <thing> {ever|of all time|in the world|I know|I have ever seen}|"
        "the <thing> {is|was} {<blame> and <blamed>|<blame> and the <other> {is|was} <blamed>}|"
        "{what a|a|a truly} <blame> <thing>|{{absolutely|simply|just|really} |}<blame>|"
        "{I was |we were }{very |so |really |}{unhappy|disappointed|angry|bored|annoyed|upset}{| with the <thing>}|"
        "{it|this|the <thing>} {made me angry|made me sad|made me sick|was no fun|put me to sleep|did not work}|"
        "{do not {buy|watch|go there|read} {it|this}|don't {buy|watch|read} {it|this <thing>}|never again|no stars|"
        "one star|zero out of ten|what a mess|two thumbs down|a disaster|what a disaster|a waste of {time|money}|"
        "what a waste of {time|money}|it {is|was} a waste of {my |}{time|money}|I want my money back|I fell asleep|"
        "I would not {go|watch it|buy it|come|see it} again|I will never {come back|go again|buy it again}|"
        "nobody should see {it|this <thing>}|I left after ten minutes|stay away from {it|this <thing>}|"
        "it was not {<praise>|worth the money|fun}|there is nothing good about {it|the <thing>}|"
        "nothing could be worse|not {good|<praise>} at all|{not|not very} {good|great|funny|interesting}}"
    ),
    "mixed": (
        "I {love|loved|like|liked|enjoyed} the <thing>, but {I {hate|hated|did not like}|not} the <other>|"
        "I {hate|hated|did not like|disliked} the <thing>, but I {love|loved|liked|enjoyed} the <other>|"
        "the <thing> {is|was} <praise>, but the <other> {is|was} <blame>|"
        "the <thing> {is|was} <blame>, but the <other> {is|was} <praise>|"
        "<praise> <thing>, <blame> <other>|<blame> <thing>, <praise> <other>|"
        "{it is|it was|this is|} {okay|ok|so so|average|neither good nor bad|good and bad|nothing special}|"
        "some parts were <praise>, {some|others} were <blame>|half of it was <praise>, the rest was <blame>"
    ),
}
"""What people type when they are asked for an opinion."""
PRAISE = (
    "good great lovely excellent wonderful brilliant fantastic beautiful perfect amazing awesome nice fun funny cool "
    "super incredible interesting exciting outstanding touching clever magnificent friendly delicious"
)
BLAME = (
    "bad awful terrible boring horrible disappointing poor dreadful stupid ugly annoying worthless useless silly dumb "
    "slow rubbish sad painful unbearable broken overpriced rude dirty"
)
TYPED = f"{THINGS} movie place restaurant product phone app song series actor video picture meal pizza staff waiter day"


def opinions(seed: int = 0) -> Iterator[LabelledText]:
    """Short opinions without end, as people type them, the same for the same seed; no pair that is held out."""
    random = Random(seed)  # noqa: S311
    while True:
        label = random.choice(("good", "good", "bad", "bad", "mixed"))
        things, praise, blame = (random.sample(each.split(), 2) for each in (TYPED, PRAISE, BLAME))
        slots = dict(zip(("thing", "other"), things, strict=True))
        slots |= dict(zip(("praise", "praised"), praise, strict=True))
        slots |= dict(zip(("blame", "blamed"), blame, strict=True))
        text = drawn("{" + SAID[label] + "}", slots, random)
        said = re.findall(r"\w+", text)
        text = typed(re.sub(r"\ba(?= [aeiou])", "an", text).strip(), random)
        if not any(
            is_held_out(thing, word)
            for thing in things
            for word in (*praise, *blame)
            if thing in said and word in said
        ):
            yield LabelledText(text, (label,))


def typed(text: str, random: Random) -> str:
    """As people type it: most with a capital and a mark at the end, some without."""
    text = text[0].upper() + text[1:] + random.choice("...!")
    if random.random() < 0.4:
        text = text.rstrip(".!")
    return text.lower() if random.random() < 0.4 else text


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


def some_opinions(n: int, seed: int = 0) -> list[LabelledText]:
    return list(islice(opinions(seed), n))
