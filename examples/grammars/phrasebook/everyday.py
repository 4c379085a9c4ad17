"""Everyday sentences beside the grammar's: fixed phrases, plain ones in the present, single words; as people type."""

import re
from collections.abc import Callable, Iterator
from random import Random

from examples.grammars.phrasebook.drawing import Drawing
from examples.grammars.phrasebook.grammar import (
    BE,
    NOM,
    PLURAL,
    THIRD,
    Phrase,
    english,
    german,
    noun_phrase,
    pronoun,
    third_person,
)
from examples.grammars.phrasebook.lexicon import ALL_NOUNS, ALL_VERBS, DAYS, NUMBERS, PRONOUNS, Noun
from examples.grammars.phrasebook.phrases import (
    ALIVE,
    ANIMALS,
    COLOURS,
    DOES,
    FIRST_SAID,
    IS,
    KIN,
    LANGUAGES,
    LOOKS,
    NAMES,
    PHRASES,
    TOWNS,
    WORDS,
)
from examples.grammars.phrasebook.sentences import Said, Sentence
from examples.grammars.templates import SLOT

CONTRACTIONS = {
    "I am": "I'm", "you are": "you're", "we are": "we're", "they are": "they're", "he is": "he's", "she is": "she's",
    "it is": "it's", "that is": "that's", "what is": "what's", "where is": "where's", "do not": "don't",
    "does not": "doesn't", "did not": "didn't", "is not": "isn't", "are not": "aren't", "cannot": "can't",
    "I would": "I'd",
}  # fmt: skip
SYNONYMS = {"bicycle": "bike", "bicycles": "bikes", "large": "big", "sick": "ill", "gift": "present",
            "gifts": "presents", "biscuit": "cookie", "biscuits": "cookies"}  # fmt: skip
PLAINER = {other: word for word, other in SYNONYMS.items()}
SHORTER = re.compile(rf"\b({'|'.join(CONTRACTIONS)})(?= \w)", re.IGNORECASE)
OTHER = re.compile(rf"\b({'|'.join(SYNONYMS)})\b")
CALLED = re.compile("Hallo|Guten|Gute|Danke|Vielen|Tschüss|Auf|Bis|Ja|Nein|Alles|Bitte")
"""First words of what may be said to somebody by name."""
LOWERED = re.compile("(Mein|Ich|Wie|Wo|Was|Das|Wer|Können|Haben|Sprechen|Es|Mir) ")
"""First words that are small after a comma."""
DOUBLED = ("run", "swim", "sit")


def entries(table: str) -> list[Said]:
    """English and German of a table of phrases, ends of sentences included."""
    found = []
    for line in table.strip().splitlines():
        said, german = line.split(" = ")
        for each in said.split("; "):
            found.append((each if each[-1] in "?!" else each + german[-1], german))
    return found


def cells(table: str) -> list[list[str]]:
    """Entries between commas, each of some words."""
    return [entry.split() for entry in table.replace("\n", " ").strip(" ,").split(", ")]


def two_sides(names: str) -> list[list[str]]:
    """`Rome:Rom` has two names, `Berlin` one for both."""
    return [(each.split(":") * 2)[: max(2, each.count(":") + 1)] for each in names.split()]


SAID = [
    *entries(PHRASES),
    *(each for each in entries(FIRST_SAID) for _ in range(20 if "<" in each[0] else 5)),
]
"""What people say first is said five times as often as the rest, and with names more often still."""
NOUNS = [[Noun("", *entry[1:]) for entry in cells(table)] for table in (ALIVE, ANIMALS)]
DEEDS = [
    (deed, *(cell.strip() for cell in rest))
    for said, *rest in (line.split("|") for line in DOES.strip().splitlines())
    for deed in said.strip().split("; ")
]


def phrase(draw: Drawing) -> Said:
    """A fixed phrase, its slots filled; at times said to somebody, or after another one."""
    said = filled(draw, *draw.among(SAID))
    if draw.chance(0.1) and CALLED.match(said[1]):
        return called(draw, said)
    if draw.chance(0.15):
        return followed(said, filled(draw, *draw.among(SAID)))
    return said


