"""Settings: TOML in, frozen and validated values out, and back again; each default once.

What people say is a partial mapping like a TOML file (`Given`); what they leave open is chosen by
training, and a `Config` has every value. The text under a field is its help, its mark says what it
is to a run. An impossible value fails when the settings are made, not when they are used.
"""

import difflib
import json
import tomllib
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from clearhead.errors import ConfigError, shown

FORMAT: Literal[1] = 1
"""The format of a run folder; CHANGELOG.md promises which versions read which."""

Layers = Annotated[int, Field(ge=1, le=256)]
Width = Annotated[int, Field(ge=1, le=65_536)]
Vocabulary = Annotated[int, Field(ge=1, le=2_000_000)]
Length = Annotated[int, Field(ge=1, le=1_000_000)]
Count = Annotated[int, Field(ge=0, le=2_000_000_000)]
OutputLength = Annotated[int, Field(ge=0, le=100_000)]
Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0, le=1e9)]

MOST_DIGITS = 9
NUMBER = rf"[0-9]{{1,{MOST_DIGITS}}}(?:\.[0-9]{{1,{MOST_DIGITS}}})?"
TIME = r"(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)"
BUDGET = rf"^(?:{NUMBER}\s*(?:steps?|epochs?)|{NUMBER}\s*{TIME}(?:\s*{NUMBER}\s*{TIME})*)?\s*$"
COLDEST = 0.001
"""The lowest temperature of sampling: logits divided by a lower one could overflow."""
RETIRED = (("data", "weights"), ("tokenizer", "languages"))
"""Settings that never had an effect and are gone; older files still hold them, empty."""


Given = dict[str, Any]
"""Settings as people give them: by section and name, a task and a size; what is absent is
chosen."""


class Mark(Enum):
    """What a setting is to a run; one without a mark stays as it is while the run lasts."""

    SIZE = "how large the model is: chosen from the data and the time there is"
    SHAPE = "what else the weights rely on: taken over with them, as the size is"
    OWN = "belongs to this model but not to its weights: never taken over"
    FREE = "may change when a run is resumed: no update depends on it"


def chosen_by(what: str) -> Any:
    """Tells the reference what chooses a setting that nobody has decided."""
    return Field(json_schema_extra={"chosen_by": what})


T = TypeVar("T")
Size = Annotated[T, Mark.SIZE, chosen_by("the data and a budget in time")]
Shape = Annotated[T, Mark.SHAPE]
Own = Annotated[T, Mark.OWN]
Free = Annotated[T, Mark.FREE]
Language = Annotated[str, Field(pattern=r"^([a-z]{2,3}(-[A-Za-z0-9]{2,8})*)?$", examples=["en"])]


