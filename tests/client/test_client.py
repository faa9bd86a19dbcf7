"""Every call of both clients against a real service: what is answered is what is in the
log."""

import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from client.serving import ARMS
from oddsmith.client import RecordedDecision, ServedDecision, StoredEvent


def test_a_decision_its_reward_and_its_correction(client: Any) -> None:
    news = client()
    assert news.ready(wait=30) is True
    decided = news.decide([0.3, -0.7], eligible=["sports", "tech"])
    assert isinstance(decided, ServedDecision)
    assert decided.new
    assert decided.odds is not None
    assert decided.odds["politics"] == 0
    assert sum(decided.odds.values()) == pytest.approx(1, abs=1e-12)
    assert decided.propensity == decided.odds[decided.arm]
    again = news.decide([0.9, 0.9], id=decided.id)
    assert again == decided._replace(new=False, asleep=None)
    first = news.reward(decided.id, 1)
    assert first == StoredEvent(decided.id, first.position, True, parked=False)
    assert news.reward(decided.id, 1.0) == first._replace(new=False)
    with pytest.raises(od.Conflict, match="reward"):
        news.reward(decided.id, 0)
    fixed = news.correct(decided.id, 0.25, key="clerk-1")
    assert news.correct(decided.id, 0.25, key="clerk-1") == fixed._replace(new=False)
    assert news.correct(decided.id, 0.5).new
    assert news.decision(decided.id).experts is None
    record = news.decision(decided.id, explain=True)
    assert isinstance(record, RecordedDecision)
    assert (record.id, record.arm, record.reward) == (decided.id, decided.arm, 0.5)
    assert record.events[0].position == record.position
    experts: Any = record.experts
    for part in experts:
        assert list(part.predictions) == list(ARMS)
        assert part.predicted == part.predictions[decided.arm]
    assert [event.kind for event in record.events] == [
        "decision",
        "reward",
        "correction",
        "correction",
    ]
    votes = {arm: sum(e.weight * e.votes.get(arm, 0) for e in experts) for arm in ARMS}
    # gamma is 0.02
    mixed = {
        arm: 0.98 * votes[arm] + 0.01 * (arm in ("sports", "tech")) for arm in ARMS
    }
    assert decided.odds == pytest.approx(mixed, abs=1e-12)


def test_contexts_of_many_kinds_are_the_same_context(client: Any) -> None:
    news = client()
    for context in (
        [0.5, 2.0],
        (0.5, 2),
        np.array([0.5, 2.0]),
        [np.float32(0.5), np.int64(2)],
    ):
        id = news.decide(context).id
        assert news.decision(id).context == [0.5, 2.0]
    for unknown in ([float("nan"), 1.0], np.array([np.nan, 1.0]), [None, 1]):
        assert news.decision(news.decide(unknown).id).context == [None, 1.0]
    with pytest.raises(od.InvalidInput, match="JSON with finite numbers"):
        news.decide([float("inf"), 1.0])
    with pytest.raises(od.InvalidInput, match="JSON with finite numbers"):
        news.decide([object(), 1.0])


def test_batches_answer_every_entry(client: Any) -> None:
    news = client()
    good, bad, named = news.decide_batch(
        [
            {"context": [1.0, 2.0]},
            {"context": [1.0, 2.0], "eligible": ["chess"]},
            {"context": [1.0, 2.0], "id": "mine"},
        ]
    )
    assert isinstance(good, ServedDecision)
    assert good.id != named.id == "mine"
    assert isinstance(bad, od.InvalidInput)
    assert "chess" in str(bad)
    news.reward_batch([{"id": "mine", "reward": 1}])
    kept, refused, parked = news.reward_batch(
        [
            {"id": good.id, "reward": 1},
            {"id": "mine", "reward": 0},
            {"id": f"later-{good.id}", "reward": 1},
        ]
    )
    assert kept.new
    assert isinstance(refused, od.Conflict)
    assert (kept.parked, parked.parked) == (False, True)
    assert news.reward(f"typo-{good.id}", 1).parked
    assert news.decide([0.0, 1.0], id=parked.id).new
    assert news.decision(parked.id).reward == 1
    with pytest.raises(od.InvalidInput, match="dicts with id and reward"):
        news.reward_batch([("mine", 1)])


def test_a_deferred_decision_counts_once_it_is_activated(client: Any) -> None:
    news = client()
    id = news.decide([0.1, 0.1], deferred=True).id
    news.reward(id, 1)
    assert news.decision(id).counts_since is None
    shown = news.activate(id)
    assert news.activate(id) == shown._replace(new=False)
    assert news.decision(id).counts_since == shown.position


def test_sticky_units_and_summed_rewards_in_euros(client: Any, request: Any) -> None:
    loyal = client("loyal")
    unit = f"{request.node.callspec.params['client'].__name__}@home"
    first = loyal.decide([1.0, 0.0], unit=unit)
    assert first.new
    assert loyal.decide([9.0, 9.0], unit=unit) == first._replace(new=False, asleep=None)
    loyal.reward(first.id, 5, key="basket")
    loyal.reward(first.id, 2.5, key="return")
    assert loyal.decision(first.id).reward == 7.5
    with pytest.raises(od.InvalidInput, match="unit"):
        loyal.decide([1.0, 0.0])


