"""How good a run is on a test set, by the measures of its task, and what each head adds to it."""

import itertools
import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clearhead import metrics
from clearhead.config import DecodeConfig
from clearhead.data.examples import LabelledText, Pair, labelled, pairs, running_text
from clearhead.decode import Alone
from clearhead.errors import ConfigError, DataError, shown
from clearhead.look.labelled import cut_label
from clearhead.model import Model
from clearhead.model.attention import Attention
from clearhead.model.recurrent import SourceAttention
from clearhead.tasks.chat import Chatbot, read_conversations
from clearhead.tasks.classification import Classifier, chosen_labels, probabilities
from clearhead.tasks.runs import MANY, even_chunks, in_workers, load
from clearhead.tasks.task import Perplexity, User
from clearhead.tasks.translation import Translation, Translator
from clearhead.tasks.writing import Writer

MOST_COLUMNS = 12
"""Labels up to which all confusions are drawn; beyond, only the most frequent ones are told."""
N_CONFUSED = 12
short = partial(cut_label, widest=32)
LENGTHS = (0, 6, 11, 16, 21, 31, 51)
"""Where classes of lengths begin, in words of the source."""
Confusions = Mapping[tuple[Hashable, Hashable], int]
"""How often each (right, said) pair of labels occurs."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a run reaches on a test set; `str()` is what people read."""

    scores: Mapping[str, Any]
    """By name, for programs."""
    text: str
    lines: tuple[str, ...] = ()
    """What the model wrote for each example, or its labels, where there is such a thing."""

    def __str__(self) -> str:
        return self.text


def evaluate(
    run: str | Path | User,
    files: Sequence[str | Path],
    decode: DecodeConfig | None = None,
    *,
    columns: Sequence[str] = (),
    n_worst: int = 0,
    n_workers: int = 1,
    **options: Any,
) -> Evaluation:
    """Measure a run on a test set in the form that it was trained on.

    Translations are scored by BLEU, chrF and TER, also by length and by confidence, and `n_worst`
    of them can be shown; labels are scored by accuracy, F1 and calibration error, writers
    and chatbots by perplexity. The settings of decoding, or single ones as options, are for
    translations. Of tables, the columns are read that are named, or that the run was trained on.
    With several workers, many texts are translated in processes of one thread each.
    """
    user = run if isinstance(run, User) else load(run)
    columns = columns or user.config.data.columns
    if isinstance(user, Translator):
        examples = list(pairs(*files, columns=columns))
        asked = user.asked(decode, options)
        return evaluate_translations(user, examples, asked, n_worst, n_workers=n_workers)
    if n_worst:
        raise ConfigError("The worst are shown of translations only.", "Leave --worst out.")
    if decode is not None or options:
        raise ConfigError(
            "The settings of decoding change how text is written, and this test writes none.",
            "Leave them out.",
        )
    if isinstance(user, Classifier):
        return evaluate_labels(user, list(labelled(*files, columns=columns)))
    found = perplexity_of(user, files, columns)
    names = "perplexity", "nats_per_token", "bits_per_byte", "tokens", "bytes"
    return Evaluation(scores={name: getattr(found, name) for name in names}, text=str(found))


def perplexity_of(user: User, files: Sequence[str | Path], columns: Sequence[str]) -> Perplexity:
    if isinstance(user, Chatbot):
        talks = read_conversations(*files, columns=columns)
        return user.perplexity(each.turns for each in talks)
    if isinstance(user, Writer):
        return user.perplexity(running_text(*files, columns=columns))
    raise ConfigError(
        f"{user.name} is a {user.config.task} run, and there is no test for it.",
        "Fine-tune it for a task first.",
    )


