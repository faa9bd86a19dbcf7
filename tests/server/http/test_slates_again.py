"""Slates that come again, at once, at another replica, after a kill: the first answer
stands."""

import asyncio
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from oddsmith.cli.main import main
from oddsmith.files.policy import read_policy
from oddsmith.server.audit import verify
from oddsmith.server.store import PostgresReader, SQLiteReader
from oddsmith.server.store.slates import slot_id
from server.http.test_offers import articles, news
from server.http.test_slates import told
from server.served import CONTEXT, Elsewhere, Hands, Here, here, place, process
from server.store.postgres_server import Server


def test_a_slate_that_comes_again_gets_its_first_answer(tmp_path: Path) -> None:
    file = news(tmp_path)
    asked = {"context": {"hour": 1}, "arms": articles(0, 5), "slots": 3, "id": "s"}
    with here(file) as served:
        first = served.post("decide", asked)
        for slot in first["slots"]:
            served.reward(slot["id"], 1)
        served.state()
        assert served.post("decide", asked) == told(first)
        assert served.get("/v1/stats")["head"] == 6
    with here(file) as served:
        assert served.post("decide", asked | {"context": {"hour": 2}}) == told(first)
        arms = dict.fromkeys([slot["arm"] for slot in first["slots"]])
        assert served.post("decide", asked | {"arms": arms}) == told(first)
        for slots in (
            2,
            4,
            [{"name": "1"}, {"name": "3"}, {"name": "2"}],
            [{"name": name} for name in "abc"],
        ):
            error = served.post("decide", asked | {"slots": slots}, status=409)
            assert (
                error["error"]
                == "slate 's' was decided before, with other slots; ask with another id"
            )
        others = dict.fromkeys([*list(arms)[:2], "new"])
        error = served.post("decide", asked | {"arms": others}, status=409)
        assert error["error"].startswith(
            f"slate 's' was answered with arm '{list(arms)[2]}', which is not among "
            "those"
        )
        served.post("decide", {"context": {}, "arms": ["x"], "id": slot_id("t", "2")})
        assert (
            served.post("decide", asked | {"id": "t"}, status=409)["code"] == "conflict"
        )
        # two slots of it are in the log, and were not answered
        assert served.get("/v1/stats")["head"] == 9


@pytest.mark.parametrize("slots", [None, 2])
def test_what_may_no_longer_be_shown_is_not_answered_again(
    tmp_path: Path, slots: int | None
) -> None:
    """An arm that is blocked by `eligible`, also that of one slot, gives a 409; what
    was answered otherwise stands."""
    asked: dict[str, Any] = {"context": {"hour": 1}, "arms": articles(0, 5), "id": "s"}
    asked |= {} if slots is None else {"slots": slots}
    with here(news(tmp_path)) as served:
        first = served.post("decide", asked)
        shown = [one["arm"] for one in first.get("slots", [first])]
        others = [arm for arm in asked["arms"] if arm not in shown]
        what = "slate 's'" if slots else "id 's'"
        for blocked in shown:
            eligible = [arm for arm in asked["arms"] if arm != blocked]
            error = served.post("decide", asked | {"eligible": eligible}, status=409)[
                "error"
            ]
            wanted = (
                f"{what} was answered with arm {blocked!r}, which is not eligible now"
            )
            assert error == f"{wanted}; make it eligible, or ask with another id"
            again = served.post(
                "decide", asked | {"eligible": eligible, "id": f"without {blocked}"}
            )
            assert blocked not in [one["arm"] for one in again.get("slots", [again])]
        kept = served.post("decide", asked | {"eligible": [*shown, others[0]]})
        assert [one["arm"] for one in kept.get("slots", [kept])] == shown
        if slots:
            places = [{"name": "1"}, {"name": "2", "eligible": [shown[0], *others]}]
            assert (
                "not eligible now"
                in served.post("decide", asked | {"slots": places}, status=409)["error"]
            )


def test_an_arm_of_the_file_that_is_not_eligible_is_not_answered_again(
    tmp_path: Path,
) -> None:
    with here(place(tmp_path)) as served:
        arm = served.decide("d")["arm"]
        others = [one for one in ("sports", "politics", "tech") if one != arm]
        body = {"id": "d", "context": CONTEXT, "eligible": others}
        assert "not eligible now" in served.post("decide", body, status=409)["error"]
        assert served.post("decide", body | {"eligible": [arm]})["arm"] == arm
        (batched,) = served.post("decide/batch", {"decisions": [body]})["results"]
        assert batched["code"] == "conflict"


def test_the_record_of_a_slate_is_that_of_its_slots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with here(news(tmp_path)) as served:
        served.post(
            "decide",
            {"context": {"hour": 1}, "arms": articles(0, 5), "slots": 2, "id": "s"},
        )
        first, second = (slot_id("s", name) for name in "12")
        slate = served.get("/v1/decisions/s")
        assert [one["id"] for one in slate["slots"]] == [first, second]
        assert slate["slots"][1] == served.get(f"/v1/decisions/{second}")
        wanted = (
            f"got 's', which is a slate: ask for those of its slots, {first!r}, "
            f"{second!r}"
        )
        assert served.get(f"/v1/decisions/{second}")["slate"] == "s"
        assert (
            "there is no decision 't'"
            in served.get("/v1/decisions/t", status=404)["error"]
        )
    assert main(["history", str(tmp_path / "news.sqlite"), "s"]) == 2
    assert wanted in capsys.readouterr().err