class Settings(BaseModel):
    """A frozen section of settings that refuses what it does not know."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise explained(error, type(self)) from None

    def but(self, **changes: Any) -> Self:
        """The same settings with some of them changed, and validated anew."""
        return type(self)(**{**dict(self), **changes})


RECURRENT_WIDTHS = {
    "lstm": {"tiny": 176, "quick": 160, "small": 384, "base": 1_088, "big": 2_304},
    "gru": {"tiny": 192, "quick": 168, "small": 416, "base": 1_216, "big": 2_560},
}
"""How wide a recurrent model of a named size is: with two layers each way, it has about as many
weights as the Transformer of that name."""


def recurrent_size(architecture: str, name: str) -> dict[str, int]:
    """What a named size means for a recurrent model; nothing, for a Transformer."""
    if architecture not in RECURRENT_WIDTHS:
        return {}
    width = RECURRENT_WIDTHS[architecture][name]
    return {"d_model": width, "n_heads": 1, "n_encoder_layers": 2, "n_decoder_layers": 2}


class ModelConfig(Settings):
    """The shape of a model."""

    architecture: Shape[Literal["transformer", "lstm", "gru"]] = "transformer"
    """Attention alone, or the older way: recurrent layers (LSTM or GRU) with attention to the
    source. Those have one head, and ignore d_ff, norm, positions, max_positions, embedding_norm
    and n_token_types."""
    family: Annotated[
        Own[Literal["encoder-decoder", "encoder", "decoder"]],
        chosen_by("the task; of chat, the data"),
    ] = "encoder-decoder"
    """Which stacks there are: both (translate, answer), the encoder alone (read), the decoder
    alone (write)."""
    vocab_size: Annotated[Own[Vocabulary], chosen_by("the tokenizer")] = 8_000
    """Tokens the model can read and write."""
    source_vocab_size: Annotated[Own[Vocabulary | None], chosen_by("the tokenizer")] = None
    """Tokens on the source side when it has a tokenizer of its own; absent: the same vocabulary."""
    d_model: Size[Width] = 128
    """Width of the residual stream; every layer reads and writes vectors this long."""
    d_ff: Size[Width] = 256
    """Hidden units of each feed-forward network."""
    n_heads: Size[Layers] = 4
    """Heads per attention layer; must divide d_model."""
    n_encoder_layers: Size[Layers] = 4
    """Blocks in the encoder; a decoder-only model ignores it."""
    n_decoder_layers: Size[Layers] = 4
    """Blocks in the decoder; an encoder-only model ignores it."""
    norm: Shape[Literal["post", "pre"]] = "pre"
    """Where LayerNorm stands: after adding, as in the paper, or before each sub-layer."""
    norm_eps: Shape[Annotated[float, Field(gt=0, le=0.1)]] = 1e-5
    """Keeps LayerNorm from dividing by zero."""
    activation: Shape[Literal["relu", "gelu", "gelu_tanh", "silu"]] = "relu"
    """The feed-forward network's non-linearity."""
    positions: Shape[Literal["sinusoidal", "halves", "learned"]] = "sinusoidal"
    """Sines and cosines reach any length: in turn as in the paper, or in two halves as in Marian;
    learned vectors end at max_positions."""
    max_positions: Shape[Length] = 512
    """The longest sequence that learned positions know; sinusoidal ones ignore it."""
    tie: Shape[Literal["all", "output", "none"]] = "all"
    """Embedding matrices that are one: source, target and output; target and output; none."""
    source_end: Shape[bool] = True
    """What a translator's encoder reads ends with an end token; models of OpenNMT-py do without."""
    scale_embeddings: Shape[bool] = True
    """Multiply token vectors by the square root of d_model, as the paper does."""
    embedding_norm: Shape[bool] = False
    """LayerNorm over the sum of token and position vectors, as in BERT."""
    n_token_types: Shape[Annotated[int, Field(ge=0, le=1_024)]] = 0
    """Learned vectors that tell segments apart, as in BERT."""
    bias: Shape[bool] = True
    """Biases in the linear layers."""
    logit_bias: Shape[bool] = False
    """A learned bias per output token, as in BERT and Marian."""
    n_classes: Annotated[
        Own[Annotated[int, Field(ge=0, le=1_000_000)]], chosen_by("the labels in the data")
    ] = 0
    """Labels of an encoder with a classifier; 0: the encoder predicts masked tokens."""
    pooling: Shape[Literal["first", "mean"]] = "mean"
    """What the classifier reads, and what stands for a whole text: the first position, or the mean
    of all."""
    pooled: Shape[Literal["tanh", "relu"]] = "tanh"
    """The classifier's non-linearity: as in BERT, or as in DistilBERT."""
    n_grams: Annotated[
        Own[Annotated[int, Field(ge=0, le=10_000_000)]], chosen_by("the training texts")
    ] = 0
    """Tokens, pairs of tokens and runs of characters that a linear model scores beside the encoder
    of a classifier: as many as training found."""
    ngram_weight: Own[Annotated[float, Field(ge=0, le=1_000)]] = 8.0
    """What the scores of n-grams are multiplied by before they are added to the encoder's."""
    vectors: Own[bool] = False
    """An encoder without a head, which gives vectors and predicts nothing (a sentence encoder)."""
    unit_vectors: Shape[bool] = True
    """Vectors of whole texts are scaled to the length 1."""
    dropout: Annotated[Own[Share], chosen_by("how often the data will be seen")] = 0.1
    """Share of each sub-layer's output, and of the embeddings, that is zeroed in training."""
    attention_dropout: Own[Share] = 0.0
    """Share of the attention pattern that is zeroed in training; the paper has none."""
    init: Shape[Literal["xavier", "small"]] = "small"
    """How weights begin; `model/init.py` says why."""

    attention: Shape[Literal["dot", "additive"]] = "dot"
    """How a recurrent decoder compares its state with the source: a dot product (Luong), or a
    small network (Bahdanau); a Transformer ignores it."""
    input_feeding: Shape[bool] = False
    """A recurrent decoder reads, beside each word, what it found in the source one word earlier
    (Luong); slower to train, and a Transformer ignores it."""

    @property
    def recurs(self) -> bool:
        """It reads word by word: an LSTM or a GRU."""
        return self.architecture != "transformer"

    @property
    def reads(self) -> bool:
        """There is an encoder."""
        return self.family != "decoder"

    @property
    def writes(self) -> bool:
        """There is a decoder."""
        return self.family != "encoder"

    @property
    def reach(self) -> int | None:
        """The longest sequence there are learned positions for; None: any."""
        return None if self.recurs or self.positions != "learned" else self.max_positions

    @model_validator(mode="before")
    @classmethod
    def recurrent_models_have_one_head(cls, values: Any) -> Any:
        """Where they are given no size, they begin with that of their own `tiny`."""
        given = values if isinstance(values, dict) else {}
        size = recurrent_size(str(given.get("architecture")), "tiny")
        return {**size, **given, "n_heads": 1} if size else values

    @model_validator(mode="after")
    def check_shape(self) -> Self:
        if self.d_model % self.n_heads:
            fits = [n for n in range(1, self.d_model + 1) if self.d_model % n == 0]
            near = sorted(sorted(fits, key=lambda n: abs(n - self.n_heads))[:3])
            raise ConfigError(
                f"model.d_model = {self.d_model} cannot be split into model.n_heads = "
                f"{self.n_heads} equal heads.",
                f"Use {' or '.join(map(str, near))} heads, or a d_model that is a multiple of "
                f"{self.n_heads}.",
            )
        if self.recurs and self.d_model % 2:
            raise ConfigError(
                f"model.d_model = {self.d_model} is odd, and a recurrent encoder reads with one "
                "half from each end.",
                f"Use model.d_model = {self.d_model + 1}.",
            )
        if self.positions != "learned" and self.d_model % 2:
            raise ConfigError(
                f"model.d_model = {self.d_model} is odd, and sinusoidal positions are pairs of a "
                "sine and a cosine.",
                f'Use model.d_model = {self.d_model + 1}, or model.positions = "learned".',
            )
        if self.tie == "all" and self.source_vocab_size not in (None, self.vocab_size):
            raise ConfigError(
                f"model.source_vocab_size = {self.source_vocab_size} and model.vocab_size = "
                f'{self.vocab_size} cannot share one matrix (model.tie = "all").',
                'Use model.tie = "output".',
            )
        for name, given in (("n_classes", self.n_classes), ("vectors", self.vectors)):
            if given and self.family != "encoder":
                raise ConfigError(
                    f'model.{name} = {toml_literal(given)} needs model.family = "encoder", '
                    f'found "{self.family}".',
                    f"Leave model.{name} out, or change the family.",
                )
        if self.n_classes and self.vectors:
            raise ConfigError(
                f"model.n_classes = {self.n_classes} is a classifier, and model.vectors = true "
                "asks for an encoder without one.",
                "Leave one of them out.",
            )
        return self

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "ModelConfig":
        """The model of a named size, with some settings changed."""
        if name not in PRESETS:
            raise ConfigError(f"There is no size {shown(name)}.", suggestion(name, PRESETS))
        size = recurrent_size(str(changes.get("architecture")), name)
        return cls(**{**PRESETS[name].get("model", {}), **size, **changes})

    @property
    def least_weights(self) -> int:
        """A lower bound of the weights: one embedding, and each layer's attention and network.

        Recurrent layers have no network, and more than four square matrices in their gates.
        """
        layer = 4 * self.d_model**2 + (0 if self.recurs else 2 * self.d_model * self.d_ff)
        n_layers = self.reads * self.n_encoder_layers + self.writes * self.n_decoder_layers
        return self.vocab_size * self.d_model + n_layers * layer

    def size(self) -> dict[str, int]:
        """How large the model is: the settings that a named size fixes."""
        fields = type(self).model_fields.items()
        return {name: getattr(self, name) for name, field in fields if Mark.SIZE in field.metadata}


