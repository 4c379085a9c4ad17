"""What happened inside: questions about a finished output, answered by one more, listening pass of the model."""

from clearhead.look.alignment import Alignment, align, word_spans

__all__ = ["Alignment", "align", "word_spans"]
