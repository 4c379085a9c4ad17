"""One meaning, said in English and in German: how words agree, and in which order they come."""

from typing import Literal, NamedTuple

from examples.grammars.phrasebook.lexicon import (
    ENDINGS,
    MODALS,
    NUMBERS,
    POSSESSIVES,
    PRONOUNS,
    Adjective,
    Noun,
    Verb,
)

Order = Literal["statement", "time first", "place first", "question", "clause", "request"]
NOM, ACC, DAT = range(3)
FIRST, THIRD, PLURAL = range(3)
"""What verbs agree with: I; he, she or a thing; several, or the polite `Sie`."""
CASES = {"acc": [ACC], "dat": [DAT], "auf": [ACC], "two": [DAT, ACC], "on": [ACC]}
CONTRACTIONS = {"in dem": "im", "in das": "ins", "an dem": "am", "zu dem": "zum", "zu der": "zur"}
AUXILIARIES = {"hat": ("habe", "hat", "haben"), "ist": ("bin", "ist", "sind")}
BE = {"p": ("am", "is", "are"), "t": ("was", "was", "were")}


class Phrase(NamedTuple):
    """Somebody or something: in English as subject and as object, in German by case."""

    subject: str
    english: str
    german: tuple[str, ...]
    agreement: int = THIRD
    definite: bool = True
    noun: str = ""
    adjective: str = ""


class Adverb(NamedTuple):
    """When, where, where to or with whom."""

    english: str = ""
    german: str = ""
    noun: str = ""
    adjective: str = ""


class Clause(NamedTuple):
    """Who does what; `form` is one of the first letters of a verb's uses, or a modal verb."""

    subject: Phrase
    verb: Verb
    form: str
    negated: bool = False
    objects: tuple[Phrase, ...] = ()
    goal: Adverb = Adverb()
    company: Adverb = Adverb()
    place: Adverb = Adverb()
    time: Adverb = Adverb()


def pronoun(name: str) -> Phrase:
    subject, english, *german = PRONOUNS[name].split()
    agreement = {"I": FIRST, "he": THIRD, "she": THIRD}.get(name, PLURAL)
    return Phrase(subject, english, tuple(german), agreement)


def noun_phrase(
    noun: Noun, determiner: str, plural: bool = False, adjective: Adjective | None = None
) -> Phrase:
    """`determiner` is the, this, a, no (which English says with `not … a`), a possessive, a number or nothing."""
    number = "mfn".index(noun.gender) if not plural else 3
    described = [] if adjective is None else [adjective.english]
    words = [*described, noun.english_plural if plural else noun.english]
    english = " ".join(filter(None, [english_determiner(determiner, plural, words[0]), *words]))
    german = tuple(
        german_phrase(noun, determiner, number, adjective, case) for case in (NOM, ACC, DAT)
    )
    definite = determiner in {"the", "this", *POSSESSIVES}
    return Phrase(
        english,
        english,
        german,
        PLURAL if plural else THIRD,
        definite,
        noun.english,
        "".join(described),
    )


def english_determiner(determiner: str, plural: bool, following: str) -> str:
    if determiner == "this" and plural:
        return "these"
    if determiner == "no" and plural:
        return "any"
    if determiner in ("a", "no"):
        return "an" if following[0] in "aeiou" else "a"
    return determiner


def german_phrase(
    noun: Noun, determiner: str, number: int, adjective: Adjective | None, case: int
) -> str:
    """The article shows gender and case, and the adjective shows what the article does not."""
    stems = {"the": "d", "this": "dies", "a": "ein", "no": "kein", **POSSESSIVES, **NUMBERS, "": ""}
    if determiner in ("the", "this"):
        own, described = ("article" if determiner == "the" else "strong"), "weak"
    elif determiner in NUMBERS or not determiner:
        own, described = "none", "strong"
    else:
        own, described = "ein", "mixed"
    words = [stems[determiner] + ending(own, case, number)]
    if adjective is not None:
        words.append(stem(adjective.german) + ending(described, case, number))
    return " ".join(filter(None, [*words, noun_form(noun, number, case)]))


def ending(pattern: str, case: int, number: int) -> str:
    return ENDINGS[pattern][case].split()[number].strip("-")


def stem(adjective: str) -> str:
    """What endings are added to: ein teures Auto, ein müder Mann."""
    return {"teuer": "teur"}.get(adjective, adjective.removesuffix("e"))


def noun_form(noun: Noun, number: int, case: int) -> str:
    """Nouns themselves change only in the plural, and once more in its dative."""
    if number < 3:
        return noun.german
    return noun.german_plural + ("n" if case == DAT and noun.german_plural[-1] not in "ns" else "")


def with_preposition(preposition: str, phrase: Phrase, case: int) -> str:
    """A preposition melts into the article where it can: in dem Park, im Park."""
    text = f"{preposition} {phrase.german[case]}"
    first_two = " ".join(text.split()[:2])
    return CONTRACTIONS.get(first_two, first_two) + text.removeprefix(first_two)


