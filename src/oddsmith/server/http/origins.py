"""Requests that browsers send for pages of other sites, which a service without keys
refuses."""

from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from oddsmith.server.http.access import is_loopback

__all__ = ["ORIGIN_HEADERS", "foreign_header"]

ORIGIN_HEADERS = (
    b"host",
    b"origin",
    b"sec-fetch-site",
    b"sec-fetch-mode",
    b"sec-fetch-dest",
)
"""The headers that say for whom a request is made; pages cannot set the last four."""

_OWN_SITES = (None, b"same-origin", b"none")  # none: typed in, or a bookmark
_LINK = (b"navigate", b"document")


def foreign_header(method: str, headers: Mapping[bytes, bytes]) -> str:
    """The header that names another place than this service; empty if none does.

    Host must name this machine, since a name of another site may lead here. Origin,
    which browsers send with every POST, must be that of the Host: pages of another port
    of this machine are another site's. Sec-Fetch-Site must be same-origin or none. A
    link to a page may be followed from anywhere, since it only reads, and the site that
    has the link does not see the answer.

    >>> foreign_header("POST", {b"host": b"[::1]:80", b"origin": b"http://[::1]:80"})
    ''
    >>> foreign_header("POST", {b"host": b"[::1]:80", b"origin": b"http://[::1]:3000"})
    'Origin'
    """
    return _foreign_header(method, *(headers.get(name) for name in ORIGIN_HEADERS))


@lru_cache(maxsize=64)
def _foreign_header(
    method: str,
    host: bytes | None,
    origin: bytes | None,
    site: bytes | None,
    mode: bytes | None,
    destination: bytes | None,
) -> str:
    name = (host or b"").lower()
    if not _is_local(name):
        return "Host"
    if origin is not None and origin.lower() not in (
        b"http://" + name,
        b"https://" + name,
    ):
        return "Origin"
    is_link = method in ("GET", "HEAD") and (mode, destination) == _LINK
    if site not in _OWN_SITES and not is_link:
        return "Sec-Fetch-Site"
    return ""


def _is_local(host: bytes) -> bool:
    """Whether a Host header names this machine."""
    try:
        return is_loopback(urlsplit(f"//{host.decode('latin-1')}").hostname or "")
    except ValueError:
        return False
