"""Writing: the opening of a text in, its continuation out, as it is being written."""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clearhead.config import Config, DecodeConfig
from clearhead.data.batches import Batches, Windows
from clearhead.data.encoding import Encoding, text_encoding
from clearhead.data.examples import running_text
from clearhead.data.store import Store
from clearhead.decode import laid_out, stream
from clearhead.errors import ConfigError, FolderError
from clearhead.folder import RunFolder
from clearhead.look import Look
from clearhead.model import Transformer
from clearhead.tasks.looking import Asked, look_at_writing
from clearhead.tasks.perplexity import Perplexity, sliding
from clearhead.tasks.streams import Kept, Page, Until, as_text, whole
from clearhead.tasks.task import Task, Tokenizers, with_vocabularies
from clearhead.text import Tokenizer
from clearhead.train import Judge, Samples, mean_loss, next_token_loss, total_loss

LENGTH = 200
"""Tokens that are written when the settings name no number."""
LOOKED_AT = 24
"""Likewise when they are looked into: more than fits on a screen helps nobody."""


@dataclass(frozen=True)
class Continuation:
    """What was written; `str()` is the whole text, the prompt included."""

    prompt: str
    text: str
    """What comes after the prompt."""
    tokens: tuple[str, ...] = ()
    """The tokens that were drawn, a space shown as ▁."""
    log_probs: tuple[float, ...] = ()
    """The log-probability that the model itself gives to each token."""
    seed: int = 0
    alternatives: tuple["Continuation", ...] = ()
    """Further continuations, where more than one was asked for; each has the next seed."""
    notes: tuple[str, ...] = ()
    """What a person should know: that the prompt was too long to be read."""

    @property
    def log_prob(self) -> float:
        """The log-probability of the whole."""
        return sum(self.log_probs)

    def __str__(self) -> str:
        return self.prompt + self.text