def english(clause: Clause, order: Order = "statement", question: str = "") -> str:
    """The clause in English, small letters first and no full stop."""
    auxiliary, rest, plain = english_verb(clause)
    tail = [
        *english_objects(clause),
        clause.goal.english,
        clause.company.english,
        clause.place.english,
    ]
    subject, time = clause.subject.subject, clause.time.english
    negation = "not" if clause.negated else ""
    told = [subject, *([plain] if plain and not negation else [auxiliary, negation, rest])]
    match order:
        case "question":
            words = [question, auxiliary, subject, rest, *tail, time]
        case "request":
            words = ["please", "do not" if negation else "", rest, *tail, time]
        case "time first":
            words = [time, *told, *tail]
        case "place first":
            words = [clause.place.english, *told, *tail[:-1], time]
        case _:
            words = [*told, *tail, time]
    return " ".join(filter(None, words)).replace("can not", "cannot")


def english_verb(clause: Clause) -> tuple[str, str, str]:
    """Auxiliary and the rest, as questions and negations need them, and both in one word where that is plain."""
    verb, agreement = clause.verb, clause.subject.agreement
    do = "does" if agreement == THIRD else "do"
    match clause.form:
        case "p":
            return BE["p"][agreement], verb.english.removesuffix("e") + "ing", ""
        case "t":
            return "did", verb.english, verb.past
        case "h" | "s" | "i":
            return (
                do,
                verb.english,
                third_person(verb.english) if agreement == THIRD else verb.english,
            )
    auxiliary, opening, *_ = MODALS[clause.form]
    if auxiliary != "do":
        return auxiliary, opening + verb.english, ""
    modal, to, _ = opening.split(" ")
    return (
        do,
        opening + verb.english,
        f"{third_person(modal) if agreement == THIRD else modal} {to} {verb.english}",
    )


def third_person(verb: str) -> str:
    if verb == "have":
        return "has"
    if verb.endswith("ry"):
        return verb[:-1] + "ies"
    return verb + ("es" if verb.endswith(("ch", "sh", "o")) else "s")


def english_objects(clause: Clause) -> list[str]:
    """Objects and the verb's particle, which a pronoun comes before: I pick up my aunt, I pick her up."""
    objects, particle = [each.english for each in clause.objects], clause.verb.particle
    is_split = particle in ("up", "on") and objects and not clause.objects[0].noun
    return [*objects, particle] if is_split else [particle, *objects]


def german(clause: Clause, order: Order = "statement", question: str = "") -> str:
    """The clause in German: the finite verb second, or first, or last, and what belongs to it at the end."""
    finite, end, last = german_verb(clause)
    subject, time, place = clause.subject.german[NOM], clause.time.german, clause.place.german
    match order:
        case "statement":
            words = [subject, finite, *middle(clause, time, place), end]
        case "time first":
            words = [time, finite, subject, *middle(clause, "", place), end]
        case "place first":
            words = [place, finite, subject, *middle(clause, time, ""), end]
        case "question":
            words = [question, finite, subject, *middle(clause, time, place), end]
        case "clause":
            words = [subject, *middle(clause, time, place), last]
        case "request":
            words = ["bitte", finite, subject, *middle(clause, time, place), end]
    return " ".join(filter(None, words))


def german_verb(clause: Clause) -> tuple[str, str, str]:
    """The finite verb, what stands at the end of a main clause, and both as they end a subordinate one."""
    verb, agreement = clause.verb, clause.subject.agreement
    if clause.form in MODALS:
        *_, singular, plural = MODALS[clause.form]
        finite, end = plural if agreement == PLURAL else singular, verb.prefix + verb.infinitive
    elif clause.form == "t":
        finite, end = AUXILIARIES[verb.auxiliary][agreement], verb.participle
    else:
        first = verb.infinitive.removesuffix("n").removesuffix("e") + "e"
        finite = (first, verb.third, verb.infinitive)[agreement]
        return finite, verb.prefix, verb.prefix + finite
    return finite, end, f"{end} {finite}"


def middle(clause: Clause, time: str, place: str) -> list[str]:
    """What stands between the halves of the verb: the known first, the new last, `nicht` before what it denies."""
    phrases = list(zip(clause.objects, CASES.get(clause.verb.case, []), strict=False))
    if clause.verb.case == "auf":
        known, new = [], [with_preposition("auf", phrase, case) for phrase, case in phrases]
    else:
        known = [phrase.german[case] for phrase, case in phrases if phrase.definite]
        new = [phrase.german[case] for phrase, case in phrases if not phrase.definite]
    is_denied_by_article = any(not phrase.definite for phrase in clause.objects)
    negation = "nicht" if clause.negated and not is_denied_by_article else ""
    company, goal = clause.company.german, clause.goal.german
    circumstances = (
        [place, negation, goal] if phrases and not company else [negation, company, goal, place]
    )
    return [*known[:1], time, *known[1:], *circumstances, *new]
