"""Four shows, each of a model that learns from nothing, and the text that they are trained on."""

from clearhead.demo.four import ChatShow, ClassificationShow, TranslationShow, WritingShow
from clearhead.demo.show import Show

SHOWS: dict[str, type[Show]] = {
    "translation": TranslationShow,
    "chat": ChatShow,
    "classification": ClassificationShow,
    "writing": WritingShow,
}
