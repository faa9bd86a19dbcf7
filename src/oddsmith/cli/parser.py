"""The parser of the command line: complaints are one line, and propose what a misspelt
word was meant to be."""

import argparse
import re
import sys
from collections.abc import Sequence
from typing import NoReturn, TypeAlias

from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import hint

__all__ = ["Commands", "Parser"]

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"""Where a module adds its commands."""

_CHOICE = re.compile(
    r"invalid choice: '(?P<word>[^']*)' \(choose from (?P<choices>.*)\)", re.DOTALL
)


class Parser(argparse.ArgumentParser):
    """argparse, with errors of ours in place of an exit."""

    _given: Sequence[str] = ()

    def parse_known_args(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        namespace: argparse.Namespace | None = None,
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse does; the words are remembered for complaints."""
        self._given = sys.argv[1:] if args is None else list(args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """One sentence, with the command that helps."""
        meant = ""
        if choice := _CHOICE.search(message):
            meant = hint(
                choice["word"],
                [word.strip(" '") for word in choice["choices"].split(",")],
            )
        elif message.startswith(
            ("unrecognized arguments", "the following arguments are required")
        ):
            meant = self._misspelt()
        raise InvalidInput(f"{message}{meant} ({self.prog} --help)")

    def _misspelt(self) -> str:
        """What the first option that is none, nor the beginning of one, was meant to
        be."""
        words = list(self._given)
        parser: argparse.ArgumentParser = self
        while (commands := _commands(parser)) and (
            command := next((w for w in words if w in commands), None)
        ):
            parser, words = commands[command], words[words.index(command) + 1 :]
        options = [
            option for action in parser._actions for option in action.option_strings
        ]
        given = (word.partition("=")[0] for word in words if word.startswith("--"))
        wrong = next(
            (
                one
                for one in given
                if not any(option.startswith(one) for option in options)
            ),
            None,
        )
        return (
            f"; {wrong} is no option{hint(wrong, options)}" if wrong is not None else ""
        )


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands below a parser, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
