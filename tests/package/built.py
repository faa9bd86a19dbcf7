"""Wheel and sdist of this tree, made by the build backend itself, with what is in
them."""

import email
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from pathlib import Path

import oddsmith as od

__all__ = ["REPOSITORY", "build", "metadata", "names_in"]

REPOSITORY = Path(od.__file__).parents[2]


def build(kind: str, folder: Path) -> Path:
    """The file of a build without isolation; `kind` is `wheel` or `sdist`."""
    code = (
        f"import hatchling.build; print(hatchling.build.build_{kind}({str(folder)!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.splitlines()[-1]


def names_in(archive: Path) -> set[str]:
    """Files in a wheel, or in an sdist without its folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            return set(file.namelist())
    with tarfile.open(archive) as file:
        return {
            member.name.partition("/")[2]
            for member in file.getmembers()
            if member.isfile()
        }


def metadata(wheel: Path) -> Message:
    """What a package index is told of a wheel; its payload is the README."""
    (name,) = [name for name in names_in(wheel) if name.endswith(".dist-info/METADATA")]
    with zipfile.ZipFile(wheel) as file:
        return email.message_from_string(file.read(name).decode())
