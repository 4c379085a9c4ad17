"""`python -m clearhead` is `clearhead`."""

import sys

from clearhead.cli.main import main

if __name__ == "__main__":  # worker processes import this module too
    sys.exit(main())
