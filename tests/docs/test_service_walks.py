"""The service's examples and the README's commands, followed to the letter."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import oddsmith as od
from oddsmith.service.routes import ROUTES

REPOSITORY = Path(od.__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


def environment(**more: str) -> dict[str, str]:
    """Where `oddsmith` and `python` are ours."""
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return os.environ | {"PATH": folders, "PYTHONPATH": str(REPOSITORY / "src")} | more


def printed(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_walk_in_python() -> None:
    said = printed(sys.executable, str(EXAMPLES / "service.py"))
    weights = [float(share) for share in re.findall(r"\): knows visitors ([\d.]+),", said)]
    assert weights[0] == 0.25
    assert min(weights[1:]) > 0.9
    assert len(weights) == 3
    assert "Every checked decision was reproduced." in said
    assert re.search(r"^uniform +ips +0\.\d+", said, re.MULTILINE)


@needs_curl
def test_the_walk_with_curl() -> None:
    said = printed("sh", str(EXAMPLES / "service.sh"))
    first, second = (int(clicks) for clicks in re.findall(r"day \d: +(\d+) of 80", said))
    assert second > first
    assert '"new":false' in said
    assert "Every checked decision was reproduced." in said
    assert re.search(r"^uniform +ips +0\.\d+", said, re.MULTILINE)


@pytest.fixture
def section() -> list[tuple[str, str]]:
    """The fenced blocks of the README's section on the service, with their languages."""
    text = (REPOSITORY / "README.md").read_text()
    part = text.partition("\n## As a service\n")[2].partition("\n## ")[0]
    return re.findall(r"^```(\w+)\n(.*?)^```", part, re.DOTALL | re.MULTILINE)


@needs_curl
def test_the_readmes_commands_lead_to_a_posterior_that_has_learnt(
    section: list[tuple[str, str]], tmp_path: Path
) -> None:
    (_, policy), (_, serve), (_, ask) = section
    assert [language for language, _ in section] == ["toml", "sh", "sh"]
    assert len(policy.splitlines()) == 3
    (tmp_path / "news.toml").write_text(policy)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])  # where 8000 is taken, as it may be on this machine
    assert ask.count(":8000/") == 1
    server = subprocess.Popen(
        ["sh", "-c", f"exec {serve}"], cwd=tmp_path, env=environment(ODDSMITH_PORT=port), stderr=subprocess.DEVNULL
    )
    try:
        with od.Client(f"http://127.0.0.1:{port}") as client:
            assert client.ready(wait=60)
        said = printed("sh", "-c", ask.replace(":8000/", f":{port}/"))
    finally:
        server.terminate()
        server.wait(30)
    first, kept, posterior, last = map(json.loads, said.replace("}{", "}\n{").splitlines())
    assert (first["id"], kept["id"], last["id"]) == ("visit-0", "visit-0", "visit-101")
    assert set(first["odds"].values()) == {1 / 3}
    assert posterior["learnt"] >= 100  # the last reward may still be on its way into the state
    assert sum(posterior["posterior"].values()) == pytest.approx(1)
    assert last["odds"]["tech"] > 0.9


def test_the_reference_names_every_route_status_and_setting() -> None:
    page = (REPOSITORY / "docs" / "reference" / "service.md").read_text()
    rows = re.findall(r"^\| `(\w+) (/\S+)` \| ([^|]*) \| ([^|]*)\|", page, re.MULTILINE)
    assert [row[:2] for row in rows] == [(route.method, route.path) for route in ROUTES]
    for route, (_, _, scopes, takes) in zip(ROUTES, rows, strict=True):
        assert scopes.partition(",")[0] == (" or ".join(sorted(route.scopes)) or "none")
        fields = () if route.message is None else route.message.__struct_fields__
        named = {*re.findall(r"[`?](\w+)", takes), *re.findall(r"\{(\w+)\}", route.path)}
        assert set(fields) - {"experiment"} <= named
        assert all(re.search(rf"^\| .*\b{status}\b", page, re.MULTILINE) for status in route.statuses)
    (limit,) = {route.body_bytes for route in ROUTES if not route.path.endswith("/batch")}
    (batch,) = {route.body_bytes for route in ROUTES if route.path.endswith("/batch")}
    assert f"at most {limit >> 10} KiB, those of batches {batch >> 20} MiB" in " ".join(page.split())
    source = (REPOSITORY / "src" / "oddsmith" / "service" / "settings.py").read_text()
    settings = re.findall(r"""(?:keys\.\w+\(|\(keys, )"(\w+)\"""", source)
    assert len(settings) == 11
    assert all(f"| `{key}` |" in page for key in settings)
    calls = [name for name in vars(od.Client) if not name.startswith("_") and name != "close"]
    assert all(f"`{name}`" in page for name in calls)
