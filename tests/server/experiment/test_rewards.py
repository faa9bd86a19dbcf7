"""F6: rewards late, early, repeated, reversed, corrected or never: the state is that of
the clean log, bit for bit."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddsmith.server.fold.fold import restore
from oddsmith.server.store import DecisionMade, Reward, SQLiteStore
from server.served import Hands, Here, here, place, wait
from server.store.samples import append, bits, stored

DAY = 86_400.0
IDS = tuple(f"d{i}" for i in range(12))
VALUES = dict(zip(IDS, np.random.default_rng(4).integers(0, 3, 12) / 2, strict=True))


def clean(served: Here, folder: Path) -> Any:
    """The state of a fresh store that holds each decision and then its reward, once, in
    the order they counted in."""
    store: Any = served.experiment().store
    policy = served.experiment().setup.policy
    decisions = {
        event.id: event for _, event in stored(store) if isinstance(event, DecisionMade)
    }
    counted = [
        (served.get(f"/v1/decisions/{id}")["counts_since"], id) for id in decisions
    ]
    with SQLiteStore(folder / "clean.sqlite", policy) as fresh:
        for _, id in sorted(counted):
            append(fresh, decisions[id], Reward(id, VALUES[id], 0.0))
        return restore(fresh, policy).state


def duplicates(served: Here) -> None:
    for id in IDS:
        first = served.reward(id, VALUES[id])
        again = [served.reward(id, VALUES[id]) for _ in range(9)]
        assert first["new"]
        assert all(one == first | {"new": False} for one in again)


def backwards(served: Here) -> None:
    for id in reversed(IDS):
        served.reward(id, VALUES[id])


def shuffled(served: Here) -> None:
    for id in np.random.default_rng(1).permutation(IDS * 3).tolist():
        served.reward(id, VALUES[id])


def conflicting(served: Here) -> None:
    for id in IDS:
        served.reward(id, VALUES[id])
        refused = served.reward(id, 0.75, status=409)
        assert refused["code"] == "conflict"
        assert f"must be {VALUES[id]:g}, as it was first" in refused["error"]
        assert not served.reward(id, VALUES[id])["new"]


def in_batches(served: Here) -> None:
    entries = [{"id": id, "reward": VALUES[id]} for id in IDS]
    wrong = [{"id": IDS[0], "reward": 0.75}, {"id": IDS[1], "reward": 7}]
    results = served.post(
        "reward/batch", {"rewards": [*entries[:6], *wrong, *entries[3:]]}
    )["results"]
    assert [one.get("code") for one in results[6:8]] == ["conflict", "invalid"]
    assert [one["new"] for one in results[:6] + results[8:]] == [True] * 6 + [
        False
    ] * 3 + [True] * 6


def corrected(served: Here) -> None:
    for id in IDS:
        served.reward(id, 0.25)
    for turn, value in enumerate((0.0, 1.0, 0.5)):
        for id in IDS[::2]:
            served.post("correct", {"id": id, "reward": value, "key": f"turn{turn}"})
    for id in reversed(IDS):
        fix = {"id": id, "reward": VALUES[id], "key": "last"}
        assert served.post("correct", fix)["new"]
        assert not served.post("correct", fix)["new"]
        served.post("correct", fix | {"reward": 0.75}, status=409)
    served.state()
    assert served.get("/v1/stats")["refolds"] > 0


@pytest.mark.usefixtures("any_arms")
@pytest.mark.parametrize(
    "send", [duplicates, backwards, shuffled, conflicting, in_batches, corrected]
)
def test_the_state_is_that_of_the_clean_log(
    tmp_path: Path, send: Callable[[Here], None]
) -> None:
    with here(place(tmp_path)) as served:
        results = served.post(
            "decide/batch",
            {
                "decisions": [
                    {"id": id, "context": [i / 9, 0.5]} for i, id in enumerate(IDS)
                ]
            },
        )
        assert [one["id"] for one in results["results"]] == list(IDS)
        send(served)
        state = bits(served.state())
        assert state == bits(served.defined())
        assert state == bits(clean(served, tmp_path))
        assert served.get("/v1/posterior")["learnt"] == len(IDS)
    with here(place(tmp_path)) as again:
        assert bits(again.state()) == state


@pytest.mark.usefixtures("any_arms")
def test_rewards_that_come_first_are_parked_and_count_with_the_decision(
    tmp_path: Path,
) -> None:
    with here(place(tmp_path)) as served:
        for id in IDS:
            kept = served.reward(id, VALUES[id])
            assert (kept["new"], kept["parked"]) == (True, True)
        assert served.reward(IDS[0], VALUES[IDS[0]])["parked"]
        assert served.get("/v1/posterior")["learnt"] == 0
        served.get(f"/v1/decisions/{IDS[0]}", status=404)
        for id in reversed(IDS):
            position = served.decide(id)["position"]
            assert served.get(f"/v1/decisions/{id}")["counts_since"] == position
            again = served.reward(id, VALUES[id])
            assert (again["new"], again["parked"]) == (False, False)
        # waits for ever, and harms nobody
        assert served.reward("nobody", 1.0)["parked"]
        assert (
            bits(served.state())
            == bits(served.defined())
            == bits(clean(served, tmp_path))
        )


@pytest.mark.usefixtures("any_arms")
def test_a_reward_counts_after_thirty_days_and_a_restart(tmp_path: Path) -> None:
    hands = Hands()
    with here(place(tmp_path), clock=hands.clock()) as served:
        decided = {id: served.decide(id) for id in IDS}
        before = served.get("/v1/posterior")["posterior"]
    hands.pass_by(30 * DAY)
    with here(place(tmp_path), clock=hands.clock()) as served:
        assert served.decide(IDS[0]) == decided[IDS[0]] | {"new": False}
        shuffled(served)
        assert (
            bits(served.state())
            == bits(served.defined())
            == bits(clean(served, tmp_path))
        )
        assert served.get("/v1/posterior")["posterior"] != before
        record = served.get(f"/v1/decisions/{IDS[0]}")
        assert record["events"][1]["time"] - record["events"][0][
            "time"
        ] == pytest.approx(30 * DAY)


@pytest.mark.usefixtures("any_arms")
def test_a_window_closes_with_the_default_until_a_real_reward_comes(
    tmp_path: Path,
) -> None:
    hands = Hands()
    file = place(
        tmp_path,
        top="policy.share = 0.05\nreward = { low = -1, high = 3 }\n",
        service="window_s = 0.5\ndefault_reward = 1\n",
    )
    with here(file, clock=hands.clock()) as served:
        for id in IDS[:4]:
            served.decide(id)
        served.decide(IDS[4], deferred=True)
        served.reward(IDS[0], 3)
        hands.pass_by(10)
        wait(lambda: served.get("/v1/stats")["events"].get("default", 0) == 3)
        assert served.get(f"/v1/decisions/{IDS[0]}")["reward"] == 3
        assert [served.get(f"/v1/decisions/{id}")["reward"] for id in IDS[1:5]] == [
            1,
            1,
            1,
            None,
        ]
        settled = served.get(f"/v1/decisions/{IDS[1]}")["counts_since"]
        served.reward(IDS[1], -1)
        served.post("correct", {"id": IDS[2], "reward": 0.5, "key": "k"})
        found = [served.get(f"/v1/decisions/{id}") for id in IDS[1:3]]
        assert [one["reward"] for one in found] == [-1, 0.5]
        assert found[0]["counts_since"] == settled
        served.post("activate", {"id": IDS[4]})
        hands.pass_by(10)
        wait(lambda: served.get("/v1/stats")["events"]["default"] == 4)
        state = bits(served.state())
        assert state == bits(served.defined())
        assert served.get("/v1/posterior")["learnt"] == 5
    with here(file, clock=hands.clock()) as again:
        assert bits(again.state()) == state


@pytest.mark.usefixtures("any_arms")
def test_deferred_decisions_count_once_shown(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served:
        for id in IDS[:3]:
            served.decide(id, deferred=True)
            served.reward(id, VALUES[id])
        served.state()
        assert served.get("/v1/posterior")["learnt"] == 0
        shown = [served.post("activate", {"id": id}) for id in (IDS[2], IDS[0], IDS[2])]
        assert [one["new"] for one in shown] == [True, True, False]
        assert not any(one["parked"] for one in shown)
        assert served.post("activate", {"id": "mistyped"})["parked"]
        assert (
            shown[0]["position"]
            == shown[2]["position"]
            == served.get(f"/v1/decisions/{IDS[2]}")["counts_since"]
        )
        assert bits(served.state()) == bits(served.defined())
        assert served.get("/v1/posterior")["learnt"] == 2


@pytest.mark.usefixtures("any_arms")
def test_parts_add_up_when_the_window_closes(tmp_path: Path) -> None:
    hands = Hands()
    file = place(tmp_path, service='reward_rule = "sum"\nwindow_s = 0.5\n')
    with here(file, clock=hands.clock()) as served:
        for id in IDS[:3]:
            served.decide(id)
        for key, value in (("click", 0.25), ("buy", 0.5), ("click", 0.25)):
            served.reward(IDS[0], value, key=key)
        served.reward(IDS[1], 0.75, key="click")
        served.reward(IDS[1], 0.75, key="buy")
        served.reward(IDS[0], 1.0, status=409, key="click")
        assert served.get("/v1/posterior")["learnt"] == 0
        hands.pass_by(10)
        wait(lambda: served.get("/v1/stats")["events"].get("default", 0) == 3)
        assert [served.get(f"/v1/decisions/{id}")["reward"] for id in IDS[:3]] == [
            0.75,
            1.0,
            0.0,
        ]
        assert bits(served.state()) == bits(served.defined())
        served.reward(IDS[2], 0.5, key="late")
        assert served.get(f"/v1/decisions/{IDS[2]}")["reward"] == 0.5
        assert bits(served.state()) == bits(served.defined())


@pytest.mark.usefixtures("any_arms")
def test_what_cannot_be_a_reward_changes_nothing(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served:
        served.decide(IDS[0])
        assert (
            "reward must be in [0, 1]; got 1.5"
            in served.reward(IDS[0], 1.5, status=422)["error"]
        )
        assert (
            "key must be left out"
            in served.reward(IDS[0], 1, status=422, key="x")["error"]
        )
        served.post("correct", {"id": IDS[0], "reward": 1, "key": "k"}, status=409)
        served.post("correct", {"id": "nobody", "reward": 1, "key": "k"}, status=409)
        assert served.get("/v1/stats")["events"] == {"decision": 1}


@pytest.mark.usefixtures("any_arms")
def test_conflicts_speak_in_the_callers_units(tmp_path: Path) -> None:
    euros = "policy.share = 0.05\nreward = { low = -5.0, high = 15.0 }\n"
    with here(place(tmp_path, top=euros)) as served:
        for id in IDS[:2]:
            served.decide(id)
            served.reward(id, 5)
        said = served.reward(IDS[0], 7, status=409)["error"]
        assert said == f"reward of {IDS[0]!r} must be 5, as it was first; got 7"
        (entry,) = served.post(
            "reward/batch", {"rewards": [{"id": IDS[1], "reward": 7.25}]}
        )["results"]
        assert entry == {
            "error": f"reward of {IDS[1]!r} must be 5, as it was first; got 7.25",
            "code": "conflict",
        }
        served.post("correct", {"id": IDS[0], "reward": -2, "key": "clerk"})
        said = served.post(
            "correct", {"id": IDS[0], "reward": 0.1, "key": "clerk"}, status=409
        )["error"]
        assert said == (
            f"correction of {IDS[0]!r} with key 'clerk' must be -2, as it was first; "
            "got 0.1"
        )
        assert (
            served.reward(IDS[0], 16, status=422)["error"]
            == "reward must be in [-5, 15]; got 16"
        )
        record = served.get(f"/v1/decisions/{IDS[0]}")
        assert (record["reward"], [event["value"] for event in record["events"]]) == (
            -2,
            [None, 5, -2],
        )
        served.state()
        means = [
            arm["mean_reward"]
            for arm in served.get("/v1/stats")["arms"].values()
            if arm["rewarded"]
        ]
        assert all(-5 <= mean <= 15 and (mean == 5 or mean < 5) for mean in means)


@pytest.mark.usefixtures("any_arms")
def test_many_at_once(tmp_path: Path) -> None:
    """Clients side by side: decisions, rewards, repeats and corrections cross; the
    state is the fold all the same."""

    async def client(served: Here, number: int) -> None:
        for turn in range(4):
            id, rng = f"c{number}-{turn}", np.random.default_rng([number, turn])
            calls = [
                ("decide", {"id": id, "context": rng.normal(size=2).tolist()}),
                ("reward", {"id": id, "reward": 0.5}),
            ]
            rng.shuffle(calls)
            calls += [
                calls[0],
                ("correct", {"id": id, "reward": number % 2, "key": "k"}),
                calls[1],
            ]
            for path, body in calls:
                answer = await served.client.post(f"/v1/{path}", json=body)
                assert answer.status_code == 200, answer.text

    async def everyone(served: Here) -> None:
        await asyncio.gather(*(client(served, number) for number in range(40)))

    with here(place(tmp_path, service="snapshot_every = 20\n")) as served:
        served.portal.call(everyone, served)
        assert bits(served.state()) == bits(served.defined())
        stats = served.get("/v1/stats")
        assert stats["events"] == {"decision": 160, "reward": 160, "correction": 160}
        assert sum(arm["rewarded"] for arm in stats["arms"].values()) == 160
        assert sum(arm["decided"] for arm in stats["arms"].values()) == 160
