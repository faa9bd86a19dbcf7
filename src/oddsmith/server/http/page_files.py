"""PageFiles: the service's page and the API for people, read once at the start; nothing
else of the disk is served."""

from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from oddsmith.server.http.response import Headers, Refusal, Response

__all__ = ["CSP", "PageFiles", "page_folder"]

CSP = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a file of the page may do in a browser: load files of this service, and ask
it."""

_KINDS = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_MOVED = {
    "/": "/dashboard/",
    "/dashboard": "/dashboard/",
    "/dashboard/index.html": "/dashboard/",
    "/docs/": "/docs",
}


class _File(NamedTuple):
    body: bytes
    etag: bytes
    headers: Headers


class PageFiles:
    """Answers by path, for who has no key as well: files hold no data. Without any,
    every path is unknown."""

    def __init__(self, bodies: Mapping[str, bytes], docs: bytes) -> None:
        """`bodies` are those of the page by name, `index.html` among them; `docs` is
        the API for people."""
        pages = {
            f"/dashboard/{'' if name == 'index.html' else name}": (name, body)
            for name, body in bodies.items()
        }
        pages["/docs"] = ("docs.html", docs)
        self._files = (
            {path: _file(*one) for path, one in pages.items()} if bodies else {}
        )

    def answer(
        self, method: str, path: str, headers: Headers, query: bytes = b""
    ) -> Response | None:
        """The answer for a path, if it is one of the page's; 304 to a browser that has
        the file.

        Short ways keep the query, in which a link may name an experiment.
        """
        if not self._files:
            return None
        place, found = _MOVED.get(path), self._files.get(path)
        if place is None and found is None:
            return None
        if method != "GET":
            refusal = Refusal(
                405, "method", f"method of {path!r:.80} must be GET; got {method:.20}"
            )
            return refusal.response((b"allow", b"GET, HEAD"))
        if found is None:
            there = str(place).encode() + (b"?" + query if query else b"")
            return Response(
                307, b"", [(b"location", there), (b"cache-control", b"no-cache")]
            )
        known = b",".join(value for name, value in headers if name == b"if-none-match")
        tags = {tag.strip().removeprefix(b"W/") for tag in known.split(b",")}
        return Response(
            304 if tags & {found.etag, b"*"} else 200, found.body, found.headers
        )


def page_folder() -> dict[str, bytes]:
    """The files of the page by name, of the kinds that a browser is told."""
    folder = files("oddsmith.server") / "dashboard"
    return {
        one.name: one.read_bytes()
        for one in folder.iterdir()
        if _suffix(one.name) in _KINDS
    }


def _file(name: str, body: bytes) -> _File:
    etag = b'"%s"' % sha256(body).hexdigest().encode()
    kind = _KINDS[_suffix(name)]
    own = [
        (b"content-type", kind),
        (b"etag", etag),
        (b"cache-control", b"no-cache"),
        (b"content-security-policy", CSP),
    ]
    return _File(body, etag, own)


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]
