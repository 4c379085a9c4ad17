"""`python -m clearhead` is `clearhead`."""

import sys

from clearhead.cli.main import main

sys.exit(main())
