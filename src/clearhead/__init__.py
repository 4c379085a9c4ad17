"""The Transformer of "Attention Is All You Need", whole: train it, use it, and see every step it takes."""

__version__ = "0.1.0"
