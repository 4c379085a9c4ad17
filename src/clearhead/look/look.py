"""A look inside: an output with all tensors behind it, and the questions that people ask about it."""

from clearhead.look.by_hand import RULES, ByHand, Cell
from clearhead.look.edits import change
from clearhead.look.export import in_file, meta, save, silenced_heads, tensors
from clearhead.look.gates import RECURRENT_RULES, RecurrentCell
from clearhead.look.html import framed, page
from clearhead.look.labelled import Heatmap, without_head
from clearhead.look.reasons import reasons
from clearhead.look.replay import Replay


class Look(Replay):
    """One output and every tensor behind it; `look["decoder.1.cross.pattern"]` is one of them."""

    reasons = reasons
    change = change
    tensors = tensors
    meta = meta
    save = save
    silenced_heads = silenced_heads

    def by_hand(self, path: str, row: int, col: int = 0, head: int | None = None) -> ByHand:
        """How one number came about: its operands and the arithmetic, recomputed."""
        path, head = without_head(path, head)
        number, head = self[path], head or 0
        place = (head, row, col) if "head" in number.axes else (row, col)[: number.values.ndim]
        for index in place:
            number = number.at(number.axes[0], index)
        part, _, name = path.rpartition(".")
        recurs = self.model.config.recurs
        kind, rules = (RecurrentCell, RECURRENT_RULES) if recurs else (Cell, RULES)
        cell = kind(self, part, row, col, head)
        return ByHand(
            path=path,
            where=number.path.removeprefix(f"{path}, "),
            lines=tuple(rules[name](cell)),
            model=float(number.values),
            operands=cell.operands,
            edited=path in self.taps,
        )

    def picture(self, path: str, head: int | None = None) -> Heatmap:
        """A matrix as an image: `.svg()`, `.png()`, `.save("file.svg")`."""
        found = self[path]
        return Heatmap(found if head is None else found.at("head", head))

    def html(self) -> str:
        """The interactive page, whole in one file."""
        values = self.tensors()
        return page(in_file(self, values), values)

    def _repr_html_(self) -> str:
        return framed(self.html(), str(self))

    def __repr__(self) -> str:
        return f"<a look at {self.input!r} → {self.output!r}: {len(self.seen)} tensors>"

    def __str__(self) -> str:
        lines = [f"{self.input} → {self.output}", *(f"edited: {edit}" for edit in self.edits)]
        lines += [f"note: {note}" for note in self.notes]
        if self.source:
            lines.append("read: " + " ".join(token.text for token in self.source))
        if self.classes:
            lines += [f"  {guess.prob:6.1%}  {guess.text}" for guess in self.verdict]
        for number in range(self.n_given, len(self.target)):
            step = self.step(number, 4)
            others = ", ".join(str(guess) for guess in step.top if guess.id != step.chosen.id)
            lines.append(f"  {step.chosen.prob:6.1%}  {step.chosen.text}   (or {others})")
        for number in self.gaps if not self.classes else ():
            lines.append(f"  {number}: {', '.join(map(str, self.alternatives(number, 5)))}")
        return "\n".join(lines)
