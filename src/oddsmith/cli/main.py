"""`oddsmith COMMAND …`: errors are one line, and exit with 2; an answer that is refused, or is no, exits with 3."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from oddsmith import __version__
from oddsmith.cli import evaluate, fit, keys, lab, proof, replay, serve, theory
from oddsmith.cli.words import Refused
from oddsmith.errors import InvalidInput, OddsmithError

__all__ = ["main"]


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, like all others."""

    def error(self, message: str) -> NoReturn:
        raise InvalidInput(f"{message} ({self.prog} --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 if it went well, 2 with one line on standard error if not, 3 if it is refused, or a no.

    >>> main(["bound", "--loss", "log", "--arms", "2", "--steps", "0", "--prior", "0.1"])
    2
    """
    parser = _Parser(prog="oddsmith", description="Contextual bandits with exact odds.")
    parser.add_argument("--version", action="version", version=f"oddsmith {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    theory.add_commands(commands)
    lab.add_commands(commands)
    evaluate.add_commands(commands)
    replay.add_commands(commands)
    fit.add_commands(commands)
    serve.add_commands(commands)
    keys.add_commands(commands)
    proof.add_commands(commands)
    code = 0
    try:
        parsed = parser.parse_args(arguments)
        said = parsed.run(parsed)
        text, code = (said.text, 3) if isinstance(said, Refused) else (said, 0)
        print(text, flush=True)
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
    return code
