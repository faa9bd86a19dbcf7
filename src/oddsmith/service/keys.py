"""API keys: 256 random bits that are shown once; a file keeps their hashes, scopes and experiments."""

import hmac
import logging
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, get_args

import msgspec

from oddsmith import disk
from oddsmith.errors import BadFile, InvalidInput

__all__ = ["ALL_SCOPES", "Key", "KeyRing", "Scope", "create", "read_keys", "revoke"]

Scope: TypeAlias = Literal["decide", "reward", "read", "admin"]
ALL_SCOPES: tuple[Scope, ...] = get_args(Scope)

FORMAT = "oddsmith keys 1"
_NAME = re.compile(r"[a-z0-9_-]{1,64}")
_TOKEN = re.compile(r"od_[A-Za-z0-9_-]{43}")
_Name: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"\A{_NAME.pattern}\Z")]
_Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_Time: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]

_log = logging.getLogger(__name__)


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of a key: never the token, only its SHA-256. No experiments means all of them."""

    name: _Name
    sha256: _Digest
    scopes: Annotated[tuple[Scope, ...], msgspec.Meta(min_length=1)]
    experiments: tuple[_Name, ...]
    created: _Time
    revoked: _Time | None = None

    def may(self, scope: Scope, experiment: str | None) -> bool:
        """Whether this key allows `scope` on `experiment`, or on all of them at once where that is None."""
        allowed = scope in self.scopes or "admin" in self.scopes
        return self.revoked is None and allowed and (not self.experiments or experiment in self.experiments)

    def __repr__(self) -> str:
        return f"Key({self.name!r})"  # hashes have no place in logs


class _File(msgspec.Struct, forbid_unknown_fields=True):
    format: Literal["oddsmith keys 1"]
    keys: tuple[Key, ...]


class KeyRing:
    """The keys of a file, read again as soon as it changes: a revoked key is refused from the next request on.

    A change that cannot be read is logged once, and the keys read before stay in force.
    """

    def __init__(self, path: Path, keys: tuple[Key, ...], stamp: "_Stamp | None") -> None:
        self.path, self._keys, self._stamp = path, keys, stamp

    @classmethod
    def read(cls, path: str | Path) -> "KeyRing":
        """The keys of a file that `create` wrote."""
        path = Path(path)
        stamp = _stamp(path)  # before the content: what changes in between is then read again
        return cls(path, read_keys(path), stamp)

    @property
    def keys(self) -> tuple[Key, ...]:
        """All keys as the file has them now, revoked ones too."""
        stamp = _stamp(self.path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._keys = read_keys(self.path)
            except BadFile as error:
                _log.error("%s; the keys read before stay in force", error)
        return self._keys

    def find(self, token: str) -> Key | None:
        """The key of this token, None if there is none or it was revoked; in the same time for every key."""
        if not _TOKEN.fullmatch(token):
            return None
        digest, match = _digest(token), None
        for key in self.keys:
            if hmac.compare_digest(key.sha256, digest):
                match = key
        return match if match is not None and match.revoked is None else None

    def live(self) -> bool:
        """Whether there is a key that is not revoked."""
        return any(key.revoked is None for key in self.keys)


def read_keys(path: str | Path) -> tuple[Key, ...]:
    """The keys of a file, revoked ones too, oldest first; the file must be writable by its owner only."""
    try:
        with open(path, "rb") as file:
            mode, content = os.fstat(file.fileno()).st_mode, file.read()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadFile(f"{path} must be a file that `oddsmith keys create` wrote; {why}") from error
    if mode & 0o022:
        raise BadFile(f"{path} must be writable by its owner only; got mode {mode & 0o777:o} (chmod 600 {path})")
    try:
        keys = msgspec.json.decode(content, type=_File).keys
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFile(f"{path} must be a file of format {FORMAT!r}; {error!s:.160}") from error
    for what in ("name", "sha256"):
        if len({getattr(key, what) for key in keys}) < len(keys):
            raise BadFile(f"{path} must hold each key once; got the same {what} twice")
    return keys


def create(path: str | Path, name: str, scopes: Sequence[Scope], experiments: Sequence[str] = ()) -> str:
    """A new key's token, which nothing keeps; its hash is added to the file, which is made if there is none."""
    for what, text in (("name", name), *(("experiments", one) for one in experiments)):
        if not _NAME.fullmatch(text):
            raise InvalidInput(f"{what} must be 1 to 64 of a-z, 0-9, - and _; got {text!r:.80}")
    if not scopes or not set(scopes) <= set(ALL_SCOPES):
        raise InvalidInput(f"scopes must be of {', '.join(ALL_SCOPES)}; got {', '.join(scopes) or 'none':.80}")
    token = "od_" + secrets.token_urlsafe(32)
    with _editing(path) as keys:
        if any(key.name == name for key in keys):
            raise InvalidInput(f"name must be new, also among revoked keys; got {name!r}")
        chosen = tuple(scope for scope in ALL_SCOPES if scope in scopes)
        keys.append(Key(name, _digest(token), chosen, tuple(sorted(set(experiments))), _now()))
    return token


def revoke(path: str | Path, name: str) -> None:
    """Refuse this key from now on; its name stays in the file. Again: nothing changes."""
    with _editing(path) as keys:
        place = next((i for i, key in enumerate(keys) if key.name == name), None)
        if place is None:
            raise InvalidInput(f"name must be that of a key in {path}; got {name!r:.80}")
        if keys[place].revoked is None:
            keys[place] = msgspec.structs.replace(keys[place], revoked=_now())


@contextmanager
def _editing(path: str | Path) -> Iterator[list[Key]]:
    """The keys of a file, which is locked against other writers; written back as a whole unless something is raised."""
    import fcntl

    path = Path(path).resolve()
    try:
        handle = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
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
