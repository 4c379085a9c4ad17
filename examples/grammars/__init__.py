"""The small grammars that made the text of `clearhead demo`, and what writes it into the package anew."""
