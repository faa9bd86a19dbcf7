"""Where the service does not answer, the caller's arm is shown; what the log says was
shown is what was shown."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from client.conftest import Awaited
from client.serving import (
    ARMS,
    HASTY,
    FlakyProxy,
    events,
    line_to,
    policy_file,
    service,
)
from oddsmith.client import Reported, ServedDecision
from oddsmith.logs import read_log
from oddsmith.server.audit import export
from oddsmith.server.store import SQLiteReader

FAILING = ("before", "after", "half", "busy")
SETTINGS = {f"lost-{fate}": "window_s = 0.2\n" for fate in FAILING}
SETTINGS |= {"loyal": "sticky = true\n"} | dict.fromkeys(
    ("client", "awaited", "late", "deferred", "ids", "threads"), ""
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A service of an experiment for each test: its address, and the folder of the
    stores."""
    folder = tmp_path_factory.mktemp("fallback")
    with service(
        *(policy_file(folder, name, settings) for name, settings in SETTINGS.items())
    ) as url:
        yield url, folder


@pytest.mark.parametrize("kind", [od.Client, Awaited])
def test_a_fallback_is_reported_as_an_incumbents_decision_with_its_reward(
    served: Any, kind: Any
) -> None:
    name = kind.__name__.lower()
    with line_to(served, name, kind) as (proxy, client, near, _):
        proxy.fate = "before"
        shown = client.decide([0.5, 1.0], fallback="tech")
        odds = {"tech": 1.0}
        expected = ServedDecision(
            shown.id,
            name,
            "tech",
            1.0,
            None,
            None,
            None,
            True,
            odds=odds,
            fallback=True,
        )
        assert shown == expected
        kept = client.reward(shown.id, 1)
        assert (kept.id, kept.position, kept.parked) == (shown.id, None, True)
        assert client.report() == Reported(sent=0, waiting=2, refused=0, dropped=0)
        proxy.fate = "through"
        first = client.decide([0.1, 0.2])  # the next call that is answered
        assert not first.fallback
        assert client.report() == Reported(sent=2, waiting=0, refused=0, dropped=0)
        record = near.decision(shown.id)
        assert (
            record.arm,
            record.propensity,
            record.shadow,
            record.reward,
        ) == ("tech", 1.0, True, 1.0)
        assert (record.context, record.deferred) == ([0.5, 1.0], False)
        assert client.reward(shown.id, 1).new is False


@pytest.mark.parametrize("fate", FAILING)
def test_what_was_decided_and_not_heard_never_counts(
    served: Any, tmp_path: Path, fate: str
) -> None:
    """The service has decided, the answer is lost, and the caller shows another arm:
    or, by luck, the same one."""
    with line_to(served, f"lost-{fate}") as (proxy, client, near, store):
        proxy.fate = fate
        shown = [client.decide([0.5, 1.0], fallback=arm) for arm in ARMS]
        proxy.fate = "through"
        assert client.report() == Reported(3, 0, 0, 0)
        end = time.monotonic() + 30
        # a window closes for each that was shown
        while near.stats()["events"].get("default", 0) < len(shown):
            assert time.monotonic() < end
        assert len(events(store, "decision")) == (6 if fate in ("after", "half") else 3)
        assert sorted(events(store, "default")) == sorted(one.id for one in shown)
        with SQLiteReader(store) as reader:
            counts = export(reader, tmp_path / "log.jsonl")
        assert (counts.rows, counts.shadows, counts.unshown) == (
            3,
            3,
            len(events(store, "decision")) - 3,
        )
        log = read_log(tmp_path / "log.jsonl")
        assert [(log.arms or ())[arm] for arm in log.arm] == list(ARMS)


def test_an_answer_that_is_heard_counts_even_if_its_activation_is_late(
    served: Any,
) -> None:
    with line_to(served, "late") as (_, client, near, _):
        steps = client._calls.decide([0.5, 1.0], fallback="tech")
        near_steps = next(steps)
        assert near_steps.request.path == "/v1/decide"
        reply = near._reply(near._http.request(**near._arguments(near_steps)))
        asked = steps.send(reply)
        assert asked.request.path == "/v1/activate"
        with pytest.raises(StopIteration) as end:
            steps.send(client._no_reply(ConnectionError()))
        decided = end.value.value
        assert not decided.fallback
        client.reward(decided.id, 1)
        assert client.report() == Reported(1, 0, 0, 0)
        record = near.decision(decided.id)
        assert record.counts_since is not None
        assert [event.kind for event in record.events] == [
            "decision",
            "activation",
            "reward",
        ]


