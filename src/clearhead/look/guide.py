"""One sentence from text to text, told with its own numbers: a page of Markdown."""

from clearhead.errors import ModelError
from clearhead.look.labelled import LabelledTensor, without_head
from clearhead.look.look import Look

N_BEST = 4


def guide(look: Look, picture: str = "") -> str:
    """The whole way of a sentence through both stacks; `picture` is the file of its alignment."""
    if look.family != "encoder-decoder" or look.model.config.recurs:
        found = look.model.config.architecture if look.model.config.recurs else look.family
        raise ModelError(
            "The guide goes through the encoder and the decoder of a Transformer, "
            f"and this model is of family {found}.",
            "Look at its numbers with .by_hand(path, row, col).",
        )
    return "\n".join([*reading(look), *encoding(look), *writing(look, picture), *choosing(look)])


def reading(look: Look) -> list[str]:
    config, row = look.model.config, min(1, len(look.source) - 1)
    n_weights = sum(weight.numel() for weight in look.model.parameters())
    ids = [str(token.id) for token in look.source]
    return [
        "# Inside: one sentence, from text to text\n",
        "Every number here comes from a trained model; "
        "`clearhead look RUN TEXT --guide FILE` wrote the page.\n",
        f"> {look.input}\n>\n> {look.output}\n",
        f"The model has {n_weights:,} weights: {config.n_encoder_layers} layers "
        f"in the encoder and {config.n_decoder_layers} in the decoder, "
        f"vectors of d_model = {config.d_model} numbers, "
        f"{config.n_heads} heads of d_k = {config.d_model // config.n_heads}, "
        f"{config.norm}-norm.\n",
        "## Text becomes tokens, tokens become vectors\n",
        "Words are cut into tokens; ▁ is a space before a token. Each has a number.\n",
        markdown_table([["token", *(token.text for token in look.source)], ["id", *ids]]),
        "Each id picks a row of the embedding matrix, and √d_model makes it large enough "
        "not to drown in the position that is added next. "
        f"The first of the {config.d_model} numbers of `{look.source[row].text}`:\n",
        in_code(look, "encoder.tokens", row, 0),
        "Attention sees a set. Where a token stands is told by a vector of sines and cosines "
        "(`encoder.positions`):\n",
        in_code(look, "encoder.positions", row, 2),
        in_code(look, "encoder.embedded", row, 2),
    ]


