"""Experts that come and go: what must not get into the log, who counts as retired, and
replicas that follow."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.http.app import make_app
from oddsmith.server.store.events import ExpertChange
from server.http.test_modes import PLAIN
from server.offering import ARMS
from server.served import BENCH, CONTEXT, Here, here, life, place, wait
from server.store.samples import bits


def joins(expert: str, key: str) -> dict[str, Any]:
    return {"expert": expert, "change": "added", "share": 0.3, "key": key}


@pytest.mark.usefixtures("arms")
def test_changes_are_in_the_log_lines_once(tmp_path: Path, caplog: Any) -> None:
    with here(place(tmp_path, experts=BENCH)) as served, caplog.at_level(logging.INFO):
        for _ in range(2):
            served.post("experts", joins("late", "k"))
        served.post("experts", {"expert": "late", "change": "retired", "key": "out"})
    told = [
        record.getMessage()
        for record in caplog.records
        if "expert late" in record.getMessage()
    ]
    added = "experiment news: expert late is added with 0.3 of the weight"
    assert told == [added, "experiment news: expert late is retired"]


@pytest.mark.usefixtures("arms")
def test_a_key_that_another_expert_has_used_opens_no_door(tmp_path: Path) -> None:
    """What cannot be folded would stop learning for ever, here, on replicas and after
    restarts."""
    with here(place(tmp_path, experts=BENCH)) as served:
        served.post("experts", joins("late", "k"))
        assert (
            "must be on the policy file's bench"
            in served.post("experts", joins("nobody", "k"), status=422)["error"]
        )
        assert served.post("experts", {"expert": "a", "change": "retired", "key": "k"})[
            "new"
        ]
        assert served.get("/readyz")["ok"]
        served.decide("d")
        served.reward("d", 1)
        state = bits(served.state())
    with here(place(tmp_path, experts=BENCH)) as again:
        assert bits(again.state()) == state


def learn(served: Here, times: int) -> Any:
    """Rewards that leave nearly all experts without weight."""
    for i in range(times):
        batch = [{"context": [5.0 * (-1) ** i, 5.0]}] * 50
        made = served.post("decide/batch", {"decisions": batch})["results"]
        rewards = [
            {"id": one["id"], "reward": float(one["arm"] == ARMS[2])} for one in made
        ]
        served.post("reward/batch", {"rewards": rewards})
    served.state()
    return served.get("/v1/posterior")


@pytest.mark.usefixtures("arms")
def test_who_has_lost_all_weight_is_not_retired_and_can_retire(tmp_path: Path) -> None:
    with here(place(tmp_path, top=PLAIN)) as served:
        found = learn(served, 21)
        (lost, *_) = [
            name for name, weight in found["posterior"].items() if weight == 0
        ]
        assert found["retired"] == []
        refused = served.post("experts", joins(lost, "in"), status=409)
        assert "must not be active yet" in refused["error"]
        served.post("experts", {"expert": lost, "change": "retired", "key": "out"})
        assert served.get("/v1/posterior")["retired"] == [lost]
        served.post("experts", joins(lost, "in"))
        assert served.get("/v1/posterior")["posterior"][lost] == pytest.approx(
            0.3, abs=1e-12
        )
        state = bits(served.state())
    with here(place(tmp_path, top=PLAIN)) as again:
        assert bits(again.state()) == state


@pytest.mark.usefixtures("arms")
def test_a_replica_reads_its_file_again_when_another_lets_an_expert_in(
    tmp_path: Path,
) -> None:
    with here(place(tmp_path, top=PLAIN)) as served:
        served.post("decide", {"context": CONTEXT})
        place(tmp_path, top=PLAIN, experts=BENCH)
        store = served.experiment().store
        # as another replica would
        store.append([ExpertChange("late", "added", 1.0, "elsewhere", 0.25)]).result()
        served.state()
        assert served.get("/v1/posterior")["posterior"]["late"] == pytest.approx(
            0.25, abs=1e-12
        )


@pytest.mark.usefixtures("arms")
def test_an_experiment_that_cannot_be_restored_keeps_no_other_waiting(
    tmp_path: Path,
) -> None:
    files = [place(tmp_path, name, experts=BENCH) for name in ("news", "shop")]
    with here(*files) as served:
        served.post("experts", joins("late", "k") | {"experiment": "news"})
    place(tmp_path, "news")  # the expert that joined is no longer there
    app: Any = make_app(open_experiments(files))
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(life(app)),
    ):
        learners = {
            name: one.follower for name, one in app.app.service.experiments.items()
        }
        wait(lambda: learners["shop"].trouble == "")
        wait(lambda: "'late' joined at position 1" in learners["news"].trouble)


@pytest.mark.usefixtures("arms")
def test_an_experiment_that_starts_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hold(*_: object) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr("oddsmith.server.http.service._restore", hold)
    app: Any = make_app(open_experiments([place(tmp_path)]))
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(life(app)),
    ):
        (one,) = app.app.service.experiments.values()
        assert (
            one.follower.trouble == "it is starting, and its state is read from the log"
        )


@pytest.mark.usefixtures("arms")
def test_units_asked_for_at_once_get_arms_that_are_eligible(tmp_path: Path) -> None:
    with here(place(tmp_path, service="sticky = true\n")) as served:
        batch = [{"context": CONTEXT, "unit": "ann", "eligible": [arm]} for arm in ARMS]
        found = served.post("decide/batch", {"decisions": batch})["results"]
        assert [one["arm"] for one in found] == list(ARMS)
        assert len({one["id"] for one in found}) == 3
        again = served.post("decide/batch", {"decisions": batch})["results"]
        assert again == [one | {"new": False} for one in found]
