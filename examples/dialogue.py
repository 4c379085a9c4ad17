"""A chatbot from small talk and everyday conversations, beside a model of word sequences: python examples/dialogue.py

Data: the small talk that comes with the package, dialogue/dailydialog.{train,val}.jsonl.gz and
dialogue/chatterbot-english.jsonl.gz. Both speakers of DailyDialog are people, so each of its conversations is learned
twice, once with each of them as the bot.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from math import log
from pathlib import Path

from recipe import Recipe

from clearhead.data.examples import Conversation, conversations
from clearhead.demo.show import shipped
from clearhead.tasks import Chatbot
from clearhead.tasks.chat import ChatTask, read_conversations
from clearhead.tasks.task import Perplexity

OPENINGS = (
    "Hi, how are you?", "What is your name?", "What did you do last weekend?", "I am hungry. Where can we eat?",
    "How much is this shirt?", "Do you like music?", "Can you help me, please?", "It is raining again.",
    "I lost my job yesterday.", "Thank you very much.",
)  # fmt: skip
ORDER, DISCOUNT = 4, 0.75
N_SMALL_TALK = 4_000
"""Conversations of small talk: about as many words as people's own, so that neither drowns the other."""


class Ngrams:
    """Interpolated Kneser–Ney: the chance of a token after the last few, backed by those after fewer of them."""

    def __init__(self, rows: Iterable[Sequence[int]], n_tokens: int) -> None:
        self.n_tokens = n_tokens
        self.counts: list[Counter[tuple[int, ...]]] = [Counter() for _ in range(ORDER + 1)]
        for row in rows:
            for end in range(1, len(row) + 1):
                self.counts[ORDER][tuple(row[max(0, end - ORDER) : end])] += 1
        for order in range(
            ORDER, 0, -1
        ):  # below the longest, what counts is after how many different tokens
            self.counts[order - 1].update(
                gram[1:] for gram in self.counts[order] if len(gram) == order
            )
            self.counts[order - 1].update(
                {gram: n for gram, n in self.counts[order].items() if len(gram) < order}
            )
        self.totals = [Counter[tuple[int, ...]]() for _ in range(ORDER + 1)]
        self.kinds = [Counter[tuple[int, ...]]() for _ in range(ORDER + 1)]
        for order in range(1, ORDER + 1):
            for gram, n in self.counts[order].items():
                self.totals[order][gram[:-1]] += n
                self.kinds[order][gram[:-1]] += 1

    def probability(self, context: tuple[int, ...], token: int) -> float:
        order = len(context) + 1
        lower = self.probability(context[1:], token) if context else 1 / self.n_tokens
        total = self.totals[order][context]
        if not total:
            return lower
        kept = max(0.0, self.counts[order][*context, token] - DISCOUNT)
        return (kept + DISCOUNT * self.kinds[order][context] * lower) / total


def mixture(people: str, bots: str, into: Path) -> str:
    """A file with what people said to each other, once from each side, and what bots answered."""
    small_talk = shipped("chat.jsonl")[0][:N_SMALL_TALK]
    talks = [talk.turns for talk in conversations(bots)]
    talks += [
        turns
        for talk in conversations(people)
        for turns in (talk.turns, talk.turns[1:])
        if turns[1:]
    ]
    into.parent.mkdir(parents=True, exist_ok=True)
    lines = [*small_talk, *(json.dumps({"turns": turns}) for turns in talks)]
    into.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(into)


def baseline(
    bot: Chatbot, training: Iterable[Conversation], test: Sequence[Conversation]
) -> Perplexity:
    """What the n-grams of the same tokens make of the same words."""
    encoding = ChatTask(bot.config, bot.tokenizers).encoding
    model = Ngrams(encoding.encode(list(training))[0], bot.target.vocab_size)
    nats, n_judged = 0.0, 0
    for row, counts in zip(*encoding.encode(list(test)), strict=True):
        row, counts = [*row, bot.target.end], [*counts, counts[-1]]
        for place in (place for place, counted in enumerate(counts) if counted):
            nats -= log(
                model.probability(tuple(row[max(0, place - ORDER + 1) : place]), row[place])
            )
            n_judged += 1
    n_bytes = sum(len(turn.encode()) + 1 for talk in test for turn in talk.turns[1::2])
    return Perplexity(nats=nats, tokens=n_judged, bytes=n_bytes)


recipe = Recipe(__doc__, "dialogue", budget="10m")
people, bots = recipe.files(
    "dialogue/dailydialog.train.jsonl.gz", "dialogue/chatterbot-english.jsonl.gz"
)
validation = recipe.files("dialogue/dailydialog.val.jsonl.gz")
training = mixture(people, bots, recipe.into.with_name(recipe.into.name + "-data") / "train.jsonl")
recipe.train("chat", [training], validation)
recipe.run("evaluate", str(recipe.into), *validation)
bot = Chatbot.load(recipe.into)
found = baseline(bot, read_conversations(training), list(read_conversations(*validation)))
sys.stdout.write(f"{ORDER}-grams: {found}\n\n")
for opening in OPENINGS:
    bot.reset()
    sys.stdout.write(f"you  {opening}\nbot  {bot.reply(opening)}\n")
