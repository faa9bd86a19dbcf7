"""New virtual environments, and programs in them: no compiler, nothing of this tree, no
user site."""

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["NotInstalled", "answer", "environment", "run", "serving"]

BARE = {
    name: value
    for name, value in os.environ.items()
    if name not in ("PYTHONPATH", "VIRTUAL_ENV")
}
BARE |= {"CC": "/bin/false", "CXX": "/bin/false", "PYTHONNOUSERSITE": "1"}


class NotInstalled(Exception):
    """pip could not install something; the end of what it said."""


def environment(folder: Path, *asked: str | Path, sources: str = ":none:") -> Path:
    """The programs of a new environment with these requirements, from wheels but for
    the packages `sources`."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=300)
    pip = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--only-binary",
        ":all:",
    ]
    pip += ["--no-binary", sources]
    done = subprocess.run(
        [*pip, *map(str, asked)],
        env=BARE,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    if done.returncode != 0:
        raise NotInstalled(done.stderr[-2000:])
    return folder / "bin"


def run(command: Sequence[str | Path], folder: Path) -> str:
    """What a program prints; it must succeed."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=BARE,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@contextmanager
def serving(
    command: Sequence[str | Path],
    folder: Path,
    environment: dict[str, str] | None = None,
) -> Iterator[str]:
    """The address of an `oddsmith serve`, once it is ready; it is ended at the end."""
    log = folder / f"serve-{time.monotonic_ns()}.log"
    with open(log, "w") as said:
        server = subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            env=BARE | (environment or {}),
            stdout=said,
            stderr=said,
        )
    try:
        end = time.monotonic() + 120
        while not (
            found := re.search(r"listening on http://\S+:(\d+)", log.read_text())
        ):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        address = f"http://127.0.0.1:{found[1]}"
        while answer(f"{address}/readyz") != 200:
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        yield address
    finally:
        server.terminate()
        assert server.wait(60) == 0, log.read_text()


def answer(url: str) -> int:
    """The status of a GET."""
    try:
        with urllib.request.urlopen(url, timeout=30) as got:
            return int(got.status)
    except urllib.error.HTTPError as error:
        return error.code
