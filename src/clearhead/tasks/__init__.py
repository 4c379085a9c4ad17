"""People's words → people's words: what a trained Transformer is used for."""

from clearhead.tasks.chat import Chatbot, Reply
from clearhead.tasks.classification import Classification, Classifier
from clearhead.tasks.comparison import Comparison, compare
from clearhead.tasks.evaluation import Evaluation, evaluate
from clearhead.tasks.pretraining import Encoder, Filler, Filling, GapWord
from clearhead.tasks.runs import TASKS, Averaging, average, load
from clearhead.tasks.task import User
from clearhead.tasks.training import pretrain, train, watch
from clearhead.tasks.translation import Translation, Translator
from clearhead.tasks.writing import Continuation, Writer

__all__ = [
    "TASKS", "Averaging", "Chatbot", "Classification", "Classifier", "Comparison", "Continuation", "Encoder",
    "Evaluation", "Filler", "Filling", "GapWord", "Reply", "Translation", "Translator", "User", "Writer",
    "average", "compare", "evaluate", "load", "pretrain", "train", "watch",
]  # fmt: skip
