"""The image's own command and health check, run here, without a container and without a
database."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from containers.files import image_environment, last
from containers.running import contained, entry, healthy, placed
from oddsmith.server.http.keys import create, revoke
from server.served import place, process


def test_the_health_check_says_whether_a_service_is_ready(tmp_path: Path) -> None:
    with process(place(tmp_path)) as served:
        there = dict(os.environ) | {"ODDSMITH_PORT": str(served.port)}
        assert healthy(there)
        # it is not asked by way of a proxy
        assert healthy(there | {"http_proxy": "http://127.0.0.1:9"})
    assert not healthy(there)


@pytest.mark.parametrize("has_file", [False, True])
def test_without_keys_nobody_else_is_served(tmp_path: Path, has_file: bool) -> None:
    """As the image sets it: all addresses, and a file of keys that must be there, with
    one in force."""
    environment = contained(tmp_path) | {
        "ODDSMITH_HOST": image_environment()["ODDSMITH_HOST"]
    }
    if has_file:
        create(tmp_path / "var" / "keys.json", "shop", ["decide"])
        revoke(tmp_path / "var" / "keys.json", "shop")
    words = [placed(word, tmp_path) for word in json.loads(last("CMD")[0])]
    done = subprocess.run(
        entry(*words),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "keys" in done.stderr
    assert done.stderr.count("\n") == 1
