"""A process that decodes with CTranslate2: one line of JSON asks, one answers, and no more ends it.

It is a program of its own that imports nothing of clearhead and no torch: two OpenMP runtimes in
one process have waited for each other for ever elsewhere, and so it starts in a fraction of a
second. One thread computes; several such processes share the sentences.
"""

import json
import math
import signal
import sys
from pathlib import Path
from typing import Any

Ids = list[int]
Output = tuple[Ids, list[float]]
"""Tokens, the end token included where there is one; the log-probability of each, or their sum."""
UNKNOWN = [math.nan]
"""The score of an output that nobody asked to be scored."""


class Decoder:
    """The model in a folder, for tokens by their ids: a translator, or a writer without encoder."""

    def __init__(self, folder: Path, precision: str) -> None:
        import ctranslate2

        self.writes_on = (folder / "vocabulary.json").exists()
        kind = ctranslate2.Generator if self.writes_on else ctranslate2.Translator
        # What this processor cannot multiply is not rounded once more, but computed in float32.
        is_native = precision in ctranslate2.get_supported_compute_types("cpu")
        compute = precision if is_native else "float32"
        self.engine = kind(str(folder), compute_type=compute, inter_threads=1, intra_threads=1)
        self.source, self.target = (
            next(
                tokens_in(file)
                for name in (side, "shared_", "")
                for ending in ("json", "txt")
                if (file := folder / f"{name}vocabulary.{ending}").exists()
            )
            for side in ("source_", "target_")
        )
        self.ids = {token: number for number, token in enumerate(self.target)}

    def decode(self, asked: dict[str, Any]) -> list[list[Output]]:
        """The finished hypotheses of each source, or where it is greedy the one that there is."""
        is_greedy = asked["beam"] == 1 and not self.writes_on
        if is_greedy and asked["scored"]:
            return self.greedy(asked)
        n = asked["n_hypotheses"]
        options = {
            "beam_size": asked["beam"],
            "patience": n / asked["beam"],
            "num_hypotheses": n,
            "length_penalty": 1,
            "no_repeat_ngram_size": asked["no_repeat"],
            "return_scores": not is_greedy,
            "return_end_token": True,
            "end_token": [asked["end"]],
        }
        if self.writes_on:
            limits = {"min_length": 0, "max_length": asked["limit"]}
            found = self.engine.generate_batch(
                self.tokens(asked["sources"]), include_prompt_in_result=False, **limits, **options
            )
            outputs = [zip(each.sequences, each.scores, strict=True) for each in found]
        else:
            found = self.engine.translate_batch(
                self.tokens(asked["sources"]), **self.lengths(asked), **options
            )
            outputs = [zip(each.hypotheses, each.scores or UNKNOWN, strict=True) for each in found]
        return [[(self.by_id(text), [mean * len(text)]) for text, mean in each] for each in outputs]

    def greedy(self, asked: dict[str, Any]) -> list[list[Output]]:
        """The tokens as they are decided, each with its log-probability."""
        outputs: list[Output] = [([], []) for _ in asked["sources"]]

        def note(step: Any) -> bool:
            ids, log_probs = outputs[step.batch_id]
            ids.append(step.token_id)
            log_probs.append(step.log_prob)
            return False

        self.engine.translate_batch(
            self.tokens(asked["sources"]),
            beam_size=1,
            return_scores=True,
            end_token=[asked["end"]],
            callback=note,
            **self.lengths(asked),
        )
        return [[output] for output in outputs]

    def score(self, asked: dict[str, Any]) -> list[list[float]]:
        """The log-probability of each token of given outputs, teacher-forced."""
        sources, targets = asked["sources"], asked["targets"]
        if self.writes_on:
            whole = [source + target for source, target in zip(sources, targets, strict=True)]
            found = self.engine.score_batch(self.tokens(whole), max_input_length=0)
        else:
            # It puts an end after each by itself.
            tokens = [[self.target[token] for token in target[:-1]] for target in targets]
            found = self.engine.score_batch(self.tokens(sources), tokens, max_input_length=0)
        return [each.log_probs for each in found]

    def tokens(self, rows: list[Ids]) -> list[list[str]]:
        return [[self.source[token] for token in row] for row in rows]

    def by_id(self, tokens: list[str]) -> Ids:
        return [self.ids[token] for token in tokens]

    @staticmethod
    def lengths(asked: dict[str, Any]) -> dict[str, int]:
        return {
            "max_input_length": 0,
            "min_decoding_length": 0,
            "max_decoding_length": asked["limit"],
        }


def tokens_in(file: Path) -> list[str]:
    """The tokens by their ids; earlier versions wrote one a line."""
    text = file.read_bytes().decode()
    is_list = file.suffix == ".json"
    found: list[str] = json.loads(text) if is_list else text.removesuffix("\n").split("\n")
    return found


def answer_questions(folder: str, precision: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this one
    sys.modules["torch"] = None  # type: ignore[assignment]
    decoder = Decoder(Path(folder), precision)
    verbs = {"decode": decoder.decode, "score": decoder.score}
    for line in sys.stdin:
        asked = json.loads(line)
        sys.stdout.write(json.dumps(verbs[asked["verb"]](asked)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    answer_questions(*sys.argv[1:])
