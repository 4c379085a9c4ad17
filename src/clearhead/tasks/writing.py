"""Writing: the opening of a text in, its continuation out, as it is being written."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from clearhead.config import Config, DecodeConfig, Given, layered
from clearhead.data.batches import Batches, TextBatch, Windows
from clearhead.data.examples import running_text
from clearhead.data.store import Encoding, Store, text_encoding
from clearhead.decode import laid_out, stream
from clearhead.errors import ConfigError
from clearhead.look import Look
from clearhead.model import Model
from clearhead.tasks.looking import Asked, look_at_writing
from clearhead.tasks.ngrams import n_gram_bits
from clearhead.tasks.task import (
    DEFAULTS,
    Kept,
    Output,
    Perplexity,
    Task,
    User,
    value_of,
)
from clearhead.text import Tokenizer
from clearhead.training import Judge, Samples, mean_loss, next_token_loss, total_loss

LENGTH: int = DEFAULTS["writing"]["decode"]["max_length"]
"""Tokens that are written where the settings name no number."""
LOOKED_AT = 24
"""The same for a look: more than fits on a screen helps nobody."""
TOKENS_AT_ONCE = 8_192
"""Tokens of the windows that a perplexity is measured on together."""
SAMPLE_TOKENS = 60
OPENING = 40
"""Characters of the validation text that the samples begin with."""


@dataclass(frozen=True, kw_only=True)
class Continuation(Output):
    """What was written after the prompt; `str()` is the whole text, the prompt included."""

    prompt: str
    seed: int = 0
    alternatives: tuple["Continuation", ...] = ()
    """Further continuations, where more than one was asked for; each has the next seed."""

    @property
    def log_prob(self) -> float:
        """The log-probability of the whole."""
        return sum(self.log_probs)

    def __str__(self) -> str:
        return self.prompt + self.text


class Writer(User):
    """A decoder that goes on with a text."""

    ability = "write"
    remedy = "clearhead train FILES --task writing --into RUN"

    def _prepare(self) -> None:
        self.flat = laid_out(self.model)
        self.window = self.limit_of(self.config.data.window, n_marks=0)

    @staticmethod
    def suits(config: Config) -> bool:
        return config.model.family == "decoder" and config.task != "chat"

    def write(
        self,
        prompt: str = "",
        decode: DecodeConfig | None = None,
        *,
        stop: Sequence[str] = (),
        **options: Any,
    ) -> Continuation:
        """Go on with a text.

        Options are the settings of the section `decode`, whole or one by one: max_length (tokens
        to write), temperature (0: deterministic), top_k, top_p, min_p, repetition_penalty, seed,
        n_best (several continuations) … The text ends before any of the strings in `stop`.
        """
        asked = self.asked(decode, options)
        if asked.n_best > 1 and not asked.temperature:
            raise ConfigError(
                f"{asked.n_best} continuations would all be the same at temperature 0.",
                "Use decode.temperature = 0.8.",
            )
        first, *others = [
            value_of(self.stream(prompt, asked.but(seed=seed), stop=stop))
            for seed in range(asked.seed, asked.seed + asked.n_best)
        ]
        return replace(first, alternatives=tuple(others))

    def stream(
        self,
        prompt: str = "",
        decode: DecodeConfig | None = None,
        *,
        stop: Sequence[str] = (),
        **options: Any,
    ) -> Generator[str, None, Continuation]:
        """A continuation as a stream of text; the whole is the generator's return value."""
        asked = self.asked(decode, options, LENGTH)
        prompt = prompt.rstrip(" ")  # a space belongs to the word after it
        context = self.read(prompt)
        page, until = Page(self.tokenizer, context), Until(stop)
        drawn = Kept(self.tokens(context[-self.window :], asked, lambda: until.reached))
        ids, pieces = list[int](), list[str]()
        for token in drawn:
            ids.append(token)
            pieces.append(until.push(page.push(token)))
            yield pieces[-1]
        pieces.append(until.end(page.end()))
        yield pieces[-1]
        cut = f"the prompt has {len(context):,} tokens; the model read the last {self.window}"
        return Continuation(
            prompt=prompt,
            text="".join(pieces),
            tokens=tuple(self.tokenizer.tokens(ids)),
            ids=tuple(ids),
            log_probs=drawn.value,
            seed=asked.seed,
            notes=(cut,) if len(context) > self.window else (),
        )

    def look(
        self,
        prompt: str = "",
        target: str | None = None,
        edit: Asked = None,
        decode: DecodeConfig | None = None,
        **options: Any,
    ) -> Look:
        """Every number behind a continuation, or a given one; short, unless max_length is set."""
        prompt = prompt.rstrip(" ")
        context = self.read(prompt)[-self.window :]
        room = max(1, self.window - len(context) + 1)
        asked = self.asked(decode, options)
        asked = asked.but(beam=1, n_best=1, max_length=min(room, asked.max_length or LOOKED_AT))
        return look_at_writing(
            self.flat,
            self.tokenizers,
            prompt,
            encode=lambda text: self.read(text)[-self.window :],
            options=asked,
            task="writing",
            target=target,
            edit=edit,
            decoded=lambda ids: as_text(self.tokenizer, context, ids),
            end=self.tokenizer.pad,
        )

    def read(self, prompt: str) -> list[int]:
        """The prompt as in training: an end token before it, and after every line what ends one."""
        if self.tokenizer.after_line != (self.tokenizer.end,):
            return [self.tokenizer.end, *self.tokenizer.encode(prompt)]
        lines = self.tokenizer.encode_batch(prompt.split("\n"))
        return [token for line in lines for token in (self.tokenizer.end, *line)]

    def tokens(
        self, context: Sequence[int], options: DecodeConfig, should_stop: Callable[[], bool]
    ) -> Generator[int, None, tuple[float, ...]]:
        """Token after token; when the window is full, it slides on by half."""
        ids, log_probs = list(context), list[float]()
        n_wanted = options.max_length
        assert n_wanted is not None, "stream() says how long"
        while len(log_probs) < n_wanted and not should_stop():
            n_written = min(len(log_probs), len(ids) - 1)  # which the rules against repetition know
            n_new = min(n_wanted - len(log_probs), max(1, self.window - len(ids) + 1))
            found = yield from stream(
                self.flat,
                ids[: len(ids) - n_written],
                options.but(max_length=n_written + n_new, n_best=1),
                prefix=ids[len(ids) - n_written :],
                end=self.tokenizer.pad,
                should_stop=should_stop,
                searching=self.searching,
            )
            if len(found.ids) == n_written:  # the rules leave no token to choose
                break
            log_probs += found.log_probs[n_written:]
            ids = [*ids[: len(ids) - n_written], *found.ids][-max(1, self.window // 2) :]
            options = options.but(seed=options.seed + 1)
        return tuple(log_probs)

    def perplexity(self, text: str | Iterable[str]) -> Perplexity:
        """How surprised the model is by a text or lines, with half a window before each token."""
        lines = text.removesuffix("\n").split("\n") if isinstance(text, str) else list(text)
        batches = sliding([*self.read("\n".join(lines)), self.tokenizer.end], self.window)
        nats, n_tokens = total_loss(self.model, next_token_loss(), batches)
        return Perplexity(
            nats=nats, tokens=n_tokens, bytes=sum(len(line.encode()) + 1 for line in lines)
        )


def sliding(ids: Sequence[int], window: int) -> Iterator[TextBatch]:
    """Windows that overlap by half: each token is predicted once, from half a window or more."""
    text, n_predicted = torch.tensor(ids), len(ids) - 1
    window = min(window, n_predicted)
    stride = max(1, window // 2)
    starts = torch.arange(0, max(1, n_predicted - window + stride), stride)
    for some in torch.split(starts, max(1, TOKENS_AT_ONCE // window)):
        places = some[:, None] + torch.arange(window + 1)
        seen_before = torch.where(some > 0, some + window - stride, 0)[:, None]
        rows = text[places.clamp_max(n_predicted)]
        judged = (places[:, :-1] >= seen_before) & (places[:, :-1] < n_predicted)
        yield TextBatch(indices=some, target_in=rows[:, :-1], target_out=rows[:, 1:], judged=judged)


class Page:
    """Tokens as text, the end token being the end of a line."""

    def __init__(self, tokenizer: Tokenizer, context: Sequence[int] = ()) -> None:
        self.tokenizer, self.line = tokenizer, tokenizer.stream()
        for token in context:
            self.push(token)

    def push(self, token: int) -> str:
        return f"{self.end()}\n" if token == self.tokenizer.end else self.line.push(token)

    def end(self) -> str:
        rest, self.line = self.line.end(), self.tokenizer.stream()
        return rest


def as_text(tokenizer: Tokenizer, context: Sequence[int], ids: Sequence[int]) -> str:
    """What tokens add to the text before them."""
    page = Page(tokenizer, context)
    return "".join([*map(page.push, ids), page.end()])


class Until:
    """Passes text until the first stop string; holds back a suffix that may be its beginning."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = [stop for stop in stops if stop]
        self.waiting, self.reached = "", False

    def push(self, text: str) -> str:
        """The text that is certainly before any of them."""
        self.waiting += text
        found = [
            (place + len(stop), place)
            for stop in self.stops
            if (place := self.waiting.find(stop)) >= 0
        ]
        doubtful = (
            n for stop in self.stops for n in range(1, len(stop)) if self.waiting.endswith(stop[:n])
        )
        n_sure = min(found)[1] if found else len(self.waiting) - max(doubtful, default=0)
        sure, self.waiting = self.waiting[:n_sure], self.waiting[n_sure:]
        self.reached = bool(found)
        return sure

    def end(self, text: str) -> str:
        sure = "" if self.reached else self.push(text)
        return sure if self.reached else sure + self.waiting


class WritingTask(Task):
    name = "writing"
    families: ClassVar[tuple[str, ...]] = ("decoder",)
    unit = "lines"
    enough = 200_000

    read = staticmethod(running_text)

    @staticmethod
    def texts(example: str) -> tuple[str, ...]:
        return (example,)

    @classmethod
    def resolve(cls, decided: Given, _examples: Iterator[str], /) -> Config:
        return Config(**layered(decided, {"model": {"family": "decoder"}}))

    @property
    def encoding(self) -> Encoding:
        return text_encoding(self.tokenizers[1])

    def n_predictions(self, store: Store) -> int:
        return int(store.n_tokens[0])

    def batches(self, store: Store) -> Batches[Any]:
        data = self.config.data
        return Windows(store, data.window, data.batch_tokens, self.config.train.seed)

    def baseline(self, training: list[str], validation: list[str]) -> str:
        return f"{n_gram_bits(training, validation):.2f} bits per byte by n-grams"

    def judge(self, examples: list[str], store: Store) -> Judge:
        """The loss; how the model goes on with the beginning of the validation text."""
        opening = next((line for line in examples if line.strip()), "")[:OPENING]

        def sampled(model: Model) -> Samples:
            writer = Writer(model, self.tokenizers, self.config)
            found = writer.write(opening, max_length=SAMPLE_TOKENS, n_best=1)
            return ((found.prompt, found.text),)

        n_bytes = sum(len(line.encode()) + 1 for line in examples)
        return Judge(
            loss=mean_loss(next_token_loss(), self.batches(store)),
            per_byte=int(store.n_tokens[0]) / n_bytes,
            samples=sampled,
        )
