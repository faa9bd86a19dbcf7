"""The one way to write a file: whole, or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from oddsmith.errors import BadFile

__all__ = ["replacing", "write"]


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """A temporary file beside `path`, flushed to disk and put in its place at the end: all or nothing.

    Whatever is raised meanwhile leaves what was there before. Others may read it as far as the umask, or the mode of
    the file that it replaces, allows; a `private` file, none but its owner.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
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


def write(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write `content` to `path`: all or nothing; a `private` file can be read by its owner only."""
    with replacing(path, private=private) as file:
        file.write(content)
