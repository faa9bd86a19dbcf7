"""The service's examples and the commands of pages, followed to the letter."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import oddsmith as od
from docs.printing import follows
from oddsmith.server.http.routes import ROUTES

REPOSITORY = Path(od.__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"
needs_curl = pytest.mark.skipif(
    shutil.which("curl") is None, reason="curl is not installed"
)


def environment(**more: str) -> dict[str, str]:
    """Where `oddsmith` and `python` are ours."""
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return os.environ | {"PATH": folders, "PYTHONPATH": str(REPOSITORY / "src")} | more


def printed(*command: str, folder: Path | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_walk_in_python() -> None:
    said = printed(sys.executable, str(EXAMPLES / "service.py"))
    weights = [
        float(share) for share in re.findall(r"\): knows visitors ([\d.]+),", said)
    ]
    assert weights[0] == 0.25
    assert min(weights[1:]) > 0.9
    assert len(weights) == 3
    assert "Every checked decision was reproduced." in said
    assert re.search(r"^uniform +ips +0\.\d+", said, re.MULTILINE)


@needs_curl
def test_the_walk_with_curl() -> None:
    said = printed("sh", str(EXAMPLES / "service.sh"))
    first, second = (
        int(clicks) for clicks in re.findall(r"day \d: +(\d+) of 80", said)
    )
    assert second > first
    assert '"new":false' in said
    assert "Every checked decision was reproduced." in said
    assert re.search(r"^uniform +ips +0\.\d+", said, re.MULTILINE)


@contextmanager
def served(folder: Path, command: str) -> Iterator[str]:
    """The port of a page's `oddsmith serve …`: a free one, where 8000 is taken, as it
    may be on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    server = subprocess.Popen(
        ["sh", "-c", f"exec {command}"],
        cwd=folder,
        env=environment(ODDSMITH_PORT=port),
        stderr=subprocess.DEVNULL,
    )
    try:
        with od.Client(f"http://127.0.0.1:{port}") as client:
            assert client.ready(wait=60)
        yield port
    finally:
        server.terminate()
        server.wait(30)


@needs_curl
def test_the_walk_with_curl_alone_leads_to_a_posterior_that_has_learnt(
    tmp_path: Path,
) -> None:
    """With seeds drawn anew; in a process, 600 of 600 seeds ended with odds of
    0.997."""
    text = (REPOSITORY / "docs" / "howto" / "curl.md").read_text()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert [language for language, _ in blocks] == ["toml", "sh", "sh", "py", "ts"]
    policy, serve, ask, program, _ = (block for _, block in blocks)
    assert len(policy.splitlines()) == 2
    (tmp_path / "news.toml").write_text(policy)
    assert (ask.count(":8000/"), program.count(":8000")) == (1, 1)
    with served(tmp_path, serve) as port:
        said = printed("sh", "-c", ask.replace(":8000", f":{port}"))
        printed(
            sys.executable,
            "-c",
            "import oddsmith as od\n" + program.replace(":8000", f":{port}"),
        )
        with od.Client(f"http://127.0.0.1:{port}") as client:
            assert client.stats()["events"] == {"decision": 103, "reward": 102}
    first, kept, posterior, last = map(
        json.loads, said.replace("}{", "}\n{").splitlines()
    )
    assert (first["id"], kept["id"], last["id"]) == ("visit-0", "visit-0", "visit-101")
    assert first["odds"] == {"article-17": 0.5, "article-18": 0.5}
    # the last reward may still be on its way into the state
    assert posterior["learnt"] >= 100
    assert sum(posterior["posterior"].values()) == pytest.approx(1)
    assert round(last["odds"]["article-19"], 3) == 0.997


def test_the_news_site_says_what_its_page_says(tmp_path: Path) -> None:
    """Files and commands of the tutorial, in order; a line … stands for what is printed
    further."""
    text = (REPOSITORY / "docs" / "tutorial" / "news-site.md").read_text()
    files = re.findall(
        r"`([\w.]+)`:\n\n```\w+\n(.*?)^```", text, re.DOTALL | re.MULTILINE
    )
    assert [name for name, _ in files] == ["news.toml", "site.py", "learnt.py"]
    assert "arms" not in tomllib.loads(files[0][1])
    serve, *shown = re.findall(
        r"^\$ ([^\n]*)\n(.*?)(?=^\$ |^```)", text, re.DOTALL | re.MULTILINE
    )
    (tmp_path / "news.toml").write_text(files[0][1])
    with served(tmp_path, serve[0]) as port:
        for name, content in files[1:]:
            (tmp_path / name).write_text(content.replace(":8000", f":{port}"))
        for command, page in shown:
            assert follows(printed("sh", "-c", command, folder=tmp_path), page), command
    assert [command.split()[1] for command, _ in shown] == [
        "site.py",
        "learnt.py",
        "export",
        "evaluate",
        "verify",
    ]
    first, *_, last = shown[0][1].splitlines()
    assert "storm-warning" not in first
    assert "{'storm-warning': 35, " in last  # the most often of all


def test_teeth_a_page_that_says_something_else_is_found_out() -> None:
    said = "7 clicks\nmore\nand more\n"
    assert follows(said, "7 clicks\n…\n")
    assert not follows(said, "8 clicks\n…\n")
    assert not follows(said, "7 clicks\n")


def test_the_reference_names_every_route_status_and_setting() -> None:
    page = (REPOSITORY / "docs" / "reference" / "service.md").read_text()
    rows = re.findall(r"^\| `(\w+) (/\S+)` \| ([^|]*) \| ([^|]*)\|", page, re.MULTILINE)
    assert [row[:2] for row in rows] == [
        (route.method, route.path) for route in ROUTES
    ], "routes are kept: deprecate one that goes, see docs/reference/deprecation.md"
    for route, (_, _, scopes, takes) in zip(ROUTES, rows, strict=True):
        assert scopes.partition(",")[0] == (" or ".join(sorted(route.scopes)) or "none")
        fields = () if route.message is None else route.message.__struct_fields__
        named = {
            *re.findall(r"[`?](\w+)", takes),
            *re.findall(r"\{(\w+)\}", route.path),
        }
        assert set(fields) - {"experiment"} <= named
        assert all(
            re.search(rf"^\| .*\b{status}\b", page, re.MULTILINE)
            for status in route.statuses
        )
    (limit,) = {
        route.body_bytes for route in ROUTES if not route.path.endswith("/batch")
    }
    (batch,) = {route.body_bytes for route in ROUTES if route.path.endswith("/batch")}
    assert f"at most {limit >> 10} KiB, those of batches {batch >> 20} MiB" in " ".join(
        page.split()
    )
    source = (
        REPOSITORY / "src" / "oddsmith" / "server" / "experiment" / "settings.py"
    ).read_text()
    settings = re.findall(r"""(?:keys\.\w+\(|\(keys, )"(\w+)\"""", source)
    assert len(settings) == 12
    assert all(f"| `{key}` |" in page for key in settings)
    calls = [
        name for name in vars(od.Client) if not name.startswith("_") and name != "close"
    ]
    assert all(f"`{name}`" in page for name in calls)
