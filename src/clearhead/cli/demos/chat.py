"""A chatbot learns to make small talk, and to remember what it is told."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.cli.demos.stage import say, suggested, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from clearhead.config import Config
    from clearhead.data.examples import Conversation
    from clearhead.tasks import Chatbot

N_TRAINING, N_VALIDATION, N_TEST = 12_000, 200, 400
TRAINING = (
    "The model reads whole conversations, in which marks tell who speaks. It guesses every word of the bot from all "
    "that was said before, and is moved a little towards the right one; the user's words are only read. The loss is "
    "how wrong its guesses are."
)
OPENINGS = (
    "Hi how are you|i am good, and you?|My name is Nora|I live in Lisbon.|what is my name?|where do i live",
    "hello there|do you like penguins?|I am hungry|Maybe some noodles|what do I like to eat|thanks, bye",
)


def settings(data: Path, into: Path) -> "Config":
    """A model that learns small talk in a minute or two without a GPU."""
    from clearhead.config import Config, DataConfig, ModelConfig, TokenizerConfig, TrainConfig

    seen = Path(os.path.relpath(data, into))
    return Config(
        model=ModelConfig.preset("tiny", n_decoder_layers=3, dropout=0.0),
        tokenizer=TokenizerConfig(vocab_size=1_000),
        data=DataConfig(
            files=(str(seen / "train.jsonl"),),
            validation_files=(str(seen / "valid.jsonl"),),
            batch_tokens=2_048,
        ),
        train=TrainConfig(max_steps=480, validate_every=80, label_smoothing=0.0),
    )


def prepared(console: "Console", data: Path) -> None:
    """Make the conversations to learn from, and show one of them."""
    from clearhead.tasks.smalltalk import conversations

    say(
        console,
        "Small talk",
        f"A small grammar makes {N_TRAINING:,} conversations: greetings, names, towns, food, hobbies, the weather. "
        f"What the user tells comes back later. Some combinations of phrases and words are kept out of training.",
    )
    talks = {
        "train": conversations(N_TRAINING),
        "valid": conversations(N_VALIDATION, seed=1, held_out=True),
        "test": conversations(N_TEST, seed=2, held_out=True),
    }
    lines = {
        f"{name}.jsonl": [json.dumps({"turns": each.turns}) for each in some]
        for name, some in talks.items()
    }
    written(data, lines)  # type: ignore[arg-type]
    told(console, next(each.turns for each in talks["train"] if 6 <= len(each.turns) <= 10))
    say(
        console,
        "",
        f"The files are in {data}, one conversation a line, as you would bring your own.",
    )


def shown(console: "Console", into: Path, data: Path) -> None:
    """Talk with it, test its memory, and tell what to type next."""
    from clearhead.tasks import Chatbot
    from clearhead.tasks.chat import read_conversations

    bot, test = Chatbot.load(into), list(read_conversations(data / "test.jsonl"))
    say(
        console,
        "A talk with it",
        "You can say such things in other words; here is what it answers.",
    )
    for opening in OPENINGS:
        bot.reset()
        for text in opening.split("|"):
            bot.reply(text)
        told(console, bot.turns)
    measured(console, bot, test)
    commands = [
        f"chat {into}",
        f"chat {into} --temperature 1 --seed 7",
        f"evaluate {into} {data / 'test.jsonl'}",
        f"info {into}",
        "train YOURS.tsv --task chat --into runs/yours --budget 45m",
    ]
    suggested(
        console, "It knows this small talk and nothing else; outside it, it guesses. Try:", commands
    )


def measured(console: "Console", bot: "Chatbot", test: "Sequence[Conversation]") -> None:
    """How often it still knows what it was told, in conversations that it never saw."""
    asked = [
        (turns[:place], turns[place])
        for turns in (each.turns for each in test)
        for place in range(1, len(turns), 2)
        if turns[place].startswith(("Your name is", "You are from", "You like"))
    ]
    n_right = sum(bot.answer(turns, temperature=0.0).text == answer for turns, answer in asked)
    say(
        console,
        "How good it is",
        f"In {len(test):,} conversations that it never saw, it is asked {len(asked):,} times for something that it was "
        f"told turns before: {n_right:,} of its answers are right to the letter.",
    )
    say(
        console, "", f"Over all it has to say there: {bot.perplexity(each.turns for each in test)}."
    )


def told(console: "Console", turns: "Sequence[str]") -> None:
    for number, text in enumerate(turns):
        console.print(f"  {'bot' if number % 2 else 'you'}  {text}", soft_wrap=True)
    console.print()
