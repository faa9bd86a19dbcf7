"""The documentation as a static site on a port of this process, for a browser."""

import functools
import importlib.util
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od

__all__ = ["REPOSITORY", "built", "pages_of", "served"]

REPOSITORY = Path(od.__file__).parents[2]
_NEEDED = ("mkdocs", "material", "mkdocstrings")


class _Quiet(SimpleHTTPRequestHandler):
    """A server of files that writes no log."""

    def log_message(self, *_: Any) -> None:
        pass


def built(folder: Path) -> Path:
    """The site, built into a folder; the test is skipped where mkdocs and its plugins
    are not installed."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed: requirements/docs.txt has it")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        str(folder),
    ]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    # with --quiet, what is only a warning would pass
    assert done.returncode == 0, done.stderr
    return folder


def pages_of(folder: Path) -> list[str]:
    """Paths of all pages, as a browser asks for them."""
    found = [
        path.parent.relative_to(folder).as_posix()
        for path in folder.rglob("index.html")
    ]
    return sorted("" if path == "." else f"{path}/" for path in found)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of the folder on 127.0.0.1; it ends with the block."""
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
