"""Which tasks there are, and what a run folder of each can be used as."""

from pathlib import Path

from clearhead.errors import FolderError
from clearhead.folder import RunFolder
from clearhead.tasks.chat import Chatbot, ChatTask
from clearhead.tasks.classification import ClassificationTask, Classifier
from clearhead.tasks.pretraining import Filler, PretrainingTask
from clearhead.tasks.task import Task
from clearhead.tasks.translation import TranslationTask, Translator
from clearhead.tasks.user import User
from clearhead.tasks.writing import Writer, WritingTask

TASKS: dict[str, type[Task]] = {
    "translation": TranslationTask,
    "chat": ChatTask,
    "classification": ClassificationTask,
    "writing": WritingTask,
    "pretraining": PretrainingTask,
}
USERS: dict[str, type[User]] = {
    "translation": Translator,
    "chat": Chatbot,
    "classification": Classifier,
    "writing": Writer,
}
PRETRAINED: dict[str, type[User]] = {
    "encoder": Filler,
    "decoder": Writer,
}
"""What a pre-trained model of each family can be used as."""


def load(path: str | Path, device: str = "cpu") -> User:
    """The Translator, Chatbot, Classifier, Writer or Filler in a run folder."""
    config = RunFolder.open(path).config()
    users = PRETRAINED if config.task == "pretraining" else USERS
    use = config.model.family if config.task == "pretraining" else config.task
    if use not in users:
        raise FolderError(
            f"{path} was pre-trained to fill gaps in text, and has no use of its own.",
            f"Begin with it: clearhead train FILES --from {path} --into RUN",
        )
    return users[use].load(path, device=device)
