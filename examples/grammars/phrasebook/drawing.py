"""Meanings drawn at random that make sense: somebody, something, and what is done with it, when and where."""

from collections.abc import Collection, Sequence
from random import Random
from typing import TypeVar

from examples.grammars.phrasebook.grammar import (
    ACC,
    DAT,
    Adverb,
    Clause,
    Phrase,
    noun_phrase,
    pronoun,
    with_preposition,
)
from examples.grammars.phrasebook.lexicon import (
    ALL_ADJECTIVES,
    ALL_NOUNS,
    ALL_VERBS,
    CLOCK,
    MODALS,
    NUMBERS,
    ON_DAYS,
    POSSESSIVES,
    PRONOUNS,
    TIMES,
    WHERE,
    Adjective,
    Noun,
    Verb,
    kinds,
)

T = TypeVar("T")
DETERMINERS = ("the", "the", "this", "a", "a", "a", "several", "several", "whose", "whose")
DETERMINERS_OF = {
    "kin": ("whose",), "person": ("the", "the", "this", "a"), "youth": ("the", "the", "this", "a"),
    "food": ("the", "this", "a", "several"), "baked": ("the", "this", "a", "several"), "hot": ("the", "a", "a"),
    "cool": ("the", "a", "a"), "ticket": ("the", "a", "several", "whose"), "vehicle": ("the", "the", "this", "a"),
    "opening": ("the", "this"), "home": ("the",), "stop": ("the",), "sight": ("the", "the", "the", "a"),
    "building": ("the", "the", "the", "a"), "outdoors": ("the", "the", "the", "a"),
}  # fmt: skip
DEFINITE = ("the", "this", "whose")
ONE_AT_A_TIME = kinds("drinks vehicle place home")
STOPS = {noun.english for noun in ALL_NOUNS if noun.kind == "stop"}
ANIMALS = {noun.english for noun in ALL_NOUNS if noun.kind == "animal"}
CLASHES = [{"I", "me"}, {"I", "us"}, {"we", "us"}, {"we", "me"}, {"you"}]
"""A subject and another person that would need a reflexive pronoun."""


