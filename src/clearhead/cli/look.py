"""`clearhead look`: every number behind an output, in the terminal or in one file for a browser."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli import options
from clearhead.disk import write_output
from clearhead.errors import DataError, FolderError, TextError

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.folder import Log
    from clearhead.look import LabelledTensor, Look
    from clearhead.look.by_hand import ByHand
    from clearhead.look.film import Film


SECONDS_PER_FRAME = 0.4
NO_SEARCH = "There was no search: nothing was written, or tokens were drawn at random."


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
    open_page: Annotated[
        bool,
        typer.Option("--open", help="Open the page in a browser (look.html unless -o is given)."),
    ] = False,
    head: Annotated[
        str | None, typer.Option(metavar="PATH", help="A head, as in decoder.1.cross.3.")
    ] = None,
    by_hand: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH ROW COL", help="How one number came about, step by step."),
    ] = None,
    edit: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Break it (ablation): no-scale, no-mask …"),
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
        typer.Option(metavar="FILES", help="Ablate (silence) each head in turn: loss and BLEU."),
    ] = None,
    checkpoint: options.Checkpoint = "",
    settings: options.DecodeSettings = None,
) -> None:
    """See inside a model at work: every number behind an output.

    - `clearhead look runs/en-de "A man rides a bike."`
    - `clearhead look runs/en-de "A man rides a bike." -o look.html` (or `--open`)
    - `clearhead look runs/en-de "A man rides a bike." --head decoder.1.cross.3`
    - `clearhead look runs/en-de "A man rides a bike." --by-hand decoder.1.cross.3.pattern 2 1`
    - `clearhead look runs/en-de "A man rides a bike." --edit no-positions`
    - `clearhead look runs/en-de --film` and `--ablate test.en test.de`
    """
    from dataclasses import replace

    from rich.console import Console

    from clearhead.folder import RunFolder
    from clearhead.tasks import load

    console = Console(highlight=False, markup=False, soft_wrap=True)
    with options.busy(f"loading {run}"):
        user = load(run, checkpoint=checkpoint)
    if open_page:
        output = output or Path("look.html")
    if ablate:
        return print_ablation(console, user, ablate)
    log = RunFolder.open(run).film
    frames = filmed(log, is_asked=film) if film or output else None
    if frames and text is None and output is None:
        return play_film(console, frames, user, head)
    found = looked(user, text, target, edit, settings or [])
    if frames:
        found = replace(found, film=frames)
    if output:
        write_output(output, found.html())
    if save:
        found.save(save)
    if picture:
        found.picture(f"{head or best_head(found)}.pattern").save(picture)
    if guide:
        write_guide(found, guide)
    if output or save or picture or guide:
        tell_written(output, save, picture, guide)
        if open_page and output:
            typer.launch(output.resolve().as_uri())
        return None
    if by_hand:
        console.print(str(told_by_hand(found, by_hand)))
    elif reasons:
        console.print(str(found.reasons()))
    elif search:
        console.print(str(found.beam or NO_SEARCH))
    elif head:
        draw_matrix(console, found.attention(head))
        console.print(str(found.attention(head)))
    else:
        console.print(str(found))
        if found.before is not None:
            console.print(f"\n{found.change()}")
        draw_matrix(console, overview(found))
    return None


def tell_written(page: Path | None, *others: Path | None) -> None:
    """Say on stderr what was written, and how large it is."""
    from clearhead.folder.run import bytes_in

    for path in filter(None, (page, *others)):
        size = bytes_in(path) if path.is_dir() else path.stat().st_size
        hint = " Open it in a browser." if path == page else ""
        options.tell(f"Written: {path} ({size / 1e6:,.1f} MB).{hint}")


def filmed(log: "Log", is_asked: bool) -> "Film | None":
    """The film of a run; where nobody asked for one, a missing or damaged film is no error."""
    from clearhead.look.film import film_of

    try:
        shots = list(log.lines())
        has_one = is_asked or any(shot.get("probes") for shot in shots)
        return film_of(shots, name=log.path) if has_one else None
    except FolderError as error:
        if is_asked:
            raise
        options.tell(f"Without the film: {error}")
        return None


def looked(
    user: Any, text: str | None, target: str | None, edit: list[str] | None, sets: list[str]
) -> "Look":
    """The look that is asked for; not every task takes a target or settings of decoding."""
    from clearhead.data.lines import Lines

    line = next(iter(Lines("-")), "") if text is None else text
    asked: dict[str, Any] = {"edit": edit}
    if user.config.model.writes:
        asked |= {"target": target, "decode": options.decode_config(user.config, sets)}
    elif target is not None:
        raise TextError("A model that reads and does not write has no --target.", "Leave it out.")
    result: Look = user.look(line, **asked)
    return result


def told_by_hand(found: "Look", asked: list[str]) -> "ByHand":
    """How one number came about."""
    from clearhead.config import whole_number

    path, *place = asked
    numbers = [number for each in place if (number := whole_number(each)) is not None]
    if len(place) == len(numbers) == 2:
        return found.by_hand(path, numbers[0], numbers[1])
    raise DataError(
        "--by-hand takes a path, a row and a column.", "For example: decoder.0.self.1.pattern 2 1"
    )


def write_guide(found: "Look", path: Path) -> None:
    """Write the guide, and beside it the picture that it shows."""
    from clearhead.look.guide import guide

    image = path.with_suffix(".svg") if path.name else path
    write_output(path, guide(found, image.name) + "\n")
    found.picture(f"{best_head(found)}.pattern").save(image)


def overview(found: "Look") -> "LabelledTensor":
    """Where it looked: word by word for a translation, else the last attention."""
    aligns = found.family == "encoder-decoder"
    return found.alignment().matrix if aligns else found.attention(found.attentions[-1])


def best_head(found: "Look") -> str:
    """The one that aligns best, or the first of the last attention."""
    aligns = found.family == "encoder-decoder"
    return found.alignment().head if aligns else f"{found.attentions[-1]}.0"


def draw_matrix(console: "Console", matrix: "LabelledTensor") -> None:
    """Print a matrix of shares as blocks, in a colour that is legible on light and on dark."""
    from clearhead.look.labelled import Heatmap

    head, *rows = Heatmap(matrix).blocks()
    console.print(f"\n{matrix.path}\n{head}")
    for row in rows:
        # in a terminal a frame of a film may stand below
        console.print(row.ljust(len(head)) if console.is_terminal else row, style="cyan")


def play_film(console: "Console", film: "Film", user: Any, head: str | None) -> None:
    """Print a head's attention on one sentence, frame after frame."""
    from rich.control import Control

    from clearhead.look import LabelledTensor
    from clearhead.look.labelled import axes_of, without_head

    path, own = without_head(head or list(film.patterns)[-1])
    number = own or 0
    if path not in film.patterns or number >= film.patterns[path].shape[1]:
        raise DataError(
            f"There is no {head} in the film.",
            f"It shows {', '.join(film.patterns)}, heads counted from 0.",
        )
    _, *axes = axes_of(f"{path}.pattern")
    tokenizers = [getattr(user, side, None) or user.tokenizer for side in axes]
    labels = tuple(
        tuple(tokenizer.tokens(getattr(film.probe, side)))
        for tokenizer, side in zip(tokenizers, axes, strict=True)
    )
    turning = film.turning_point(path, number)
    for place, (step, loss) in enumerate(zip(film.steps, film.losses, strict=True)):
        note = "  ← here it changed most" if place == turning else ""
        title = f"step {step:,}, loss {loss:.3f}: {path}, head {number}{note}"
        values = film.patterns[path][place, number]
        if place and console.is_terminal:  # each frame in the place of the one before
            time.sleep(SECONDS_PER_FRAME)
            console.control(Control.move(y=-len(labels[0]) - 3))
        draw_matrix(console, LabelledTensor(f"{title:<80}", values, tuple(axes), labels))


def print_ablation(console: "Console", user: Any, files: list[str]) -> None:
    """Print what becomes of loss and BLEU without each head."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    from clearhead.data.examples import pairs
    from clearhead.tasks.evaluation import ablate_heads
    from clearhead.tasks.translation import Translator

    if not isinstance(user, Translator):
        raise DataError(
            "Heads are silenced one by one in translators only.",
            "Try --edit silence:encoder.0.self.1",
        )
    examples = [(pair.source, pair.target) for pair in pairs(*map(Path, files))]
    counted = TextColumn("{task.completed} of {task.total} heads")
    columns = (TextColumn("silencing"), BarColumn(), counted)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        found = ablate_heads(
            user, examples, lambda done, total: bar.update(task, completed=done, total=total)
        )
    console.print(str(found))
