"""Little stories from a small grammar: running text to learn from that needs no download.

Each story is one line. Its hero has a name, a place and a wish; what happens follows from the wish, and names and
pronouns stay the same to the end, so a model that has learned it keeps them in mind.
"""

from collections.abc import Iterator
from itertools import islice
from random import Random
from zlib import crc32

from examples.grammars.templates import drawn

ONE_IN = 10
"""One hero in so many, a kind of animal with a name, is held out of training."""

SHE = "Ada Bella Clara Daisy Ella Fanny Greta Hazel Ivy Julia Kitty Lily Mia Nora Olive Penny Ruby Stella Tilly Zoe"
HE = "Arthur Bruno Casper Duke Elmo Felix Gus Hugo Ivan Jasper Kurt Leo Max Ned Oscar Percy Rufus Sam Toby Wilbur"
HEROES = (
    "fox rabbit bear mouse frog owl hedgehog squirrel duck cat dog goat beaver badger otter lamb"
)
KINDS = "little young small clever shy brave curious lazy friendly quiet"
PLACES = {
    "forest": "under an old oak tree", "meadow": "behind a big stone", "village": "in a house with a red door",
    "mountains": "in a warm cave", "garden": "beneath the rose bushes", "harbour": "in a hut by the sea",
    "valley": "beside a cold river", "town": "in a tiny attic",
}  # fmt: skip
WISHES = {
    "to see the sea": (
        "walked for three days", "At last <he> stood on the beach, and the waves were as high as houses"),
    "to learn to swim": (
        "went down to the pond every morning", "At last <he> could swim to the other side and back"),
    "to fly": (
        "built two wings out of leaves", "<He> jumped from a hill and, for a moment, <he> really flew"),
    "to find a treasure": (
        "dug a deep hole", "At the bottom of the hole there was a box full of golden coins"),
    "to bake the best cake in the world": (
        "asked everyone for honey and nuts", "The cake was so big that all could eat from it"),
    "to have a boat": (
        "collected wood for a whole summer", "The boat was small and blue, and it did not sink"),
    "to touch the moon": (
        "climbed the highest tree", "The moon was still far away, but the view was wonderful"),
    "to play the violin": (
        "practised every evening", "Soon even the birds stopped singing to listen"),
    "to sleep through the winter": (
        "looked for the softest bed", "<He> fell asleep at once and did not wake up until spring"),
    "to make it snow": (
        "asked the clouds very politely", "The next morning everything was white"),
}  # fmt: skip
"""Each wish with what the hero does about it, and what comes of it."""
STORY = (
    "{Once upon a time|Long ago|One day|Many years ago}{,|} there was a <kind> <hero> named <name>. "
    "<He> lived in the <place>, <where>. "
    "{More than anything|All <his> life}, <name> {wanted|wished} <wish>. "
    '{"That is {impossible|silly|too hard}," said <friend> the <other>. |'
    '"You will never do it," said <friend> the <other>. |"Let me help you," said <friend> the <other>. |}'
    "{But <name> did not give up.|But the <hero> was not afraid.|<name> thought about it for a long time.} "
    "{So <he>|The next day <he>|And so <he>} <deed>. "
    "{It was {hard|not easy}, and {sometimes|more than once} <he> wanted to go home. |It rained and the wind blew. |}"
    "<end>. "
    "{<name> was the happiest <hero> in the <place>.|<friend> the <other> was very surprised.|"
    "<name> {smiled|laughed} and told <friend> everything.|From that day on, nobody laughed at <name>.} "
    "{The end.|And if <he> has not moved, <he> still lives in the <place>.|And that is the end of the story.}"
)


def stories(seed: int = 0, held_out: bool = False) -> Iterator[str]:
    """Stories without end, the same for the same seed: about known heroes, or about those that training never has."""
    random = Random(seed)  # noqa: S311
    while True:
        names, he, his = random.choice([(SHE, "she", "her"), (HE, "he", "his")])
        name, hero, other = (random.choice(words.split()) for words in (names, HEROES, HEROES))
        friend = random.choice([each for each in f"{SHE} {HE}".split() if each != name])
        place, wish = random.choice(sorted(PLACES)), random.choice(sorted(WISHES))
        slots = {
            "name": name,
            "hero": hero,
            "he": he,
            "He": he.capitalize(),
            "his": his,
            "kind": random.choice(KINDS.split()),
        }
        slots |= {
            "friend": friend,
            "other": other,
            "place": place,
            "where": PLACES[place],
            "wish": wish,
        }
        deed, end = WISHES[wish]
        slots |= {"deed": deed, "end": drawn(end, slots, random)}
        story = drawn(STORY, slots, random)
        if is_held_out(name, hero) == held_out:
            yield story


def is_held_out(name: str, hero: str) -> bool:
    """Whether training has no such hero: a pure function of the words."""
    return crc32(f"{name} {hero}".encode()) % ONE_IN == 0


def some_stories(n: int, seed: int = 0, held_out: bool = False) -> list[str]:
    return list(islice(stories(seed, held_out), n))
