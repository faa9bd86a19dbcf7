"""The page's files: whole, known by their digests, under a strict policy, for
everybody; and nothing beside them."""

import socket
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.http.app import make_app
from oddsmith.server.http.docs_page import docs_page
from oddsmith.server.http.keys import create
from oddsmith.server.http.limits import SAFE_HEADERS
from oddsmith.server.http.page_files import PageFiles, page_folder
from oddsmith.server.http.routes import ROUTES
from oddsmith.server.http.wire import server_config
from server.live import listen, serving
from server.served import Here, here, place, process

KINDS = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
POLICY = (  # written down once more
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
NAMES = sorted(
    one.name
    for one in (files("oddsmith.server") / "dashboard").iterdir()
    if Path(one.name).suffix in KINDS
)


@pytest.fixture(scope="module", params=["open", "keys"])
def served(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Here]:
    folder = tmp_path_factory.mktemp(request.param)
    keys = None
    if request.param == "keys":
        keys = folder / "keys.json"
        create(keys, "one", ["read"])
    with here(place(folder), keys=keys) as found:
        yield found


def test_every_file_is_served_to_everybody(served: Here) -> None:
    assert {"index.html", "app.css", "icon.svg", "docs.js"} <= set(NAMES)
    for name in NAMES:
        body = (files("oddsmith.server") / "dashboard" / name).read_bytes()
        answer = served.ask("GET", f"/dashboard/{'' if name == 'index.html' else name}")
        assert (answer.status_code, answer.content) == (200, body)
        assert answer.headers["content-type"].startswith(KINDS[Path(name).suffix])
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["etag"] == f'"{sha256(body).hexdigest()}"'
        assert answer.headers["x-content-type-options"] == "nosniff"
        again = served.ask(
            "GET",
            str(answer.url),
            headers={"If-None-Match": f'"x", W/{answer.headers["etag"]}'},
        )
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == answer.headers["etag"]
        changed = served.ask("GET", str(answer.url), headers={"If-None-Match": '"x"'})
        assert changed.status_code == 200


def test_short_ways_lead_to_the_page(served: Here) -> None:
    for path, there in (
        ("/", "/dashboard/"),
        ("/dashboard", "/dashboard/"),
        ("/docs/", "/docs"),
    ):
        answer = served.ask("GET", path)
        assert (answer.status_code, answer.headers["location"]) == (307, there)
        assert (
            answer.headers["content-security-policy"]
            == dict(SAFE_HEADERS)[b"content-security-policy"].decode()
        )
    assert (
        served.ask("GET", "/?experiment=a%20b").headers["location"]
        == "/dashboard/?experiment=a%20b"
    )
    assert served.ask("GET", "/docs").headers["content-security-policy"] == POLICY


def test_other_methods_are_refused(served: Here) -> None:
    for path in ("/", "/docs", "/dashboard/app.css"):
        answer = served.ask("POST", path, json={})
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


BESIDE = [
    "/dashboard/../routes.py",
    "/dashboard/..%2froutes.py",
    "/dashboard/%2e%2e/routes.py",
    "/dashboard/....//routes.py",
    "/dashboard//etc/passwd",
    "/dashboard/app.css/",
    "/dashboard/app.css%00.js",
    "/dashboard/APP.CSS",
    "/dashboard/app%2ecss/..",
    "/dashboard/.",
    "/dashboard/__init__.py",
    "/dashboard/\\..\\routes.py",
    "/docs/../keys.json",
]


@pytest.mark.parametrize("path", BESIDE)
def test_nothing_beside_the_files_is_served(served: Here, path: str) -> None:
    scope = {
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "headers": [],
        "query_string": b"",
    }
    answer = served.app.enter(scope)
    assert answer.status == 404
    assert b"import" not in answer.body


def test_on_the_wire_neither_head_nor_304_has_a_body(tmp_path: Path) -> None:
    app = make_app(open_experiments([place(tmp_path)]))
    css = page_folder()["app.css"]
    with (
        serving(server_config(app, host="127.0.0.1", port=0)) as port,
        socket.create_connection(("127.0.0.1", port), timeout=20) as line,
    ):
        lines = [
            b"HEAD /dashboard/app.css HTTP/1.1",
            b"GET /dashboard/app.css HTTP/1.1",
        ]
        lines[1] += b'\r\nIf-None-Match: "%s"' % sha256(css).hexdigest().encode()
        for asked, status in zip(lines, (b"200 OK", b"304 Not Modified"), strict=True):
            line.sendall(asked + b"\r\nHost: localhost\r\n\r\n")
            head = b""
            while b"\r\n\r\n" not in head:
                head += line.recv(65_536)
            assert head.startswith(b"HTTP/1.1 " + status)
            assert head.endswith(b"\r\n\r\n")
            # that of what is left out
            assert b"content-length: %d\r\n" % len(css) in head
        # the connection goes on
        line.sendall(b"GET /dashboard/app.css HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert listen(line).body == css


def test_a_page_of_another_site_is_refused_where_there_are_no_keys(
    tmp_path: Path,
) -> None:
    with here(place(tmp_path)) as served:
        assert (
            served.ask(
                "GET", "/dashboard/", headers={"Host": "evil.example"}
            ).status_code
            == 403
        )


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    with process(place(tmp_path), more=["--no-dashboard"]) as served:
        for path in ("/", "/dashboard", "/dashboard/", "/dashboard/app.css", "/docs"):
            assert served.client.get(path).status_code == 404
        assert "dashboard" not in served.log.read_text()
        assert served.client.get("/v1/experiments").status_code == 200
    with process(place(tmp_path)) as served:
        assert (
            f"dashboard: http://127.0.0.1:{served.port}/dashboard/"
            in served.log.read_text()
        )
    assert PageFiles({}, b"").answer("GET", "/", []) is None


def test_no_file_has_scripts_or_styles_within() -> None:
    for name, body in [*page_folder().items(), ("docs.html", docs_page(ROUTES))]:
        text = body.decode()
        assert "innerHTML" not in text
        if name.endswith(".html"):
            assert "style=" not in text
            assert "<style" not in text
            assert "<script>" not in text
            assert " onclick" not in text


@pytest.mark.skipif(
    not (Path(__file__).parents[3] / "pyproject.toml").exists(),
    reason="there is no source tree",
)
def test_a_wheel_has_the_page(tmp_path: Path) -> None:
    builder = pytest.importorskip("hatchling.builders.wheel")
    root = str(Path(__file__).parents[3])
    (wheel,) = builder.WheelBuilder(root).build(
        directory=str(tmp_path), versions=["standard"]
    )
    inside = ZipFile(wheel).namelist()
    assert {f"oddsmith/server/dashboard/{name}" for name in NAMES} <= set(inside)
