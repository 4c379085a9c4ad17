"""The other side of a certificate: the same model as `transformers` runs it, where it is installed."""

import time
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from clearhead.config import DecodeConfig
from clearhead.decode import decode
from clearhead.exchange.certificate import (
    SAMPLE,
    Beside,
    Certificate,
    largest_difference,
    same_tokens,
)
from clearhead.exchange.vocabularies import Lexicon
from clearhead.folder import RunFolder
from clearhead.folder.run import bytes_in
from clearhead.text import END, START

PACKAGE = "transformers"
N_WRITTEN = 16
"""Tokens of greedy output that are compared, for each text."""


def compared(run: RunFolder, folder: Path, architecture: str, lexicon: Lexicon) -> Certificate:
    """A sample through a run and through a Hugging Face folder that should hold the same model."""
    sizes = {"bytes on disk": Beside(ours=bytes_in(run.path), theirs=bytes_in(folder))}
    if find_spec(PACKAGE) is None:
        return Certificate(
            title=folder.name,
            other="nothing: transformers is not installed",
            n_texts=0,
            scores=sizes,
            notes=("every tensor is accounted for by name and shape; no sample was run",),
        )
    model, source = run.model(), lexicon.tokenizers[0]
    by_token = not (model.config.n_classes or model.config.vectors)
    there = Reference(folder, architecture, lexicon, by_token)
    # what is written needs positions as well, and learned ones come to an end
    n_written = min(N_WRITTEN, model.config.max_positions // 2) if model.config.writes else 0
    greedy = DecodeConfig(beam=1, max_length=max(1, n_written), guard=False)
    reach = model.config.max_positions - n_written
    ours, theirs = dict[str, Tensor](), dict[str, Tensor]()
    written, others, seconds = list[list[int]](), list[list[int]](), [0.0, 0.0]
    for number, text in enumerate(SAMPLE, start=1):
        ids = source.encode(text)
        cut = ids[: max(1, reach - 2)]
        read = source.reading(cut) if model.config.reads else [END, *cut]
        wrote = decode(model, [read], greedy)[0][0].ids if model.config.writes else ()
        target = [START, *wrote] if model.config.reads else [*read, *wrote]
        encoder = read if model.config.reads else []
        begin = time.perf_counter()
        with torch.inference_mode():
            found = model(*batch(encoder, target if model.config.writes else []))[0]
        middle = time.perf_counter()
        other = there(encoder, target if model.config.writes else [])
        seconds = [seconds[0] + middle - begin, seconds[1] + time.perf_counter() - middle]
        ours[f"text {number}"] = found[..., there.known] if there.by_token else found
        theirs[f"text {number}"] = other
        written.append([*there.ids(ids), *wrote])
        likeliest = there.likeliest(other[len(target) - len(wrote) - 1 :][: len(wrote)])
        others.append([*there.tokens(text), *likeliest])
    difference, first = largest_difference(ours, theirs)
    same, place = same_tokens(written, others)
    return Certificate(
        title=folder.name,
        other=f"{PACKAGE}, {architecture}",
        n_texts=len(SAMPLE),
        logit_difference=difference,
        tokens_same=same,
        first_difference=first or place,
        scores={"seconds": Beside(ours=seconds[0], theirs=seconds[1]), **sizes},
        packages=(PACKAGE, "tokenizers"),
    )


def batch(source: Sequence[int], target: Sequence[int]) -> list[Tensor | None]:
    return [torch.tensor([side]) if side else None for side in (source, target)]


class Reference:
    """A model as transformers runs it, asked in our ids and answering in our order of tokens."""

    def __init__(self, folder: Path, architecture: str, lexicon: Lexicon, by_token: bool) -> None:
        import transformers

        transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        options = {"local_files_only": True}
        kind = getattr(transformers, architecture)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it recommends packages
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
            self.model = kind.from_pretrained(folder, use_safetensors=True, **options)
        self.model.float().eval()
        self.by_token = by_token
        self.orders = [
            [order.ids[order.like.get(n, n)] or 0 for n in range(len(order.ids))]
            for order in lexicon.orders
        ]
        self.known = [n for n, other in enumerate(lexicon.orders[1].ids) if other is not None]

    @torch.inference_mode()
    def __call__(self, source: Sequence[int], target: Sequence[int]) -> Tensor:
        ids = [
            [order[n] for n in side]
            for order, side in zip(self.orders, (source, target), strict=True)
        ]
        if source and target:
            named = {"input_ids": ids[0], "decoder_input_ids": ids[1]}
        else:
            named = {"input_ids": ids[0] or ids[1]}
        found = self.model(**{name: torch.tensor([row]) for name, row in named.items()})
        answer: Tensor = found[0][0]  # logits, of tokens or classes, or vectors
        return answer[:, [self.orders[1][n] for n in self.known]] if self.by_token else answer

    def likeliest(self, logits: Tensor) -> list[int]:
        """The tokens that would be written: of those that have a meaning, the likeliest."""
        if not len(logits):
            return []
        may = torch.tensor([n == END or n > START + 5 for n in self.known])
        best = logits.masked_fill(~may, -torch.inf).argmax(dim=-1).tolist()
        return [self.known[place] for place in best]

    def tokens(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def ids(self, ours: Sequence[int]) -> list[int]:
        """Our ids of a source as theirs."""
        return [self.orders[0][number] for number in ours]