def test_slates_without_an_id_that_come_at_once_are_their_own(tmp_path: Path) -> None:
    """Also in one millisecond, and while the state learns: no slate gets the answer of
    another."""
    with here(news(tmp_path), clock=Hands().clock()) as served:

        async def all_of_them() -> list[Any]:
            # none of them is filled before all have come
            async with served.experiment().follower.learning:
                asked = {"context": {"hour": 1}, "arms": articles(0, 4), "slots": 2}
                calls = [
                    asyncio.create_task(served.client.post("/v1/decide", json=asked))
                    for _ in range(6)
                ]
                await asyncio.sleep(0.1)
            return [(await call).json() for call in calls]

        answers = served.portal.call(all_of_them)
        assert all(answer["new"] for answer in answers)
        assert len({answer["slate"] for answer in answers}) == 6


def test_calls_for_one_slate_at_once_have_one_answer(tmp_path: Path) -> None:
    asked = {"context": {"hour": 1}, "arms": articles(0, 6), "id": "s"}
    with here(news(tmp_path)) as served:

        async def all_of_them() -> list[Any]:
            calls = [
                served.client.post("/v1/decide", json=asked | {"slots": 2 + n % 3})
                for n in range(12)
            ]
            return list(await asyncio.gather(*calls))

        answers = served.portal.call(all_of_them)
        good = [answer.json() for answer in answers if answer.status_code == 200]
        assert {answer.status_code for answer in answers} == {200, 409}
        assert sum(answer["new"] for answer in good) == 1
        assert len(good) == 4
        assert (
            len({tuple(slot["arm"] for slot in answer["slots"]) for answer in good})
            == 1
        )
        assert served.get("/v1/stats")["head"] == len(good[0]["slots"])


def test_state_moves_between_slates_and_never_within(tmp_path: Path) -> None:
    """While rewards are learnt at the same time."""
    with here(news(tmp_path)) as served:

        async def both() -> list[Any]:
            answers = []
            for turn in range(6):
                asked = {
                    "context": {"hour": turn},
                    "arms": articles(0, 12),
                    "slots": 12,
                    "id": f"s{turn}",
                }
                answers.append(
                    (await served.client.post("/v1/decide", json=asked)).json()
                )
                rewards = [
                    served.client.post(
                        "/v1/reward", json={"id": slot["id"], "reward": 1}
                    )
                    for slot in answers[-1]["slots"]
                ]
                follow = served.client.post(
                    "/v1/decide", json=asked | {"id": f"t{turn}"}
                )
                *_, answer = await asyncio.gather(*rewards, follow)
                answers.append(answer.json())
            return answers

        answers = served.portal.call(both)
        seen = [{slot["seen"] for slot in answer["slots"]} for answer in answers]
        assert all(len(one) == 1 for one in seen)
        assert len(set.union(*seen)) > 2
    with SQLiteReader(tmp_path / "news.sqlite") as reader:
        assert verify(reader, policy=read_policy(tmp_path / "news.toml").policy).holds


@pytest.mark.soak
def test_a_slate_survives_a_kill(tmp_path: Path) -> None:
    file = news(tmp_path)
    asked = {
        "context": {"hour": 1},
        "arms": articles(0, 5),
        "slots": 3,
        "id": "s",
        "deferred": True,
    }
    with process(file) as one:
        first = asked_of(one, "decide", asked)
        os.kill(one.pid, signal.SIGKILL)
    with process(file) as one:
        assert asked_of(one, "decide", asked) == told(first)
        assert asked_of(one, "activate", {"slate": "s"})["new"]
        asked_of(one, "reward", {"id": first["slots"][2]["id"], "reward": 1})
    with SQLiteReader(tmp_path / "news.sqlite") as reader:
        assert verify(reader, policy=read_policy(file).policy).holds


def test_replicas_decide_a_slate_once(
    server: Server, experiment: str, tmp_path: Path
) -> None:
    files = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        files.append(news(tmp_path / name))
        text = files[-1].read_text().replace('"news.sqlite"', json.dumps(server.url()))
        files[-1].write_text(text.replace('name = "news"', f'name = "{experiment}"'))
    with ExitStack() as stack:
        replicas = [stack.enter_context(here(file)) for file in files]
        answers = [at_once(replicas, f"s{turn}") for turn in range(10)]
        for one in replicas:
            one.state(experiment)
    with PostgresReader(server.url(), experiment=experiment) as reader:
        for turn, slate in enumerate(answers):
            assert [line.id for line in reader.of_slate(f"s{turn}")] == [
                slot["id"] for slot in slate["slots"]
            ]
        assert reader.tally() == {"decision": 30, "reward": 30, "activation": 30}
        assert verify(reader, policy=read_policy(files[0]).policy).holds


def at_once(replicas: list[Here], slate: str) -> Any:
    """The answer of all replicas, asked at the same time, twice each; then it is
    activated and rewarded at any."""
    asked = {
        "context": {"hour": 1},
        "arms": articles(0, 6),
        "slots": 3,
        "id": slate,
        "deferred": True,
    }
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda one: one.post("decide", asked), replicas * 2))
    (first,) = (answer for answer in answers if answer["new"])
    assert all(answer == told(first) for answer in answers if answer is not first)
    for n, slot in enumerate(first["slots"]):
        replicas[n % 2].reward(slot["id"], n % 2)
    for one in replicas:
        one.post("activate", {"slate": slate})
    return first


def asked_of(one: Elsewhere, path: str, body: dict[str, Any]) -> Any:
    answer = one.client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()
