"""One sentence from text to text, told with its own numbers: a page of Markdown written from a look."""

from collections.abc import Iterator

from clearhead.errors import ModelError
from clearhead.look.by_hand import by_hand
from clearhead.look.labelled import LabelledTensor
from clearhead.look.paths import without_head
from clearhead.look.replay import Replay

WIDTH = 4
"""Numbers shown of a vector."""


def guide(look: Replay, picture: str = "") -> str:
    """The whole way of a sentence through an encoder and a decoder; `picture` is the file name of its alignment."""
    if look.family != "encoder-decoder":
        raise ModelError(
            f"The guide goes through an encoder and a decoder, and this model is of family {look.family}.",
            "Look at its numbers with .by_hand(path, row, col).",
        )
    return "\n".join([*reading(look), *encoding(look), *writing(look, picture), *choosing(look)])


def reading(look: Replay) -> Iterator[str]:
    config = look.model.config
    yield "# Inside: one sentence, from text to text\n"
    yield "Every number here comes from a trained model; `clearhead look RUN TEXT --guide FILE` wrote the page.\n"
    yield f"> {look.input}\n>\n> {look.output}\n"
    yield (
        f"The model has {sum(w.numel() for w in look.model.parameters()):,} weights: {config.n_encoder_layers} layers "
        f"in the encoder and {config.n_decoder_layers} in the decoder, vectors of d_model = {config.d_model} numbers, "
        f"{config.n_heads} heads of d_k = {config.d_model // config.n_heads}, {config.norm}-norm.\n"
    )
    yield "## Text becomes tokens, tokens become vectors\n"
    yield "Words are cut into tokens; ▁ is a space before a token. Each has a number.\n"
    yield markdown_table(
        [
            ["token", *(token.text for token in look.source)],
            ["id", *(str(token.id) for token in look.source)],
        ]
    )
    row = min(1, len(look.source) - 1)
    yield (
        f"Each id picks a row of the embedding matrix, and √d_model makes it large enough not to drown in the "
        f"position that is added next. The first of the {config.d_model} numbers of `{look.source[row].text}`:\n"
    )
    yield derivation(look, "encoder.tokens", row, 0)
    yield "Attention sees a set. Where a token stands is told by a vector of sines and cosines (`encoder.positions`):\n"
    yield derivation(look, "encoder.positions", row, 2)
    yield derivation(look, "encoder.embedded", row, 2)


