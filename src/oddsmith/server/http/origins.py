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
    name = headers.get(b"host", b"").lower()
    if not _is_local(name):
        return "Host"
    origin = headers.get(b"origin")
    if origin is not None and origin.lower() not in (
        b"http://" + name,
        b"https://" + name,
    ):
        return "Origin"
    if headers.get(b"sec-fetch-site") in _OWN_SITES:
        return ""
    use = headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")
    is_link = method in ("GET", "HEAD") and use == _LINK
    return "" if is_link else "Sec-Fetch-Site"


@lru_cache(maxsize=64)
def _is_local(host: bytes) -> bool:
    """Whether a Host header names this machine."""
    try:
        return is_loopback(urlsplit(f"//{host.decode('latin-1')}").hostname or "")
    except ValueError:
        return False