def test_arms_come_with_the_call(client: Any) -> None:
    pandas = pytest.importorskip("pandas")
    site = client("site")
    frame = pandas.DataFrame(
        {"topic": ["sports", "tech"], "age": [2.0, 0.5]}, index=["a/17", "a/18"]
    )
    decided = site.decide({"hour": 9}, arms=frame)
    assert set(decided.odds) == {"a/17", "a/18"}
    assert site.reward(decided.id, 1).new
    again = site.decide({"hour": 9}, arms=["a/17", "a/18"], id=decided.id)
    assert (again.arm, again.new) == (decided.arm, False)
    with pytest.raises(od.Conflict, match="not among those offered now"):
        site.decide({"hour": 9}, arms=["else"], id=decided.id)
    batch = [
        {"context": {"hour": 1}},
        {"context": {"hour": 2}, "arms": {"x": {"age": np.float64(1.5)}, "y": None}},
    ]
    results = site.decide_batch(batch, arms=["a/17"])
    assert [set(one.odds) for one in results] == [{"a/17"}, {"x", "y"}]


def test_an_incumbent_acts_and_we_watch(client: Any) -> None:
    decided = client("watched").decide(
        [1.0, 0.0], incumbent="tech", incumbent_odds={"tech": 0.75, "sports": 0.25}
    )
    assert (decided.arm, decided.propensity) == ("tech", 0.75)
    assert decided.would in ARMS


def test_experts_join_and_retire(client: Any) -> None:
    news = client()
    before = news.posterior().posterior
    news.add_expert("late", share=0.25)
    joined = news.posterior().posterior
    assert joined["late"] == pytest.approx(0.25, abs=1e-12)
    assert joined["a"] == pytest.approx(0.75 * before["a"], abs=1e-12)
    with pytest.raises(od.Conflict, match="late"):
        news.add_expert("late", share=0.25)
    news.retire_expert("late")
    after = news.posterior()
    assert after.retired == ["late"]
    assert sum(after.posterior.values()) == pytest.approx(1, abs=1e-12)
    assert news.stats()["events"]["expert retired"] >= 1


def test_lists_and_changes(client: Any) -> None:
    news = client()
    facts = {one["name"]: one for one in news.experiments()["experiments"]}
    assert set(facts) == {"news", "loyal", "watched", "site"}
    assert (facts["site"]["arms"], facts["news"]["arms"]) == (None, list(ARMS))
    ids = [news.decide([0.1, 0.2]).id for _ in range(3)]
    news.reward(ids[1], 1)
    page = news.decisions(limit=2)
    assert [one["id"] for one in page["decisions"]] == ids[:0:-1]
    assert (
        news.decisions(before=page["before"], limit=1)["decisions"][0]["id"] == ids[0]
    )
    first = news.decisions(limit=1, reward="some", arm=page["decisions"][1]["arm"])[
        "decisions"
    ]
    assert [one["id"] for one in first] == [ids[1]]
    assert news.changes(after=page["position"] - 1)["head"] >= page["position"]
    last = news.changes(after=10**9, wait=0.01)
    assert last["experiment"] == "news"


def test_refusals_have_types_and_the_services_own_sentence(
    client: Any, places: dict[str, str]
) -> None:
    refused: list[tuple[Callable[[], object], int, str]] = [
        (lambda: client(key=None).stats(), 401, "unauthorized"),
        (lambda: client(key=places["little"]).stats(), 403, "forbidden"),
        (lambda: client().decision("nobody"), 404, "not_found"),
        (lambda: client().decision("../../stats"), 404, "not_found"),
        (lambda: client("chess").posterior(), 404, "not_found"),
        (lambda: client().decide(["x" * 1_100_000]), 413, "too_large"),
    ]
    for wrong, status, code in refused:
        with pytest.raises(od.ServiceError) as caught:
            wrong()
        assert (caught.value.status, caught.value.code) == (status, code)
        assert str(caught.value)
    with pytest.raises(
        od.InvalidInput, match="experiment must be given where there are 4"
    ):
        client(None).posterior()
    with pytest.raises(od.InvalidInput, match="arms"):
        client().decide([1.0, 1.0], eligible=["chess"])


def test_nobody_answers(client: Any) -> None:
    with od.Client("http://127.0.0.1:9", retries=1) as lonely:
        assert lonely.ready() is False
        with pytest.raises(
            od.ServiceError,
            match=r"no answer after 2 tries: http://127.0.0.1:9, ConnectError",
        ) as caught:
            lonely.posterior()
    assert caught.value.status == 0


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"url": "127.0.0.1:8000"}, "url must be like"),
        ({"url": "http://me:secret@127.0.0.1:8000"}, r"got '127.0.0.1:8000'$"),
        ({"url": "http://127.0.0.1:99999"}, "url must be like"),
        ({"key": "od_\nx"}, "got something else$"),
        ({"timeout": 0}, "timeout"),
        ({"retries": -1}, "retries"),
    ],
)
def test_wrong_settings_are_refused_without_telling_secrets(
    settings: dict[str, Any], match: str
) -> None:
    for kind in (od.Client, od.AsyncClient):
        with pytest.raises(od.InvalidInput, match=match):
            kind(**{"url": "http://127.0.0.1:8000", **settings})


def test_a_key_is_not_shown() -> None:
    with od.Client("http://127.0.0.1:8000/", key="od_secret") as client:
        assert repr(client) == "Client('http://127.0.0.1:8000')"


def test_without_httpx_the_extra_is_named(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(
        od.errors.MissingExtra, match=r"AsyncClient needs the extra oddsmith\[client\]"
    ):
        od.AsyncClient("http://127.0.0.1:8000")


def test_both_clients_have_the_same_calls() -> None:
    calls = [
        name for name in vars(od.Client) if not name.startswith("_") and name != "close"
    ]
    assert len(calls) == 26, (
        "a call came or went: change this number, and The client in "
        "docs/reference/service.md"
    )
    for name in calls:
        now, later = getattr(od.Client, name), getattr(od.AsyncClient, name)
        assert inspect.signature(now) == inspect.signature(later)
        assert now.__doc__ == later.__doc__
        assert inspect.iscoroutinefunction(later)
        assert not inspect.iscoroutinefunction(now)