def named_size(*numbers: int) -> dict[str, int]:
    """Width, hidden units, heads, layers of the encoder and of the decoder, by their names."""
    return dict(zip(ModelConfig().size(), numbers, strict=True))


POST_NORM = {"norm": "post", "init": "xavier"}
PRESETS: dict[str, Given] = {
    "tiny": {},
    "quick": {"model": named_size(128, 512, 4, 4, 1)},
    "small": {"model": named_size(256, 1_024, 4, 3, 3)},
    "base": {
        "model": {**named_size(512, 2_048, 8, 6, 6), **POST_NORM},
        "train": {"optimizer": "adam", "learning_rate": 7e-4, "warmup": 0.1},
    },
    "big": {
        "model": {**named_size(1_024, 4_096, 16, 6, 6), **POST_NORM, "dropout": 0.3},
        "train": {"optimizer": "adam", "learning_rate": 5e-4, "warmup": 0.1},
    },
}
"""The named sizes: three for small data and no GPU, which are pre-norm as the defaults are, and the
paper's two. The quick one writes with one layer: of a translator's time most goes into the decoder,
which has to run once for each token.

The paper's are post-norm, and the default rates were found on pre-norm models. So they bring what
the paper trained them with: Adam, and as its peak that of the paper's schedule,
1 / sqrt(d_model * 4000). They warm up for a share of the run and not for the paper's 4,000 updates,
which a short run would not live to see. All of it is for long runs: docs/LOG.md has a short one.
"""


