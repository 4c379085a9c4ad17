"""Every exception a person can meet.

    ClearheadError              something that you can put right; its advice says how
    ├── ConfigError             a setting that is unknown, of the wrong kind or impossible
    ├── TextError               text that cannot be turned into tokens
    │   └── TokenizerError      a tokenizer file that is damaged, hostile or not the model's own
    ├── DataError               a file of examples that cannot be read as asked
    ├── ModelError              ids or lengths that the model cannot take
    │   └── ModelFileError      weights that are damaged, hostile or of another model
    ├── FolderError             a run folder that is missing, incomplete or not one
    │   └── FolderInUseError    another process is writing to it                      exit 5
    ├── ExchangeError           a foreign model, or a format, that cannot express the other
    ├── TrainingError           training cannot go on
    │   ├── NotFiniteError      the loss or a gradient is not a finite number         exit 3
    │   └── DiskError           the disk is full or cannot be written                 exit 4
    └── RequestError            a request that the server refuses, with its HTTP status

The message says what is wrong and what was found. Apart from it stands the advice: what to do, which
may name commands and settings. The command line prints both; a traceback shows the advice as a note.
"""

from typing import Self


class ClearheadError(Exception):
    """Something that you can put right; `advice` says how."""

    exit_code = 1

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message, advice)
        self.advice = advice
        if advice:
            self.add_note(advice)

    def __str__(self) -> str:
        return str(self.args[0])

    def at(self, place: object) -> Self:
        """The same error, beginning with the place where it was found."""
        return type(self)(f"{place}: {self}", self.advice)

    @property
    def whole(self) -> str:
        """The message and the advice, as the command line prints them."""
        return f"{self}\n{self.advice}" if self.advice else str(self)


class ConfigError(ClearheadError):
    """A setting that is unknown, of the wrong kind or impossible."""


class TextError(ClearheadError):
    """Text that cannot be turned into tokens."""


class TokenizerError(TextError):
    """A tokenizer file that is damaged, hostile or not the model's own."""


class DataError(ClearheadError):
    """A file of examples that cannot be read as asked."""


class ModelError(ClearheadError):
    """Ids or lengths that the model cannot take."""


class ModelFileError(ModelError):
    """Weights that are damaged, hostile or of another model."""


class FolderError(ClearheadError):
    """A run folder that is missing, incomplete or not one."""


class FolderInUseError(FolderError):
    """Another process is writing to the folder."""

    exit_code = 5


class ExchangeError(ClearheadError):
    """A foreign model, or a format, that cannot express the other."""


class TrainingError(ClearheadError):
    """Training cannot go on."""


class NotFiniteError(TrainingError):
    """The loss or a gradient is not a finite number."""

    exit_code = 3


class DiskError(TrainingError):
    """The disk is full or cannot be written."""

    exit_code = 4


class RequestError(ClearheadError):
    """A request that the server refuses: `status` is HTTP's, `code` a word for programs."""

    def __init__(
        self, message: str, advice: str = "", status: int = 400, code: str = "invalid_request"
    ) -> None:
        super().__init__(message, advice)
        self.status, self.code = status, code


def shown(value: object, width: int = 80) -> str:
    """A value as an error message may show it: escaped, on one line, and short."""
    try:
        text = (
            value.encode("unicode_escape").decode("ascii")
            if isinstance(value, str)
            else ascii(value)
        )
    except ValueError:  # Python writes out no integer of more than a few thousand digits
        text = "a number too long to show"
    return text if len(text) <= width else text[: width - 1] + "…"
