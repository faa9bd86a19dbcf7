"""API keys: random tokens of 256 bits. A file contains their hashes, scopes,
experiments, expiry times and rates; a token itself is shown only once."""

import logging
import math
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, get_args

import msgspec

from oddsmith.core.errors import BadFile, InvalidInput
from oddsmith.files import disk
from oddsmith.server.http.rates import Rate

__all__ = [
    "ALL_SCOPES",
    "Key",
    "KeyRing",
    "Scope",
    "Token",
    "create",
    "read_keys",
    "revoke",
    "rotate",
]

Scope: TypeAlias = Literal["decide", "reward", "read", "operate", "admin"]
"""A permission of a key."""
ALL_SCOPES: tuple[Scope, ...] = get_args(Scope)
"""The names of all scopes."""

FORMAT = "oddsmith keys 2"
OVERLAP = timedelta(days=7)
_LONGEST = timedelta(days=36_525)
_NAME = re.compile(r"[a-z0-9_-]{1,64}")
_TOKEN = re.compile(r"od_[A-Za-z0-9_-]{43}")
_Name: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"\A{_NAME.pattern}\Z")]
_Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_Time: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]

_log = logging.getLogger(__name__)


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The record of a token: its SHA-256 and its expiry time, if it has one."""

    sha256: _Digest
    created: _Time
    expires: _Time | None = None

    def __repr__(self) -> str:
        return f"Token({self.created})"  # hashes must not appear in logs


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A named key and its permissions.

    Without experiments, the key is valid for all of them; without a rate, the rate of
    the service applies. `tokens` are in the order of their creation. The last one is
    current, and earlier ones expire soon.
    """

    name: _Name
    scopes: Annotated[tuple[Scope, ...], msgspec.Meta(min_length=1)]
    experiments: tuple[_Name, ...]
    tokens: Annotated[tuple[Token, ...], msgspec.Meta(min_length=1)]
    rate: Rate | None = None
    revoked: _Time | None = None

    def may(self, scope: Scope, experiment: str | None) -> bool:
        """Return whether this key permits `scope` on an experiment, or on all
        experiments if it is None."""
        if self.revoked is not None:
            return False
        if scope not in self.scopes and "admin" not in self.scopes:
            return False
        return not self.experiments or experiment in self.experiments

    def __repr__(self) -> str:
        return f"Key({self.name!r})"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    format: Literal["oddsmith keys 2"]
    keys: tuple[Key, ...]