class TokenizerConfig(Settings):
    """How text becomes tokens."""

    method: Literal[
        "bpe",
        "bytes",
        "unigram",
        "wordpiece",
        "words",
        "characters",
        "bert",
        "bert-cased",
        "gpt2",
        "sentencepiece",
        "sentencepiece-bpe",
        "sentencepiece-bytes",
        "sentencepiece-bpe-bytes",
    ] = "bpe"
    """bpe: with byte fallback, for pairs; bytes: byte-level BPE, for writing; or one of the
    others. From bert on, they come with imported models and cannot be learned here."""
    vocab_size: Annotated[
        Annotated[int, Field(ge=16, le=2_000_000)] | None, chosen_by("the amount of text")
    ] = None
    """Tokens to learn; absent: chosen from the amount of text."""
    shared: bool = True
    """One tokenizer for source and target, or one for each."""
    dropout: Share = 0.0
    """Share of merges skipped at random in training (BPE-dropout), so that words are seen cut in
    several ways."""
    fingerprint: Annotated[
        str,
        Field(pattern=r"^([0-9a-f]{64}(,[0-9a-f]{64})?)?$", examples=["64 hexadecimal digits"]),
    ] = ""
    """SHA-256 of the tokenizer that trained the model, written by training; no other is
    accepted."""


