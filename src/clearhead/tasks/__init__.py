"""People's words → people's words: what a trained Transformer is used for."""

from pathlib import Path
from typing import Any

from clearhead.errors import FolderError
from clearhead.folder import RunFolder
from clearhead.tasks.chat import Chatbot, ChatTask, Reply
from clearhead.tasks.classification import Classification, ClassificationTask, Classifier
from clearhead.tasks.pretraining import Candidate, Filler, Filling, PretrainingTask
from clearhead.tasks.task import Task
from clearhead.tasks.translation import Translation, TranslationTask, Translator
from clearhead.tasks.writing import Continuation, Writer, WritingTask

TASKS: dict[str, type[Task]] = {
    "translation": TranslationTask,
    "chat": ChatTask,
    "classification": ClassificationTask,
    "writing": WritingTask,
    "pretraining": PretrainingTask,
}
USERS: dict[str, type[Translator | Chatbot | Classifier | Writer]] = {
    "translation": Translator,
    "chat": Chatbot,
    "classification": Classifier,
    "writing": Writer,
}
PRETRAINED = {
    "encoder": Filler,
    "decoder": Writer,
}
"""What a pre-trained model of each family can be used as."""


def load(path: str | Path, device: str = "cpu") -> Any:
    """What a run folder holds, ready to be used."""
    config = RunFolder.open(path).config()
    users: dict[str, Any] = PRETRAINED if config.task == "pretraining" else USERS
    use = config.model.family if config.task == "pretraining" else config.task
    if use not in users:
        raise FolderError(
            f"{path} was pre-trained to fill gaps in text, and has no use of its own.",
            f"Begin with it: clearhead train FILES --from {path} --into RUN",
        )
    return users[use].load(path, device=device)


__all__ = [
    "TASKS", "Candidate", "Chatbot", "Classification", "Classifier", "Continuation", "Filler", "Filling", "Reply",
    "Translation", "Translator", "Writer", "load",
]  # fmt: skip
