"""`oddsmith COMMAND …`: run one command. Errors are one line, and the exit code states
their kind.

0: success. 1: a store, a disk or memory failed, or oddsmith has a bug (with a
traceback), or `verify --strict` could not check everything. 2: the arguments are wrong.
3: the command has no result, or its result is negative. 130: stopped from the keyboard.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from oddsmith import __version__
from oddsmith.cli.parser import Parser
from oddsmith.cli.words import Refusal
from oddsmith.core.errors import OddsmithError, StoreFailed

__all__ = ["command_parser", "main"]

_LESS = (
    "use fewer rows or a machine with more memory; `fit` reads logs in parts, "
    "`evaluate` reads all rows at once, and --model none without policy files needs "
    "no contexts"
)


_MODULES = {
    "bound": "theory",
    "tune": "theory",
    "certify": "certify",
    "reproduce": "lab",
    "simulate": "lab",
    "evaluate": "evaluate",
    "replay": "replay",
    "fit": "fit",
    "import": "imports",
    "serve": "serve",
    "dashboard": "dashboard",
    "keys": "keys",
    "action": "action",
    "verify": "audit",
    "export": "audit",
    "history": "audit",
    "doctor": "audit",
    "backup": "backup",
    "restore": "backup",
    "upgrade": "backup",
}
"""The module of each command in oddsmith.cli, in the order of the help."""


def command_parser(command: str = "") -> Parser:
    """Return the parser of one command, or of all commands if the name is empty.

    >>> command_parser().parse_args(["verify", "news.sqlite"]).store
    'news.sqlite'
    """
    parser = Parser(
        prog="oddsmith",
        description="Contextual bandits with exact propensities.",
        epilog="`oddsmith COMMAND --help` prints the options and an example.",
    )
    parser.add_argument(
        "--version", action="version", version=f"oddsmith {__version__}"
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    names = list(dict.fromkeys(_MODULES.values()))
    # one command does not wait for the imports of the others
    if command in _MODULES:
        names = [_MODULES[command]]
    for name in names:
        import_module(f"oddsmith.cli.{name}").add_commands(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    >>> main(
    ...     ["bound", "--loss", "log", "--arms", "2", "--steps", "0", "--prior", "0.1"]
    ... )
    2
    """
    code = 0
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        parsed = command_parser(*words[:1]).parse_args(words)
        answer = parsed.run(parsed)
        text = answer
        if isinstance(answer, Refusal):
            text = answer.text
            code = answer.code
        if text:
            print(text, flush=True)
    except OddsmithError as error:
        print(f"oddsmith: {error}", file=sys.stderr)
        return 1 if isinstance(error, StoreFailed) else 2
    except MemoryError as error:
        # numpy's message contains the requested size. Other libraries have no message.
        detail = f" ({error})" if str(error) else ""
        print(f"oddsmith: not enough memory{detail}: {_LESS}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "oddsmith: stopped; finished results remain in the command's output folder",
            file=sys.stderr,
        )
        return 130
    # The reader (head, less) closed the pipe. Send the remaining output to /dev/null,
    # so that no exception occurs at exit.
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code
