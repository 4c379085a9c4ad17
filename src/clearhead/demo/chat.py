"""A chatbot learns to make small talk, and to remember what it is told."""

import json
from collections.abc import Sequence
from typing import ClassVar

from clearhead.config import Given
from clearhead.demo.show import Show
from clearhead.tasks import Chatbot

OPENINGS = (
    "Hi how are you|i am good, and you?|My name is Nora|I live in Lisbon.|what is my name?|where "
    "do i live",
    "hello there|do you like penguins?|I am hungry|Maybe some noodles|what do I like to "
    "eat|thanks, bye",
)


class ChatShow(Show):
    task = "chat"
    suffixes = ("jsonl",)
    settings: ClassVar[Given] = {
        "model": {"n_decoder_layers": 3, "dropout": 0.0},
        "tokenizer": {"vocab_size": 1_000},
        "data": {"batch_tokens": 2_048},
        "train": {"max_steps": 480, "validate_every": 80, "label_smoothing": 0.0},
    }
    about = (
        "Small talk",
        "A small grammar makes {train:,} conversations: greetings, names, towns, food, hobbies, "
        "the weather. What the user tells comes back later. Some combinations of phrases and "
        "words are kept out of training.",
    )
    form = "one conversation a line"
    training = (
        "The model reads whole conversations, in which marks tell who speaks. It guesses every "
        "word of the bot from all that was said before, and is moved a little towards the right "
        "one; the user's words are only read. The loss is how wrong its guesses are."
    )
    limits = "It knows this small talk and nothing else; outside it, it guesses."
    asked = "Hi how are you"
    yours = "train YOURS.tsv --task chat --into runs/yours --budget 45m"

    def talks(self, part: str) -> list[list[str]]:
        return [json.loads(line)["turns"] for line in self.lines(part)]

    def print_examples(self) -> None:
        self.print_turns(next(turns for turns in self.talks("train") if 6 <= len(turns) <= 10))

    def print_turns(self, turns: Sequence[str]) -> None:
        self.print_lines(f"{'bot' if n % 2 else 'you'}  {text}" for n, text in enumerate(turns))

    def print_results(self) -> list[str]:
        bot, test = Chatbot.load(self.into), self.talks("test")
        self.say(
            "A talk with it",
            "You can say such things in other words; here is what it answers.",
        )
        for opening in OPENINGS:
            bot.reset()
            for text in opening.split("|"):
                bot.reply(text)
            self.print_turns(bot.turns)
        asked = [
            (turns[:place], turns[place])
            for turns in test
            for place in range(1, len(turns), 2)
            if turns[place].startswith(("Your name is", "You are from", "You like"))
        ]
        n_right = sum(bot.answer(turns, temperature=0.0).text == answer for turns, answer in asked)
        self.say(
            "How good it is",
            f"In {len(test):,} conversations that it never saw, it is asked {len(asked):,} times "
            f"for something that it was told turns before: {n_right:,} of its answers are right "
            "to the letter.",
        )
        self.say("", f"Over all it has to say there: {bot.perplexity(test)}.")
        return [
            f"chat {self.into}",
            f"chat {self.into} --temperature 1 --seed 7",
            f"evaluate {self.into} {self.file('test')}",
        ]