class KeyRing:
    """The keys of a file, which is read again as soon as it changes. A revoked key is
    refused from the next request on.

    If a changed file cannot be read, the service logs this once and continues with the
    keys that it read before. `clock` returns seconds since 1970: an expired token is
    refused even if the file does not change.
    """

    def __init__(
        self, path: str | Path, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.path = Path(path)
        self._clock = clock
        # Take the stamp before reading, so that a change during the read causes another
        # read.
        self._stamp = _stamp(self.path)
        self._ends = _ends(read_keys(self.path))

    def find(self, token: str) -> Key | None:
        """Return the key of this token; None if it is unknown, revoked or expired.

        Keys are looked up in a dictionary by hash. The time of a lookup may depend on
        the hash of the token, which reveals nothing about a random token of 256 bits.
        """
        self._read_again()
        if not _TOKEN.fullmatch(token):
            return None
        key, end = self._ends.get(_digest(token), _NO_KEY)
        if self._clock() < end:
            return key
        return None

    def live(self) -> bool:
        """Return whether at least one key is valid now."""
        self._read_again()
        now = self._clock()
        return any(now < end for _, end in self._ends.values())

    def seconds_left(self, within: float) -> dict[str, float]:
        """Return the seconds until expiry of the keys that expire `within` this number
        of seconds, by name, earliest first."""
        self._read_again()
        now = self._clock()
        # latest expiry time by key, because a key can have several tokens
        last_ends: dict[str, float] = {}
        for key, end in self._ends.values():
            if key is not None and now < end:
                last_ends[key.name] = max(end, last_ends.get(key.name, end))
        names = sorted(last_ends, key=lambda name: (last_ends[name], name))
        return {
            name: last_ends[name] - now
            for name in names
            if last_ends[name] <= now + within
        }

    def _read_again(self) -> None:
        stamp = _stamp(self.path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._ends = _ends(read_keys(self.path))
            except BadFile as error:
                _log.error("%s; the keys read before stay in force", error)


_Ends: TypeAlias = "dict[str, tuple[Key | None, float]]"
_NO_KEY: tuple[Key | None, float] = (None, -math.inf)


def _ends(keys: tuple[Key, ...]) -> _Ends:
    """Return a dict from token hash to key and expiry time, without revoked keys."""
    ends: _Ends = {}
    for key in keys:
        if key.revoked is not None:
            continue
        for token in key.tokens:
            end = math.inf
            if token.expires is not None:
                end = token.expires.timestamp()
            ends[token.sha256] = (key, end)
    return ends


def read_keys(path: str | Path) -> tuple[Key, ...]:
    """Return the keys of a file, oldest first, including revoked ones. The file must be
    writable by its owner only."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadFile(
            f"{path} must be a file that `oddsmith keys create` wrote; {why}"
        ) from error
    if mode & 0o022:
        raise BadFile(
            f"{path} must be writable by its owner only; got mode {mode & 0o777:o} "
            f"(chmod 600 {path})"
        )
    try:
        keys = msgspec.json.decode(content, type=_File).keys
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFile(
            f"{path} must be a file of format {FORMAT!r}; {error!s:.160}"
        ) from error
    _check_once(path, "name", [key.name for key in keys])
    _check_once(path, "sha256", [token.sha256 for key in keys for token in key.tokens])
    return keys


def _check_once(path: str | Path, what: str, values: list[str]) -> None:
    """Raise if two keys in a file have the same value."""
    if len(set(values)) < len(values):
        raise BadFile(f"{path} must contain each key once; got the same {what} twice")


def create(
    path: str | Path,
    name: str,
    scopes: Sequence[Scope],
    experiments: Sequence[str] = (),
    *,
    expires: datetime | None = None,
    rate: Rate | None = None,
) -> str:
    """Add a key to the file and return its token; create the file if there is none.

    The file contains only the hash of the token.
    """
    _check_key_name("name", name)
    for experiment in experiments:
        _check_key_name("experiments", experiment)
    if name == "anyone":
        raise InvalidInput(
            "name must not be 'anyone', which is reserved for calls made without keys; "
            "choose another"
        )
    if not scopes or not set(scopes) <= set(ALL_SCOPES):
        got = ", ".join(scopes) or "none"
        raise InvalidInput(f"scopes must be of {', '.join(ALL_SCOPES)}; got {got:.80}")
    token, record = _new_token(expires)
    with _editing(path) as keys:
        if any(key.name == name for key in keys):
            raise InvalidInput(
                f"name must be new, also among revoked keys; got {name!r}"
            )
        in_order = tuple(scope for scope in ALL_SCOPES if scope in scopes)
        own = tuple(sorted(set(experiments)))
        keys.append(Key(name, in_order, own, (record,), rate))
    return token


def _check_key_name(what: str, text: str) -> None:
    if not _NAME.fullmatch(text):
        raise InvalidInput(
            f"{what} must be 1 to 64 of a-z, 0-9, - and _; got {text!r:.80}"
        )


def rotate(
    path: str | Path,
    name: str,
    *,
    overlap: timedelta = OVERLAP,
    expires: datetime | None = None,
) -> str:
    """Return a new token for a key. Earlier tokens expire after `overlap`, or at their
    own expiry time if that is earlier.

    By default, the new token has the lifetime of the last one.
    """
    now = _now()
    with _editing(path) as keys:
        place = _place(keys, name, path)
        key = keys[place]
        if key.revoked is not None:
            raise InvalidInput(
                f"name must be that of a key that is not revoked; got {name!r}: create "
                "another key"
            )
        last = key.tokens[-1]
        if expires is None and last.expires is not None:
            expires = now + (last.expires - last.created)
        token, record = _new_token(expires)
        tokens: list[Token] = []
        for earlier in key.tokens:
            end = now + overlap
            if earlier.expires is not None:
                end = min(earlier.expires, end)
            if end > now:
                tokens.append(msgspec.structs.replace(earlier, expires=end))
        tokens.append(record)
        keys[place] = msgspec.structs.replace(key, tokens=tuple(tokens))
    return token


def revoke(path: str | Path, name: str) -> None:
    """Revoke a key with all its tokens. Its name stays in the file. Revoking it again
    changes nothing."""
    with _editing(path) as keys:
        place = _place(keys, name, path)
        if keys[place].revoked is None:
            keys[place] = msgspec.structs.replace(keys[place], revoked=_now())


def _place(keys: list[Key], name: str, path: str | Path) -> int:
    for place, key in enumerate(keys):
        if key.name == name:
            return place
    raise InvalidInput(f"name must be that of a key in {path}; got {name!r:.80}")


def _new_token(expires: datetime | None) -> tuple[str, Token]:
    now = _now()
    if expires is not None and not now < expires <= now + _LONGEST:
        raise InvalidInput(
            "expires must be in the future, within 100 years; got "
            f"{expires.isoformat()}"
        )
    token = "od_" + secrets.token_urlsafe(32)
    return token, Token(_digest(token), now, expires)


@contextmanager
def _editing(path: str | Path) -> Iterator[list[Key]]:
    """Lock a file against other writers and yield its keys. After the block the list is
    written back as a whole, unless the block raises an error."""
    import fcntl

    path = Path(path).resolve()
    lock = path.with_name(path.name + ".lock")
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise BadFile(f"cannot write {path}: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        keys = list(read_keys(path)) if path.exists() else []
        yield keys
        content = msgspec.json.encode({"format": FORMAT, "keys": keys})
        disk.write(path, msgspec.json.format(content) + b"\n", private=True)
    finally:
        os.close(handle)


_Stamp: TypeAlias = tuple[int, int, int]


def _stamp(path: Path) -> _Stamp | None:
    """Return a value that changes when the file changes; None if there is no file."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


def _digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
