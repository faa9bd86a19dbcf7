"""States of policy files in a command: `--state STATE`, or `--state POLICY.toml=STATE` for one of several."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from oddsmith import saving
from oddsmith.cli.units import learnt_units
from oddsmith.decision import State
from oddsmith.errors import InvalidInput
from oddsmith.files import PolicyFile

__all__ = ["states_of"]


def states_of(asked: argparse.Namespace, files: Mapping[str, PolicyFile]) -> dict[str, State]:
    """The states by the names of their policy files; a state without a name is that of the only file."""
    states: dict[str, State] = {}
    for text in asked.state:
        name, path = _named(text, files)
        if name in states:
            raise InvalidInput(f"state must be one for each policy file; got two for {name}")
        states[name], meta = saving.read(Path(path), files[name].policy)
        saving.check_units(meta, learnt_units(asked, files[name]), path, name)
    return states


def _named(text: str, files: Mapping[str, PolicyFile]) -> tuple[str, str]:
    """The policy file that a state is for, and the state's own file."""
    for name in files:
        if text.startswith(f"{name}="):
            return name, text.removeprefix(f"{name}=")
    if len(files) != 1:
        several = f", or say whose it is: --state {next(iter(files))}={text}" if files else ""
        raise InvalidInput(f"state must go with exactly one policy file as target; got {len(files)} of them{several}")
    return next(iter(files)), text
