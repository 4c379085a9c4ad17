"""A classifier learns to tell praise from blame, also where "not" turns it round."""

from typing import ClassVar

from clearhead.config import Given
from clearhead.data.examples import labelled
from clearhead.demo.show import Show
from clearhead.tasks import Classifier
from clearhead.tasks.evaluation import evaluate_labels

TEXTS = [
    "I love this film.",
    "this is the worst movie ever",
    "The soup was lovely.",
    "The soup was not lovely.",
    "Nobody could call the film boring.",
    "The food was excellent, but the service was awful.",
    "I can't say that the hotel was bad.",
]


class ClassificationShow(Show):
    task = "classification"
    suffixes = ("tsv",)
    settings: ClassVar[Given] = {
        "model": {"n_encoder_layers": 2, "dropout": 0.0},
        "train": {
            "max_steps": 450,
            "validate_every": 75,
            "optimizer": "muon",
            "learning_rate": 4e-3,
            "word_dropout": 0.0,
            "label_smoothing": 0.02,
        },
    }
    about = (
        "Reviews",
        "A small grammar writes {train:,} reviews that are good, bad or mixed, some of them as "
        "people type. Words such as not, hardly and anything but turn a judgement round. Some "
        "pairs, of a thing and what is said about it, are kept out of training; "
        "{test:,} reviews with them are the test.",
    )
    form = "a label, a tab and a text on each line"
    training = (
        "The model reads a review, makes one vector of it and guesses the label from that; at "
        "each update it is moved a little towards the right ones. The loss is how wrong its "
        "guesses are; accuracy is the share of right ones."
    )
    limits = "It knows these words and no others; outside them, it guesses."
    asked = "The soup was not lovely."
    yours = "train YOURS.tsv --task classification --into runs/yours"

    def print_examples(self) -> None:
        rows = (line.split("\t") for line in self.lines("train")[:5])
        self.print_pairs([(text, label) for label, text in rows])

    def print_results(self) -> list[str]:
        classifier, test = Classifier.load(self.into), list(labelled(self.file("test")))
        self.say("Texts of your own", "It says how sure it is, and the sureness is calibrated.")
        found = classifier.classify(TEXTS)
        self.print_pairs([(one.text, f"{one} ({one.probability:.0%})") for one in found])
        self.say(
            "How good it is",
            f"On {len(test):,} reviews with pairs of words that it never saw together:",
        )
        self.print_lines(str(evaluate_labels(classifier, test)).split("\n"))
        return [
            f'classify {self.into} "{TEXTS[0]}" --probabilities',
            f"classify {self.into}",
            f"evaluate {self.into} {self.file('test')}",
        ]