def called(draw: Drawing, said: Said) -> Said:
    name = draw.among(NAMES.split())
    source, target = (f"{text[:-1]}, {name}{text[-1]}" for text in said)
    return source, target


def followed(first: Said, second: Said) -> Said:
    """Two phrases one after the other; after a greeting, a comma may be enough."""
    if first[1] in ("Hallo.", "Entschuldigung.") and LOWERED.match(second[1]):
        lowered = second[0] if second[0].startswith(("I ", "I'")) else small(second[0])
        return f"{first[0][:-1]}, {lowered}", f"{first[1][:-1]}, {small(second[1])}"
    return f"{first[0]} {second[0]}", f"{first[1]} {second[1]}"


def filled(draw: Drawing, source: str, target: str) -> Said:
    """A phrase with names, towns, numbers and so on in the place of its slots."""
    name = draw.among(NAMES.split())
    other = draw.among([each for each in NAMES.split() if each != name])
    town, stadt = draw.among(two_sides(TOWNS))
    language, sprache = draw.among(two_sides(LANGUAGES))
    number, zahl = draw.among(NUMBERS.items())
    day, tag = draw.among(DAYS.items())
    kin, mein, verwandte = draw.among(two_sides(KIN))
    whom = "meinen" if mein == "mein" else mein
    mine = {"name": name, "other": other, "town": town, "language": language, "number": number}
    mine |= {"day": day, "kin": kin}
    theirs = {"name": name, "other": other, "town": stadt, "sprache": sprache, "zahl": zahl}
    theirs |= {"tag": tag, "meine": f"{mein} {verwandte}", "meinen": f"{whom} {verwandte}"}
    return (
        SLOT.sub(lambda found: mine[found[1]], source),
        SLOT.sub(lambda found: theirs[found[1]], target),
    )


def subject(draw: Drawing, animals: bool = False) -> Phrase:
    """Who does something: a pronoun, a name, or somebody with an article."""
    kind = draw.random.random()
    if kind < 0.3 and not animals:
        return pronoun(draw.among(PRONOUNS))
    if kind < 0.45 and not animals:
        name = draw.among(NAMES.split())
        return Phrase(name, name, (name, name, name))
    noun = draw.among(NOUNS[animals])
    determiner = draw.among(("the", "the", "the", "a", "a", "my", "this", "your"))
    plural = determiner != "a" and draw.chance(0.15)
    return noun_phrase(noun, determiner, plural)


def deed(draw: Drawing) -> Said:
    """What somebody does now, or always: English has two forms where German has one."""
    said, forms, rest, uses = draw.among(DEEDS)
    who = subject(draw, animals="a" in uses and draw.chance(0.5))
    verb, _, tail = said.partition(" ")
    own, theirs = who.subject, who.german[NOM]
    form, infinitive = forms.split()[who.agreement], forms.split()[2]
    do = "does" if who.agreement == THIRD else "do"
    kind = draw.random.random()
    if kind < 0.5:
        plain = third_person(verb) if who.agreement == THIRD else verb
        return joined(own, plain, tail, "."), joined(theirs, form, rest, ".")
    if kind < 0.65 and "p" in uses:
        is_ = BE["p"][who.agreement]
        return joined(own, is_, progressive(verb), tail, "."), joined(theirs, form, rest, ".")
    if kind < 0.75 and "n" in uses:
        return joined(own, do, "not", said, "."), joined(theirs, form, "nicht", ".")
    if kind < 0.9:
        return joined(do, own, said, "?"), joined(form, theirs, rest, "?")
    can = "können" if who.agreement == PLURAL else "kann"
    if "p" in uses:
        return joined(own, "can", said, "."), joined(theirs, can, rest, infinitive, ".")
    return deed(draw)


def progressive(verb: str) -> str:
    return (verb + verb[-1] if verb in DOUBLED else verb.removesuffix("e")) + "ing"