class DataConfig(Settings):
    """What is read and how it is cut into batches."""

    files: Free[Annotated[tuple[str, ...], Field(strict=False, max_length=10_000)]] = ()
    """The training files, seen from the run folder."""
    validation_files: Free[Annotated[tuple[str, ...], Field(strict=False, max_length=10_000)]] = ()
    """Files to validate on; absent: a share of the training examples is held out."""
    columns: Annotated[tuple[str, ...], Field(strict=False, max_length=2)] = ()
    """Columns of tables to read, by name or by number from 1: source and target, text and label;
    absent: found by their names or places."""
    source_language: Annotated[Free[Language], chosen_by("the names of the files")] = ""
    """The code of the language that is read (ISO 639): en; a server needs it to say what it
    translates."""
    target_language: Annotated[Free[Language], chosen_by("the names of the files")] = ""
    """The code of the language that is written."""
    batch_tokens: Annotated[Length, chosen_by("the data and the budget")] = 4_096
    """Tokens per batch, padding included, counted on the longer side."""
    max_length: Length = 256
    """Examples with more tokens than this on a side are left out of training, and counted."""
    window: Length = 256
    """Tokens per row when running text is packed into full windows."""
    max_n_grams: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """N-grams that a classifier scores beside its encoder, at most, the most frequent ones; 0: the
    encoder alone."""
    mask_share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of the tokens that pre-training hides and asks for (masked and denoise)."""
    validation_share: Share = 0.02
    """Share of the examples held out of training when no validation files are given."""
    validation_limit: Length = 2_000
    """At most this many examples are held out."""
    cache_size: Free[Annotated[float, Field(ge=0, le=1e6)]] = 10.0
    """Gigabytes of tokenised text to keep in the cache; beyond, what was not used for longest
    goes."""


class LabelConfig(Settings):
    """What a classifier can say."""

    names: Annotated[tuple[str, ...], Field(strict=False, max_length=1_000)] = ()
    """The labels; written by training."""
    several: bool = False
    """A text may have several labels at once; seen from the data."""
    balance: bool = False
    """Rare labels count for more in training, in inverse proportion to how often they occur."""
    weights: Annotated[tuple[Positive, ...], Field(strict=False, max_length=1_000)] = ()
    """How much each label counts in training, in the order of the names; written by training when
    balanced."""
    temperature: Annotated[float, Field(ge=0.001, le=1_000)] = 1.0
    """What scores are divided by so that probabilities are calibrated; fitted on the validation set by
    training."""

    @model_validator(mode="after")
    def each_name_has_a_weight(self) -> Self:
        if self.names and self.weights and len(self.names) != len(self.weights):
            raise ConfigError(
                f"labels.weights has {len(self.weights)} values for {len(self.names)} labels.",
                "Give one for each label, in the order of their names, or labels.balance = true.",
            )
        return self


class DecodeConfig(Settings):
    """How output is chosen."""

    beam: Annotated[int, Field(ge=1, le=1_000)] = 5
    """Hypotheses kept at every step; 1 is greedy."""
    penalty: Literal["paper", "average"] = "paper"
    """What log-probabilities are divided by to rank outputs: ((5 + length) / 6) ** length_penalty,
    or the length."""
    length_penalty: Annotated[float, Field(ge=-10, le=10)] = 0.6
    """The paper's alpha: higher favours longer output; 0: log-probabilities as they are."""
    n_best: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Outputs per input, best first; at most as many as the beam is wide, unless they are drawn at
    random."""
    min_length: OutputLength = 0
    """Tokens before an output may end."""
    max_extra: OutputLength = 50
    """An output may be this many tokens longer than its input."""
    max_length: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Tokens after which an output is cut off, its end included; absent: those of the input and
    max_extra."""
    no_repeat_ngram: Annotated[int, Field(ge=0, le=1_000)] = 0
    """No run of this many tokens appears twice in an output; 0: all may."""
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    """Log-probabilities of tokens that were already written are multiplied by this; above 1 they
    are avoided."""
    temperature: Annotated[float, Field(ge=0, le=100)] = 0.0
    """0: search for the best output; above: draw each token at random, 1 as the model says, less
    with less risk."""
    top_k: Count = 0
    """Draw among this many best tokens; 0: among all."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Draw among the best tokens that together have this probability."""
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Draw among tokens that have at least this share of the best one's probability."""
    seed: Count = 0
    """Where drawing begins: the same seed and input give the same output, whatever else is decoded
    beside it."""
    batch_size: Annotated[int, Field(ge=1, le=65_536)] = 256
    """Inputs that are decoded together at most."""
    batch_tokens: Length = 4_096
    """Tokens of the inputs that are decoded together, padding included, times the beam."""
    guard: bool = True
    """Look for loops, absurd lengths and unread input; decode such an output again, and say so."""

    @model_validator(mode="after")
    def check_sampling_and_beam(self) -> Self:
        if 0 < self.temperature < COLDEST:
            raise ConfigError(
                f"decode.temperature = {self.temperature} leaves nothing to chance.",
                f"Use 0 to search for the best output, or {COLDEST} and above.",
            )
        if self.n_best > self.beam and not self.temperature:
            raise ConfigError(
                f"decode.n_best = {self.n_best} outputs cannot come out of decode.beam = "
                f"{self.beam} hypotheses.",
                f"Use decode.beam = {self.n_best}, or draw them with decode.temperature = 1.0.",
            )
        return self


