"""Sentences with choices in them, out of which a grammar draws: "{Hi|Hello} <name>, {how are you|good to see you}!"."""

import re
from collections.abc import Mapping
from random import Random

CHOICE = re.compile(r"\{([^{}]*)\}")
SLOT = re.compile(r"<(\w+)>")


def drawn(template: str, slots: Mapping[str, str], random: Random) -> str:
    """One sentence of those that the template stands for: choices are made, the innermost first, and slots filled."""
    while CHOICE.search(template):
        template = CHOICE.sub(lambda found: random.choice(found[1].split("|")), template)
    return SLOT.sub(lambda found: slots[found[1]], template)
