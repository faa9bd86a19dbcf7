"""`python -m oddsmith`: the same as the command `oddsmith`."""

import sys

from oddsmith.cli.main import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())