def evaluate_translations(
    translator: Translator,
    examples: Sequence[Pair],
    decode: DecodeConfig,
    n_worst: int = 0,
    *,
    n_workers: int = 1,
) -> Evaluation:
    """BLEU, chrF and TER with their signatures, by length and by confidence; speed; guard hits."""
    begin = time.perf_counter()
    found = all_translations(translator, [pair.source for pair in examples], decode, n_workers)
    seconds = time.perf_counter() - begin
    texts = [one.text.replace("\n", " ") for one in found]
    references = [pair.target for pair in examples]
    scores = [score(texts, references) for score in (metrics.bleu, metrics.chrf, metrics.ter)]
    n_tokens = sum(len(one.tokens) + 1 for one in found)
    n_hits = sum(bool(one.notes) for one in found)
    speed = (
        f"{len(found):,} sentences in {seconds:.1f} s: {len(found) / seconds:,.0f} sentences/s, "
        f"{n_tokens / seconds:,.0f} tokens/s; guard hits: {n_hits}"
    )
    rows = zip(examples, texts, metrics.sentence_chrf(texts, references), found, strict=True)
    judged = [Judged(*pair, text, chrf, confidence(one)) for pair, text, chrf, one in rows]
    lengths, quarters = scores_by_length(judged), scores_by_confidence(judged)
    worst = sorted(judged, key=lambda one: one.chrF2)[:n_worst]
    parts = [*map(str, scores), speed, "", *lengths_table(lengths), "", *confidence_table(quarters)]
    return Evaluation(
        scores={
            **by_name(scores),
            "sentences": len(found),
            "seconds": seconds,
            "tokens_per_second": n_tokens / seconds,
            "guard_hits": n_hits,
            "by_length": lengths,
            "by_confidence": quarters,
            "worst": [vars(one) for one in worst],
        },
        text="\n".join([*parts, *(f"\n{one}" for one in worst)]),
        lines=tuple(texts),
    )


def all_translations(
    translator: Translator, texts: list[str], decode: DecodeConfig, n_workers: int
) -> list[Translation]:
    """The translations of all texts; where they are many, by worker processes.

    Beside another busy program, the threads of one process wait for each other; processes do not.
    """
    is_long = len(texts) * decode.beam > MANY  # else starting them would take longer
    is_own = isinstance(translator.searching, Alone)
    if n_workers == 1 or not (is_long and is_own and translator.origin):
        return translator.translate(texts, decode=decode)
    chunks = even_chunks(texts, n_workers)
    return list(in_workers(**translator.origin, chunks=chunks, n_workers=n_workers, decode=decode))


@dataclass(frozen=True)
class Judged:
    """A translation beside its reference: how good it is, and how sure the model was."""

    source: str
    reference: str
    output: str
    chrF2: float  # noqa: N815  # the name of the score
    confidence: float

    def __str__(self) -> str:
        return (
            f"chrF2 {self.chrF2:.1f}, confidence {self.confidence:.0%}\n"
            f"  source     {self.source}\n"
            f"  reference  {self.reference}\n"
            f"  output     {self.output}"
        )


def confidence(translation: Translation) -> float:
    """The geometric mean of the probabilities of the output's tokens, its end included."""
    n = len(translation.log_probs)
    return math.exp(sum(translation.log_probs) / n) if n else 1.0


