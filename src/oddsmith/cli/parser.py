"""The parser of the command line: errors are one line, with a suggestion for a
misspelt word; the help of each command has a summary and an example."""

import argparse
import re
import sys
from collections.abc import Sequence
from typing import NoReturn, TypeAlias

from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import hint

__all__ = ["Commands", "Parser", "add_command", "add_json"]

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"""The argparse object to which a module adds its commands."""

_CHOICE = re.compile(
    r"invalid choice: '(?P<word>[^']*)' \(choose from (?P<choices>.*)\)", re.DOTALL
)

_UNKNOWN = ("unrecognized arguments", "the following arguments are required")


class Parser(argparse.ArgumentParser):
    """An argument parser that raises our errors instead of exiting."""

    _given: Sequence[str] = ()

    def parse_known_args(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        namespace: argparse.Namespace | None = None,
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as argparse does, and store the arguments for error messages."""
        if args is None:
            args = sys.argv[1:]
        self._given = list(args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Raise an error of one sentence, with the command that prints the help."""
        meant = ""
        choice = _CHOICE.search(message)
        if choice is not None:
            words = [word.strip(" '") for word in choice["choices"].split(",")]
            meant = hint(choice["word"], words)
        elif message.startswith(_UNKNOWN):
            meant = self._suggestion()
        raise InvalidInput(f"{message}{meant} ({self.prog} --help)")

    def _suggestion(self) -> str:
        """Return a suggestion for the first unknown option. Abbreviations of known
        options are not unknown."""
        words = list(self._given)
        parser: argparse.ArgumentParser = self
        while True:
            commands = _commands(parser)
            command = next((word for word in words if word in commands), None)
            if command is None:
                break
            parser = commands[command]
            words = words[words.index(command) + 1 :]
        options: list[str] = []
        for action in parser._actions:
            options += action.option_strings
        for word in words:
            option, _, _ = word.partition("=")
            is_known = any(known.startswith(option) for known in options)
            if option.startswith("--") and not is_known:
                return f"; {option} is no option{hint(option, options)}"
        return ""


def add_command(commands: Commands, name: str, summary: str, example: str) -> Parser:
    """Add a command whose help has a summary (a verb phrase) and one example."""
    return commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_json(parser: "argparse._ActionsContainer") -> None:
    """Add the option --json."""
    parser.add_argument("--json", action="store_true", help="print JSON for programs")


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the subcommands of a parser by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
