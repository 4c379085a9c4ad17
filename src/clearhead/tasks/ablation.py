"""What each head is for: silence one after the other (ablation), and translate without it."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch

from clearhead import metrics
from clearhead.tasks.translation import Translator

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class HeadMap:
    """The change that silencing each head makes, by its path: `decoder.1.cross.3`."""

    loss: float
    """Of the model as it is, in nats for each token of the references."""
    bleu: float
    changes: Mapping[str, tuple[float, float]]
    """How much the loss rises, and how much BLEU changes."""

    def __str__(self) -> str:
        lines = [
            f"as it is: loss {self.loss:.4f}, BLEU {self.bleu:.1f}; "
            "change of both without each head:"
        ]
        parts: dict[str, list[str]] = {}
        for path, (loss, bleu) in self.changes.items():
            parts.setdefault(path.rpartition(".")[0], []).append(f"{loss:+.3f} {bleu:+6.1f}")
        return "\n".join(
            lines + [f"{part.ljust(16)}  {'   '.join(cells)}" for part, cells in parts.items()]
        )


@torch.no_grad()
def ablate_heads(
    translator: Translator, pairs: Pairs, progress: Callable[[int, int], None] = lambda *_: None
) -> HeadMap:
    """Each head silenced in turn: its slice of W_O is set to zero, so that it adds nothing."""
    model = deepcopy(translator.models[0])
    muted = type(translator)([model], translator.tokenizers, translator.config)
    loss, bleu = loss_and_bleu(muted, pairs)
    parts = [
        (f"{stack}.{layer}.{kind}", getattr(block, f"{kind}_attention").out.weight)
        for stack in ("encoder", "decoder")
        for layer, block in enumerate(getattr(model, stack).layers)
        for kind in ("self", "cross")
        if hasattr(block, f"{kind}_attention")
    ]
    n_heads, changes = model.config.n_heads, {}
    for number, (path, weight) in enumerate(parts):
        for head, columns in enumerate(weight.chunk(n_heads, dim=1)):
            kept = columns.clone()
            columns.zero_()
            now = loss_and_bleu(muted, pairs)
            columns.copy_(kept)
            changes[f"{path}.{head}"] = now[0] - loss, now[1] - bleu
            progress(number * n_heads + head + 1, len(parts) * n_heads)
    return HeadMap(loss=loss, bleu=bleu, changes=changes)


def loss_and_bleu(translator: Translator, pairs: Pairs) -> tuple[float, float]:
    """Loss of the references, and BLEU of greedy translations."""
    sources, references = zip(*pairs, strict=True)
    n_tokens = sum(len(ids) + 1 for ids in translator.target.encode_batch(list(references)))
    found = translator.translate(list(sources), beam=1, guard=False)
    score = metrics.bleu([each.text for each in found], list(references)).value
    return -sum(translator.score(list(pairs))) / n_tokens, score
