from dataclasses import replace

import pytest

from clearhead.config import TokenizerConfig
from clearhead.text import Tokenizer

METHODS = ["bpe", "bytes", "unigram", "wordpiece", "words", "characters"]

SENTENCES = [
    "A man rides a red bike through the old town.",
    "Ein Mann fährt mit einem roten Fahrrad durch die alte Stadt.",
    "The children's dogs run over the grass; nobody minds.",
    "Größere Hunde laufen über die grüne Wiese – und niemanden stört es.",
    "Room 101 costs 45.50 euros,\tbreakfast included!\nReally?",
    "人们在公园里骑自行车。人们在公园里跑步。",
]
TEXTS = SENTENCES * 3


def learned(method: str, **settings) -> Tokenizer:
    return Tokenizer.learn(iter(TEXTS), TokenizerConfig(method=method, **settings))


@pytest.fixture(scope="session")
def tokenizers() -> dict[str, Tokenizer]:
    """One tokenizer of each method, with two language tags."""
    return {method: tagged(learned(method)) for method in METHODS}


def tagged(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer as older files may hold it: with tags of two languages."""
    return Tokenizer(replace(tokenizer.vocabulary, tags=("<2de>", "<2pt-BR>")))
