"""Atomic writes: a file is written completely or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from oddsmith.core.errors import BadFile, OddsmithError

__all__ = ["check_absent", "new_file", "replacing", "write"]


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """Yield a temporary file beside `path`, which is flushed and atomically renamed to
    `path` at the end.

    If an exception occurs, the previous file stays unchanged. The new file has the mode
    of the file that it replaces, or that of the umask; only its owner can read a
    `private` file.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        handle = os.open(
            part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666
        )
    except (OSError, ValueError) as error:
        raise BadFile(f"cannot write {path}: {error}") from error
    try:
        with open(handle, "wb") as file:
            if not private and path.is_file():
                part.chmod(path.stat().st_mode & 0o777)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise BadFile(f"cannot write {path}: {error}") from error
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield the path of an empty private file, which is flushed and renamed to the
    given path at the end.

    Raise an error if a file already exists, both before the work and after it. If an
    exception occurs, no file remains.
    """
    check_absent(path)
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        yield part
        _sync(part)
        check_absent(path)
        os.rename(part, path)
        _sync(path.parent)
    except (OSError, ValueError) as error:
        if isinstance(error, OddsmithError):
            raise
        raise BadFile(f"cannot write {path}: {error}") from error
    finally:
        for left in (
            part,
            part.with_name(f"{part.name}-journal"),
            part.with_name(f"{part.name}-wal"),
        ):
            left.unlink(missing_ok=True)


def check_absent(path: Path) -> None:
    """Raise if the path exists or cannot be created."""
    if path.exists() or path.is_symlink():
        raise BadFile(
            f"{path} must be a new file, but it exists: give another name, or move it "
            "away first"
        )
    if not path.parent.is_dir():
        raise BadFile(f"{path} must be a writable file; its folder does not exist")


def _sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write `content` to `path` atomically; only the owner can read a `private`
    file."""
    with replacing(path, private=private) as file:
        file.write(content)
