"""`clearhead look`: every number behind an output, in the terminal or in one file for a browser."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import clearhead
from clearhead.cli import options
from clearhead.data.lines import Lines
from clearhead.disk import write_output
from clearhead.errors import DataError, FolderError, TextError

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.look import LabelledTensor, Look
    from clearhead.look.film import Film

SECONDS_PER_FRAME = 0.4
NO_SEARCH = "There was no search: nothing was written, or tokens were drawn at random."


@dataclass(frozen=True, kw_only=True)
class LookOptions:
    """What to look at in a model, and where to put what is seen."""

    target: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Look at this output instead of the model's own."),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="HTML", help="Write the interactive page to this file."
        ),
    ] = None
    open_page: Annotated[
        bool,
        typer.Option("--open", help="Open the page in a browser (look.html unless -o is given)."),
    ] = False
    head: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="One head, as in decoder.1.cross.3: print where it looks."
        ),
    ] = None
    by_hand: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH ROW COL", help="Print how one number is computed, step by step."
        ),
    ] = None
    edit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Change the model inside (ablation): no-scale, no-mask, no-positions …",
        ),
    ] = None
    reasons: Annotated[
        bool,
        typer.Option(
            "--reasons",
            help="Print four measures of whether attention is the reason for the output.",
        ),
    ] = False
    search: Annotated[
        bool, typer.Option("--search", help="Print what beam search kept and gave up, and why.")
    ] = False
    save: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write all numbers, as JSON and safetensors."),
    ] = None
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a picture of the head, .svg or .png.")
    ] = None
    guide: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the way of the sentence through the model, in Markdown."
        ),
    ] = None
    film: Annotated[
        bool, typer.Option("--film", help="Show how the heads formed during training.")
    ] = False
    ablate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILES", help="Silence each head in turn (ablation), and print loss and BLEU."
        ),
    ] = None

    @property
    def page(self) -> Path | None:
        return self.output or (Path("look.html") if self.open_page else None)

    def look(self, user: Any, text: str | None, settings: list[str] | None) -> "Look":
        """The look that is asked for; not every task takes a target or settings of decoding."""
        line = next(iter(Lines("-")), "") if text is None else text
        how: dict[str, Any] = {"edit": self.edit}
        if user.config.model.writes:
            how |= {"target": self.target, "decode": options.decode_config(user.config, settings)}
        elif self.target is not None:
            raise TextError(
                "A model that reads and does not write has no --target.", "Leave it out."
            )
        found: Look = user.look(line, **how)
        return found

    def write(self, found: "Look") -> bool:
        """Write the files that are asked for, and tell of them; whether there are any."""
        from clearhead.folder.run import bytes_in

        if self.page:
            write_output(self.page, found.html())
        if self.save:
            found.save(self.save)
        if self.picture:
            found.picture(f"{self.head or overview(found)[0]}.pattern").save(self.picture)
        if self.guide:
            write_guide(found, self.guide)
        written = [*filter(None, (self.page, self.save, self.picture, self.guide))]
        for path in written:
            size = bytes_in(path) if path.is_dir() else path.stat().st_size
            hint = " Open it in a browser." if path == self.page else ""
            options.tell(f"Written: {path} ({size / 1e6:,.1f} MB).{hint}")
        if self.open_page and self.page:
            typer.launch(self.page.resolve().as_uri())
        return bool(written)

    def print(self, console: "Console", found: "Look") -> None:
        """Print what is asked for, or else what was said and where the model looked."""
        if self.by_hand:
            console.print(by_hand_text(found, *self.by_hand))
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
            print_matrix(console, overview(found)[1])


def look(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder of any task.")],
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="The text to look at; without it, a line of stdin."),
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
    - `clearhead look runs/en-de --film`
    - `clearhead look runs/en-de --ablate test.en test.de`
    """
    from rich.console import Console

    console = Console(highlight=False, markup=False, soft_wrap=True)
    with options.busy(f"loading {run}"):
        user = clearhead.load(run, checkpoint=checkpoint)
    if asked.ablate:
        print_ablation(console, user, asked.ablate)
        return
    film = film_of_run(run, is_asked=asked.film) if asked.film or asked.page else None
    if film and text is None and asked.page is None:
        play_film(console, film, user, asked.head)
        return
    found = replace(asked.look(user, text, settings), film=film)
    if not asked.write(found):
        asked.print(console, found)


def film_of_run(run: str, is_asked: bool) -> "Film | None":
    """The film of a run; where nobody asked for one, a missing or damaged film is no error."""
    from clearhead.folder import RunFolder
    from clearhead.look.film import film_of

    log = RunFolder.open(run).film
    try:
        shots = list(log.lines())
        if is_asked or any(shot.get("probes") for shot in shots):
            return film_of(shots, name=log.path)
    except FolderError as error:
        if is_asked:
            raise
        options.tell(f"Without the film: {error}")
    return None


def by_hand_text(found: "Look", path: str, *place: str) -> str:
    """How one number came about."""
    from clearhead.config import whole_number

    numbers = [number for each in place if (number := whole_number(each)) is not None]
    if len(place) == len(numbers) == 2:
        return str(found.by_hand(path, *numbers))
    raise DataError(
        "--by-hand takes a path, a row and a column.", "For example: decoder.0.self.1.pattern 2 1"
    )


def write_guide(found: "Look", path: Path) -> None:
    """Write the guide, and beside it the picture that it shows."""
    from clearhead.look.guide import guide

    image = path.with_suffix(".svg") if path.name else path
    write_output(path, guide(found, image.name) + "\n")
    found.picture(f"{overview(found)[0]}.pattern").save(image)


def overview(found: "Look") -> "tuple[str, LabelledTensor]":
    """The head that aligns words best, and word by word where it looked; else the last attention."""
    if found.family == "encoder-decoder":
        alignment = found.alignment()
        return alignment.head, alignment.matrix
    last = found.attentions[-1]
    return f"{last}.0", found.attention(last)


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
    from clearhead.data.examples import pairs
    from clearhead.tasks.evaluation import ablate_heads

    if not isinstance(user, clearhead.Translator):
        raise DataError(
            "Heads are silenced one by one in translators only.",
            "Try --edit silence:encoder.0.self.1",
        )
    examples = [(pair.source, pair.target) for pair in pairs(*files)]
    with options.progress_bar("{task.completed} of {task.total} heads") as show:
        found = ablate_heads(
            user, examples, lambda done, total: show("silencing heads", done, total)
        )
    console.print(str(found))
