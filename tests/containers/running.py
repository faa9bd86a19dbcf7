"""Commands and variables of Dockerfile and compose file, for this machine.

What differs: addresses are of this machine, ports are free ones, and folders of the
container lie in a temporary one.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from containers.files import (
    COMPOSE,
    REPOSITORY,
    health_command,
    image_environment,
    last,
)

__all__ = ["SERVICE", "contained", "entry", "healthy", "placed"]

SERVICE = COMPOSE["services"]["service"]
PROGRAMS = Path(sys.executable).parent


def healthy(environment: dict[str, str]) -> bool:
    """Whether the image's health check succeeds."""
    words = [sys.executable if word == "python" else word for word in health_command()]
    return (
        subprocess.run(
            words, env=environment, capture_output=True, timeout=60, check=False
        ).returncode
        == 0
    )


def contained(folder: Path) -> dict[str, str]:
    """The image's environment and the files that compose mounts; the folders of the
    container are in `folder`."""
    (folder / "etc").mkdir()
    (folder / "var").mkdir()
    for volume in SERVICE["volumes"]:
        source, target, *_ = volume.split(":")
        if source.startswith("."):
            shutil.copy(REPOSITORY / "containers" / source, placed(target, folder))
    of_image = {
        name: placed(value, folder) for name, value in image_environment().items()
    }
    fixed = {
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "ODDSMITH_HOST": "127.0.0.1",
        "ODDSMITH_PORT": "0",
    }
    return of_image | fixed | {"HOME": str(folder / "var")}


def placed(text: str, folder: Path) -> str:
    """A path in the container as one of this machine."""
    return text.replace("/etc/oddsmith", str(folder / "etc")).replace(
        "/var/lib/oddsmith", str(folder / "var")
    )


def entry(*words: str) -> list[str]:
    """The command of a container: the image's entry point, from the environment of
    these tests, and these words."""
    (program,) = json.loads(last("ENTRYPOINT")[0])
    return [str(PROGRAMS / program), *words]