def encoding(look: Look) -> list[str]:
    part, row = "encoder.0.self", min(1, len(look.source) - 1)
    pattern, config = look.seen[f"{part}.pattern"], look.model.config
    # the head and the other word that the token looks at most
    words = [n for n, token in enumerate(look.source) if not token.special and n != row] or [row]
    head = int(pattern[:, row, words].amax(dim=-1).argmax())
    col = words[int(pattern[head, row, words].argmax())]
    asking, asked = look.source[row].text, look.source[col].text
    hidden = look.seen["encoder.0.ff.hidden"][row]
    unit = int(hidden.argmax())
    return [
        "## The encoder: every token looks at all others\n",
        "Three matrices make of each token's vector a query, a key and a value (q, k, v), "
        "one of each for every head. "
        f"The first number of the query of `{asking}` in head {head}:\n",
        in_code(look, f"{part}.{head}.q", row, 0),
        f"How much `{asking}` looks at `{asked}`: query times key, over √d_k, "
        "and a softmax over all tokens. Each line is one step of softmax(q kᵀ / √d_k):\n",
        in_code(look, f"{part}.{head}.pattern", row, col),
        f"The whole row, which sums to {float(pattern[head, row].sum()):.3f}:\n",
        weights_table(look.attention(part, head), row),
        "The weights mix the values (z = pattern × v); "
        "the heads stand side by side and pass through W_O:\n",
        in_code(look, f"{part}.{head}.z", row, 0),
        in_code(look, f"{part}.concat", row, head * (config.d_model // len(pattern))),
        in_code(look, f"{part}.out", row, 0),
        "The result is added to what came in, and a norm keeps the numbers in range:\n",
        in_code(look, f"{part}.add", row, 0),
        in_code(look, "encoder.0.ff.norm" if config.norm == "pre" else f"{part}.norm", row, 0),
        f"Then the feed-forward network, at each position for itself: {len(hidden)} hidden units, "
        f"of which {float((hidden <= 0).float().mean()):.0%} are silent here. "
        "The most active one, and what comes out:\n",
        in_code(look, "encoder.0.ff.pre", row, unit),
        in_code(look, "encoder.0.ff.hidden", row, unit),
        in_code(look, "encoder.0.ff.out", row, 0),
    ]


def writing(look: Look, picture: str) -> list[str]:
    alignment, row = look.alignment(), told_row(look)
    part, head = without_head(alignment.head)
    heads = look.seen[f"{part}.pattern"]
    head = int(heads[:, row].amax(dim=-1).argmax()) if head is None else head
    col = int(heads[head, row].argmax())
    own = part.replace("cross", "self")
    later = [row + 1] if row + 1 < len(look.target) else []
    return [
        "## The decoder: one token after the other\n",
        f"The decoder reads what is written so far. The row of `{look.target[row].text}` "
        f"predicts the next token, `{look.predicted[row].text}`. "
        "It may look back, and never ahead:\n",
        weights_table(look.attention(own, 0)),
        *(in_code(look, f"{own}.0.masked", row, column) for column in later),
        f"Then it looks at the source. Head {head} of `{part}` is the one that links words most "
        f"nearly one to one. While it writes `{look.predicted[row].text}`, "
        f"it looks at `{look.source[col].text}`:\n",
        in_code(look, f"{part}.{head}.pattern", row, col),
        "Word by word, which it was never told:\n",
        weights_table(alignment.matrix),
        *([f"![Attention of {alignment.head}, token by token]({picture})\n"] if picture else []),
    ]


def choosing(look: Look) -> list[str]:
    row, lens = told_row(look), look.lens(1)
    alternatives = [
        [name, *map(str, look.alternatives(number, N_BEST))]
        for number, name in enumerate(look.labels("target", len(look.target)))
    ]
    layers = [
        [f"{token.text} →", *(f"{best.text} {best.prob:.0%}" for (best,) in said)]
        for token, said in zip(look.target, lens, strict=True)
    ]
    found = [
        "## A vector becomes a word\n",
        "The last vector is compared with that of every token, "
        "and a softmax makes probabilities of the scores:\n",
        in_code(look, "decoder.probs", row, look.predicted[row].id),
        "What it would have said otherwise, at each step:\n",
        markdown_table([["step", *(f"{n + 1}." for n in range(N_BEST))], *alternatives]),
        "And what each layer would have said, had it been the last:\n",
        markdown_table([["step", *(f"layer {n}" for n in range(len(lens[0])))], *layers]),
    ]
    if look.beam:
        total, divisor = look.log_prob, look.beam.steps[len(look.target) - 1][0].divisor
        found.append(
            f"Beam search kept {look.beam.width} beginnings at every step. "
            f"The winner's log-probabilities add up to {total:.3f}; "
            f"over the length penalty {divisor:.3f} that is {total / divisor:.3f}, "
            "the best of all.\n"
        )
    return [*found, f"The tokens put together: **{look.output}**"]


def told_row(look: Look) -> int:
    """A row worth telling: the first behind the start that begins a word."""
    later = [n for n, token in enumerate(look.predicted) if n > 1 and token.text.startswith("▁")]
    return later[0] if later else len(look.target) - 1


def in_code(look: Look, path: str, row: int, col: int) -> str:
    return f"```text\n{look.by_hand(path, row, col)}\n```\n"


def weights_table(weights: LabelledTensor, row: int | None = None) -> str:
    rows = range(len(weights.values)) if row is None else [row]
    cells = [[weights.labels[0][r], *(f"{x:.2f}" for x in weights.values[r])] for r in rows]
    return markdown_table([["", *weights.labels[1]], *cells])


def markdown_table(rows: list[list[str]]) -> str:
    """A table in Markdown, whose cells may hold anything."""
    lines = [f"| {' | '.join(map(as_code, row))} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def as_code(cell: str) -> str:
    """Numbers as they are, all else as code."""
    plain = not cell or cell[0].isdigit()
    return cell if plain else f"`{cell.replace('|', '∣').replace('`', 'ˋ')}`"
