"""The Transformer of "Attention Is All You Need": train it, use it, see every step it takes."""

import sys
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":
    raise ImportError("clearhead runs on Linux and macOS; on Windows, install it inside WSL.")

if TYPE_CHECKING:
    from clearhead.tasks import (
        Chatbot,
        Classification,
        Classifier,
        Comparison,
        Continuation,
        Encoder,
        Evaluation,
        Filler,
        Filling,
        Reply,
        Translation,
        Translator,
        User,
        Writer,
        compare,
        evaluate,
        load,
        pretrain,
        train,
        watch,
    )

__version__ = "0.1.0"
__all__ = [
    "Chatbot", "Classification", "Classifier", "Comparison", "Continuation", "Encoder", "Evaluation", "Filler",
    "Filling", "Reply", "Translation", "Translator", "User", "Writer", "__version__", "compare",
    "evaluate", "load", "pretrain", "train", "watch",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Public names are found when they are first used, so that `import clearhead` is instant."""
    if name not in __all__:
        raise AttributeError(f"clearhead has no {name}; it has: {', '.join(__all__)}")
    from clearhead import tasks

    return getattr(tasks, name)


def __dir__() -> list[str]:
    """What completion in a notebook offers."""
    return [*__all__]
