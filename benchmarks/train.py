"""Training speed: clearhead beside a plain loop over torch.nn.Transformer, on the same batches, interleaved.

    script/bench train [tiny small base] [--repeats 5] [--steps 4]

Prints Markdown tables: tokens per second, their ratio, the share of the machine's own matrix product that a step
reaches (MFU, by the formula below), peak memory of a step, and where the time of a step goes; before them the
processor, its instruction set and its load.
"""

import argparse
import math
import resource
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import torch
from conditions import conditions
from torch import Tensor, nn
from torch.profiler import profile

from clearhead.config import ModelConfig, TokenizerConfig, TrainConfig
from clearhead.data import examples
from clearhead.data.batches import ByLength, PairBatch, pair_batch
from clearhead.data.examples import Pair
from clearhead.data.store import pair_encoding, temporary_store
from clearhead.machine import keep_freed_memory
from clearhead.model import build
from clearhead.text import Tokenizer
from clearhead.training import Ranks, next_token_loss
from clearhead.training.optimizer import optimizers
from clearhead.training.update import Objective, update

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "multi30k"
KINDS = {
    "attention": ("scaled_dot_product", "Attended", "Parts"),
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"),
    "softmax and loss": ("SmoothedCrossEntropy",),
    "layer norm": ("layer_norm",),
    "dropout": ("aten::random_", "aten::ge", "bernoulli", "dropout"),
    "optimizer": ("_fused_adam", "_foreach", "Optimizer"),
}
"""By what an operation is called, or one that it is part of: the first that fits."""


def pairs() -> list[Pair]:
    """Multi30k where it is there; else made-up sentences of like lengths."""
    if DATA.exists():
        return list(examples.pairs(DATA / "train.en.gz", DATA / "train.de.gz"))
    rng = np.random.default_rng(0)
    words = [f"word{n}" for n in range(8_000)]
    return [
        Pair(*(" ".join(rng.choice(words, rng.integers(8, 18))) for _ in range(2)))
        for _ in range(20_000)
    ]


def batches(vocab_size: int, batch_tokens: int) -> tuple[list[PairBatch], int]:
    corpus = pairs()
    tokenizer = Tokenizer.learn(
        (text for pair in corpus for text in pair), TokenizerConfig(vocab_size=vocab_size)
    )
    store, _ = temporary_store(corpus, pair_encoding(tokenizer, tokenizer))
    stream = ByLength(store, pair_batch, batch_tokens, seed=0)
    return [stream.batch(place) for place in range(40)], tokenizer.vocab_size


class Plain(nn.Module):
    """What a tutorial would write: torch.nn.Transformer, tied embeddings, dropout and label smoothing 0.1."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.register_buffer("positions", torch.randn(512, config.d_model))
        self.transformer = nn.Transformer(
            config.d_model, config.n_heads, config.n_encoder_layers, config.n_decoder_layers, config.d_ff,
            dropout=config.dropout, batch_first=True,
        )  # fmt: skip
        self.dropout = nn.Dropout(config.dropout)
        self.scale = math.sqrt(config.d_model)

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.tokens(ids) * self.scale + self.positions[: ids.size(1)])

    def loss(self, batch: PairBatch) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(
            batch.target_in.size(1), dtype=torch.bool
        )
        x = self.transformer(
            self.embed(batch.source), self.embed(batch.target_in), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=~batch.source_mask, memory_key_padding_mask=~batch.source_mask,
            tgt_key_padding_mask=~batch.judged,
        )  # fmt: skip
        logits = x @ self.tokens.weight.T
        targets = batch.target_out.masked_fill(~batch.judged, -100)
        return nn.functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), label_smoothing=0.1
        )


def plain_step(config: ModelConfig) -> Callable[[PairBatch], object]:
    model = Plain(config)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, (0.9, 0.98), 1e-9)

    def step(batch: PairBatch) -> None:
        optimizer.zero_grad()
        model.loss(batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def clearhead_step(config: ModelConfig, train: TrainConfig) -> Callable[[PairBatch], object]:
    model = build(config)
    objective, all_optimizers = (
        Objective(model, next_token_loss(0.1), train),
        optimizers(model, train),
    )

    def step(batch: PairBatch) -> None:
        update(objective, [batch], seed=0, clip=1.0, splits=1, ranks=Ranks())
        for optimizer in all_optimizers:
            optimizer.step()

    return step


def flops(config: ModelConfig, batch: PairBatch) -> float:
    """Products of a step, forwards and backwards: 6 per weight and token; attention's own are left out."""
    d, ff = config.d_model, config.d_ff
    source, target = int(batch.source_mask.sum()), int(batch.judged.sum())
    encoder = source * (
        config.n_encoder_layers * (4 * d * d + 2 * d * ff) + config.n_decoder_layers * 2 * d * d
    )
    decoder = target * (config.n_decoder_layers * (6 * d * d + 2 * d * ff) + d * config.vocab_size)
    return 6.0 * (encoder + decoder)


