"""`oddsmith COMMAND …`: errors are one line, and exit with 2."""

import argparse
import os
import sys
from collections.abc import Sequence

from oddsmith import __version__
from oddsmith.cli import lab, theory
from oddsmith.errors import OddsmithError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 if it went well, 2 with one line on standard error if not.

    >>> main(["bound", "--loss", "log", "--arms", "2", "--steps", "0", "--prior", "0.1"])
    2
    """
    parser = argparse.ArgumentParser(prog="oddsmith", description="Contextual bandits with exact odds.")
    parser.add_argument("--version", action="version", version=f"oddsmith {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    theory.add_commands(commands)
    lab.add_commands(commands)
    parsed = parser.parse_args(arguments)
    try:
        print(parsed.run(parsed), flush=True)
    except OddsmithError as error:
        print(f"oddsmith: {error}", file=sys.stderr)
        return 2
    except MemoryError as error:
        print(f"oddsmith: not enough memory; ask for less at once ({error})", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("oddsmith: stopped; what was finished is kept where the command keeps results", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader (head, less) has seen enough; what is left unwritten must not raise at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
