"""The long versions of tests/service: thousands of schemathesis cases and wild bytes, a
million extreme rewards."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.experiment.test_faults import EXTREMES, extremes
from server.http.test_bytes import check
from server.http.test_schema import check_all_phases
from server.offering import Kind, bringing
from server.served import CONTEXT, place, process, rows

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("kind", ["fixed", "changing"])
def test_five_thousand_cases_by_the_document(tmp_path: Path, kind: Kind) -> None:
    with bringing(kind):
        check_all_phases(tmp_path, 400, least=5000)


@pytest.mark.parametrize("kind", ["fixed", "changing"])
def test_ten_thousand_times_wild_bytes(tmp_path: Path, kind: Kind) -> None:
    with bringing(kind):
        check(tmp_path, 10_000)


@pytest.mark.parametrize(("loss", "eta", "share"), EXTREMES)
def test_a_million_rewards_at_the_extremes(loss: Any, eta: float, share: float) -> None:
    assert extremes(250_000, loss, eta, share, seed=9) < 250_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(tmp_path)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no disk may be mounted here: {done.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.parametrize("kind", ["fixed", "changing"])
def test_a_disk_that_is_really_full(small_disk: Path, kind: Kind) -> None:
    with bringing(kind), process(place(small_disk)) as served:
        answered = [decide(served, f"d{i}")[1] for i in range(5)]
        free = os.statvfs(small_disk)
        (small_disk / "filler").write_bytes(
            b"x" * (free.f_bavail * free.f_bsize - 200_000)
        )
        while (found := decide(served, f"more{len(answered)}"))[0] == 200:
            answered.append(found[1])
        assert found == (507, "disk_full")
        assert decide(served, "again") == (507, "disk_full")
        assert served.client.get("/v1/stats").json()["events"] == {
            "decision": len(answered)
        }
        assert served.client.get("/metrics").status_code == 200
        (small_disk / "filler").unlink()
        assert decide(served, "after") == (200, "after")
    assert [id for _, _, id, _, _ in rows(small_disk / "news.sqlite")] == [
        *answered,
        "after",
    ]


def decide(served: Any, id: str) -> tuple[int, str]:
    """The status, and the id or the code of what is wrong."""
    answer = served.client.post("/v1/decide", json={"context": CONTEXT, "id": id})
    return answer.status_code, answer.json().get("id") or answer.json()["code"]