class Writer:
    """A decoder that goes on with a text."""

    def __init__(self, model: Transformer, tokenizer: Tokenizer, config: Config) -> None:
        self.model, self.tokenizer, self.config = model, tokenizer, config
        self.flat = laid_out(model)
        learned = config.model.positions == "learned"
        self.window = (
            min(config.data.window, config.model.max_positions) if learned else config.data.window
        )
        specials = range(len(tokenizer.vocabulary.specials))
        self.blocked = tuple(token for token in specials if token != tokenizer.end)

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu") -> "Writer":
        """The writer in a run folder."""
        folder = RunFolder.open(path)
        config = folder.config()
        if config.model.family != "decoder" or config.task == "chat":
            raise FolderError(
                f"{path} cannot write: its model is of the family {config.model.family}, for {config.task}.",
                "Train one with: clearhead train FILES --task writing --into RUN",
            )
        return cls(folder.model(device), folder.tokenizer(), config)

    def write(self, prompt: str = "", *, stop: Sequence[str] = (), **options: Any) -> Continuation:
        """Go on with a text.

        Options are the settings of the section `decode`: max_length (tokens to write), temperature (0: always the
        likeliest token), top_k, top_p, min_p, repetition_penalty, seed, n_best (several continuations) … The text ends
        before any of the strings in `stop`.
        """
        asked = self.asked(options)
        if asked.n_best > 1 and not asked.temperature:
            raise ConfigError(
                f"{asked.n_best} continuations would all be the same at temperature 0.",
                "Use decode.temperature = 0.8.",
            )
        seeds = range(asked.seed, asked.seed + asked.n_best)
        first, *others = [
            whole(self.stream(prompt, stop=stop, **options | {"seed": seed})) for seed in seeds
        ]
        return replace(first, alternatives=tuple(others))

    def stream(
        self, prompt: str = "", *, stop: Sequence[str] = (), **options: Any
    ) -> Generator[str, None, Continuation]:
        """The text after the prompt as it is being written; the whole is the generator's value."""
        asked = self.asked(options)
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
        return Continuation(
            prompt,
            "".join(pieces),
            tuple(self.tokenizer.tokens(ids)),
            drawn.value,
            asked.seed,
            notes=self.notes(len(context)),
        )

    def look(
        self, prompt: str = "", target: str | None = None, edit: Asked = None, **options: Any
    ) -> Look:
        """Every number behind a continuation, or behind a given one; it is short, unless max_length says otherwise."""
        prompt = prompt.rstrip(" ")
        context = self.read(prompt)[-self.window :]
        room = max(1, self.window - len(context) + 1)
        asked = self.asked(options)
        asked = asked.but(beam=1, n_best=1, max_length=min(room, asked.max_length or LOOKED_AT))
        return look_at_writing(
            self.flat,
            (self.tokenizer, self.tokenizer),
            prompt,
            encode=lambda text: self.read(text)[-self.window :],
            options=asked,
            task="writing",
            target=None if target is None else self.tokenizer.encode(target),
            edit=edit,
            decoded=lambda ids: as_text(self.tokenizer, context, ids),
            end=self.tokenizer.pad,
            blocked=self.blocked,
        )

    def asked(self, options: dict[str, Any]) -> DecodeConfig:
        return self.config.decode.but(**options)

    def read(self, prompt: str) -> list[int]:
        """The prompt as running text was in training: every line ends with the end token, also one before the first."""
        lines = self.tokenizer.encode_batch(prompt.split("\n"))
        return [token for line in lines for token in (self.tokenizer.end, *line)]

    def tokens(
        self, context: Sequence[int], options: DecodeConfig, should_stop: Callable[[], bool]
    ) -> Generator[int, None, tuple[float, ...]]:
        """Token after token; where the window is full, its later half is read anew, and it goes on from there."""
        ids, log_probs = list(context), list[float]()
        n_wanted = options.max_length or LENGTH
        while len(log_probs) < n_wanted and not should_stop():
            n_written = min(len(log_probs), len(ids) - 1)  # which the rules against repetition know
            n_new = min(n_wanted - len(log_probs), max(1, self.window - len(ids) + 1))
            found = yield from stream(
                self.flat,
                ids[: len(ids) - n_written],
                options.but(max_length=n_written + n_new, n_best=1),
                prefix=ids[len(ids) - n_written :],
                end=self.tokenizer.pad,
                blocked=self.blocked,
                should_stop=should_stop,
            )
            if len(found.ids) == n_written:  # the rules leave no token to choose
                break
            log_probs += found.log_probs[n_written:]
            ids = [*ids[: len(ids) - n_written], *found.ids][-max(1, self.window // 2) :]
            options = options.but(seed=options.seed + 1)
        return tuple(log_probs)

    def notes(self, n_context: int) -> tuple[str, ...]:
        if n_context <= self.window:
            return ()
        return (f"the prompt has {n_context:,} tokens; the model read the last {self.window}",)

    def perplexity(self, text: str | Iterable[str]) -> Perplexity:
        """How surprised the model is by a text, or by lines, each token seen with half a window before it at least."""
        lines = text.removesuffix("\n").split("\n") if isinstance(text, str) else list(text)
        end = self.tokenizer.end
        ids = [end, *(token for row in self.tokenizer.encode_batch(lines) for token in (*row, end))]
        n_bytes = sum(len(line.encode()) + 1 for line in lines)
        nats, n_tokens = total_loss(self.model, next_token_loss(), sliding(ids, self.window))
        return Perplexity(nats, n_tokens, n_bytes)


SAMPLE_TOKENS = 60
OPENING = 40
"""Characters of the validation text that the samples begin with."""


class WritingTask(Task):
    """What training has to know about writing."""

    name = "writing"

    @staticmethod
    def read(paths: Iterable[Path]) -> Iterable[str]:
        return running_text(*paths)

    @staticmethod
    def texts(example: str) -> tuple[str, ...]:
        return (example,)

    @classmethod
    def resolve(cls, config: Config, tokenizers: Tokenizers, _examples: Iterable[str], /) -> Config:
        return with_vocabularies(config, "decoder", tokenizers)

    @property
    def encoding(self) -> Encoding:
        return text_encoding(self.tokenizers[1])

    def n_predictions(self, store: Store) -> int:
        """Every token."""
        return int(store.n_tokens[0])

    def batches(self, store: Store) -> Batches[Any]:
        return self.windows(store)

    def windows(self, store: Store) -> Windows:
        """Running text, cut into windows of one length."""
        data = self.config.data
        return Windows(store, data.window, data.batch_tokens, self.config.train.seed)

    def judge(self, examples: list[str], store: Store) -> Judge:
        """The loss; how the model goes on with the beginning of the validation text."""
        opening = next((line for line in examples if line.strip()), "")[:OPENING]

        def sampled(model: Transformer) -> Samples:
            writer = Writer(model, self.tokenizers[1], self.config)
            found = writer.write(opening, max_length=SAMPLE_TOKENS)
            return ((found.prompt, found.text),)

        batches = self.batches(store)
        return Judge(loss=mean_loss(next_token_loss(), batches), samples=sampled)