class Drawing:
    """One meaning in the making; `combinations` are the words that it brings together."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.combinations: set[str] = set()

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def among(self, options: Collection[T]) -> T:
        return self.random.choice(list(options))

    def thing(
        self,
        wanted: Collection[str],
        only: Collection[str] = DETERMINERS,
        negated: bool = False,
        described: float = 0.5,
        but: str = "",
        many: float = 0.25,
    ) -> Phrase:
        """A noun of a wanted kind with a determiner that suits both, and perhaps an adjective."""
        noun = self.among(
            [noun for noun in ALL_NOUNS if noun.kind in wanted and noun.english != but]
        )
        determiner = self.among(
            [each for each in DETERMINERS_OF.get(noun.kind, DETERMINERS) if each in only]
        )
        is_many = determiner in DEFINITE and noun.kind not in ONE_AT_A_TIME and self.chance(many)
        plural = determiner == "several" or is_many
        if negated and determiner not in DEFINITE:
            determiner = "no"
        elif determiner == "several":
            determiner = self.among(["", "", "", *NUMBERS][:6])
        elif determiner == "whose":
            determiner = self.among(POSSESSIVES)
        return noun_phrase(
            noun, determiner, plural, self.adjective(noun) if self.chance(described) else None
        )

    def adjective(self, noun: Noun) -> Adjective | None:
        """One that the noun can be, if there is any."""
        fitting = [adjective for adjective in ALL_ADJECTIVES if noun.kind in adjective.kinds]
        found = self.among(fitting) if fitting else None
        if found is not None:
            self.combinations.add(f"{found.english} {noun.english}")
        return found

    def somebody(
        self,
        subject: Phrase | None = None,
        only: Collection[str] = DETERMINERS,
        negated: bool = False,
    ) -> Phrase:
        """A person, at times just a pronoun; if there is a subject, another one than that."""
        if not self.chance(0.6 if subject is None else 0.25):
            return self.thing(
                kinds("people"), only, negated, 0.2, "" if subject is None else subject.noun
            )
        found = pronoun(self.among(PRONOUNS))
        clash = subject is not None and {subject.subject, found.english} in CLASHES
        return self.somebody(subject, only, negated) if clash else found

    def clause(
        self,
        forms: str = "phstm",
        verbs: Sequence[Verb] = ALL_VERBS,
        subject: Phrase | None = None,
        may_deny: bool = True,
        without: str = "",
    ) -> Clause:
        """Somebody doing something, with what goes with it; `without` is what a question asks for."""
        wanted = set(forms)
        verb = self.among([verb for verb in verbs if not wanted.isdisjoint(verb.uses)])
        form = self.among([use for use in verb.uses if use in forms])
        form = self.among(MODALS) if form == "m" else form
        negated = may_deny and form != "h" and self.chance(0.2)
        if subject is None:
            subject = (
                self.thing({"vehicle"}, DEFINITE)
                if verb.case == "run"
                else self.somebody(only=DEFINITE)
            )
        objects = self.objects(verb, subject, negated, without)
        goal = self.goal(verb, negated)
        company = self.company(subject) if "w" in verb.uses and self.chance(0.25) else Adverb()
        has_place = "l" in verb.uses and without != "place" and self.chance(0.35)
        place = self.location(objects, negated) if has_place else Adverb()
        time = Adverb() if without == "time" else self.time(verb, form, negated)
        return Clause(subject, verb, form, negated, objects, goal, company, place, time)

    def objects(
        self, verb: Verb, subject: Phrase, negated: bool, without: str
    ) -> tuple[Phrase, ...]:
        whom = (self.somebody(subject, DEFINITE),) if verb.case == "two" else ()
        if verb.case in ("-", "to", "run") or without == "object":
            return whom
        things = verb.kinds - kinds("people")
        only = DEFINITE if verb.case == "on" or (verb.case == "auf" and negated) else DETERMINERS
        if whom and whom[0].english == "her":  # to show her old books: whose are they?
            only = DEFINITE
        is_person = things != verb.kinds and (not things or self.chance(0.5))
        found = (
            self.somebody(subject, only, negated)
            if is_person
            else self.thing(things, only, negated)
        )
        if found.noun:
            self.combinations.add(" ".join(filter(None, [verb.english, verb.particle, found.noun])))
        return (*whom, found)

    def goal(self, verb: Verb, negated: bool) -> Adverb:
        """Where the verb leads to, if it does: German says so with the accusative, or with `zu`."""
        if verb.case == "on":
            return self.beside(ACC)
        if verb.case != "to":
            return Adverb()
        where = self.thing(verb.kinds, DEFINITE if negated else DETERMINERS, described=0.3)
        self.combinations.add(f"{verb.english} {where.noun}")
        preposition, case = ("zu", DAT) if where.noun in STOPS else ("in", ACC)
        return Adverb(f"to {where.english}", with_preposition(preposition, where, case))

    def location(self, objects: Sequence[Phrase], negated: bool) -> Adverb:
        """Where it happens; animals are met outside."""
        is_outside = any(phrase.noun in ANIMALS for phrase in objects)
        wanted = {"outdoors"} if is_outside else kinds("place home")
        where = self.thing(wanted, DEFINITE if negated else DETERMINERS, described=0.3)
        preposition, german = ("at", "an") if where.noun in STOPS else ("in", "in")
        return Adverb(f"{preposition} {where.english}", with_preposition(german, where, DAT))

    def beside(self, case: int) -> Adverb:
        """At a piece of furniture; German tells by the case whether something is there or is put there."""
        preposition, german = self.among(WHERE.items())
        where = self.thing({"table"}, DEFINITE, described=0.2, many=0)
        return Adverb(f"{preposition} {where.english}", with_preposition(german, where, case))

    def company(self, subject: Phrase) -> Adverb:
        whom = self.somebody(subject, DEFINITE)
        return Adverb(f"with {whom.english}", with_preposition("mit", whom, DAT))

    def time(self, verb: Verb, form: str, negated: bool) -> Adverb:
        if (
            "c" in verb.uses
            and not negated
            and (not verb.kinds & kinds("people") or self.chance(0.6))
        ):
            (english, german), (day, tag) = self.among(CLOCK.items()), self.among(ON_DAYS.items())
            has_day = verb.case == "run" and self.chance(0.4)
            return (
                Adverb(f"{day} {english}", f"{tag} {german}")
                if has_day
                else Adverb(english, german)
            )
        times = TIMES["m" if form in MODALS else form]
        return (
            Adverb(*self.among(times.items()))
            if times and (form == "h" or self.chance(0.6))
            else Adverb()
        )
