"""Who may call what: the table of routes and scopes, one function that reads a request's key, and where to listen."""

from collections.abc import Mapping
from datetime import UTC, datetime
from ipaddress import ip_address

from oddsmith.errors import InvalidInput
from oddsmith.service.keys import Key, KeyRing, Scope
from oddsmith.service.refusal import Refusal

__all__ = ["ANYONE", "SCOPES", "authorize", "check_bind", "is_loopback"]

SCOPES: Mapping[tuple[str, str], frozenset[Scope]] = {
    ("POST", "/v1/decide"): frozenset({"decide"}),
    ("POST", "/v1/decide/batch"): frozenset({"decide"}),
    ("POST", "/v1/reward"): frozenset({"reward"}),
    ("POST", "/v1/reward/batch"): frozenset({"reward"}),
    ("POST", "/v1/activate"): frozenset({"decide", "reward"}),
    ("POST", "/v1/correct"): frozenset({"admin"}),
    ("POST", "/v1/experts"): frozenset({"admin"}),
    ("GET", "/v1/decisions/{id}"): frozenset({"read"}),
    ("GET", "/v1/posterior"): frozenset({"read"}),
    ("GET", "/v1/stats"): frozenset({"read"}),
    ("GET", "/metrics"): frozenset({"read"}),
    ("GET", "/healthz"): frozenset(),
    ("GET", "/readyz"): frozenset(),
    ("GET", "/openapi.json"): frozenset(),
}
"""Method and path of every route: a key needs one of these scopes, or admin; none at all: no key is asked for."""

ANYONE = Key("anyone", "", ("admin",), (), datetime.fromtimestamp(0, UTC))
"""Who calls where no key is asked for; no token has its hash."""

_NO_KEY = Refusal(401, "unauthorized", "Authorization must be 'Bearer KEY' with a key that is in force")


def authorize(
    ring: KeyRing | None, header: str | None, scopes: frozenset[Scope], experiment: str | None
) -> Key | Refusal:
    """The key of a request's Authorization header, or why it is refused; without a ring, or scopes, anyone.

    `experiment` is None for what concerns all experiments at once. To be called before it is looked up: a key of
    another experiment must not learn whether this one exists.

    >>> authorize(None, None, SCOPES["POST", "/v1/decide"], "news").name
    'anyone'
    """
    if ring is None or not scopes:
        return ANYONE
    scheme, _, token = (header or "").partition(" ")
    key = ring.who(token) if scheme.lower() == "bearer" else None
    if key is None:
        return _NO_KEY
    if any(key.may(scope, experiment) for scope in scopes):
        return key
    needed = " or ".join([*sorted(scopes - {"admin"}), "admin"])
    where = "all experiments" if experiment is None else f"the experiment {experiment!r:.80}"
    return Refusal(403, "forbidden", f"the key must have the scope {needed} for {where}; this one does not")


def check_bind(host: str, ring: KeyRing | None) -> None:
    """Refuses to be reached from other machines without a key in force.

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
