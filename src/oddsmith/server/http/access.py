"""Access control: check whether the key of a request permits the route, and whether the
service may listen on an address."""

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
"""The `Key` of every caller if the service needs no key; it has no token."""

STRANGER = Key("", (), (), ())
"""The `Key` of an unauthenticated caller if the service needs keys; it permits
nothing."""

_NO_KEY = Refusal(
    401,
    "unauthorized",
    "Authorization must be 'Bearer KEY' with a key that is in force",
)


class Forbidden(OddsmithError):
    """Error: the key does not permit this call."""


def authorize(
    ring: KeyRing | None, header: str | None, scopes: frozenset[Scope]
) -> Key | Refusal:
    """Return the key of an Authorization header, or a refusal; `ANYONE` without a key
    ring.

    If `scopes` is empty, no key is needed, and a request without a valid key gets
    `STRANGER`. Otherwise the key must have one of the scopes, or admin, for at least
    one experiment. The experiment is known only after the body is read, see
    `check_scope`.

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
    for experiment in key.experiments or (None,):
        if any(key.may(scope, experiment) for scope in scopes):
            return key
    return Refusal(
        403,
        "forbidden",
        f"the key must have the scope {_scopes_text(scopes)}; this one does not",
    )


def check_scope(key: Key, scopes: frozenset[Scope], experiment: str | None) -> None:
    """Raise `Forbidden` if a key has none of the scopes for this experiment.

    `experiment` is None for routes about all experiments. Call this before looking up
    the experiment: the holder of another key must not learn whether it exists.
    """
    if not scopes or any(key.may(scope, experiment) for scope in scopes):
        return
    where = "all experiments"
    if experiment is not None:
        where = f"the experiment {experiment!r:.80}"
    raise Forbidden(
        f"the key must have the scope {_scopes_text(scopes)} for {where}; this one "
        "does not"
    )


def _scopes_text(scopes: frozenset[Scope]) -> str:
    return " or ".join([*sorted(scopes - {"admin"}), "admin"])


def check_bind(host: str, ring: KeyRing | None) -> None:
    """Raise an error if the host is reachable from other machines and the service has
    no valid key.

    >>> check_bind("127.0.0.1", None)
    >>> check_bind("0.0.0.0", None)
    Traceback (most recent call last):
    oddsmith.core.errors.InvalidInput: host must be 127.0.0.1, ::1 or localhost where
    there are no keys; got '0.0.0.0'
    """
    has_keys = ring is not None and ring.live()
    if not is_loopback(host) and not has_keys:
        raise InvalidInput(
            "host must be 127.0.0.1, ::1 or localhost where there are no keys; got "
            f"{host!r:.80}"
        )


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine: localhost, 127.0.0.0/8 or ::1.

    >>> hosts = ("127.0.0.2", "::1", "LOCALHOST", "localhost.example", "")
    >>> [is_loopback(host) for host in hosts]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
