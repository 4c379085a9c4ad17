"""The type checker that the import hook of conftest.py puts around every function of the torch rooms."""

from collections.abc import Callable
from typing import Any

from beartype import beartype
from beartype.roar import BeartypeDecorHintPep673Exception, BeartypeDecorHintPep3119Exception


def beartyped(function: Callable[..., Any]) -> Callable[..., Any]:
    """beartype; what it cannot check in a lone function passes: Self, and protocols not made for isinstance."""
    try:
        return beartype(function)
    except (BeartypeDecorHintPep673Exception, BeartypeDecorHintPep3119Exception):
        return function
