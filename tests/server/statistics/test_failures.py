"""A statistic that fails is reported, and stops nothing: learning, restarts, `verify`
and export go on."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from oddsmith.server.audit import doctor, export, verify
from oddsmith.server.statistics import every
from oddsmith.server.statistics.arms import ArmCounts, NamedArms
from oddsmith.server.statistics.checks import Calibration, Checks
from oddsmith.server.statistics.history import History
from oddsmith.server.statistics.series import Series
from oddsmith.server.statistics.values import Values
from oddsmith.server.store.place import open_reader
from server.served import Here, here, place

METHODS: list[tuple[str, Any, str]] = [
    ("named", NamedArms, "draw"),
    ("named", NamedArms, "to_json"),
    ("arms", ArmCounts, "draw"),
    ("arms", ArmCounts, "count"),
    ("series", Series, "show"),
    ("series", Series, "count"),
    ("series", Series, "to_json"),
    ("history", History, "count"),
    ("values", Values, "count"),
    ("values", Values, "_settle"),
    ("checks", Checks, "show"),
    ("checks", Checks, "count"),
    ("checks", Calibration, "count"),
]


def use(served: Here, first: int) -> None:
    for number in range(first, first + 3):
        served.decide(f"d{number}")
        served.reward(f"d{number}", 1)
    assert served.state().learnt == first + 3


@pytest.mark.parametrize(("part", "kind", "method"), METHODS)
def test_a_failure_stops_only_its_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, kind: Any, method: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OverflowError("too large")

    file = place(tmp_path)
    with monkeypatch.context() as broken, here(file) as served:
        broken.setattr(kind, method, fail)
        use(served, 0)
        served.portal.call(served.experiment().follower.save)
        use(served, 3)
    with here(file) as served:
        warning = served.get("/readyz")["warnings"]["news"]
        assert f"statistics are not computed: {part}, OverflowError" in warning
        assert served.get("/v1/checks")["warning"] == warning
        use(served, 6)
        for path in ("values", "series", "stats", "posterior/history"):
            served.get(f"/v1/{path}")
    store = str(tmp_path / "news.sqlite")
    (found,) = [one for one in doctor([store]) if one.check == "statistics"]
    assert (found.level, found.what) == ("notice", warning)
    with closing(open_reader(store)) as reading:
        assert verify(reading).holds
        assert export(reading, tmp_path / "log.jsonl").rewarded == 9
    monkeypatch.setattr(every, "__version__", "another")
    with here(file) as served:  # which folds it again
        assert served.get("/readyz").get("warnings", {}) == {}
        assert served.get("/v1/checks")["served_as_logged"]["n"] == 9
