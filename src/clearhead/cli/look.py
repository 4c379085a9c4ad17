"""`clearhead look`: every number behind an output, in the terminal or in one file for a browser."""

import time
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, kw_only=True)
class LookOptions:
    """What to look at in a model, and where to put what is seen."""

    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Another output than the model's own.")
    ] = None
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="HTML", help="The interactive page.")
    ] = None
    open_page: Annotated[
        bool,
        typer.Option("--open", help="Open the page in a browser (look.html unless -o is given)."),
    ] = False
    head: Annotated[
        str | None, typer.Option(metavar="PATH", help="A head, as in decoder.1.cross.3.")
    ] = None
    by_hand: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH ROW COL", help="How one number came about, step by step."),
    ] = None
    edit: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Break it (ablation): no-scale, no-mask …"),
    ] = None
    reasons: Annotated[
        bool, typer.Option("--reasons", help="Is attention the reason? Four measures.")
    ] = False
    search: Annotated[
        bool, typer.Option("--search", help="What beam search kept and gave up, and why.")
    ] = False
    save: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="All numbers: JSON and safetensors.")
    ] = None
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The head as .svg or .png.")
    ] = None
    guide: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The sentence's whole way, in Markdown.")
    ] = None
    film: Annotated[
        bool, typer.Option("--film", help="The heads as they formed during training.")
    ] = False
    ablate: Annotated[
        list[str] | None,
        typer.Option(metavar="FILES", help="Ablate (silence) each head in turn: loss and BLEU."),
    ] = None

    @property
    def page(self) -> Path | None:
        return self.output or (Path("look.html") if self.open_page else None)

    def write(self, found: "Look") -> bool:
        """Write the files that are asked for, and tell of them; whether there are any."""
        if self.page:
            write_output(self.page, found.html())
        if self.save:
            found.save(self.save)
        if self.picture:
            found.picture(f"{self.head or best_head(found)}.pattern").save(self.picture)
        if self.guide:
            write_guide(found, self.guide)
        written = [*filter(None, (self.page, self.save, self.picture, self.guide))]
        tell_written(written, self.page)
        if self.open_page and self.page:
            typer.launch(self.page.resolve().as_uri())
        return bool(written)

    def print(self, console: "Console", found: "Look") -> None:
        """Print what is asked for, or else what was said and where the model looked."""
        if self.by_hand:
            console.print(str(told_by_hand(found, self.by_hand)))
        elif self.reasons:
            console.print(str(found.reasons()))
        elif self.search:
            console.print(str(found.beam or NO_SEARCH))
        elif self.head:
            print_matrix(console, found.attention(self.head))
            console.print(str(found.attention(self.head)))
        else:
            console.print(str(found))
            if found.before is not None:
                console.print(f"\n{found.change()}")
            print_matrix(console, overview(found))


def look(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder of any task.")],
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What to look at; else a line of stdin.")
    ] = None,
    *,
    asked: LookOptions,
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
    from rich.console import Console

    from clearhead.folder import RunFolder
    from clearhead.tasks import load

    console = Console(highlight=False, markup=False, soft_wrap=True)
    with options.busy(f"loading {run}"):
        user = load(run, checkpoint=checkpoint)
    if asked.ablate:
        return print_ablation(console, user, asked.ablate)
    log = RunFolder.open(run).film
    film = filmed(log, is_asked=asked.film) if asked.film or asked.page else None
    if film and text is None and asked.page is None:
        return play_film(console, film, user, asked.head)
    found = replace(asked_look(user, text, asked, settings), film=film)
    if not asked.write(found):
        asked.print(console, found)
    return None


def tell_written(paths: list[Path], page: Path | None) -> None:
    """Say on stderr what was written, and how large it is."""
    from clearhead.folder.run import bytes_in

    for path in paths:
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


def asked_look(
    user: Any, text: str | None, asked: LookOptions, settings: list[str] | None
) -> "Look":
    """The look that is asked for; not every task takes a target or settings of decoding."""
    from clearhead.data.lines import Lines

    line = next(iter(Lines("-")), "") if text is None else text
    how: dict[str, Any] = {"edit": asked.edit}
    if user.config.model.writes:
        how |= {"target": asked.target, "decode": options.decode_config(user.config, settings)}
    elif asked.target is not None:
        raise TextError("A model that reads and does not write has no --target.", "Leave it out.")
    result: Look = user.look(line, **how)
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


def print_matrix(console: "Console", matrix: "LabelledTensor") -> None:
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
        told = "untrained" if loss is None else f"loss {loss:.3f}"
        title = f"step {step:,}, {told}: {path}, head {number}{note}"
        values = film.patterns[path][place, number]
        if place and console.is_terminal:  # each frame in the place of the one before
            time.sleep(SECONDS_PER_FRAME)
            console.control(Control.move(y=-len(labels[0]) - 3))
        print_matrix(console, LabelledTensor(f"{title:<80}", values, tuple(axes), labels))


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