def joined(*words: str) -> str:
    *others, mark = words
    return " ".join(filter(None, others)) + mark


def plain_present(draw: Drawing) -> Said:
    """The grammar's verbs in the simple present, without a time."""
    who = subject(draw)
    verbs = [
        verb._replace(uses="s" + "".join(use for use in verb.uses if use in "lw"))
        for verb in ALL_VERBS
        if "p" in verb.uses and (verb.english != "read" or who.agreement == THIRD)
    ]
    clause = draw.clause("s", verbs, subject=who, may_deny=draw.chance(0.4))
    if not clause.negated and draw.chance(0.2):
        return f"{english(clause, 'question')}?", f"{german(clause, 'question')}?"
    return f"{english(clause)}.", f"{german(clause)}."


def state(draw: Drawing) -> Said:
    """What somebody is, or is not."""
    animals = draw.chance(0.3)
    who = subject(draw, animals)
    word, wort = draw.among(cells(f"{COLOURS}, {LOOKS}" if animals else f"{LOOKS}, {IS}"))
    draw.combinations.add(f"{PLAINER.get(word, word)} {who.noun}")
    is_, ist = BE["p"][who.agreement], ("bin", "ist", "sind")[who.agreement]
    if draw.chance(0.2):
        return f"{is_} {who.subject} {word}?", f"{ist} {who.german[NOM]} {wort}?"
    has_degree = word not in ("here", "brown", "black", "white")
    degree, grad = draw.among(
        [("", ""), ("", ""), ("not ", "nicht "), ("very ", "sehr ")][: 4 if has_degree else 3]
    )
    return f"{who.subject} {is_} {degree}{word}.", f"{who.german[NOM]} {ist} {grad}{wort}."


def fragment(draw: Drawing) -> Said:
    """A single word, or a noun and its article."""
    if draw.chance(0.4):
        word, wort = draw.among(cells(WORDS))
        return word, wort
    noun = draw.among(ALL_NOUNS)
    determiner = draw.among(("", "the", "a", "my", "two"))
    if not determiner:
        return noun.english, noun.german
    found = noun_phrase(noun, determiner, plural=determiner == "two")
    return found.english, found.german[NOM]


KINDS: dict[Callable[[Drawing], Said], int] = {
    phrase: 60, deed: 16, plain_present: 12, state: 8, fragment: 5,
}  # fmt: skip
"""What is said, and how often."""


def everyday(seed: int = 0) -> Iterator[Sentence]:
    """Everyday sentences without end, common ones many times; the same for the same seed."""
    random = Random(seed)  # noqa: S311
    templates, weights = zip(*KINDS.items(), strict=True)
    while True:
        (template,), draw = random.choices(templates, weights), Drawing(random)
        source, target = template(draw)
        if template is not fragment:
            source, target = (text[0].upper() + text[1:] for text in (source, target))
            source, target = as_typed(random, source, target)
        yield Sentence(source, target, frozenset(draw.combinations))


def as_typed(random: Random, source: str, target: str, share: float = 1.0) -> Said:
    """As people type: with short forms, all in small letters, without the mark at the end, or with another one.

    The German stays whole.
    """
    if random.random() < 0.4 * share:
        source = SHORTER.sub(lambda found: shortened(found[1]), source)
        source = OTHER.sub(lambda found: SYNONYMS[found[1]], source)
    if random.random() < 0.3 * share:
        source = source.lower()
    if random.random() < 0.3 * share:
        source = source.rstrip(".?!")
    elif source[-1] == "." and random.random() < 0.1 * share:
        source, target = source[:-1] + "!", target[:-1] + "!"
    return source, target


def shortened(found: str) -> str:
    """The contraction, with the capital letter that it had."""
    by_name = {name.lower(): short for name, short in CONTRACTIONS.items()}
    short = by_name[found.lower()]
    return short[0].upper() + short[1:] if found[0].isupper() else short


def small(text: str) -> str:
    return text[0].lower() + text[1:]
