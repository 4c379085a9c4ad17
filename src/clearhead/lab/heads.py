"""What each head of a trained translator does, by measured habits, and what silencing it costs."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.data.examples import pairs
from clearhead.errors import ConfigError
from clearhead.lab.figures import COLOURS, INK
from clearhead.lab.notebook import Experiment, Findings, Notebook, Row
from clearhead.look.labelled import patterns
from clearhead.look.words import Token
from clearhead.model import Transformer
from clearhead.tasks import Translator, load
from clearhead.tasks.evaluation import head_weights, loss_and_bleu, silenced

HABITS = ("previous", "next", "same", "position", "separator", "alignment")
"""In self-attention: the token before, after, the same one again, the same place in every sentence,
the end or a sign of punctuation; in cross-attention: the word that a lexicon links."""
ROUNDS = 5
"""Rounds of expectation and maximisation for the lexicon."""
CLEAR = 0.15
"""How much more than even attention a head must give a habit to be named after it."""
FAVOUR = 4 / 3
"""By how much a habit counts for more than a place: a head that looks at the word before always
looks at the same place, too."""
Example = tuple[Sequence[Token], Sequence[Token]]
"""The tokens that the encoder reads, and those that the decoder predicts, each with its end."""
Lexicon = Mapping[str, Mapping[str, float]]
"""For each source token, how likely it is to be said as each target token."""
BEGINNING = Token(id=-1, text="", word=None, special=True)
"""Stands for the start token, which a decoder reads first."""


@dataclass(frozen=True, kw_only=True)
class Heads(Experiment):
    title = "Heads: what each one does, and what it is worth"
    takes = "RUN TEST"
    n_files = range(2, 4)
    quick: ClassVar[Mapping[str, Any]] = {"watched": 40, "translated": 40}

    watched: int = 200
    """Sentences on which attention is measured."""
    translated: int = 300
    """Sentences that are translated without each head."""

    def run(self, notebook: Notebook, files: Sequence[Path]) -> Findings:
        run, *test = files
        translator = load(run)
        if not isinstance(translator, Translator) or not isinstance(translator.model, Transformer):
            raise ConfigError(
                f"{run} is no Transformer that translates, and has no heads to compare.",
                "Train one with: clearhead train SOURCE TARGET --into RUN",
            )
        examples = [(pair.source, pair.target) for pair in pairs(*test)]
        habits = self.habits(notebook, translator, examples[: self.watched])
        names = {row["head"]: name_of_head(row) for row in habits}
        whole, *without = self.costs(notebook, translator, examples[: self.translated])
        self.draw(notebook, names, whole, without)
        return self.findings(names, whole, without)

    def habits(
        self, notebook: Notebook, translator: Translator, examples: Sequence[tuple[str, str]]
    ) -> list[Row]:
        """How much more than even attention each head gives to each habit, the mean over rows."""
        if found := notebook.rows("habits"):
            return found
        looks = []
        for number, (source, target) in enumerate(examples):
            notebook.progress("watching heads: sentence", number, len(examples))
            looks.append(translator.look(source, target))
        watched = [(look.source, look.predicted) for look in looks]
        links, means = lexicon(watched), mean_patterns([look.seen for look in looks])
        sums: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(HABITS, 0.0))
        for look, example in zip(looks, watched, strict=True):
            for path, weights in patterns(look.seen).items():
                for habit, wanted in habits_of(path, example, links, means[path]).items():
                    heads = zip(weights, wanted.expand_as(weights), strict=True)
                    for head, (pattern, wanted_of_head) in enumerate(heads):
                        gained = excess(pattern, wanted_of_head) / len(looks)
                        sums[f"{path}.{head}"][habit] += gained
        rows = [{"head": head, **found} for head, found in sums.items()]
        notebook.write_rows("habits", rows)
        return rows

    def costs(
        self, notebook: Notebook, translator: Translator, examples: Sequence[tuple[str, str]]
    ) -> list[Row]:
        """Loss and BLEU as the model is, and without each head."""
        model = deepcopy(translator.models[0])
        muted = Translator([model], translator.tokenizers, translator.config)
        heads = {"none": torch.zeros(0), **head_weights(model)}

        def cost(point: Row) -> dict[str, float]:
            with silenced(heads[point["head"]]):
                loss, bleu = loss_and_bleu(muted, examples)
            return {"loss": loss, "bleu": bleu}

        return notebook.measured("costs", [{"head": head} for head in heads], cost)

    def draw(
        self, notebook: Notebook, names: Mapping[str, str], whole: Row, without: list[Row]
    ) -> None:
        with notebook.picture(
            "heads",
            "Each head: its clearest habit, and how much the loss rises without it",
            (7.5, 1 + 0.19 * len(without)),
        ) as figure:
            axes = figure.add_subplot()
            rises = [row["loss"] - whole["loss"] for row in without]
            axes.barh(range(len(without)), rises, color=COLOURS["transformer"], height=0.7)
            axes.set_yticks(range(len(without)), [row["head"] for row in without], fontsize=8)
            for place, (row, rise) in enumerate(zip(without, rises, strict=True)):
                axes.annotate(
                    names[row["head"]],
                    (max(rise, 0), place),
                    xytext=(4, 0),
                    textcoords="offset points",
                    fontsize=8,
                    va="center",
                )
            axes.axvline(0, color=INK, linewidth=0.8)
            axes.invert_yaxis()
            axes.margins(x=0.25, y=0.02)
            axes.set_xlabel("rise of the loss without the head (nats per token)")

    def findings(self, names: Mapping[str, str], whole: Row, without: list[Row]) -> Findings:
        by_cost = sorted(without, key=lambda row: whole["loss"] - row["loss"])
        table = [
            (
                row["head"],
                names[row["head"]],
                f"{row['loss'] - whole['loss']:+.3f}",
                f"{row['bleu'] - whole['bleu']:+.1f}",
            )
            for row in by_cost
        ]
        counted = Counter(name.split(" ")[0] for name in names.values()).most_common()
        dearest, idle = by_cost[0], [row for row in without if row["bleu"] >= whole["bleu"] - 0.3]
        said = (
            f"As it is, the model has a loss of {whole['loss']:.3f} and BLEU {whole['bleu']:.1f}.",
            f"Dearest is {dearest['head']} ({names[dearest['head']]}): without it the loss rises by "
            f"{dearest['loss'] - whole['loss']:.3f} and BLEU falls to {dearest['bleu']:.1f}.",
            f"{len(idle)} of {len(without)} heads can be silenced one at a time at a cost of less "
            "than 0.3 BLEU: not every head is needed, as others have found before.",
            f"Habits: {', '.join(f'{name} {count}' for name, count in counted)}. "
            "A number is the share of attention given to the habit beyond what even attention "
            f"would give; below {CLEAR} a head is called mixed.",
        )
        return Findings(said=said, table=(("head", "habit", "loss", "BLEU"), *table))


def name_of_head(row: Row) -> str:
    """The clearest habit; a place is named only where nothing explains it about as well."""
    scores = {habit: float(row[habit]) * (FAVOUR if habit != "position" else 1) for habit in HABITS}
    best = max(scores, key=lambda habit: scores[habit])
    return f"{best} {row[best]:.2f}" if row[best] >= CLEAR else "mixed"


def excess(pattern: Float[Tensor, "T S"], wanted: Float[Tensor, "T S"]) -> float:
    """Attention to what is wanted, beyond that of looking evenly at all that may be looked at.

    Rows in which nothing is wanted do not count.
    """
    rows = wanted.sum(dim=1) > 0
    if not rows.any():
        return 0.0
    allowed = (pattern > 0).float()
    even = allowed / allowed.sum(dim=1, keepdim=True)
    return float(((pattern - even) * wanted).sum(dim=1)[rows].mean())


def habits_of(
    path: str, example: Example, links: Lexicon, mean: Float[Tensor, "H T S"]
) -> dict[str, Float[Tensor, "..."]]:
    """For each habit that an attention can have, 1 where a head with it would look.

    A place is each head's own; for all other habits there is one matrix for all heads.
    """
    source, predicted = example
    crosses, encodes = ".cross" in path, path.startswith("encoder")
    read = source if crosses or encodes else [BEGINNING, *predicted[:-1]]
    n_rows = len(source if encodes else predicted)
    habits = {
        "position": strongest(mean[:, :n_rows, : len(read)]),
        "separator": torch.tensor([is_separator(token) for token in read])
        .float()
        .expand(n_rows, -1),
    }
    if crosses:
        return {**habits, "alignment": linked(source, predicted, links)}
    ids = torch.tensor([token.id for token in read])
    return {
        **habits,
        "previous": torch.eye(n_rows).roll(1, dims=0).tril(),
        "next": torch.eye(n_rows).roll(-1, dims=0).triu(),
        "same": (ids[:, None] == ids).float(),
    }


def strongest(mean: Float[Tensor, "... T S"]) -> Float[Tensor, "... T S"]:
    """1 at the place that each row looks at most, else 0."""
    return torch.zeros_like(mean).scatter_(-1, mean.argmax(dim=-1, keepdim=True), 1.0)


def is_separator(token: Token) -> bool:
    return token.special or not any(character.isalnum() for character in token.text)


def mean_patterns(seen: Sequence[Mapping[str, Tensor]]) -> dict[str, Float[Tensor, "H T S"]]:
    """Attention by place alone: the mean over all sentences that have the place."""
    sums: dict[str, Tensor] = {}
    for path in patterns(seen[0]):
        every = [tensors[f"{path}.pattern"] for tensors in seen]
        shape = [max(each.size(axis) for each in every) for axis in range(3)]
        total, count = torch.zeros(shape), torch.zeros(shape)
        for each in every:
            place = tuple(slice(size) for size in each.shape)
            total[place] += each
            count[place] += 1
        sums[path] = total / count.clamp_min(1)
    return sums


def lexicon(examples: Sequence[Example]) -> Lexicon:
    """How likely a source token is to be said as each target token (IBM Model 1, by EM)."""
    pairs = [(words_of(source), words_of(target)) for source, target in examples]
    chances: Lexicon = defaultdict(lambda: defaultdict(lambda: 1.0))
    for _ in range(ROUNDS):
        counts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for source, target in pairs:
            for said in target:
                total = sum(chances[word][said] for word in source) or 1.0
                for word in source:
                    counts[word][said] += chances[word][said] / total
        sums = {word: sum(row.values()) for word, row in counts.items()}
        chances = {
            word: {said: n / sums[word] for said, n in row.items()} for word, row in counts.items()
        }
    return chances


def words_of(tokens: Sequence[Token]) -> list[str]:
    return [token.text for token in tokens if not token.special]


def linked(
    source: Sequence[Token], predicted: Sequence[Token], links: Lexicon
) -> Float[Tensor, "T S"]:
    """1 where a target token meets the source token that the lexicon links it with."""
    chances = [{} if token.special else links.get(token.text, {}) for token in source]
    table = torch.tensor([[own.get(said.text, 0.0) for own in chances] for said in predicted])
    return strongest(table) * (table > 0)
