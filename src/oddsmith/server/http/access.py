"""Access control: the key of a request against the scopes of its route, and where to
listen without keys."""

from ipaddress import ip_address

from oddsmith.core.errors import InvalidInput, OddsmithError
from oddsmith.server.http.keys import Key, KeyRing, Scope
from oddsmith.server.http.response import Refusal

__all__ = [
    "ANYONE",
    "Forbidden",
    "STRANGER",
    "authorize",
    "check_bind",
    "check_scope",
    "is_loopback",
]

ANYONE = Key("anyone", ("admin",), (), ())
"""The key of every caller where no key is needed; it has no token."""

STRANGER = Key("", (), (), ())
"""The key of a caller who sent none where others have one; it allows nothing."""

_NO_KEY = Refusal(
    401,
    "unauthorized",
    "Authorization must be 'Bearer KEY' with a key that is in force",
)


class Forbidden(OddsmithError):
    """The key does not allow this."""


def authorize(
    ring: KeyRing | None, header: str | None, scopes: frozenset[Scope]
) -> Key | Refusal:
    """The key of a request's Authorization header, or the refusal; `ANYONE` without a
    key ring.

    Without scopes no key is needed, and what is none is `STRANGER`.

    A key needs one of the scopes, or admin, for some experiment. All of this is known
    before the body is read; for which experiment it asks is not, see `check_scope`.

    >>> authorize(None, None, frozenset({"decide"})).name
    'anyone'
    """
    if ring is None:
        return ANYONE
    scheme, _, token = (header or "").partition(" ")
    key = ring.find(token) if scheme.lower() == "bearer" else None
    if not scopes:
        return key or STRANGER
    if key is None:
        return _NO_KEY
    if any(
        key.may(scope, one) for scope in scopes for one in key.experiments or (None,)
    ):
        return key
    return Refusal(
        403,
        "forbidden",
        f"the key must have the scope {_needed(scopes)}; this one does not",
    )


def check_scope(key: Key, scopes: frozenset[Scope], experiment: str | None) -> None:
    """Refuses a key that has none of the scopes for this experiment; None is for routes
    about all of them at once.

    Call this before the experiment is looked up: a key of another experiment must not
    learn whether this one exists.
    """
    if scopes and not any(key.may(scope, experiment) for scope in scopes):
        where = (
            "all experiments"
            if experiment is None
            else f"the experiment {experiment!r:.80}"
        )
        raise Forbidden(
            f"the key must have the scope {_needed(scopes)} for {where}; this one does "
            "not"
        )


def _needed(scopes: frozenset[Scope]) -> str:
    return " or ".join([*sorted(scopes - {"admin"}), "admin"])


def check_bind(host: str, ring: KeyRing | None) -> None:
    """Refuses to listen to other machines while no key is in force.

    >>> check_bind("127.0.0.1", None)
    >>> check_bind("0.0.0.0", None)
    Traceback (most recent call last):
    oddsmith.core.errors.InvalidInput: host must be 127.0.0.1, ::1 or localhost where
    there are no keys; got '0.0.0.0'
    """
    if not is_loopback(host) and (ring is None or not ring.live()):
        raise InvalidInput(
            "host must be 127.0.0.1, ::1 or localhost where there are no keys; got "
            f"{host!r:.80}"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine is meant: localhost, 127.0.0.0/8 or ::1.

    >>> [
    ...     is_loopback(host)
    ...     for host in ("127.0.0.2", "::1", "LOCALHOST", "localhost.example", "")
    ... ]
    [True, True, True, False, False]
    """
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