class TrainConfig(Settings):
    """How weights are learned."""

    seed: Count = 0
    """Where all randomness begins: the same seed and data give the same run, to the last bit if
    `threads` is given."""
    budget: Free[
        Annotated[
            str,
            Field(
                pattern=BUDGET,
                max_length=100,
                examples=["45m", "1h 30m", "8000 steps", "20 epochs"],
            ),
        ]
    ] = ""
    """How long to train: "45m", "1h 30m", "8000 steps", "20 epochs"; absent: enough for the amount
    of data."""
    max_steps: Annotated[Length | None, chosen_by("the data and the budget")] = None
    """Updates of the weights; training writes here what it made of the budget."""
    optimizer: Literal["muon", "adamw", "adam"] = "muon"
    """Muon for the hidden matrices and AdamW for the rest; AdamW for all; Adam with the paper's
    constants."""
    learning_rate: Positive = 4e-3
    """Adam's peak learning rate; under the paper's schedule, a factor on it (the paper has 1)."""
    muon_learning_rate: Positive = 0.02
    """Muon's peak learning rate: the size of an update whose directions all have the same
    length."""
    weight_decay: Annotated[float, Field(ge=0, le=10)] = 0.01
    """How fast matrices shrink towards zero, relative to the learning rate; not with Adam."""
    schedule: Literal["stable", "cosine", "inverse-sqrt", "paper"] = "stable"
    """The learning rate's course: up, level, straight down to zero; up and down a cosine; up and
    down as 1/√step."""
    warmup: Share = 0.05
    """Share of the run in which the learning rate rises (stable and cosine)."""
    warmup_steps: Length = 4_000
    """Updates in which the learning rate rises (inverse-sqrt and paper)."""
    decay: Annotated[float, Field(gt=0, le=1)] = 0.7
    """Share of the run, at its end, in which the stable schedule goes down."""
    clip: Positive = 1.0
    """The gradient is never longer than this."""
    accumulate: Annotated[int, Field(ge=1, le=65_536)] = 1
    """Batches per update: a larger batch than the memory holds at once."""
    label_smoothing: Share = 0.1
    """Share of each target's probability that is spread over the whole vocabulary."""
    word_dropout: Share = 0.0
    """Share of the words read in training that is replaced by the unknown token."""
    start: Annotated[str, Field(max_length=4_096)] = ""
    """A run whose weights training begins with, seen from the run folder; absent: random
    weights."""
    new_vectors: bool = False
    """Learn a tokenizer of its own all the same: tokens that both have keep their vectors, others
    begin at random."""
    freeze: Annotated[int, Field(ge=0, le=256)] = 0
    """Lowest layers of each stack that stay as they are, and the token vectors with them; 0:
    everything learns."""
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The learning rate of each layer relative to the one above it; below 1, what was learned
    before is kept longer."""
    ema: Share = 0.0
    """Weight of the past in a moving average of the weights; 0: none is kept."""
    fit_decoding: Annotated[bool, chosen_by("the number of steps")] = False
    """At the end, choose decode.length_penalty by the BLEU of validation examples."""
    average_last: Annotated[int, Field(ge=0, le=100)] = 0
    """Checkpoints averaged at the end, as in the paper (5 or 20); 0: none."""
    validate_every: Free[Length | None] = None
    """Updates between two looks at the validation set; absent: about twelve in the run."""
    score_sample: Length = 200
    """Validation examples that the task's score is measured on during training; the end takes them
    all."""
    patience: Free[Count] = 0
    """Validations without a better score after which training stops; 0: never."""
    save_every: Free[Length | None] = None
    """Updates between two checkpoints; absent: at each validation."""
    keep_checkpoints: Free[Annotated[int, Field(ge=2, le=1_000)]] = 2
    """The newest checkpoints that stay, besides the best."""
    skip_nonfinite: Free[Count] = 0
    """Updates that may be skipped because a loss or gradient is not finite, before training
    stops."""
    film: Free[bool] = True
    """Keep the attention of all heads on three short examples at every validation, for `clearhead
    look --film`."""
    threads: Annotated[int, Field(ge=0, le=4_096)] = 0
    """CPU threads; 0: as many as torch takes, and others where a trial on the way shows that they
    are faster. Another number gives other last bits."""
    device: Annotated[
        str,
        Field(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$", examples=["auto", "cpu", "mps", "cuda:0"]),
    ] = "auto"
    """Where to train; auto: a GPU when there is one."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 products on GPUs that have them, fp32 elsewhere."""
    compile: bool = False
    """Compile the model with torch.compile; it pays on GPUs and not on CPUs."""
    shard: bool = False
    """Split weights and optimizer state over the processes (FSDP2), for models that do not fit one
    device."""