def scores_by_length(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """BLEU and chrF of the sources with so many words; classes without sentences are left out."""
    rows = []
    for least, beyond in itertools.pairwise((*LENGTHS, math.inf)):
        some = [one for one in judged if least <= len(one.source.split()) < beyond]
        if some:
            sides = [one.output for one in some], [one.reference for one in some]
            rows.append(
                {
                    "words": f"{least}-{beyond - 1}" if beyond < math.inf else f"{least}+",
                    "sentences": len(some),
                    "BLEU": metrics.bleu(*sides).value,
                    "chrF2": metrics.chrf(*sides).value,
                }
            )
    return rows


def lengths_table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "words of the source   sentences    BLEU   chrF2"
    for row in rows:
        yield (
            f"{row['words']:>19}   {row['sentences']:>9,}  {row['BLEU']:6.1f}  {row['chrF2']:6.1f}"
        )


def scores_by_confidence(judged: Sequence[Judged]) -> dict[str, Any]:
    """Mean chrF2 of each quarter of the outputs, from the least confident to the most confident.

    The rank correlation says whether a low confidence means a bad translation.
    """
    ordered = sorted(judged, key=lambda one: one.confidence)
    quarters = [
        {
            "confidence": [some[0].confidence, some[-1].confidence],
            "sentences": len(some),
            "chrF2": sum(one.chrF2 for one in some) / len(some),
        }
        for quarter in range(4)
        if (some := ordered[len(ordered) * quarter // 4 : len(ordered) * (quarter + 1) // 4])
    ]
    found = metrics.spearman(
        np.array([one.confidence for one in judged]), np.array([one.chrF2 for one in judged])
    )
    return {"quarters": quarters, "rank_correlation": None if math.isnan(found) else found}


def confidence_table(found: Mapping[str, Any]) -> Iterator[str]:
    yield "confidence of the model   sentences   mean chrF2"
    for row in found["quarters"]:
        low, high = row["confidence"]
        span = f"{low:.0%} to {high:.0%}"
        yield f"{span:>23}   {row['sentences']:>9,}   {row['chrF2']:10.1f}"
    if found["rank_correlation"] is not None:
        yield f"rank correlation of confidence and chrF2: {found['rank_correlation']:.2f}"


def evaluate_labels(classifier: Classifier, examples: Sequence[LabelledText]) -> Evaluation:
    """Accuracy, F1, confusions, and calibration before and after temperature scaling."""
    refuse_unknown_labels(classifier.labels, examples)
    several, temperature = classifier.config.labels.several, classifier.config.labels.temperature
    rows = classifier.tokenizer.encode_batch([example.text for example in examples])
    logits = classifier.scores([row[: classifier.limit] for row in rows])
    right = [example.labels for example in examples]
    found = [
        tuple(classifier.labels[number] for number in each)
        for each in chosen_labels(logits, several)
    ]
    labels = {str(label): score for label, score in metrics.per_label(found, right).items()}
    scores = [metrics.accuracy([*map(frozenset, found)], [*map(frozenset, right)])]
    confused: Confusions = {}
    if several:
        scores = [replace(scores[0], name="all labels right"), metrics.micro_f1(found, right)]
    else:
        confused = metrics.confusion([each[0] for each in found], [each[0] for each in right])
    scores.append(metrics.mean_f1(labels))
    for name, factor in (("calibration error before", 1.0), ("after", temperature)):
        error = metrics.calibration_error(*confidences(classifier, logits / factor, right))
        scores.append(replace(error, name=name))
    head = " · ".join(f"{score.name} {score.value:.1f}" for score in scores)
    text = "\n".join([f"{head} · {len(examples):,} texts", "", *labels_table(labels)])
    if confused:
        text += "\n\n" + "\n".join(
            confusion_matrix(tuple(labels), confused)
            if len(labels) <= MOST_COLUMNS
            else mistakes(confused)
        )
    return Evaluation(
        scores={
            **by_name(scores),
            "texts": len(examples),
            "labels": {label: vars(score) for label, score in labels.items()},
            "confusion": [[*pair, count] for pair, count in confused.items()],
        },
        text=text,
        lines=tuple(map(",".join, found)),
    )


def by_name(scores: Sequence[metrics.Score]) -> dict[str, Any]:
    return {one.name: {"value": one.value, "signature": one.signature} for one in scores}


def labels_table(labels: Mapping[str, metrics.ClassScore]) -> Iterator[str]:
    width = max(map(len, map(short, ["label", *labels])))
    yield f"{'label':<{width}}  precision  recall     F1   texts"
    for label, score in labels.items():
        yield (
            f"{short(label):<{width}}  {score.precision:9.1f}  {score.recall:6.1f}  "
            f"{score.f1:5.1f}  {score.count:6,}"
        )


def confusion_matrix(labels: Sequence[str], confused: Confusions) -> Iterator[str]:
    """The confusion matrix: a row for each right label, a column for each that was said."""
    names = dict(zip(labels, ascii_lowercase, strict=False))
    width = max(map(len, map(short, names)))
    cell = max(4, *(len(f"{count:,}") + 1 for count in confused.values()))
    yield "right ↓  said →".ljust(width + 3) + "".join(f"{name:>{cell}}" for name in names.values())
    for right, letter in names.items():
        counts = (confused.get((right, other), 0) for other in names)
        row = "".join(f"{f'{count:,}' if count else '·':>{cell}}" for count in counts)
        yield f"{letter}  {short(right):<{width}}".ljust(15) + row


def mistakes(confused: Confusions) -> Iterator[str]:
    wrong = {pair: count for pair, count in confused.items() if pair[0] != pair[1]}
    yield "most often confused:" if wrong else "nothing was confused"
    for pair in sorted(wrong, key=lambda pair: (-wrong[pair], str(pair)))[:N_CONFUSED]:
        yield f"{wrong[pair]:4,} × {short(str(pair[0]))} taken for {short(str(pair[1]))}"


def confidences(
    classifier: Classifier, scores: torch.Tensor, right: Sequence[tuple[str, ...]]
) -> tuple[list[float], list[bool]]:
    """The probability of each label said, or of every yes or no, and whether it is right."""
    several = classifier.config.labels.several
    truth = torch.tensor([[name in labels for name in classifier.labels] for labels in right])
    found = probabilities(scores, several)
    if several:
        return found.flatten().tolist(), truth.flatten().tolist()
    best = found.max(dim=1)
    return best.values.tolist(), truth.gather(1, best.indices[:, None])[:, 0].tolist()


def refuse_unknown_labels(names: Sequence[str], examples: Sequence[LabelledText]) -> None:
    """Refuse labels that the classifier has never seen: no score would mean anything."""
    for number, example in enumerate(examples, 1):
        for label in example.labels:
            if label not in names:
                raise DataError(
                    f"Example {number:,} has the label {shown(label)}, which the classifier "
                    f"has not learned.",
                    f"It knows: {shown(', '.join(names))}.",
                )


@dataclass(frozen=True, kw_only=True)
class HeadMap:
    """The change that silencing each head makes, by its path: `decoder.1.cross.3`."""

    loss: float
    """Of the model as it is, in nats for each token of the references."""
    bleu: float
    changes: Mapping[str, tuple[float, float]]
    """How much the loss rises, and how much BLEU changes."""

    def __str__(self) -> str:
        parts: dict[str, list[str]] = {}
        for path, (loss, bleu) in self.changes.items():
            parts.setdefault(path.rpartition(".")[0], []).append(f"{loss:+.3f} {bleu:+6.1f}")
        as_it_is = f"as it is: loss {self.loss:.4f}, BLEU {self.bleu:.1f}; "
        lines = [f"{part.ljust(16)}  {'   '.join(cells)}" for part, cells in parts.items()]
        n_heads = max(map(len, parts.values()))
        heads = "   ".join(f"head {head}".ljust(13) for head in range(n_heads))
        both = "   ".join(["  loss   BLEU"] * n_heads)
        head = [f"{' ' * 18}{heads}".rstrip(), f"{' ' * 18}{both}"]
        return "\n".join([f"{as_it_is}change of both without each head:", *head, *lines])


@torch.no_grad()
def ablate_heads(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    progress: Callable[[int, int], None] = lambda *_: None,
) -> HeadMap:
    """Each head silenced in turn (ablation), and what that does to loss and BLEU."""
    model = deepcopy(translator.models[0])
    muted = type(translator)([model], translator.tokenizers, translator.config)
    (loss, bleu), changes = loss_and_bleu(muted, pairs), {}
    heads = head_weights(model)
    for number, path in enumerate(heads, 1):
        with silenced(heads[path]):
            now = loss_and_bleu(muted, pairs)
        changes[path] = now[0] - loss, now[1] - bleu
        progress(number, len(heads))
    return HeadMap(loss=loss, bleu=bleu, changes=changes)


def head_weights(model: Model) -> dict[str, Tensor]:
    """What each head writes with, by its path: its columns of W_O."""
    parts = {
        name.replace("layers.", "").replace("_attention", ""): module.of_z
        for name, module in model.named_modules()
        if isinstance(module, Attention | SourceAttention)
    }
    return {
        f"{path}.{head}": columns
        for path, weight in parts.items()
        for head, columns in enumerate(weight.detach().chunk(model.config.n_heads, dim=1))
    }


@contextmanager
def silenced(columns: Tensor) -> Iterator[None]:
    """While inside, the weights are zero: the head adds nothing."""
    kept = columns.clone()
    columns.zero_()
    try:
        yield
    finally:
        columns.copy_(kept)


def loss_and_bleu(translator: Translator, pairs: Sequence[tuple[str, str]]) -> tuple[float, float]:
    sources, references = zip(*pairs, strict=True)
    n_tokens = sum(len(ids) + 1 for ids in translator.target.encode_batch(list(references)))
    found = map(str, translator.translate(list(sources), beam=1, guard=False))
    bleu = metrics.bleu(list(found), references).value
    return -sum(translator.score(pairs)) / n_tokens, bleu
