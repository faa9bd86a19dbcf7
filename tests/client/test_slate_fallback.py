"""Where the service does not answer, the caller's arms are shown in the slots, and the
log says so afterwards."""

from collections import Counter
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

import oddsmith as od
from client.conftest import Awaited
from client.serving import line_to, service
from oddsmith.client import Reported, ServedSlate
from oddsmith.client.fallback import read_slate_fallback
from oddsmith.files.policy import read_policy
from oddsmith.logs import read_log
from oddsmith.server.audit import export, verify
from oddsmith.server.store import SQLiteReader

GOODS = {
    "boots": {"price": 90},
    "scarf": {"price": 20},
    "hat": {"price": 25},
    "coat": {"price": 200},
}
ODDS = {"boots": 0.4, "scarf": 0.3, "hat": 0.2, "coat": 0.1}
NAMES = (
    "client",
    "awaited",
    "lost-before",
    "lost-after",
    "lost-half",
    "lost-busy",
    "late",
    "deferred",
    "ids",
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A service of an experiment for each test: its address, and the folder of the
    stores."""
    folder = tmp_path_factory.mktemp("slates")
    for name in NAMES:
        (folder / f"{name}.toml").write_text(
            'seed = 5\n[policy]\nkind = "auto"\nsize = "small"\n'
        )
    with service(*(folder / f"{name}.toml" for name in NAMES)) as url:
        yield url, folder


def activated(near: od.Client, page: ServedSlate) -> list[bool]:
    kinds = [
        [event.kind for event in near.decision(one.id).events] for one in page.slots
    ]
    return ["activation" in each for each in kinds]


@pytest.mark.parametrize("kind", [od.Client, Awaited])
def test_a_page_is_reported_with_its_rewards(served: Any, kind: Any) -> None:
    name = kind.__name__.lower()
    with line_to(served, name, kind) as (proxy, client, near, _):
        proxy.fate = "before"
        slots = [
            od.Slot("top", {"size": 2}),
            od.Slot("side", eligible=["hat", "scarf", "coat"]),
        ]
        page = client.decide_slate(
            {"hour": 9}, arms=GOODS, slots=slots, fallback=["boots", "hat"]
        )
        assert [
            (one.arm, one.propensity, one.slot, one.name) for one in page.slots
        ] == [
            ("boots", 1.0, 1, "top"),
            ("hat", 1.0, 2, "side"),
        ]
        assert all(one.fallback and one.position is None for one in page.slots)
        assert client.reward(page.slots[0].id, 1).parked
        assert client.reward(slate=page.slate, slot="side", reward=0).position is None
        assert client.report() == Reported(sent=0, waiting=3, refused=0, dropped=0)
        proxy.fate = "through"
        again = client.decide_slate(
            {"hour": 9}, arms=GOODS, slots=2, fallback=["boots", "hat"]
        )
        assert not any(one.fallback for one in again.slots)
        assert client.report() == Reported(sent=3, waiting=0, refused=0, dropped=0)
        first, second = (near.decision(one.id) for one in page.slots)
        assert (
            first.arm,
            first.propensity,
            first.shadow,
            first.reward,
        ) == ("boots", 1.0, True, 1.0)
        assert (second.arm, second.shadow, second.reward) == ("hat", True, 0.0)
        assert first.context == {"hour": 9, "slot": 1, "size": 2}
        assert client.reward(slate=page.slate, slot="side", reward=0).new is False
        assert activated(near, again) == [True, True]


@pytest.mark.parametrize("fate", ["before", "after", "half", "busy"])
def test_a_page_that_was_decided_and_not_heard_never_counts(
    served: Any, tmp_path: Path, fate: str
) -> None:
    with line_to(served, f"lost-{fate}") as (proxy, client, _, store):
        proxy.fate = fate
        pages = [
            client.decide_slate({"hour": n}, arms=GOODS, slots=3, fallback=ODDS)
            for n in range(6)
        ]
        proxy.fate = "through"
        assert client.report() == Reported(6, 0, 0, 0)
        with SQLiteReader(store) as reader:
            counts = export(reader, tmp_path / "log.jsonl")
            assert verify(
                reader, policy=read_policy(store.with_suffix(".toml")).policy
            ).holds
        assert (counts.rows, counts.unshown) == (
            18,
            18 if fate in ("after", "half") else 0,
        )
        log: Any = read_log(tmp_path / "log.jsonl")
        logged = {
            id: (arm, odds)
            for id, arm, odds in zip(
                log.decision_id, log.arm, log.propensity, strict=True
            )
        }
        for one in (slot for page in pages for slot in page.slots):
            arm, odds = logged[one.id]
            assert ((log.arms or ())[arm], odds) == (one.arm, one.propensity)


def test_a_page_that_is_heard_counts_even_if_its_activation_is_late(
    served: Any,
) -> None:
    with line_to(served, "late") as (_, client, near, _):
        steps = client._calls.decide_slate(
            {}, arms=GOODS, slots=2, fallback=["hat", "coat"]
        )
        attempt = next(steps)
        asked = steps.send(near._reply(near._http.request(**near._arguments(attempt))))
        assert asked.request.path == "/v1/activate"
        with pytest.raises(StopIteration) as end:
            steps.send(client._no_reply(ConnectionError()))
        page = end.value.value
        assert client.reward(slate=page.slate, slot=2, reward=1).position is not None
        assert client.report() == Reported(1, 0, 0, 0)
        assert activated(near, page) == [True, True]
        assert [near.decision(one.id).reward for one in page.slots] == [None, 1.0]


def test_a_deferred_page_counts_once_the_caller_activates_it(served: Any) -> None:
    ask: dict[str, Any] = {
        "arms": GOODS,
        "slots": 2,
        "deferred": True,
        "fallback": ["hat", "coat"],
    }
    with line_to(served, "deferred") as (proxy, client, near, _):
        proxy.fate = "after"
        shown, unseen = (client.decide_slate({}, **ask) for _ in range(2))
        assert client.activate_slate(shown.slate).parked
        proxy.fate = "through"
        assert client.report() == Reported(3, 0, 0, 0)
        assert (activated(near, shown), activated(near, unseen)) == (
            [True, True],
            [False, False],
        )
        with pytest.raises(od.InvalidInput, match="id must be left out"):
            client.decide_slate({}, id="mine", **ask)


def test_a_page_has_an_id_of_its_own_and_is_the_answer_for_the_callers(
    served: Any,
) -> None:
    ask: dict[str, Any] = {"arms": ["hat", "coat", "boots"], "slots": 2}
    with line_to(served, "ids") as (proxy, client, near, _):
        kept = near.decide_slate({}, id="kept", **ask)
        proxy.fate = "before"
        others = [one.arm for one in kept.slots][::-1]
        page = client.decide_slate({}, id="kept", fallback=others, **ask)
        assert [one.arm for one in page.slots] == others
        assert page.slate != "kept"
        proxy.fate = "through"
        again = client.decide_slate({}, id="kept", fallback=others, **ask)
        assert again == page._replace(new=False)
        assert client.report() == Reported(sent=1, waiting=0, refused=0, dropped=0)
        assert all(near.decision(one.id).shadow for one in page.slots)


@pytest.mark.parametrize(
    ("fallback", "slots", "says"),
    [
        ("hat", 1, "a list with an arm for each of the 1 slots; got 'hat'"),
        (["hat"], 2, "for each of the 2 slots"),
        (["hat", "hat"], 2, "a different arm in each slot"),
        (["hat", "tie"], 2, "an arm of this call, eligible in it; got 'tie'"),
        (
            ["hat", "coat"],
            [{"name": "a"}, {"name": "b", "eligible": ["hat"]}],
            "eligible in it; got 'coat'",
        ),
        ({"hat": 0.5, "coat": 0.4}, 2, "must sum to 1; got 0.9"),
        ({"hat": 1.0, "coat": 0.0}, 2, "at least 2 arms, one per slot; got 1"),
        ({"hat": 0.5, "tie": 0.5}, 1, "got 'tie'"),
        (
            {"hat": 0.5, "coat": 0.5},
            [{"name": "a", "eligible": ["hat", "coat"]}],
            "if a slot has eligible arms",
        ),
        (
            ["hat"],
            [{"name": "a", "incumbent": "hat"}],
            "left out if an incumbent acts",
        ),
        (["hat"], [{"eligible": ["hat"]}], "names of slots must be text"),
        (["hat", 3], 2, "for each of the 2 slots"),
    ],
)
def test_wrong_fallbacks_are_refused_before_anything_is_sent(
    fallback: Any, slots: Any, says: str
) -> None:
    with pytest.raises(od.InvalidInput, match=says):
        read_slate_fallback(fallback, slots, ["hat", "coat", "boots"])


def test_pages_are_drawn_from_the_odds_that_are_told() -> None:
    """All 24 orders of 3 out of 4 arms, by the product of their odds; a right draw
    fails once in 10,000 runs."""
    seen, n = Counter[tuple[str, ...]](), 20_000
    for _ in range(n):
        page = [shown for _, shown in read_slate_fallback(ODDS, 3, None)]
        seen[tuple(one.arm for one in page)] += 1
        assert np.allclose([sum(one.odds.values()) for one in page], 1)
    orders = list(permutations(ODDS, 3))
    expected = []
    for order in orders:
        left, chance = 1.0, 1.0
        for arm in order:
            chance *= ODDS[arm] / left
            left -= ODDS[arm]
        expected.append(n * chance)
    assert chisquare([seen[order] for order in orders], expected).pvalue > 1e-4