class Config(Settings):
    """Every setting of a run."""

    format: Literal[1] = FORMAT
    """The run folder's format."""
    task: Literal["translation", "chat", "classification", "writing", "pretraining"] = "translation"
    """What the model is for."""
    model: ModelConfig = ModelConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    data: DataConfig = DataConfig()
    train: TrainConfig = TrainConfig()
    decode: Free[DecodeConfig] = DecodeConfig()
    labels: LabelConfig = LabelConfig()

    @model_validator(mode="before")
    @classmethod
    def retired_settings_say_nothing(cls, values: dict[str, Any]) -> dict[str, Any]:
        for section, retired in RETIRED:
            if isinstance(given := values.get(section), dict) and retired in given:
                rest = dict(given)
                if value := rest.pop(retired):
                    raise ConfigError(
                        f"{section}.{retired} = {shown(value)} never had an effect and is gone.",
                        "Leave it out.",
                    )
                values = {**values, section: rest}
        return values


SECTIONS: dict[str, type[Settings]] = {
    name: type(field.default)
    for name, field in Config.model_fields.items()
    if isinstance(field.default, Settings)
}


def mark(section: str, name: str) -> Mark | None:
    """What a setting is to a run; the mark of a section is that of all its settings."""
    fields = (SECTIONS[section].model_fields[name], Config.model_fields[section])
    marks = (each for field in fields for each in field.metadata if isinstance(each, Mark))
    return next(marks, None)


def read_given(path: Path) -> Given:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}.", "Give a TOML file of settings."
        ) from None
    return given_from_toml(text, str(path))


