"""What one says: kinds of sentences, each in both languages."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from examples.grammars.phrasebook.drawing import DEFINITE, Drawing
from examples.grammars.phrasebook.grammar import (
    ACC,
    BE,
    DAT,
    NOM,
    PLURAL,
    Order,
    Phrase,
    english,
    german,
    noun_phrase,
    pronoun,
    with_preposition,
)
from examples.grammars.phrasebook.lexicon import (
    ALL_ADJECTIVES,
    ALL_NOUNS,
    ALL_VERBS,
    NUMBERS,
    PRONOUNS,
    kinds,
)

Said = tuple[str, str]
FOR_SALE, LYING = kinds("edible goods table"), kinds("clothes carried ticket written printed")
TOO = {"large", "small", "old", "young", "expensive", "cold", "hot", "warm"}
FEELINGS, COLOURS = {"tired", "sick", "nice"}, {"red", "green", "black", "white", "brown"}
SAYINGS = {
    "I know that": "ich weiß, dass", "I think that": "ich glaube, dass", "he says that": "er sagt, dass",
    "she says that": "sie sagt, dass", "we hope that": "wir hoffen, dass",
}  # fmt: skip


class Sentence(NamedTuple):
    """A pair, and which words it brings together: adjective and noun, verb and noun."""

    source: str
    target: str
    combinations: frozenset[str]


def sentence(random: Random) -> Sentence:
    """A sentence of any kind."""
    templates, weights = zip(*TEMPLATES.items(), strict=True)
    (template,), drawing = random.choices(templates, weights), Drawing(random)
    source, target = (text[0].upper() + text[1:] for text in template(drawing))
    return Sentence(source, target, frozenset(drawing.combinations))


def statement(draw: Drawing) -> Said:
    clause = draw.clause()
    order: Order = "statement"
    if clause.time.english and draw.chance(0.4):
        order = "time first"
    elif clause.place.english and not clause.negated and draw.chance(0.3):
        order = "place first"
    return f"{english(clause, order)}.", f"{german(clause, order)}."


def question(draw: Drawing) -> Said:
    clause = draw.clause(may_deny=False)
    return f"{english(clause, 'question')}?", f"{german(clause, 'question')}?"


def question_why_or_when(draw: Drawing) -> Said:
    word, wort, without = draw.among([("why", "warum", ""), ("when", "wann", "time")])
    timed = [verb for verb in ALL_VERBS if verb.case == "run" or "s" not in verb.uses]
    clause = draw.clause("pstm" if without else "phstm", timed, may_deny=False, without=without)
    return f"{english(clause, 'question', word)}?", f"{german(clause, 'question', wort)}?"


def question_where(draw: Drawing) -> Said:
    clause = draw.clause(
        "ptm", [verb for verb in ALL_VERBS if "l" in verb.uses], may_deny=False, without="place"
    )
    return f"{english(clause, 'question', 'where')}?", f"{german(clause, 'question', 'wo')}?"


def question_what_or_whom(draw: Drawing) -> Said:
    verbs = [verb for verb in ALL_VERBS if verb.case in ("acc", "dat", "auf", "two")]
    clause = draw.clause(verbs=verbs, may_deny=False, without="object")
    words = {"acc": ("who", "wen"), "dat": ("who", "wem"), "auf": ("who", "auf wen")}
    word, wort = words[clause.verb.case] if "person" in clause.verb.kinds else ("what", "was")
    return f"{english(clause, 'question', word)}?", f"{german(clause, 'question', wort)}?"


def question_who(draw: Drawing) -> Said:
    verbs = [verb for verb in ALL_VERBS if verb.case != "run"]
    clause = draw.clause(
        verbs=verbs, subject=Phrase("who", "whom", ("wer", "wen", "wem")), may_deny=False
    )
    return f"{english(clause)}?", f"{german(clause)}?"


def request(draw: Drawing) -> Said:
    clause = draw.clause("i", subject=pronoun("you"))
    return f"{english(clause, 'request')}.", f"{german(clause, 'request')}."


def saying(draw: Drawing) -> Said:
    clause = draw.clause()
    if draw.chance(0.2):
        return f"do you know if {english(clause)}?", f"wissen Sie, ob {german(clause, 'clause')}?"
    opening, beginn = draw.among(
        list(SAYINGS.items())[: 4 if clause.form == "should" else 5]
    )  # one hopes no duty
    return f"{opening} {english(clause)}.", f"{beginn} {german(clause, 'clause')}."


def excuse(draw: Drawing) -> Said:
    who = pronoun(draw.among(PRONOUNS))
    verbs = [
        verb for verb in ALL_VERBS if "s" not in verb.uses and verb.english not in ("come", "wear")
    ]
    clause = draw.clause("m", verbs, who, may_deny=False)._replace(form="must")
    reason, grund = f"because {english(clause)}.", f"weil {german(clause, 'clause')}."
    if draw.chance(0.5):
        can = "können" if who.agreement == PLURAL else "kann"
        return (
            f"{who.subject} cannot come {reason}",
            f"{who.german[NOM]} {can} nicht kommen, {grund}",
        )
    have, haben = ("have", "has", "have")[who.agreement], ("habe", "hat", "haben")[who.agreement]
    return (
        f"{who.subject} {have} no time {reason}",
        f"{who.german[NOM]} {haben} keine Zeit, {grund}",
    )


def description(draw: Drawing) -> Said:
    """Something is, was, is not or is too …; adjectives that stand alone have no endings."""
    adjective = draw.among(ALL_ADJECTIVES)
    if adjective.english in FEELINGS and draw.chance(0.6):
        what = pronoun(draw.among(PRONOUNS))
    else:
        what = draw.thing(adjective.kinds, DEFINITE, described=0)
        draw.combinations.add(f"{adjective.english} {what.noun}")
    be = {"p": ("bin", "ist", "sind"), "t": ("war", "war", "waren")}
    form = draw.among("ppt")
    is_, ist = BE[form][what.agreement], be[form][what.agreement]
    if draw.chance(0.2):
        return (
            f"{is_} {what.subject} {adjective.english}?",
            f"{ist} {what.german[NOM]} {adjective.german}?",
        )
    degrees = {"": "", "not ": "nicht "}
    degrees |= {} if adjective.english in COLOURS else {"very ": "sehr "}
    degrees |= {"too ": "zu "} if adjective.english in TOO else {}
    degree, grad = draw.among(degrees.items())
    return (
        f"{what.subject} {is_} {degree}{adjective.english}.",
        f"{what.german[NOM]} {ist} {grad}{adjective.german}.",
    )


def way(draw: Drawing) -> Said:
    where, who = (
        draw.thing(kinds("place"), DEFINITE, described=0.3),
        pronoun(draw.among(["I", "we"])),
    )
    komme = "komme" if who.subject == "I" else "kommen"
    found = with_preposition("zu", where, DAT)
    return (
        f"how do {who.subject} get to {where.english}?",
        f"wie {komme} {who.german[NOM]} {found}?",
    )


def nearby(draw: Drawing) -> Said:
    noun = draw.among([noun for noun in ALL_NOUNS if noun.kind in kinds("place")])
    what = noun_phrase(noun, "a", adjective=draw.adjective(noun) if draw.chance(0.5) else None)
    if draw.chance(0.4):
        return (
            f"is there {what.english} near here?",
            f"gibt es hier in der Nähe {what.german[ACC]}?",
        )
    (preposition, praeposition) = draw.among([("next to", "neben"), ("behind", "hinter")])
    where = draw.thing(kinds("place"), DEFINITE, described=0.1, but=noun.english)
    there = with_preposition(praeposition, where, DAT)
    return (
        f"there is {what.english} {preposition} {where.english}.",
        f"es gibt {what.german[ACC]} {there}.",
    )


def price(draw: Drawing) -> Said:
    what = draw.thing(FOR_SALE, ("the", "this"))
    costs, kostet = ("cost", "kosten") if what.agreement == PLURAL else ("costs", "kostet")
    if draw.chance(0.4):
        do = "do" if what.agreement == PLURAL else "does"
        return f"how much {do} {what.english} cost?", f"wie viel {kostet} {what.german[NOM]}?"
    amount, betrag = draw.among(NUMBERS.items())
    return f"{what.english} {costs} {amount} euros.", f"{what.german[NOM]} {kostet} {betrag} Euro."


def whereabouts(draw: Drawing) -> Said:
    what = draw.thing(LYING | kinds("animal"), DEFINITE)
    is_, ist = ("are", "sind") if what.agreement == PLURAL else ("is", "ist")
    if draw.chance(0.3):
        return f"where {is_} {what.english}?", f"wo {ist} {what.german[NOM]}?"
    there = draw.beside(DAT)
    return f"{what.english} {is_} {there.english}.", f"{what.german[NOM]} {ist} {there.german}."


def wish(draw: Drawing) -> Said:
    who = pronoun(draw.among(["I", "we"]))
    what = draw.thing(kinds("edible drinks ticket"), ("a", "several"))
    would = "möchte" if who.subject == "I" else "möchten"
    return (
        f"{who.subject} would like {what.english}, please.",
        f"{who.german[NOM]} {would} bitte {what.german[ACC]}.",
    )


def present(draw: Drawing) -> Said:
    what, whom = (
        draw.thing(LYING | kinds("edible drinks"), ("the", "this")),
        draw.somebody(only=DEFINITE),
    )
    is_, ist = ("are", "sind") if what.agreement == PLURAL else ("is", "ist")
    return (
        f"{what.english} {is_} for {whom.english}.",
        f"{what.german[NOM]} {ist} für {whom.german[ACC]}.",
    )


TEMPLATES: dict[Callable[[Drawing], Said], int] = {
    statement: 34, question: 11, question_why_or_when: 6, question_where: 2, question_what_or_whom: 4, question_who: 4,
    request: 7, saying: 9, excuse: 6, description: 6, way: 1, nearby: 2, price: 2, whereabouts: 2, wish: 2, present: 2,
}  # fmt: skip
"""What is said, and how often."""
