"""A store that is looked at says what its service said at the same position, and
nothing is written into it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith.server.http.dashboard import dashboard_app, open_views
from oddsmith.server.store.backup import back_up
from server.served import BENCH, Hands, Here, asked, here, place, wait
from server.store.postgres_server import Server

PATHS = [
    "posterior",
    "posterior/history",
    "decisions?limit=7",
    "decisions?reward=none",
    "decisions/d3?explain=true",
]
PATHS += [
    "decisions/d4",
    "values",
    "checks",
    *(f"series?range={range}" for range in ("hour", "day", "week", "all")),
]
# not of the log
OF_PROCESS = ("vitals", "snapshot", "refolds", "refused", "last_write_age_s")
AUTO = (
    'name = "news"\narms = ["sports", "politics", "tech"]\nseed = 5\n[policy]\n'
    'kind = "auto"\n[service]\n'
)
UCB = (
    'name = "news"\narms = ["sports", "politics", "tech"]\nseed = 5\n[policy]\n'
    'kind = "ucb1"\n[service]\n'
)


@contextmanager
def shown(*places: Path | str, experiment: str | None = None) -> Iterator[Here]:
    """The stores at these places, looked at."""
    app: Any = dashboard_app(open_views([str(place) for place in places], experiment))
    with asked(app) as found:
        yield found


def live(served: Here, hands: Hands, number: int = 24) -> None:
    """Decisions, rewards, corrections and what is deferred; time goes on."""
    for i in range(number):
        context = [i % 7 / 7 - 0.5, i % 5 / 5 - 0.4]
        served.post(
            "decide", {"id": f"d{i}", "context": context, "deferred": i % 6 == 5}
        )
        if i % 3:
            served.reward(f"d{i}", i % 4 / 4)
        if i % 3 == 1 and i % 4 == 3:
            served.post("correct", {"id": f"d{i}", "reward": 1, "key": f"k{i}"})
        if i % 12 == 11:
            served.post("activate", {"id": f"d{i}"})
        hands.pass_by(400)


def told(served: Here, *, models: bool = True) -> dict[str, Any]:
    """What all routes say that are about the log, at the end of it; without `models`,
    neither what is promised of them nor what they predict when asked again."""
    served.state(next(iter(served.service.experiments)))
    found = {path: served.get(f"/v1/{path}") for path in PATHS}
    stats = served.get("/v1/stats")
    stats["experts"] = {name: one["weight"] for name, one in stats["experts"].items()}
    found["stats"] = {
        name: value for name, value in stats.items() if name not in OF_PROCESS
    }
    for name in ("trouble", "store_trouble", "warning", "asleep"):
        found["checks"].pop(name)
    if not models:
        del found["checks"]["guarantee"]
        explained = found["decisions/d3?explain=true"]
        explained.pop("notes", None)
        for row in explained.get("experts", []):
            del row["predictions"]
    return found


def facts(served: Here) -> dict[str, Any]:
    (one,) = served.get("/v1/experiments")["experiments"]
    return {
        name: value for name, value in one.items() if name not in ("policy", "sticky")
    }


@pytest.mark.parametrize("kept", [10_000, 5])
@pytest.mark.parametrize("ended", [True, False])
def test_the_same_answers_as_its_service(
    tmp_path: Path, kept: int, ended: bool
) -> None:
    """With a snapshot at the end, with some on the way, and with none, for the service
    still runs."""
    hands = Hands()
    service = f"snapshot_every = {kept}\nwindow_s = 3000\ndefault_reward = 0.25\n"
    file = place(tmp_path, experts=BENCH, service=service)
    with here(file, clock=hands.clock()) as served:
        live(served, hands, 12)
        served.post(
            "experts", {"expert": "late", "change": "added", "share": 0.1, "key": "k1"}
        )
        served.post("experts", {"expert": "a", "change": "retired", "key": "k2"})
        live(served, hands, 24)
        wait(
            lambda: (
                not served.experiment()._windows
                or served.get("/v1/stats")["events"].get("default", 0) > 5
            )
        )
        answers, about = (
            {models: told(served, models=models) for models in (True, False)},
            facts(served),
        )
        if not ended:
            for where in (tmp_path / "news.sqlite", file):
                with shown(where) as seen:
                    assert told(seen, models=where == file) == answers[where == file]
                    assert facts(seen) == about
    if ended:
        for where in (tmp_path / "news.sqlite", file):
            before = sha256((tmp_path / "news.sqlite").read_bytes()).digest()
            with shown(where) as seen:
                assert told(seen, models=where == file) == answers[where == file]
                assert facts(seen) == about
            assert sha256((tmp_path / "news.sqlite").read_bytes()).digest() == before


def test_it_follows_a_service_that_writes(tmp_path: Path) -> None:
    hands = Hands()
    file = place(tmp_path)
    with (
        here(file, clock=hands.clock()) as served,
        shown(tmp_path / "news.sqlite") as seen,
    ):
        live(served, hands)
        wait(
            lambda: (
                seen.get("/v1/stats")["position"] == served.experiment().store.head()
            )
        )
        assert told(seen, models=False) == told(served, models=False)
        head = served.experiment().store.head()
        served.decide("new")
        assert seen.get(f"/v1/changes?after={head}")["position"] == head + 1


@pytest.mark.parametrize("text", [AUTO, UCB], ids=["auto", "ucb1"])
def test_policies_that_learn_and_those_without_experts(
    tmp_path: Path, text: str
) -> None:
    hands = Hands()
    (file := tmp_path / "news.toml").write_text(text)
    with here(file, clock=hands.clock()) as served:
        live(served, hands)
        answers, whole = told(served, models=False), told(served)
    with shown(file) as seen:
        assert told(seen) == whole
    with shown(tmp_path / "news.sqlite") as seen:
        # which the store alone cannot know
        assert seen.get("/v1/checks")["guarantee"]["covered"] is False
        found = told(seen, models=False)
        # which needs the policy
        same = set(answers) if text is AUTO else set(answers) - {"posterior", "checks"}
        assert {name: found[name] for name in same} == {
            name: answers[name] for name in same
        }
        assert found["posterior"]["learnt"] == answers["posterior"]["learnt"]


def test_a_backup_and_a_database(
    tmp_path: Path, server: Server, experiment: str
) -> None:
    hands = Hands()
    file = place(
        tmp_path,
        experiment,
        service=f"store = {json.dumps(server.url())}\nsnapshot_every = 7\n",
    )
    with here(file, clock=hands.clock()) as served:
        live(served, hands)
        answers = told(served, models=False)
        back_up(server.url(), tmp_path / "copy.sqlite", experiment=experiment)
    with shown(server.url(), experiment=experiment) as seen:
        assert told(seen, models=False) == answers
    with shown(tmp_path / "copy.sqlite") as seen:
        found = told(seen)
        assert found["series?range=all"] == answers["series?range=all"]
        assert (
            found["decisions?limit=7"]["decisions"]
            == answers["decisions?limit=7"]["decisions"]
        )


def test_nothing_can_be_changed(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served:
        served.decide("d1")
    with shown(tmp_path / "news.sqlite") as seen:
        assert (
            seen.ask("POST", "/v1/decide", json={"context": [0.1, 0.2]}).status_code
            == 404
        )
        assert seen.ask("POST", "/v1/stats", json={}).status_code == 405
        assert {
            method
            for path in seen.get("/openapi.json")["paths"].values()
            for method in path
        } == {"get"}
        assert "POST" not in seen.ask("GET", "/docs").text
        assert seen.ask("GET", "/dashboard/").status_code == 200
        assert seen.get("/v1/experiments")["served"] is False
        assert (
            seen.ask("GET", "/v1/stats", headers={"Host": "evil.example"}).status_code
            == 403
        )


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no store")
    with here(file := place(tmp_path)):
        pass
    store = str(tmp_path / "news.sqlite")
    for places, name, match in (
        ([str(tmp_path / "gone.sqlite")], None, "there is no such file"),
        ([str(tmp_path / "text")], None, "must be a store"),
        ([store, store], None, "'news' twice"),
        ([store], "shop", "must be the store of experiment 'shop'"),
        (["mysql://x"], None, "must be a file, or postgresql"),
    ):
        with pytest.raises(od.OddsmithError, match=match):
            open_views(places, name)
    file.write_text(
        file.read_text().replace("policy.gamma = 0.1", "policy.gamma = 0.2")
    )
    with pytest.raises(od.BadFile, match="must describe the policy"):
        open_views([str(file)])
