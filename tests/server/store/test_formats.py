"""Stores of every released format can be read: what they held then is what they hold
now.

`python tests/server/store/test_formats.py` writes the files of the current format;
those of older ones are never changed.
"""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from oddsmith.core.errors import BadFile
from oddsmith.server.fold.fold import restore, roster_change, save_snapshot
from oddsmith.server.fold.judge import judge
from oddsmith.server.store import (
    Activation,
    ConfigurationChange,
    Correction,
    DefaultReward,
    Evidence,
    ExpertChange,
    Reward,
    SQLiteReader,
    SQLiteStore,
)
from oddsmith.server.store.events import OwnDraw
from oddsmith.server.store.meta import FORMAT
from oddsmith.server.store.protocol import Erased
from oddsmith.server.store.upgrade import upgrade
from server.store.samples import append, fixed, policy
from server.store.test_bodies import offered

FILES = Path(__file__).parent / "formats"
ABOUT = {"experiment": "news", "seed": 7, "arms": ["x", "y", "z"]}


@pytest.mark.parametrize("number", [3])
def test_an_old_store_is_read(tmp_path: Path, number: int) -> None:
    shutil.copy(FILES / f"store-{number}.sqlite", tmp_path / "old.sqlite")
    upgrade(str(tmp_path / "old.sqlite"), backup=None)
    wanted = json.loads((FILES / f"store-{number}.json").read_text())
    alone = judge(policy())
    assert alone is not None
    with SQLiteReader(tmp_path / "old.sqlite") as reader:
        assert reader.about == ABOUT
        assert [list(line) for line in reader.lines(0, reader.head())] == wanted[
            "lines"
        ]
        positions = [line[0] for line in wanted["lines"] if line[1] == "decision"]
        assert [
            decision.to_json() for decision in reader.decisions(positions[1:])
        ] == wanted["decisions"]
        assert isinstance(reader.decisions(positions[:1])[0].context, Erased)
        assert [plain(one) for one in reader.evidence(positions)] == wanted["evidence"]
    with SQLiteStore(tmp_path / "old.sqlite", alone) as store:
        assert [snapshot.position for snapshot in store.snapshots()] == wanted[
            "snapshots"
        ]
        folded = restore(store, alone, change=roster_change())
        np.testing.assert_allclose(
            folded.state.log_weights, wanted["log_weights"], atol=1e-12, rtol=0
        )
        assert folded.state.learnt == wanted["learnt"]
        append(store, Reward("d2", 1.0, 99.0))  # and goes on
        assert (
            restore(store, alone, change=roster_change()).state.learnt
            == wanted["learnt"] + 1
        )


@pytest.mark.parametrize("number", [1, 2])
def test_a_store_of_a_format_that_was_never_released_is_refused(
    tmp_path: Path, number: int
) -> None:
    with SQLiteStore(tmp_path / "old", policy()) as store:
        query = (
            f"update meta set value = 'oddsmith store {number}' where name = 'format'"
        )
        store._writing.connection.execute(query)
    with pytest.raises(
        BadFile,
        match=(
            f"of format 'oddsmith store {number}', which was never released and is not "
            "read"
        ),
    ):
        SQLiteReader(tmp_path / "old")
    with pytest.raises(BadFile, match="begin a new store"):
        SQLiteStore(tmp_path / "old", policy())


def plain(evidence: Evidence) -> list[Any]:
    """Evidence as JSON has it."""
    return [
        None if evidence.votes is None else evidence.votes.tolist(),
        evidence.shadow,
    ]


def write() -> None:
    """The files of the current format: a store with one of everything."""
    number = int(FORMAT.split()[-1])
    FILES.mkdir(exist_ok=True)
    path = FILES / f"store-{number}.sqlite"
    path.unlink(missing_ok=True)
    alone = judge(policy())
    assert alone is not None
    votes = np.array(
        [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    )
    with SQLiteStore(path, alone, about=ABOUT) as store:
        whole = np.eye(3)[[0, 1, 2, 2]]
        append(
            store,
            replace(fixed("d1", time=1.0), votes=whole),
            replace(fixed("d2", time=2.0), shadow=True),
        )
        append(
            store,
            Reward("d1", 0.75, 3.0),
            replace(fixed("d3", deferred=True, seen=3, time=4.0), votes=votes),
        )
        save_snapshot(store, restore(store, alone), 4.0)
        append(store, Reward("d4", 1.0, 5.0), fixed("d4", time=5.0))
        append(
            store,
            Activation("d3", 6.0),
            DefaultReward("d3", 0.25, 7.0),
            Reward("d3", 0.5, 7.5),
        )
        append(
            store,
            ExpertChange("e", "added", 8.0, "k1", 0.2),
            ExpertChange("a", "retired", 9.0, "k2"),
        )
        append(
            store,
            Correction("d1", 0.5, 10.0, "c1"),
            fixed("d5", time=10.0),
            Reward("d5", 0.0, 11.0, sender="shop"),
        )
        append(
            store,
            ConfigurationChange("window_s", 600, 12.0, "w1", "boss"),
            offered("d6", time=12.0),
        )
        append(
            store,
            replace(
                fixed("d7", time=12.0),
                unit="ann",
                turn=1,
                slate="page",
                slot=1,
                sender="site",
            ),
        )
        own = OwnDraw(2, np.array([0.25, 0.25, 0.5]))
        append(store, replace(fixed("d8", time=13.0), shadow=True, own=own))
        store.erase(1.5)
        folded = restore(store, alone, change=roster_change())
        lines = list(store.lines(0, store.head()))
        positions = [line.position for line in lines if line.kind == "decision"]
        said = {
            "lines": [list(line) for line in lines],
            "decisions": [
                decision.to_json() for decision in store.decisions(positions[1:])
            ],
            "evidence": [plain(one) for one in store.evidence(positions)],
            "snapshots": [snapshot.position for snapshot in store.snapshots()],
            "log_weights": folded.state.log_weights.tolist(),
            "learnt": folded.state.learnt,
        }
    path.with_suffix(".json").write_text(json.dumps(said, indent=1) + "\n")
    for beside in FILES.glob("*.lock"):
        beside.unlink()


if __name__ == "__main__":
    write()