def machine() -> float:
    """FLOP/s of a 1024³ product."""
    a = torch.randn(1024, 1024)
    times = []
    for _ in range(8):
        begin = time.perf_counter()
        a @ a
        times.append(time.perf_counter() - begin)
    return 2 * 1024**3 / statistics.median(times)


def worker(name: str, size: str, options: argparse.Namespace, orders: Connection) -> None:
    """An engine in a process of its own: does the steps it is asked for and answers with the seconds they took.

    clearhead also tells the C library to keep freed memory, as `clearhead train` does; a plain loop does not.
    """
    if name == "clearhead":
        keep_freed_memory()
    some, vocab_size = batches(options.vocab_size, options.batch_tokens)
    config = ModelConfig.preset(size, vocab_size=vocab_size)
    step = (
        clearhead_step(config, TrainConfig(optimizer=options.optimizer))
        if name == "clearhead"
        else plain_step(config)
    )
    orders.send("ready")
    while (numbers := orders.recv()) is not None:
        begin = time.perf_counter()
        for number in numbers:
            step(some[number])
        orders.send(time.perf_counter() - begin)


def measured(
    size: str, config: ModelConfig, some: list[PairBatch], options: argparse.Namespace
) -> str:
    """One row: the engines take turns, each while the other waits."""
    engines = {name: engine(name, size, options) for name in ("clearhead", "plain")}
    speeds: dict[str, list[float]] = {name: [] for name in engines}
    shares: list[float] = []
    for repeat in range(options.repeats + 1):
        numbers = [(repeat * options.steps + i) % len(some) for i in range(options.steps)]
        limit = machine()
        for name, (_, orders) in engines.items():
            orders.send(numbers)
            seconds = orders.recv()
            if repeat:  # the first round warms up
                n_tokens = sum(int(some[number].judged.sum()) for number in numbers)
                speeds[name].append(n_tokens / seconds)
                if name == "clearhead":
                    shares.append(
                        sum(flops(config, some[number]) for number in numbers) / seconds / limit
                    )
    for process, orders in engines.values():
        orders.send(None)
        process.join()
    ours, plain = (statistics.median(speeds[name]) for name in ("clearhead", "plain"))
    ratio = statistics.median(
        a / b for a, b in zip(speeds["clearhead"], speeds["plain"], strict=True)
    )
    return f"{ours:,.0f} | {plain:,.0f} | {ratio:.2f} | {100 * statistics.median(shares):.0f} %"


def engine(name: str, size: str, options: argparse.Namespace) -> tuple[BaseProcess, Connection]:
    """A worker that is ready to be asked."""
    orders, theirs = get_context("spawn").Pipe()
    process = get_context("spawn").Process(
        target=worker, args=(name, size, options, theirs), daemon=True
    )
    process.start()
    orders.recv()
    return process, orders


def where_time_goes(config: ModelConfig, some: list[PairBatch], train: TrainConfig) -> str:
    step = clearhead_step(config, train)
    step(some[0])
    with profile() as profiler:
        for batch in some[1:4]:
            step(batch)
    times: Counter[str] = Counter()
    for event in profiler.events():
        names = [event.name]
        above = event
        while (above := above.cpu_parent) is not None:
            names.append(above.name)
        fits = (
            kind
            for kind, parts in KINDS.items()
            for name in names
            if any(part in name for part in parts)
        )
        times[next(fits, "the rest")] += event.self_cpu_time_total
    total = sum(times.values())
    return " | ".join(f"{100 * times[kind] / total:.0f} %" for kind in [*KINDS, "the rest"])


def peak_memory(size: str, vocab_size: int) -> float:
    """GB that a process needs for two steps of a size, measured in a process of its own."""
    command = [sys.executable, __file__, size, "--memory", "--vocab-size", str(vocab_size)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", nargs="*", default=["tiny", "small", "base"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch-tokens", type=int, default=4_096)
    parser.add_argument("--vocab-size", type=int, default=8_000)
    parser.add_argument("--optimizer", default="adamw")
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    keep_freed_memory()
    train = TrainConfig(optimizer=options.optimizer)
    some, vocab_size = batches(options.vocab_size, options.batch_tokens)
    configs = {size: ModelConfig.preset(size, vocab_size=vocab_size) for size in options.sizes}
    if options.memory:
        step = clearhead_step(configs[options.sizes[0]], train)
        for batch in some[:2]:
            step(batch)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
        return
    print(f"{conditions()} {torch.get_num_threads()} threads.\n")
    print("| size | clearhead, tokens/s | plain loop, tokens/s | ratio | MFU | peak memory, GB |")
    print("|---|---|---|---|---|---|")
    for size, config in configs.items():
        row = measured(size, config, some, options)
        print(f"| {size} | {row} | {peak_memory(size, options.vocab_size):.2f} |", flush=True)
    print(f"\n| size | {' | '.join([*KINDS, 'the rest'])} |\n|{'---|' * (len(KINDS) + 2)}")
    for size, config in configs.items():
        print(f"| {size} | {where_time_goes(config, some, train)} |", flush=True)


if __name__ == "__main__":
    main()
