"""`python -m clearhead` is `clearhead`."""

import sys


def run() -> int:
    """The program; Ctrl-C ends it quietly from the first moment, while it is still being read."""
    try:
        from clearhead.cli.main import main
    except KeyboardInterrupt:
        return 130
    return main()


if __name__ == "__main__":  # worker processes import this module too
    sys.exit(run())
