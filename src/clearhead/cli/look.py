"""`clearhead look`: every number behind an output, in the terminal or in one file for a browser."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.errors import DataError, TextError

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.look import LabelledTensor, Look


def look(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder of any task.")],
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What to look at; else a line of stdin.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Another output than the model's own.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="HTML", help="The interactive page.")
    ] = None,
    head: Annotated[
        str | None, typer.Option(metavar="PATH", help="A head, as in decoder.1.cross.3.")
    ] = None,
    by_hand: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH ROW COL", help="How one number came about, step by step."),
    ] = None,
    edit: Annotated[
        list[str] | None, typer.Option(metavar="NAMES", help="Break it: no-scale, no-mask …")
    ] = None,
    reasons: Annotated[
        bool, typer.Option("--reasons", help="Is attention the reason? Four measures.")
    ] = False,
    search: Annotated[
        bool, typer.Option("--search", help="What beam search kept and gave up, and why.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="All numbers: JSON and safetensors.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The head as .svg or .png.")
    ] = None,
    guide: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The sentence's whole way, in Markdown.")
    ] = None,
    film: Annotated[
        bool, typer.Option("--film", help="The heads as they formed during training.")
    ] = False,
    ablate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILES", help="Silence each head in turn: loss and BLEU on a test set."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="decode.NAME=VALUE", help="Any setting of decoding."),
    ] = None,
) -> None:
    """Look inside a model at work: what it read, what it weighed up, where it looked, and why.

    - `clearhead look runs/en-de "A man rides a bike."`
    - `clearhead look runs/en-de "A man rides a bike." -o look.html`
    - `clearhead look runs/en-de "A man rides a bike." --head decoder.1.cross.3`
    - `clearhead look runs/en-de "A man rides a bike." --by-hand decoder.1.cross.3.pattern 2 1`
    - `clearhead look runs/en-de "A man rides a bike." --edit no-positions`
    - `clearhead look runs/en-de --film` and `--ablate test.en test.de`
    """
    from dataclasses import replace

    from rich.console import Console

    from clearhead.tasks import load

    console = Console(highlight=False, markup=False, soft_wrap=True)
    user = load(run)
    if ablate:
        return ablated(console, user, ablate)
    if film and text is None and output is None:
        return play(console, run, user, head)
    found = looked(user, text, target, edit, settings or [])
    if film:
        found = replace(found, film=film_in(run))
    if output:
        output.write_text(found.html(), encoding="utf-8")
    if save:
        found.save(save)
    if picture:
        found.picture(f"{chosen_head(found, head)}.pattern").save(picture)
    if guide:
        guided(found, guide)
    if not (output or save or picture or guide):
        shown(console, found, head, by_hand or [], reasons, search)
    return None


def guided(found: "Look", path: Path) -> None:
    """The guide, and beside it the picture that it shows."""
    from clearhead.look.guide import guide

    image = path.with_suffix(".svg")
    path.write_text(guide(found, image.name) + "\n", encoding="utf-8")
    found.picture(f"{chosen_head(found, None)}.pattern").save(image)


def looked(
    user: Any, text: str | None, target: str | None, edit: list[str] | None, sets: list[str]
) -> "Look":
    """The look that a command line asks for; not every task takes a target or settings of decoding."""
    from clearhead.config import with_settings

    line = sys.stdin.readline().removesuffix("\n") if text is None else text
    writes = user.config.model.family != "encoder"
    if target is not None and not writes:
        raise TextError("A model that reads and does not write has no --target.", "Leave it out.")
    options = with_settings(user.config, sets).decode.model_dump() if sets and writes else {}
    result: Look = user.look(
        line, edit=edit, **({"target": target} if target is not None else {}), **options
    )
    return result


def shown(
    console: "Console",
    found: "Look",
    head: str | None,
    by_hand: list[str],
    reasons: bool,
    search: bool,
) -> None:
    """The answer to what was asked; if nothing was, the output and where the model looked."""
    if by_hand:
        path, *cell = by_hand
        if len(cell) != 2 or not all(each.isdigit() for each in cell):
            raise DataError(
                "--by-hand takes a path, a row and a column.",
                "For example: decoder.0.self.1.pattern 2 1",
            )
        console.print(str(found.by_hand(path, int(cell[0]), int(cell[1]))))
    elif reasons:
        console.print(str(found.reasons()))
    elif search:
        console.print(
            str(
                found.beam
                or "There was no search: nothing was written, or tokens were drawn at random."
            )
        )
    elif head:
        matrix = found.attention(head)
        draw(console, matrix)
        console.print(str(matrix))
    else:
        console.print(str(found))
        if found.before is not None:
            console.print(f"\n{found.change()}")
        draw(console, overview(found))


def overview(found: "Look") -> "LabelledTensor":
    """Where it looked: word by word for a translation, else the last attention."""
    if found.family != "encoder-decoder":
        return found.attention(found.attentions[-1])
    return found.alignment().matrix


def chosen_head(found: "Look", head: str | None) -> str:
    if head:
        return head
    return (
        found.alignment().head if found.family == "encoder-decoder" else f"{found.attentions[-1]}.0"
    )


def draw(console: "Console", matrix: "LabelledTensor") -> None:
    """A matrix in colours, two rows to a line: the upper is named on the left, the lower on the right."""
    from rich.text import Text

    from clearhead.look.labelled import Heatmap

    console.print(f"\n{matrix.path}")
    if not console.is_terminal or console.no_color:
        for text in Heatmap(matrix).blocks():
            console.print(text)
        return
    rows, columns = matrix.labels
    margin = max(map(len, rows), default=0)
    console.print(" ".join([" " * margin, *columns]))
    colours = [
        [f"rgb({r},{g},{b})" for r, g, b in row] for row in Heatmap(matrix).colours().tolist()
    ]
    for number in range(0, len(rows), 2):
        line = Text(rows[number].rjust(margin))
        lower = colours[number + 1] if number + 1 < len(rows) else None
        for place, label in enumerate(columns):
            style = (
                f"{colours[number][place]} on {lower[place]}" if lower else colours[number][place]
            )
            line.append(" ").append("▀" * len(label), style)
        console.print(line.append(f"  {rows[number + 1]}" if lower else ""))


def film_in(run: str) -> Any:
    from clearhead.folder import RunFolder
    from clearhead.look.film import film_of

    return film_of(RunFolder.open(run).film.lines())


def play(console: "Console", run: str, user: Any, head: str | None) -> None:
    """A head's attention on one sentence, frame after frame."""
    from clearhead.look import LabelledTensor
    from clearhead.look.paths import without_head

    film = film_in(run)
    path, number = without_head(head or f"{list(film.patterns)[-1]}.0")
    if path not in film.patterns or (number or 0) >= film.patterns[path].shape[1]:
        raise DataError(
            f"There is no {head} in the film.",
            f"It shows {', '.join(film.patterns)}, heads counted from 0.",
        )
    sides = {"source": film.probe.source, "target": film.probe.target}
    texts = {
        side: tuple((getattr(user, side, None) or user.tokenizer).tokens(ids))
        for side, ids in sides.items()
    }
    own = path.partition(".")[0] == "encoder"
    labels = (
        texts["source" if own else "target"],
        texts["source" if own or path.endswith("cross") else "target"],
    )
    for place, (step, loss) in enumerate(zip(film.steps, film.losses, strict=True)):
        turning = (
            "  ← here it changed most" if place == film.turning_point(path, number or 0) else ""
        )
        title = f"step {step:,}, loss {loss:.3f}: {path}, head {number or 0}{turning}"
        draw(
            console,
            LabelledTensor(
                title, film.patterns[path][place, number or 0], ("rows", "columns"), labels
            ),
        )


def ablated(console: "Console", user: Any, files: list[str]) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    from clearhead.data.examples import pairs
    from clearhead.tasks.ablation import ablate_heads
    from clearhead.tasks.translation import Translator

    if not isinstance(user, Translator):
        raise DataError(
            "Heads are silenced one by one in translators only.",
            "Try --edit silence:encoder.0.self.1",
        )
    examples = [(pair.source, pair.target) for pair in pairs(*map(Path, files))]
    columns = (
        TextColumn("silencing"),
        BarColumn(),
        TextColumn("{task.completed} of {task.total} heads"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        found = ablate_heads(
            user, examples, lambda done, total: bar.update(task, completed=done, total=total)
        )
    console.print(str(found))
