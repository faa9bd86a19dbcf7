"""Experts that do what their context asks for, for the tests of isolation; found by
name, in another process."""

import ctypes
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import oddsmith as od


def hold() -> None:
    """Sleep without letting any other thread of the interpreter run."""
    ctypes.PyDLL(None).sleep(60)


def shout() -> None:
    """Print a lot, and read what there is to read."""
    print("to nobody" * 10_000, flush=True)
    sys.stdin.read()


DEEDS: dict[str, Callable[[], Any]] = {
    "segfault": lambda: ctypes.string_at(0),
    "_exit": lambda: os._exit(3),
    "hang": lambda: time.sleep(60),
    "nap": lambda: time.sleep(1),
    "hold": hold,
    "raise": lambda: 1 / 0,
    "exit": lambda: sys.exit("bye"),
    "inf": lambda: [float("inf"), 0.0],
    "huge": lambda: np.zeros(10**7),
    "print": shout,
}


def good(context: Any) -> list[float]:
    return [0.3, 0.6]


def poison(context: Any) -> Any:
    """Do the deed, and say what comes of it or else 0.7 and the context's number."""
    if not isinstance(context, dict):
        return [0.7, 0.1]
    if "mark" in context:
        Path(context["mark"]).touch()
    said = DEEDS[context["do"]]() if context["do"] in DEEDS else None
    return [0.7, context["x"]] if said is None else said


class Models(od.Experts):
    """A bank that is known by its version."""

    names = ("models",)

    def __init__(self, version: str) -> None:
        self._version = version

    @property
    def version(self) -> str:
        return self._version

    def predict(self, state: Any, context: Any) -> Any:
        return np.array([[0.1, 0.2]])


def bank(arms: Sequence[str]) -> od.FunctionExperts:
    """Two experts, one of them poisonous."""
    return od.FunctionExperts({"good": good, "poison": poison}, arms)


def models(arms: Sequence[str], file: str) -> Models:
    """Models whose version is written in a file."""
    return Models(Path(file).read_text())


def learning(arms: Sequence[str]) -> od.LearningExperts:
    """Experts that learn."""
    return od.LearningExperts(arms)