def test_a_deferred_fallback_counts_once_the_caller_activates_it(served: Any) -> None:
    with line_to(served, "deferred") as (proxy, client, near, _):
        heard = client.decide([0.5, 1.0], deferred=True, fallback="tech")
        assert [event.kind for event in near.decision(heard.id).events] == ["decision"]
        proxy.fate = "after"
        shown, unseen = (
            client.decide([0.5, 1.0], deferred=True, fallback="tech") for _ in range(2)
        )
        assert client.activate(shown.id).parked
        proxy.fate = "through"
        # reports what is before it, then is sent
        assert client.reward(shown.id, 1).position is not None
        assert near.decision(shown.id).counts_since is not None
        client.reward(unseen.id, 1)
        assert near.decision(unseen.id).counts_since is None
        with pytest.raises(od.InvalidInput, match="id must be left out"):
            client.decide([0.5, 1.0], id="mine", deferred=True, fallback="tech")


def test_a_fallback_has_an_id_of_its_own_and_is_the_answer_for_the_callers(
    served: Any,
) -> None:
    with line_to(served, "ids") as (proxy, client, near, _):
        proxy.fate = "after"
        ask: dict[str, Any] = {"id": "decided", "fallback": "tech"}
        lost = client.decide([0.5, 1.0], **ask)
        assert lost.fallback
        assert lost.id != "decided"
        proxy.fate = "through"
        assert client.decide([0.5, 1.0], **ask) == lost._replace(new=False)
        with pytest.raises(od.Conflict, match="not allowed now"):
            client.decide(
                [0.5, 1.0], id="decided", fallback="sports", eligible=["sports"]
            )
        assert client.report() == Reported(sent=1, waiting=0, refused=0, dropped=0)
        assert near.decision(lost.id).shadow
        # another client hears of it: it may have been shown or not
        again = near.decide([0.5, 1.0], **ask)
        assert (again.id, again.new, again.fallback) == ("decided", False, False)
        near.reward("decided", 1)
        assert near.decision("decided").counts_since is None


def test_a_decision_that_was_shown_is_shown_again_while_the_service_is_down(
    served: Any,
) -> None:
    with line_to(served, "ids") as (proxy, client, _, _):
        shown = client.decide([0.5, 1.0], id="shown", fallback="tech")
        proxy.fate = "before"
        again = client.decide([0.5, 1.0], id="shown", fallback="tech")
        assert again == shown._replace(new=False)


def test_units_keep_what_the_service_has_for_them(served: Any) -> None:
    with line_to(served, "loyal") as (proxy, client, near, _):
        proxy.fate = "after"
        shown = client.decide([0.5, 1.0], unit="anna", fallback="tech")
        proxy.fate = "through"
        own = client.decide([0.5, 1.0], unit="anna", fallback="tech")
        assert (own.new, own.fallback, shown.fallback) == (False, False, True)
        assert client.report() == Reported(1, 0, 0, 0)
        assert near.decision(shown.id).shadow
        assert near.decide([0.5, 1.0], unit="anna").id == own.id
        with pytest.raises(od.InvalidInput, match="unit must be given"):
            near.decide([0.5, 1.0])


def test_refusals_are_raised_and_nothing_is_shown(places: dict[str, str]) -> None:
    wrong: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"experiment": "news", "key": places["everything"]}, od.InvalidInput),
        ({"experiment": "chess", "key": places["everything"]}, od.ServiceError),
        ({"experiment": "loyal", "key": places["little"]}, od.ServiceError),
        ({"experiment": "news", "key": "od_wrong"}, od.ServiceError),
    ]
    for settings, error in wrong:
        with od.Client(places["url"], timeout=60, **settings) as client:
            with pytest.raises(error):
                client.decide({"not": "numbers"}, fallback="tech")
            assert client.report() == Reported(0, 0, 0, 0)


def test_threads_behind_a_network_that_fails_show_what_the_log_says(
    served: Any, tmp_path: Path
) -> None:
    """Six tries of ten fail, in all ways: at the decision, at its activation or at a
    report."""

    def one(number: int) -> ServedDecision:
        return client.decide([0.1 * number, 1.0], fallback=dict.fromkeys(ARMS, 1 / 3))

    url, folder = served
    with FlakyProxy(url, seed=4).running() as proxy:
        proxy.ODDS = (0.15, 0.2, 0.1, 0.15, 0.4)
        with (
            od.Client(proxy.url, experiment="threads", **HASTY) as client,
            ThreadPoolExecutor(6) as threads,
        ):
            shown = list(threads.map(one, range(90)))
            proxy.ODDS = (0, 0, 0, 0, 1)
            assert client.report()[1:] == (0, 0, 0)
        assert min(proxy.done.values()) > 0
    with od.Client(url, experiment="threads", timeout=60) as near:
        for decided in shown:
            record = near.decision(decided.id)
            assert (record.arm, record.propensity) == (
                decided.arm,
                decided.propensity,
            )
            assert record.shadow == decided.fallback
    with SQLiteReader(folder / "threads.sqlite") as reader:
        counts = export(reader, tmp_path / "log.jsonl")
    log: Any = read_log(tmp_path / "log.jsonl")
    assert sorted(log.decision_id) == sorted(one.id for one in shown)
    assert 0 < counts.shadows < 90
    assert counts.unshown > 0