def encoding(look: Replay) -> Iterator[str]:
    part, row = "encoder.0.self", min(1, len(look.source) - 1)
    pattern = look.seen[f"{part}.pattern"]
    words = [
        place for place, token in enumerate(look.source) if not token.special and place != row
    ] or [row]
    head = int(pattern[:, row, words].amax(dim=-1).argmax())
    col = words[int(pattern[head, row, words].argmax())]
    asking, asked = look.source[row].text, look.source[col].text
    yield "## The encoder: every token looks at all others\n"
    yield (
        f"Three matrices make of each token's vector a query, a key and a value (q, k, v), one of each for every head. "
        f"The first number of the query of `{asking}` in head {head}:\n"
    )
    yield derivation(look, f"{part}.{head}.q", row, 0)
    yield (
        f"How much `{asking}` looks at `{asked}`: query times key, over √d_k, and a softmax over all tokens. "
        f"Each line is one step of softmax(q kᵀ / √d_k):\n"
    )
    yield derivation(look, f"{part}.{head}.pattern", row, col)
    yield f"The whole row, which sums to {float(pattern[head, row].sum()):.3f}:\n"
    yield matrix(look.attention(part, head), row)
    yield "The weights mix the values (z = pattern × v); the heads stand side by side and pass through W_O:\n"
    yield derivation(look, f"{part}.{head}.z", row, 0)
    yield derivation(
        look, f"{part}.concat", row, head * (look.model.config.d_model // len(pattern))
    )
    yield derivation(look, f"{part}.out", row, 0)
    yield "The result is added to what came in, and a norm keeps the numbers in range:\n"
    yield derivation(look, f"{part}.add", row, 0)
    yield derivation(
        look, "encoder.0.ff.norm" if look.model.config.norm == "pre" else f"{part}.norm", row, 0
    )
    hidden = look.seen["encoder.0.ff.hidden"][row]
    unit = int(hidden.argmax())
    yield (
        f"Then the feed-forward network, at each position for itself: {len(hidden)} hidden units, of which "
        f"{float((hidden <= 0).float().mean()):.0%} are silent here. The most active one, and what comes out:\n"
    )
    yield derivation(look, "encoder.0.ff.pre", row, unit)
    yield derivation(look, "encoder.0.ff.hidden", row, unit)
    yield derivation(look, "encoder.0.ff.out", row, 0)


def writing(look: Replay, picture: str) -> Iterator[str]:
    alignment = look.alignment()
    part, head = without_head(alignment.head)
    row, heads = told_row(look), look.seen[f"{part}.pattern"]
    head = int(heads[:, row].amax(dim=-1).argmax()) if head is None else head
    col = int(heads[head, row].argmax())
    layer = part.split(".")[1]
    yield "## The decoder: one token after the other\n"
    yield (
        f"The decoder reads what is written so far. The row of `{look.target[row].text}` predicts the next token, "
        f"`{look.predicted[row].text}`. It may look back, and never ahead:\n"
    )
    yield matrix(look.attention(f"decoder.{layer}.self", 0))
    if row + 1 < len(look.target):
        yield derivation(look, f"decoder.{layer}.self.0.masked", row, row + 1)
    yield (
        f"Then it looks at the source. Head {head} of `{part}` is the one that links words most nearly one to one. "
        f"While it writes `{look.predicted[row].text}`, it looks at `{look.source[col].text}`:\n"
    )
    yield derivation(look, f"{part}.{head}.pattern", row, col)
    yield "Word by word, which it was never told:\n"
    words = alignment.target, alignment.source
    yield matrix(LabelledTensor(alignment.head, alignment.weights, ("target", "source"), words))
    if picture:
        yield f"![Attention of {alignment.head}, token by token]({picture})\n"


def choosing(look: Replay) -> Iterator[str]:
    row = told_row(look)
    yield "## A vector becomes a word\n"
    yield "The last vector is compared with that of every token, and a softmax makes probabilities of the scores:\n"
    yield derivation(look, "decoder.probs", row, look.predicted[row].id)
    yield "What it would have said otherwise, at each step:\n"
    rows = [
        [
            f"{a.text} → {b.text}",
            *(f"{g.text} {g.prob:.1%}" for g in look.alternatives(number, WIDTH)),
        ]
        for number, (a, b) in enumerate(zip(look.target, look.predicted, strict=True))
    ]
    yield markdown_table([["step", *(f"{place}." for place in range(1, WIDTH + 1))], *rows])
    yield "And what each layer would have said, had it been the last:\n"
    lens = look.lens(1)
    yield markdown_table(
        [
            ["step", *(f"layer {number}" for number in range(len(lens[0])))],
            *(
                [f"{token.text} →", *(f"{layer[0].text} {layer[0].prob:.0%}" for layer in layers)]
                for token, layers in zip(look.target, lens, strict=True)
            ),
        ]
    )
    if look.beam:
        total, divisor = look.log_prob, look.beam.steps[len(look.target) - 1][0].divisor
        yield (
            f"Beam search kept {look.beam.width} beginnings at every step. The winner's log-probabilities add up to "
            f"{total:.3f}; over the length penalty {divisor:.3f} that is {total / divisor:.3f}, the best of all.\n"
        )
    yield f"The tokens put together: **{look.output}**"


def told_row(look: Replay) -> int:
    """A row worth telling: the first behind the start that begins a word."""
    later = [n for n, token in enumerate(look.predicted) if n > 1 and token.text.startswith("▁")]
    return later[0] if later else len(look.target) - 1


def derivation(look: Replay, path: str, row: int, col: int) -> str:
    return f"```text\n{by_hand(look, path, row, col)}\n```\n"


def matrix(values: LabelledTensor, row: int | None = None) -> str:
    """A matrix of weights, or one row of it."""
    rows = range(len(values.values)) if row is None else [row]
    cells = [[values.labels[0][r], *(f"{weight:.2f}" for weight in values.values[r])] for r in rows]
    return markdown_table([["", *values.labels[1]], *cells])


def markdown_table(rows: list[list[str]]) -> str:
    """A table in Markdown, whose cells may hold anything."""
    lines = ["| " + " | ".join(map(as_code, row)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def as_code(cell: str) -> str:
    """Numbers as they are, all else as code."""
    return (
        f"`{cell.replace('|', '∣').replace('`', 'ˋ')}`" if cell and not cell[0].isdigit() else cell
    )
