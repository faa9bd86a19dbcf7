"""API keys: 256 random bits that are shown once; a file keeps their hashes, scopes,
experiments, ends and rates."""

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

Scope: TypeAlias = Literal["decide", "reward", "read", "admin"]
"""What a key may do."""
ALL_SCOPES: tuple[Scope, ...] = get_args(Scope)
"""All scopes."""

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
    """What is kept of a token: its SHA-256, and the time from which it is refused, if
    there is one."""

    sha256: _Digest
    created: _Time
    expires: _Time | None = None

    def __repr__(self) -> str:
        return f"Token({self.created})"  # hashes have no place in logs


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A name and what it may do. No experiments means all of them; no rate means that
    of the service.

    `tokens` are in the order in which they were made: the last one is the key's,
    earlier ones end soon.
    """

    name: _Name
    scopes: Annotated[tuple[Scope, ...], msgspec.Meta(min_length=1)]
    experiments: tuple[_Name, ...]
    tokens: Annotated[tuple[Token, ...], msgspec.Meta(min_length=1)]
    rate: Rate | None = None
    revoked: _Time | None = None

    def may(self, scope: Scope, experiment: str | None) -> bool:
        """Whether this key allows `scope` on `experiment`, or on all of them at once
        where that is None."""
        allowed = scope in self.scopes or "admin" in self.scopes
        return (
            self.revoked is None
            and allowed
            and (not self.experiments or experiment in self.experiments)
        )

    def __repr__(self) -> str:
        return f"Key({self.name!r})"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    format: Literal["oddsmith keys 2"]
    keys: tuple[Key, ...]


class KeyRing:
    """The keys of a file, read again as soon as it changes: a revoked key is refused
    from the next request on.

    A change that cannot be read is logged once, and the keys read before stay in force.
    `clock` is in seconds since 1970: a token is refused from its end on, whether or not
    the file changes.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.path, self._clock = path, clock
        # before the content: what changes in between is then read again
        self._stamp = _stamp(path)
        self._ends = _ends(read_keys(path))

    @classmethod
    def read(
        cls, path: str | Path, *, clock: Callable[[], float] = time.time
    ) -> "KeyRing":
        """The keys of a file that `create` wrote."""
        return cls(Path(path), clock)

    def find(self, token: str) -> Key | None:
        """The key of this token; None if there is none, it was revoked or it has ended.

        A dictionary by hash: how long a look takes may depend on the hash of what was
        sent, which says nothing of a token that is 256 random bits.
        """
        self._read_again()
        key, end = (
            self._ends.get(_digest(token), _NO_KEY)
            if _TOKEN.fullmatch(token)
            else _NO_KEY
        )
        return key if self._clock() < end else None

    def live(self) -> bool:
        """Whether there is a key that is in force."""
        self._read_again()
        now = self._clock()
        return any(now < end for _, end in self._ends.values())

    def seconds_left(self, within: float) -> dict[str, float]:
        """How long keys are still in force that end `within` so many seconds, by name,
        the soonest first."""
        self._read_again()
        now, ends = self._clock(), dict[str, float]()
        for key, end in self._ends.values():
            if key is not None and now < end:
                # of the tokens of a key the last one counts
                ends[key.name] = max(end, ends.get(key.name, end))
        soon = sorted((end, name) for name, end in ends.items() if end <= now + within)
        return {name: end - now for end, name in soon}

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
    """The key of each hash, and the time at which its token ends; revoked keys have
    none."""
    return {
        token.sha256: (
            key,
            math.inf if token.expires is None else token.expires.timestamp(),
        )
        for key in keys
        if key.revoked is None
        for token in key.tokens
    }


def read_keys(path: str | Path) -> tuple[Key, ...]:
    """The keys of a file, revoked ones too, oldest first; the file must be writable by
    its owner only."""
    try:
        with open(path, "rb") as file:
            mode, content = os.fstat(file.fileno()).st_mode, file.read()
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
    hashes = [token.sha256 for key in keys for token in key.tokens]
    for what, values in (("name", [key.name for key in keys]), ("sha256", hashes)):
        if len(set(values)) < len(values):
            raise BadFile(f"{path} must hold each key once; got the same {what} twice")
    return keys


def create(
    path: str | Path,
    name: str,
    scopes: Sequence[Scope],
    experiments: Sequence[str] = (),
    *,
    expires: datetime | None = None,
    rate: Rate | None = None,
) -> str:
    """A new key's token, which nothing keeps; its hash is added to the file, which is
    made if there is none."""
    for what, text in (("name", name), *(("experiments", one) for one in experiments)):
        if not _NAME.fullmatch(text):
            raise InvalidInput(
                f"{what} must be 1 to 64 of a-z, 0-9, - and _; got {text!r:.80}"
            )
    if name == "anyone":
        raise InvalidInput(
            "name must not be 'anyone', the sender of calls where there are no keys; "
            "choose another"
        )
    if not scopes or not set(scopes) <= set(ALL_SCOPES):
        raise InvalidInput(
            f"scopes must be of {', '.join(ALL_SCOPES)}; got "
            f"{', '.join(scopes) or 'none':.80}"
        )
    token, kept = _new_token(expires)
    with _editing(path) as keys:
        if any(key.name == name for key in keys):
            raise InvalidInput(
                f"name must be new, also among revoked keys; got {name!r}"
            )
        chosen = tuple(scope for scope in ALL_SCOPES if scope in scopes)
        keys.append(Key(name, chosen, tuple(sorted(set(experiments))), (kept,), rate))
    return token


def rotate(
    path: str | Path,
    name: str,
    *,
    overlap: timedelta = OVERLAP,
    expires: datetime | None = None,
) -> str:
    """A new token under the name of a key; those before stay in force for `overlap`,
    but not beyond their own end.

    The new token lives as long as the last one was to live, unless its end is given.
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
        token, kept = _new_token(expires)
        ends = [
            (one, min(one.expires or now + overlap, now + overlap))
            for one in key.tokens
        ]
        earlier = [
            msgspec.structs.replace(one, expires=end) for one, end in ends if end > now
        ]
        keys[place] = msgspec.structs.replace(key, tokens=(*earlier, kept))
    return token


def revoke(path: str | Path, name: str) -> None:
    """Refuse this key from now on, all its tokens; its name stays in the file. Again:
    nothing changes."""
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
    """The keys of a file, which is locked against other writers; written back as a
    whole unless something is raised."""
    import fcntl

    path = Path(path).resolve()
    try:
        handle = os.open(
            path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600
        )
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
    """What differs after a change of a file; None if there is none."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


def _digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
