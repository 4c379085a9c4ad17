"""People's words → people's words: what a trained Transformer is used for."""

from collections.abc import Callable
from pathlib import Path

from clearhead.errors import FolderError
from clearhead.folder import RunFolder
from clearhead.tasks.fit import Task
from clearhead.tasks.translation import TranslationTask
from clearhead.tasks.translator import Translation, Translator

TASKS: dict[str, Callable[[], Task]] = {
    "translation": TranslationTask,
}
USERS = {
    "translation": Translator,
}


def load(path: str | Path, device: str = "cpu") -> Translator:
    """What a run folder holds, ready to be used."""
    task = RunFolder.open(path).config().task
    if task not in USERS:
        raise FolderError(f"{path} holds a model for {task}, which this version cannot use.\nUse a newer clearhead.")
    return USERS[task].load(path, device=device)


__all__ = ["TASKS", "Translation", "Translator", "load"]
