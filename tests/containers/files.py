"""Dockerfile and compose file, read as far as tests need it."""

import json
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import yaml

import oddsmith as od

__all__ = [
    "COMPOSE",
    "IMAGE",
    "REPOSITORY",
    "Step",
    "health_command",
    "image_environment",
    "interpolated",
]
__all__ += ["last"]

REPOSITORY = Path(od.__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load(
    (REPOSITORY / "containers" / "compose.yaml").read_text()
)


class Step(NamedTuple):
    """An instruction of a Dockerfile, in the stage of this number."""

    stage: int
    name: str
    text: str


def _steps(text: str) -> list[Step]:
    """All instructions; lines that end in a backslash go on, and comments are left
    out."""
    lines = [
        line for line in text.splitlines() if line.strip() and not line.startswith("#")
    ]
    stage, found = -1, list[Step]()
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        name, _, rest = line.partition(" ")
        stage += name == "FROM"
        found.append(Step(stage, name, rest.strip()))
    return found


IMAGE = _steps((REPOSITORY / "Dockerfile").read_text())


def last(name: str) -> list[str]:
    """What instructions of this name say in the last stage, which the image is."""
    return [
        step.text
        for step in IMAGE
        if step.name == name and step.stage == IMAGE[-1].stage
    ]


def health_command() -> list[str]:
    """The words of the image's health check."""
    (text,) = last("HEALTHCHECK")
    words: list[str] = json.loads(text.partition(" CMD ")[2])
    return words


def image_environment() -> dict[str, str]:
    """The variables that the image sets."""
    return dict(shlex.split(text)[0].split("=", 1) for text in last("ENV"))


def interpolated(value: str, given: dict[str, str]) -> str:
    """As compose fills in ${NAME:?why}; a name that is not given is an error."""
    return re.sub(r"\$\{(\w+):\?[^}]*\}", lambda found: given[found[1]], value)
