"""A sample through our engine and through CTranslate2, and what a certificate says of it."""

import resource
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

from clearhead import metrics
from clearhead.config import Config, DecodeConfig
from clearhead.data.examples import pairs
from clearhead.decode import Hypothesis, Request, checked, decode_each
from clearhead.exchange.backend import CTranslate2, Result
from clearhead.exchange.certificate import SAMPLE, Beside, Certificate, same_tokens
from clearhead.folder import RunFolder
from clearhead.model import Model
from clearhead.tasks import TASKS
from clearhead.tasks.translation import source_row
from clearhead.text import END, PAD, Tokenizer

N_TEXTS = 64
GREEDY = DecodeConfig(beam=1, guard=False)
WRITTEN = 24
"""Tokens that a model without an encoder adds to each text."""
TOLERANCES = {
    "float32": (1e-3, 0.995),
    "float16": (0.05, 0.97),
    "int16": (0.5, 0.95),
    "int8": (2.0, 0.7),
}
"""For each precision, how far a log-probability may be off, and the share of tokens to be kept."""
LOSS = 0.3
"""BLEU that may be lost."""

Outputs = dict[int, Hypothesis]


def certify(
    folder: RunFolder,
    model: Model,
    place: Path,
    precision: str,
    test: Sequence[str] = (),
) -> Certificate:
    """The same texts through both, greedily; a test set, if there is one, also gives BLEU."""
    config, (source, target) = folder.config(), folder.tokenizers()
    examples = list(pairs(*test, columns=config.data.columns)) if test else []
    texts = [pair.source for pair in examples] or sample(config, folder.path)
    request, sources = asked(model, [source.encode(text) for text in texts])
    sentences = [request.sentence(index, ids) for index, ids in enumerate(sources)]
    with CTranslate2(place, model, n_workers=1, precision=precision) as backend:
        list(backend.decode(request, sentences[:1]))  # starts it
        theirs, fast = timed(lambda: backend.decode(request, sentences))
        memory = backend.memory()
    ours, slow = timed(lambda: decode_each(request, sentences))
    both = [index for index in ours if index in theirs]
    same, first = same_tokens([ours[i].ids for i in both], [theirs[i].ids for i in both])
    largest, least = TOLERANCES[precision]
    scores = {
        "sentences per second": Beside(ours=len(texts) / slow, theirs=len(texts) / fast),
        "bytes on disk": Beside(
            ours=folder.weights_size(), theirs=(place / "model.bin").stat().st_size
        ),
        "MB of memory, whole process": Beside(
            ours=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, theirs=memory
        ),
    }
    if examples:
        references = [examples[index].target for index in both]
        scores["BLEU"] = Beside(
            ours=bleu_of(target, ours, references, both),
            theirs=bleu_of(target, theirs, references, both),
        )
    return Certificate(
        title=f"{folder.path.name} as CTranslate2 {precision}",
        other="CTranslate2",
        n_texts=len(both),
        logit_difference=off(ours, theirs, both),
        max_logit_difference=largest,
        tokens_same=same if both else 0.0,
        min_tokens_same=least,
        first_difference=first or ("" if both else "no text was decoded by both"),
        scores=scores,
        max_loss={"BLEU": LOSS} if examples else {},
        notes=("differences are of log-probabilities of the tokens written",),
        packages=("ctranslate2",),
    )


def sample(config: Config, folder: Path) -> list[str]:
    """The first texts that the run was validated or trained on, where they still are."""
    names = config.data.validation_files or config.data.files
    files = [folder / name for name in names]
    if not files or not all(file.is_file() for file in files):
        return list(SAMPLE)
    task = TASKS[config.task]
    examples = islice(iter(task.read(*files, columns=config.data.columns)), N_TEXTS)
    return [text for text in map(task.read_text, examples) if text.strip()]


def asked(model: Model, rows: Sequence[list[int]]) -> tuple[Request, list[list[int]]]:
    """What is asked of the model, and the texts as it reads them."""
    config = model.config
    if config.reads:
        request = Request(models=checked(model), options=GREEDY)
        return request, [source_row(ids, config) for ids in rows]
    request = Request(models=checked(model), options=GREEDY.but(max_length=WRITTEN), end=PAD)
    room = max(1, config.max_positions - WRITTEN) if config.positions == "learned" else None
    return request, [[END, *ids][:room] for ids in rows]


def timed(decode: Callable[[], Iterable[Result]]) -> tuple[Outputs, float]:
    """The best outputs by the place of their sentence, and the seconds that they took."""
    begin = time.perf_counter()
    found = {sentence.index: outputs[0] for sentence, outputs in decode() if outputs}
    return dict(sorted(found.items())), max(time.perf_counter() - begin, 1e-9)


def off(ours: Outputs, theirs: Outputs, both: Sequence[int]) -> float:
    """The largest difference of the log-probabilities of tokens that both wrote."""
    found = [
        abs(a - b)
        for index in both
        if ours[index].ids == theirs[index].ids
        for a, b in zip(ours[index].log_probs, theirs[index].log_probs, strict=True)
    ]
    return max(found, default=0.0)


def bleu_of(
    tokenizer: Tokenizer, outputs: Outputs, references: Sequence[str], both: Sequence[int]
) -> float:
    return metrics.bleu([tokenizer.decode(outputs[index].ids) for index in both], references).value
