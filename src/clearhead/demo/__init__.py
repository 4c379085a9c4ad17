"""Four shows, each of a model that learns from nothing, and the text that they are trained on."""

from clearhead.demo.chat import ChatShow
from clearhead.demo.classification import ClassificationShow
from clearhead.demo.show import Show
from clearhead.demo.translation import TranslationShow
from clearhead.demo.writing import WritingShow

SHOWS: dict[str, type[Show]] = {
    "translation": TranslationShow,
    "chat": ChatShow,
    "classification": ClassificationShow,
    "writing": WritingShow,
}
