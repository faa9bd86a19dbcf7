"""Every column of every format, and every field of a Personalizer event, with every
extreme value: a log, or one sentence."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from extremes import IDS, MOMENTS, NUMBERS, PROPENSITIES, Raw, to_json
from logs.personalizer_logs import event
from oddsmith.core.decision import LEAST_PROPENSITY
from oddsmith.core.errors import OddsmithError
from oddsmith.lab.episodes import EpisodeLog
from oddsmith.server.audit import verify
from oddsmith.server.compat.personalizer.log import Unread, events
from oddsmith.server.compat.personalizer.log_import import ImportReport
from oddsmith.server.compat.personalizer.store_import import to_store
from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.store.place import open_reader

VALUES = [*NUMBERS, *PROPENSITIES, *IDS, *MOMENTS]
ROW: dict[str, Any] = {
    "arm": 0,
    "reward": 1.0,
    "propensities": [0.5, 0.5],
    "context": [0.5, 1.0],
    "decision_id": "d",
    "time": "2026-03-01T12:00:00Z",
    "step": 1,
    "advice": [0.5],
    "log_weights": [0.0],
    "control": [0.5, 0.5],
    "holdout": 0.1,
    "group": "policy",
    "unit": "visitor",
    "metric.revenue": 3.5,
}
SECOND = ROW | {"decision_id": "e"}
EVENT = event("e", {"a": {"x": 1}, "b": {"x": 2}}, [0.5, 0.5], reward=1.0)


def readable(path: Path) -> bool:
    """Whether a file is a log; the refusal is one of ours."""
    try:
        log = od.read_log(path)
    except OddsmithError:
        return False
    assert (log.propensity is None) or (log.propensity >= LEAST_PROPENSITY).all()
    return True


@pytest.mark.parametrize("column", ROW)
def test_every_column(tmp_path: Path, column: str) -> None:
    path = tmp_path / "log.jsonl"
    read = 0
    for value in VALUES:
        for given in (value, [value], [value, 0.5]):
            path.write_text(f"{to_json(ROW)}\n{to_json(SECOND | {column: given})}\n")
            read += readable(path)
    assert read


def test_every_cell_of_a_spreadsheet(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    cells = {"arm": "0", "reward": "1", "propensity": "0.5", "time": "2026-03-01"}
    for column in cells:
        for value in VALUES:
            text = to_json(value) if not isinstance(value, str) else value
            row = cells | {column: '"' + text.replace('"', '""')[:300] + '"'}
            lines = (",".join(cells), ",".join(cells.values()), ",".join(row.values()))
            path.write_text("\n".join(lines) + "\n")
            readable(path)


def test_every_field_of_an_event_of_personalizer(tmp_path: Path) -> None:
    """Read as a log, and into a store that then follows."""
    (tmp_path / "news.toml").write_text(
        'seed = 3\n[policy]\nkind = "auto"\nsize = "small"\n'
    )
    lines = []
    for field in ("_label_cost", "_label_probability", "_label_Action", "_labelIndex",
                  "Timestamp", "EventId", "a", "c", "p", "pdrop", "o"):  # fmt: skip
        for place, value in enumerate(VALUES):
            for given in (value, [value, 0.5]) if field in "ap" else (value,):
                mine = {"EventId": f"{field} {place} {given is value}"}
                lines.append(to_json(EVENT | mine | {field: given}))
    for place, p in enumerate(PROPENSITIES):
        rest = Raw(repr(1.0 - float(p.text)))
        odds: dict[str, Any] = {
            "EventId": f"odds {place}",
            "p": [p, rest],
            "_label_probability": p,
        }
        lines.append(to_json(EVENT | odds))
    whole = tmp_path / "log.json"
    whole.write_text("\n".join(lines))
    one = tmp_path / "one.dsjson"
    for line in lines:
        one.write_text(line + "\n")
        readable(one)
    scale = od.RewardScale(-1e100, 1e100)
    found = list(events([whole], scale))
    taken = [one for one in found if not isinstance(one, Unread)]
    assert len(found) == len(lines)
    report = ImportReport()
    (opened,) = open_experiments([tmp_path / "news.toml"], history=True)
    with closing(opened.store):
        to_store(found, opened, report)
    with closing(open_reader(str(tmp_path / "news.sqlite"))) as reading:
        assert reading.tally()["decision"] + report.unread.total() == len(lines)
        assert reading.tally()["decision"] > 0.9 * len(taken)
        assert verify(reading).holds


@pytest.mark.parametrize("suffix", ["jsonl", "dsjson", "parquet"])
def test_a_log_whose_slates_are_all_elsewhere(tmp_path: Path, suffix: str) -> None:
    """As an export is, where no slot of a page was ever shown."""
    log = od.Log(
        arm=np.zeros(2, np.int64),
        reward=np.ones(2),
        propensities=np.full((2, 2), 0.5),
        slate=np.array([None, None], dtype=object),
        slot=np.zeros(2, np.int64),
    )
    od.write_log(log, tmp_path / f"log.{suffix}")
    assert len(od.read_log(tmp_path / f"log.{suffix}")) == 2


def of_log(p: float) -> object:
    return od.Log(
        arm=np.zeros(1, np.int64), reward=np.ones(1), propensity=np.full(1, p)
    )


def of_rows(p: float) -> object:
    return od.Log(
        arm=np.zeros(1, np.int64),
        reward=np.ones(1),
        propensities=np.array([[p, 1 - p]]),
    )


def of_episodes(p: float) -> object:
    return EpisodeLog([[0]], [[0]], [[1.0]], [[[p, 1 - p]]])


@pytest.mark.parametrize("made", [of_log, of_rows, of_episodes])
def test_the_least_propensity(made: Callable[[float], object]) -> None:
    made(LEAST_PROPENSITY)
    for p in (np.nextafter(LEAST_PROPENSITY, 0), 1e-160, 1e-300, 5e-324, 0.0):
        with pytest.raises(od.InvalidInput, match="1e-12"):
            made(float(p))


def test_the_least_propensity_of_an_event_of_personalizer(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    texts = [json.dumps(EVENT | {"EventId": f"e{p}", "p": [p, 1 - p], "_label_probability": p})
            for p in (1e-12, 1e-13, 1e-300, 5e-324)]  # fmt: skip
    path.write_text("\n".join(texts))
    first, *others = events([path], od.RewardScale(0.0, 1.0))
    assert not isinstance(first, Unread)
    assert all("p must be at least 1e-12" in str(one) for one in others)
