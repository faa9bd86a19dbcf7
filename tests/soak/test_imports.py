"""Long logs in Personalizer's layout, as a log and into a store: time that grows with
the log, memory that does not."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import oddsmith as od
from logs.personalizer_logs import world
from logs.personalizer_slots import slot_world

_RUN = """
import json, resource, sys
from oddsmith.cli.main import main
assert main(["import", "personalizer", *sys.argv[1:], "--json"]) == 0
own = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([own.ru_utime + own.ru_stime, own.ru_maxrss]), file=sys.stderr)
"""


def cost(*arguments: str) -> tuple[float, float]:
    """Seconds of processor, and the most kilobytes in memory, of an import in a process
    of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, most = json.loads(done.stderr.splitlines()[-1])
    return seconds, most


def files(
    folder: Path,
    *sizes: int,
    world: Callable[[int], Iterable[tuple[object, object]]] = world,
) -> list[Path]:
    """The first events of one world, as many as each size says."""
    paths = [folder / f"{size}.json" for size in sizes]
    handles = [path.open("w") for path in paths]
    for i, (event, _) in enumerate(world(max(sizes))):
        for size, handle in zip(sizes, handles, strict=True):
            if i < size:
                handle.write(json.dumps(event) + "\n")
    for handle in handles:
        handle.close()
    return paths


@pytest.mark.soak
def test_a_hundred_thousand_events(tmp_path: Path) -> None:
    few, many = files(tmp_path, 20_000, 100_000)
    out = tmp_path / "log.parquet"
    first, small = cost(str(few), "--to", str(out))
    second, large = cost(str(many), "--to", str(out))
    print(
        f"20,000: {first:.1f} s, {small / 1024:.0f} MB; 100,000: {second:.1f} s, "
        f"{large / 1024:.0f} MB"
    )
    assert second < 7 * first
    assert large < 1.2 * small
    ids = (expected["decision_id"] for _, expected in world(100_000))
    found = (id for log in od.logs.log_batches(out) for id in log.decision_id)
    assert all(id == other for id, other in zip(found, ids, strict=True))


@pytest.mark.soak
def test_a_hundred_thousand_events_of_three_slots(tmp_path: Path) -> None:
    few, many = files(tmp_path, 20_000, 100_000, world=slot_world)
    out = tmp_path / "log.parquet"
    first, small = cost(str(few), "--to", str(out))
    second, large = cost(str(many), "--to", str(out))
    print(
        f"20,000: {first:.1f} s, {small / 1024:.0f} MB; 100,000: {second:.1f} s, "
        f"{large / 1024:.0f} MB"
    )
    assert second < 7 * first
    assert large < 1.2 * small
    places = (row["decision_id"] for _, rows in slot_world(100_000) for row in rows)
    found = (id for log in od.logs.log_batches(out) for id in log.decision_id)
    assert all(id == other for id, other in zip(found, places, strict=True))


@pytest.mark.soak
def test_a_store(tmp_path: Path) -> None:
    logs, costs = files(tmp_path, 4_000, 20_000), []
    for log in logs:
        folder = tmp_path / log.stem
        folder.mkdir()
        (folder / "news.toml").write_text('[policy]\nkind = "auto"\nsize = "small"\n')
        costs.append(
            cost(
                str(log),
                "--to",
                str(folder / "news.sqlite"),
                "--policy",
                str(folder / "news.toml"),
            )
        )
    (first, small), (second, large) = costs
    print(
        f"4,000: {first:.1f} s, {small / 1024:.0f} MB; 20,000: {second:.1f} s, "
        f"{large / 1024:.0f} MB"
    )
    assert second < 7 * first
    assert large < 1.2 * small
