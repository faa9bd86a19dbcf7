"""Formats of the service's log lines (text or JSON), and the access log.

Neither log contains the message of an exception or of a library's warning, because
messages of experts and database drivers may contain a user's context. The type and the
place are enough to find the line of code.
"""

import logging
import sys
import time
import warnings
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path
from types import TracebackType
from typing import Literal, TextIO, TypeAlias

import msgspec

from oddsmith.core.errors import BadFile, place_of

__all__ = ["AccessLine", "AccessLog", "LogFormat", "set_up_logging"]

LogFormat: TypeAlias = Literal["text", "json"]
_Exception: TypeAlias = (
    "tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, "
    "None, None]"
)
# maximum number of stack frames that are logged for an unexpected exception
_FRAMES = 30
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger(__name__)


class _TextLines(logging.Formatter):
    """Formats a record as a single line: 2026-11-16T09:00:00.123Z WARNING sentence."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_time(record.created)} {record.levelname} {_words(self, record)}"

    def formatException(self, ei: _Exception) -> str:  # noqa: N802
        if ei[1] is None:
            return ""
        return place_of(ei[1], frames=_FRAMES)


class _JsonLines(_TextLines):
    """Formats a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": _words(self, record),
        }
        return _encode(line).decode()


class AccessLine(msgspec.Struct):
    """One line of the access log, which describes an answer. It does not contain the
    body, the query and the token of the request."""

    method: str
    # the path pattern of the route, not the requested path; empty if no route matches
    route: str
    status: int
    ms: float
    bytes: int
    key: str = ""  # name of the key
    experiment: str | None = None
    decision: str | None = None


def set_up_logging(form: LogFormat) -> None:
    """Send the log of this process to standard error, unless logging is configured
    already."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = _JsonLines if form == "json" else _TextLines
    handler.setFormatter(formatter())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    for name in ("uvicorn", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.showwarning = _OnceEach()


class _OnceEach:
    """Writes warnings as log lines, once per line of code. Only warnings of this
    library are logged with their text."""

    def __init__(self) -> None:
        self._logged: set[tuple[type[Warning], str, int]] = set()

    def __call__(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        """Log a warning; a replacement for `warnings.showwarning`."""
        source = (category, filename, lineno)
        if source in self._logged:
            return
        self._logged.add(source)
        package = category.__module__.partition(".")[0]
        text = f": {message}" if package == "oddsmith" else ""
        path = Path(filename)
        place = f"{path.parent.name}/{path.name}:{lineno}"
        _log.warning(
            "%s at %s%s; later warnings of this line are not logged",
            category.__name__,
            place,
            text,
        )


class AccessLog:
    """Appends lines to a file; `-` is standard output. The file is created again if it
    was moved away.

    Lines that cannot be written are dropped, and the service's log reports this once.
    Answers do not wait until their line is written.
    """

    def __init__(self, place: str) -> None:
        handler: logging.Handler
        try:
            if place == "-":
                handler = logging.StreamHandler(sys.stdout)
            else:
                handler = WatchedFileHandler(Path(place))
        except OSError as error:
            got = f"{place!r:.120}, {error.strerror}"
            raise BadFile(
                f"access-log must be a file that can be written; got {got}"
            ) from error
        handler.handleError = _raise  # type: ignore[method-assign, assignment]
        self._place = place
        self._handler = handler
        self._failing = False

    def __call__(self, line: AccessLine) -> None:
        """Write one line."""
        fields = {"time": _time(time.time())} | msgspec.structs.asdict(line)
        text = _encode(fields).decode()
        record = logging.LogRecord(
            "oddsmith.access", logging.INFO, "", 0, text, (), None
        )
        try:
            self._handler.emit(record)
        # disk full, folder deleted or output closed
        except (OSError, ValueError) as error:
            if not self._failing:
                _log.error(
                    "the access log %s cannot be written, its lines are left out: %s",
                    self._place,
                    error,
                )
            self._failing = True
        else:
            if self._failing:
                _log.info("the access log %s is written again", self._place)
            self._failing = False

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError, ValueError):  # writing the buffered lines may fail
            self._handler.close()


def _raise(_: logging.LogRecord) -> None:
    """Pass the error of a logging handler on to the caller."""
    raise  # noqa: PLE0704, handlers call this while they handle the error


def _time(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _words(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    words = record.getMessage()
    if record.exc_info:
        words += f": {formatter.formatException(record.exc_info)}"
    return " ".join(words.splitlines())
