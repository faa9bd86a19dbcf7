"""Access control: the key of a request against the scopes of its route, and where to listen without keys."""

from datetime import UTC, datetime
from ipaddress import ip_address

from oddsmith.errors import InvalidInput
from oddsmith.service.keys import Key, KeyRing, Scope
from oddsmith.service.response import Refusal

__all__ = ["ANYONE", "authorize", "check_bind", "is_loopback"]

ANYONE = Key("anyone", "", ("admin",), (), datetime.fromtimestamp(0, UTC))
"""The key of every caller where no key is needed; no token has its hash."""

_NO_KEY = Refusal(401, "unauthorized", "Authorization must be 'Bearer KEY' with a key that is in force")


def authorize(
    ring: KeyRing | None, header: str | None, scopes: frozenset[Scope], experiment: str | None
) -> Key | Refusal:
    """The key of a request's Authorization header, or the refusal; `ANYONE` without a key ring or without scopes.

    A key needs one of the scopes, or admin. `experiment` is None for routes about all experiments at once. Call this
    before the experiment is looked up: a key of another experiment must not learn whether this one exists.

    >>> authorize(None, None, frozenset({"decide"}), "news").name
    'anyone'
    """
    if ring is None or not scopes:
        return ANYONE
    scheme, _, token = (header or "").partition(" ")
    key = ring.find(token) if scheme.lower() == "bearer" else None
    if key is None:
        return _NO_KEY
    if any(key.may(scope, experiment) for scope in scopes):
        return key
    needed = " or ".join([*sorted(scopes - {"admin"}), "admin"])
    where = "all experiments" if experiment is None else f"the experiment {experiment!r:.80}"
    return Refusal(403, "forbidden", f"the key must have the scope {needed} for {where}; this one does not")


def check_bind(host: str, ring: KeyRing | None) -> None:
    """Refuses to listen to other machines while no key is in force.

    >>> check_bind("127.0.0.1", None)
    >>> check_bind("0.0.0.0", None)
    Traceback (most recent call last):
    oddsmith.errors.InvalidInput: host must be 127.0.0.1, ::1 or localhost where there are no keys; got '0.0.0.0'
    """
    if not is_loopback(host) and (ring is None or not ring.live()):
        raise InvalidInput(f"host must be 127.0.0.1, ::1 or localhost where there are no keys; got {host!r:.80}")


def is_loopback(host: str) -> bool:
    """Whether only this machine is meant: localhost, 127.0.0.0/8 or ::1.

    >>> [is_loopback(host) for host in ("127.0.0.2", "::1", "LOCALHOST", "localhost.example", "")]
    [True, True, True, False, False]
    """
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