def given_from_toml(text: str, name: str = "config.toml") -> Given:
    """The settings that a TOML text gives; `name` is how errors call it."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for endless digits and endless brackets
        raise ConfigError(
            f"{name} is not TOML: {error}.", "Every line is a [section] or name = value."
        ) from None


def config_from_toml(text: str, name: str = "config.toml") -> Config:
    """Every setting of a run, from the TOML text that `to_toml` wrote."""
    return Config(**given_from_toml(text, name))


def assigned(assignments: Iterable[str]) -> Given:
    """The settings that `section.name=value` give, as after `--set`."""
    given: Given = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        section, _, name = path.strip().partition(".")
        if not (equals and section and name):
            raise ConfigError(
                f"--set {shown(assignment)} is not of the form section.name=value.",
                "For example: --set train.seed=7",
            )
        try:
            value = tomllib.loads(f"value = {text.strip()}")["value"]
        except (ValueError, RecursionError):
            value = text.strip()  # words without quotes are strings, as on a command line
        given = layered(given, {section: {name: value}})
    return given


def layered(*layers: Given) -> Given:
    """The settings of several sources merged; where two set the same value, the later wins."""
    whole: Given = {}
    for layer in layers:
        for key, value in layer.items():
            if isinstance(value, dict) != (key in SECTIONS):
                raise ConfigError(
                    f"{shown(key)} = {shown(value)} is not a section.", suggestion(key, SECTIONS)
                )
            whole[key] = {**whole.get(key, {}), **value} if key in SECTIONS else value
    return whole


def spelled_out(given: Given) -> Given:
    """The settings, with the name of a size replaced by the numbers that it stands for."""
    rest = {key: value for key, value in given.items() if key != "size"}
    asked = layered(rest).get("model", {}).get("architecture", "transformer")
    size = (
        ModelConfig.preset(str(given["size"]), architecture=asked).size() if "size" in given else {}
    )
    return layered({"model": size}, rest)


def with_settings(config: Config, assignments: Iterable[str]) -> Config:
    """The settings changed by `section.name=value`, as `--set` gives them."""
    return Config(**layered(config.model_dump(), assigned(assignments)))


def to_toml(config: Config) -> str:
    """Every setting, resolved, as TOML that reads back to equal settings."""
    values = config.model_dump(exclude_none=True)
    lines = [f"{key} = {toml_literal(values[key])}" for key in values if key not in SECTIONS]
    for section in SECTIONS:
        lines += ["", f"[{section}]"]
        lines += [f"{key} = {toml_literal(value)}" for key, value in values[section].items()]
    return "\n".join(lines) + "\n"


def toml_literal(value: str | bool | int | float | tuple[Any, ...]) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(toml_literal, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


SYNONYMS = {
    "lr": "learning_rate",
    "batch_size": "batch_tokens",
    "steps": "max_steps",
    "epochs": "budget",
    "heads": "n_heads",
    "hidden_size": "d_model",
    "layers": "n_encoder_layers",
    "beams": "beam",
    "num_beams": "beam",
}
"""What settings are called elsewhere."""


def whole_number(text: str) -> int | None:
    """The number that a person has written in digits; None, if it is none or beyond all use."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """The nearest known name as a hint, or all of them when none is near."""
    names = sorted(known)
    same = SYNONYMS.get(name)
    near = [same] if same in names else difflib.get_close_matches(name, names, n=1)
    return f"Did you mean {near[0]}?" if near else f"There are: {', '.join(names)}."


def explained(error: ValidationError, settings: type[Settings]) -> ConfigError:
    """Pydantic's first complaint in one sentence: which setting, what was found, what would do."""
    first = error.errors(include_url=False)[0]
    names = [str(part) for part in first["loc"]]
    if settings is not Config:
        names = [next(name for name, kind in SECTIONS.items() if kind is settings), *names]
    known = (SECTIONS[names[0]] if len(names) > 1 and names[0] in SECTIONS else Config).model_fields
    path, found = ".".join(names), shown(first["input"])
    if first["type"] == "extra_forbidden":
        return ConfigError(f"There is no setting {shown(path)}.", suggestion(names[-1], known))
    if first["type"] == "string_pattern_mismatch":  # examples say it better than a pattern
        *others, last = known[names[-1]].examples or []
        use = f"{', '.join(others)} or {last}" if others else last
        return ConfigError(f'Invalid {names[-1]} "{found}".', f"Use {use}.")
    return ConfigError(f"{path} = {found} is not valid.", f"{first['msg']}.")
