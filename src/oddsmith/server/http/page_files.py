"""PageFiles: serve the dashboard and the API documentation. Their files are read once
at the start, and no other file on the disk is served."""

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
"""Content security policy: the dashboard may only load files from this service and send
requests to it."""

_KINDS = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_REDIRECTS = {
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
    """Serves the files for browsers by path. They contain no data, so clients without a
    key get them too. If there are no files, every path is unknown."""

    def __init__(self, bodies: Mapping[str, bytes], docs: bytes) -> None:
        """`bodies` contains the files of the dashboard by name, including `index.html`;
        `docs` is the page that documents the API."""
        self._files: dict[str, _File] = {}
        for name, body in bodies.items():
            path = "" if name == "index.html" else name
            self._files[f"/dashboard/{path}"] = _file(name, body)
        if bodies:
            self._files["/docs"] = _file("docs.html", docs)

    def answer(
        self, method: str, path: str, headers: Headers, query: bytes = b""
    ) -> Response | None:
        """Return the response for a file, with status 304 if the browser already has
        the file; None if the path is not a file.

        Redirects keep the query string, because it may contain the name of an
        experiment.
        """
        if not self._files:
            return None
        target = _REDIRECTS.get(path)
        file = self._files.get(path)
        if target is None and file is None:
            return None
        if method != "GET":
            refusal = Refusal(
                405, "method", f"method of {path!r:.80} must be GET; got {method:.20}"
            )
            return refusal.response((b"allow", b"GET, HEAD"))
        if file is None:
            location = str(target).encode()
            if query:
                location += b"?" + query
            own = [(b"location", location), (b"cache-control", b"no-cache")]
            return Response(307, b"", own)
        tags: set[bytes] = set()
        for name, value in headers:
            if name == b"if-none-match":
                tags |= {tag.strip().removeprefix(b"W/") for tag in value.split(b",")}
        is_known = file.etag in tags or b"*" in tags
        status = 304 if is_known else 200
        return Response(status, file.body, file.headers)


def page_folder() -> dict[str, bytes]:
    """Return the content of the dashboard's files by name."""
    folder = files("oddsmith.server") / "dashboard"
    bodies: dict[str, bytes] = {}
    for file in folder.iterdir():
        if _suffix(file.name) in _KINDS:
            bodies[file.name] = file.read_bytes()
    return bodies


def _file(name: str, body: bytes) -> _File:
    digest = sha256(body).hexdigest()
    etag = b'"%s"' % digest.encode()
    headers = [
        (b"content-type", _KINDS[_suffix(name)]),
        (b"etag", etag),
        (b"cache-control", b"no-cache"),
        (b"content-security-policy", CSP),
    ]
    return _File(body, etag, headers)


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]
