"""Experiments and the latest decisions, as routes tell them."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from oddsmith import __version__
from oddsmith.server.http.keys import create
from server.served import BENCH, Hands, Here, here, place
from server.store.postgres_server import Server

Serve = Callable[..., Any]


@pytest.fixture(params=["sqlite", "postgres"])
def serve(request: pytest.FixtureRequest, tmp_path: Path) -> Serve:
    """A service of one experiment in either database, with these lines of [service]."""
    store, name = "", "news"
    if request.param == "postgres":
        server: Server = request.getfixturevalue("server")
        store, name = (
            f"store = {json.dumps(server.url())}\n",
            request.getfixturevalue("experiment"),
        )

    @contextmanager
    def run(service: str = "", **more: Any) -> Iterator[Here]:
        clock = more.pop("clock", None)
        with here(
            place(tmp_path, name, service=store + service, **more), clock=clock
        ) as served:
            yield served

    return run


def listed(served: Here, **asked: Any) -> list[Any]:
    """All that the pages have, each asked for with the `before` of the last one."""
    found, before = list[Any](), None
    while True:
        query = asked | ({} if before is None else {"before": before})
        answer = served.ask("GET", "/v1/decisions", params=query)
        assert answer.status_code == 200, answer.text
        found += answer.json()["decisions"]
        before = answer.json()["before"]
        if before is None:
            return found


EURO = "[reward]\nlow = -10.0\nhigh = 30.0\n"
LINES = '[experts.lines]\nkind = "linear"\nfile = "lines.npz"\n'


def test_decisions_are_listed_in_the_callers_units(serve: Serve) -> None:
    hands = Hands()
    with serve(
        "window_s = 60\ndefault_reward = -5.0\n",
        experts=LINES + EURO,
        clock=hands.clock(),
    ) as served:
        answers = {
            id: served.decide(id, deferred=id == "d3")
            for id in ("d1", "d2", "d3", "d4")
        }
        served.reward("d1", 20)
        served.reward("d3", 10)
        served.reward("d4", 0)
        served.post("correct", {"id": "d4", "reward": 25, "key": "k"})
        rows = listed(served)
        assert [row["id"] for row in rows] == ["d4", "d3", "d2", "d1"]
        assert [row["reward"] for row in rows] == [25, 10, None, 20]
        assert [row["counts"] for row in rows] == ["correction", None, None, "reward"]
        assert [row["activated"] for row in rows] == [None, False, None, None]
        assert [row["deferred"] for row in rows] == [False, True, False, False]
        (one,) = served.service.experiments.values()
        for row in rows:
            for what in ("arm", "propensity", "position"):
                assert row[what] == answers[row["id"]][what]
            assert row["t"] == pytest.approx(one.clock(), abs=60)
            record = served.get(f"/v1/decisions/{row['id']}")
            assert (record["reward"], record["propensity"]) == (
                row["reward"],
                row["propensity"],
            )
        served.post("activate", {"id": "d3"})
        hands.pass_by(61)
        served.decide("d5")
        while listed(served, reward="none") != (
            rest := [row for row in listed(served) if row["id"] == "d5"]
        ):
            pass
        assert [row["reward"] for row in rest] == [None]
        by_id = {
            row["id"]: (row["reward"], row["counts"])
            for row in listed(served, reward="some", limit=1)
        }
        expected = {
            "d1": (20, "reward"),
            "d2": (-5, "default"),
            "d3": (10, "reward"),
            "d4": (25, "correction"),
        }
        assert by_id == expected
        head = served.experiment(next(iter(served.service.experiments))).store.head()
        assert served.get("/v1/decisions")["position"] == head


def test_filters_and_pages(serve: Serve) -> None:
    with serve() as served:
        for number in range(30):
            served.decide(f"d{number}")
        rows = listed(served)
        assert listed(served, limit=7) == rows
        assert len(rows) == 30
        for arm in {row["arm"] for row in rows}:
            assert listed(served, arm=arm, limit=4) == [
                row for row in rows if row["arm"] == arm
            ]
        assert (
            listed(served, arm="<img src=x onerror=alert(1)>")
            == listed(served, reward="some")
            == []
        )
        answer = served.get("/v1/decisions?limit=3")
        assert (answer["searched"], answer["before"]) == (3, rows[2]["position"])


WRONG = [
    "before=x",
    "before=-1",
    "before=null",
    "before=1e300",
    f"before={2**63}",
    "limit=0",
    "limit=201",
    "after=1",
]
WRONG += ["reward=maybe", "reward=null"]


@pytest.mark.parametrize("query", WRONG)
def test_wrong_questions_are_refused(tmp_path: Path, query: str) -> None:
    with here(place(tmp_path)) as served:
        assert served.ask("GET", f"/v1/decisions?{query}").status_code == 422


def test_the_experiments_that_a_key_may_read(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    every, shop = (
        create(keys, "every", ["read"]),
        create(keys, "shop", ["read"], ["shop"]),
    )
    decides = create(keys, "decides", ["decide"])
    files = [
        place(
            tmp_path,
            "news",
            service="window_s = 60\nsticky = true\n",
            experts=BENCH + EURO,
        )
    ]
    files += [place(tmp_path, "shop", service="shadow = true\nshow_contexts = false\n")]
    with here(*files, keys=keys) as served:

        def asked(token: str | None) -> Any:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            return served.ask("GET", "/v1/experiments", headers=headers)

        answer = asked(every).json()
        assert [one["name"] for one in answer["experiments"]] == ["news", "shop"]
        assert [one["name"] for one in asked(shop).json()["experiments"]] == ["shop"]
        assert (asked(None).status_code, asked(decides).status_code) == (401, 403)
        assert (answer["version"], answer["keys"], answer["served"]) == (
            __version__,
            True,
            True,
        )
        news, other = answer["experiments"]
        assert news == {
            "name": "news",
            "arms": ["sports", "politics", "tech"],
            "experts": ["a", "b", "c", "d"],
            "shadow": False,
            "sticky": True,
            "window_s": 60,
            "default_reward": -10,
            "reward": {"low": -10, "high": 30},
            "ready": True,
            "trouble": "",
            "fingerprint": served.experiment().store.fingerprint,
            "policy": "gts",
            "show_contexts": True,
        }
        assert (other["shadow"], other["window_s"], other["default_reward"]) == (
            True,
            None,
            None,
        )
        assert other["show_contexts"] is False


def test_experts_that_join_and_retire_and_trouble_are_told(tmp_path: Path) -> None:
    with here(place(tmp_path, experts=BENCH)) as served:
        served.post(
            "experts", {"expert": "late", "change": "added", "share": 0.1, "key": "k1"}
        )
        served.post("experts", {"expert": "a", "change": "retired", "key": "k2"})
        (one,) = served.get("/v1/experiments")["experiments"]
        assert one["experts"] == ["b", "c", "d", "late"]
        served.experiment().follower.trouble = "its disk is gone"
        answer = served.get("/v1/experiments")
        assert (
            answer["experiments"][0]["ready"],
            answer["experiments"][0]["trouble"],
        ) == (False, "its disk is gone")
        assert answer["keys"] is False


def test_contexts_and_units_are_hidden_where_the_file_says_so(tmp_path: Path) -> None:
    secret = [0.123456, 0.654321]
    for service in ("sticky = true\n", "sticky = true\nshow_contexts = false\n"):
        shown = "show" not in service
        with ExitStack() as stack:
            served = stack.enter_context(here(place(tmp_path, service=service)))
            served.post("decide", {"context": secret, "unit": "mrs miller"})
            (row,) = served.get("/v1/decisions")["decisions"]
            assert row["unit"] == ("mrs miller" if shown else None)
            for more in ("", "?explain=true"):
                answer = served.ask("GET", f"/v1/decisions/{row['id']}{more}")
                record = answer.json()
                assert (record["context"], record["context_hidden"]) == (
                    (secret, False) if shown else (None, True)
                )
                assert ("0.123456" in answer.text) is shown
                assert record["odds"]
