"""Each trouble is found in a store that has it, and in no other."""

import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.server.audit import Finding, doctor
from oddsmith.server.audit.chart import RECENT, chart_of
from oddsmith.server.audit.doctor import AILMENTS
from oddsmith.server.fold.fold import save_snapshot
from oddsmith.server.store import DecisionMade, Event, Reward, SQLiteStore
from oddsmith.server.store.sqlite.file import FileFacts, file_facts
from server.audit.served import BEGAN, Served, policy

MIB = 2**20
Trouble = Callable[[Path], Served]


def served(
    path: Path, *, n: int = 60, settings: Any = None, rewards: Any = None, **about: Any
) -> Served:
    """A store without any trouble, unless told otherwise."""
    service = Served(path, policy(**(settings or {})), **about)
    rng = np.random.default_rng(1)
    for i in range(n):
        service.follow()
        service.decide(f"d{i}", np.abs(rng.normal(size=2)).tolist())
        service.reward(
            f"d{i}", float(rng.integers(2)) if rewards is None else rewards(i)
        )
    return service


def many(
    service: Served,
    n: int,
    reward: Callable[[int], float] | None = None,
    **changes: Any,
) -> Served:
    """n times the same decision, at once."""
    first = service.decide("first", [0.5, 0.5])._replace(**changes)
    events: list[Event] = [
        DecisionMade(f"m{i}", first, 0, service.time) for i in range(n)
    ]
    events += (
        [Reward(f"m{i}", reward(i), service.time) for i in range(n)] if reward else []
    )
    service.store.append(events).result(timeout=60)
    return service


def found(service: Served, *, now: float | None = None) -> dict[str, Finding]:
    service.store.close()
    findings = doctor(
        [str(service.store.path)], now=service.time + 1 if now is None else now
    )
    assert [finding.check for finding in findings] == list(AILMENTS)
    return {finding.check: finding for finding in findings}


def test_a_sound_store_is_sound(tmp_path: Path) -> None:
    findings = found(served(tmp_path / "s"))
    assert {finding.level for finding in findings.values()} == {"ok"}
    assert not any(finding.advice for finding in findings.values())
    assert findings["unmatched"].what == "every one of 60 rewards has its decision"
    assert findings["learning"].what == "60 rewards have been learnt from"
    assert str(findings["rewards"]).startswith("ok      rewards     60 rewards, 0.")


def test_one_is_no_plural(tmp_path: Path) -> None:
    """In the sentences of all checks, of a store with one decision and its reward, and
    of one with none."""
    service = Served(tmp_path / "one", policy())
    service.decide("d", [0.1, 0.2])
    service.reward("d", 1.0)
    empty = Served(tmp_path / "none", policy())
    for one in (service, empty):
        for finding in found(one).values():
            assert not re.search(
                r"\b1 (rewards|decisions|events|corrections|positions)\b", finding.what
            ), finding.what
            assert not re.search(r"\b1 \w+ (are|have|were)\b", finding.what), (
                finding.what
            )


def unmatched(path: Path) -> Served:
    service = served(path)
    for i in range(12):
        service.reward(f"lost{i}", float(i % 2))
    return service


def few_unmatched(path: Path) -> Served:
    service = served(path)
    service.reward("early", 1.0)
    return service


def open_windows(path: Path) -> Served:
    service = served(path, window_s=30.0)
    service.decide("d", [0.1, 0.2])
    service.time += 500
    return service


def no_defaults(path: Path) -> Served:
    service = many(served(path), 70)
    service.time += 90_000
    return service


def nothing_learnt(path: Path) -> Served:
    return many(served(path), RECENT)


def all_weight(path: Path) -> Served:
    return served(path, settings={"eta": 200.0})


def unexplored(path: Path) -> Served:
    return served(path, settings={"gamma": 0.0})


def tiny_odds(path: Path) -> Served:
    return many(
        served(path),
        1,
        float,
        arm="sports",
        index=0,
        propensities=np.array([5e-4, 0.5, 0.4995]),
    )


def asleep(path: Path) -> Served:
    service = Served(path, policy())
    for i in range(40):
        service.decide(f"d{i}", [-1.0, 0.1 * i])
        service.reward(f"d{i}", float(i % 2))
    return service


def often_asleep(path: Path) -> Served:
    service = served(path)
    for i in range(40):
        service.decide(f"e{i}", [-1.0, 0.1 * i])
        service.reward(f"e{i}", float(i % 2))
    return service


def equal_rewards(path: Path) -> Served:
    return many(
        served(path, n=1, settings={"eta": 0.01}, rewards=lambda i: 1.0),
        120,
        lambda i: 1.0,
    )


def equal_rewards_in_euros(path: Path) -> Served:
    about = {"reward": [-5.0, 15.0]}
    return many(
        served(path, n=1, settings={"eta": 0.01}, rewards=lambda i: 1.0, **about),
        120,
        lambda i: 1.0,
    )


def other_rewards(path: Path) -> Served:
    return many(
        served(path, n=1, settings={"eta": 0.01}),
        1000,
        lambda i: float(i % 2) if i < 500 else float(i % 8 == 0),
    )


def refused(path: Path) -> Served:
    """Every expert says that this reward cannot be."""
    service = served(path)
    return many(service, 1, lambda i: 1.0, advice=np.zeros(3))


def corrections(path: Path) -> Served:
    service = served(path)
    for i in range(10):
        service.correct(f"d{i}", 0.5, "k")
    return service


def backwards(path: Path) -> Served:
    service = served(path)
    service.time -= 100
    service.decide("d", [0.1, 0.2])
    service.reward("d", 1.0)
    service.time += 200
    return service


def silence(path: Path) -> Served:
    service = served(path)
    service.time += 3 * 86_400
    service.decide("d", [0.1, 0.2])
    service.reward("d", 1.0)
    return service


TROUBLES: list[tuple[Trouble, str, str, str]] = [
    (
        unmatched,
        "unmatched",
        "problem",
        "12 of 72 rewards (16.7%) are for decisions that were never made",
    ),
    (
        few_unmatched,
        "unmatched",
        "notice",
        "1 of 61 rewards (1.6%) is for a decision that was never made",
    ),
    (
        open_windows,
        "waiting",
        "problem",
        "1 of 61 reward windows of 30 s should have been closed, and is open",
    ),
    (no_defaults, "waiting", "notice", "71 of 131 decisions had no reward for a day"),
    (nothing_learnt, "learning", "problem", "for the last 1,000 decisions"),
    (all_weight, "frozen", "notice", "leads with weight 1: all others together"),
    (unexplored, "exploring", "notice", "gamma is 0"),
    (tiny_odds, "odds", "notice", "an arm was drawn with propensity 0.0005"),
    (
        asleep,
        "asleep",
        "problem",
        "expert 'c' made no prediction in 100% of the last 40 decisions",
    ),
    (
        often_asleep,
        "asleep",
        "notice",
        "expert 'c' made no prediction in 40% of the last 100 decisions",
    ),
    (equal_rewards, "rewards", "problem", "all 121 rewards are 1 (of 0 to 1)"),
    (
        equal_rewards_in_euros,
        "rewards",
        "problem",
        "all 121 rewards are 15 (of -5 to 15)",
    ),
    (
        other_rewards,
        "rewards",
        "notice",
        "the last 500 rewards are 0.124 on average, those before 0.499",
    ),
    (
        refused,
        "refused",
        "problem",
        "1 reward was ignored, because the policy rejected it",
    ),
    (
        corrections,
        "corrections",
        "notice",
        "10 corrections of 60 rewards (16.7%) are many",
    ),
    (
        backwards,
        "clock",
        "notice",
        "the time of events decreases at 1 position, first at 121",
    ),
    (
        silence,
        "clock",
        "notice",
        "no event was written for 3.0 days before position 121",
    ),
]


@pytest.mark.parametrize(
    ("trouble", "check", "level", "what"),
    TROUBLES,
    ids=[t[0].__name__ for t in TROUBLES],
)
def test_a_trouble_is_found_and_no_other(
    tmp_path: Path, trouble: Trouble, check: str, level: str, what: str
) -> None:
    findings = found(trouble(tmp_path / "s"))
    assert findings[check].level == level
    assert what in findings[check].what
    assert findings[check].advice.endswith(".")
    # the same decision many times is no draw of its id
    ill = {name for name, finding in findings.items() if finding.level != "ok"}
    assert ill - {"draws"} == {check}


def test_draws_that_their_ids_do_not_make_are_found(tmp_path: Path) -> None:
    healthy = found(served(tmp_path / "s"))["draws"]
    assert (
        healthy.what
        == "the last 60 draws of this store follow from propensities, seed and id"
    )
    drawn = found(many(served(tmp_path / "t"), 40))["draws"]
    assert drawn.level == "problem"
    assert "arm that does not follow from their propensities, seed and id" in drawn.what
    assert re.search(r"the first at position 1\d\d$", drawn.what)
    assert "run oddsmith verify" in drawn.advice


def test_events_from_the_future(tmp_path: Path) -> None:
    findings = found(served(tmp_path / "s"), now=BEGAN)
    assert findings["clock"].level == "problem"
    assert findings["clock"].what == "60 events are from the future"


def test_old_snapshots_full_disks_and_long_logs(tmp_path: Path) -> None:
    """What a test cannot have for real, on the chart of a real store."""
    service = served(tmp_path / "s")
    with service.store as store:
        chart = chart_of(store, str(store.path), service.time)
        assert chart.file is not None
        old = replace(chart, head=300_000)
        assert AILMENTS["snapshots"](old).level == "notice"
        assert "300,000 events old" in AILMENTS["snapshots"](old).what
        for facts, level in (
            (FileFacts(MIB, 0, 100 * MIB, None, None), "problem"),
            (FileFacts(50 * MIB, 80 * MIB, 9000 * MIB, None, None), "notice"),
            (FileFacts(500 * MIB, 80 * MIB, 9000 * MIB, None, None), "ok"),
        ):
            assert AILMENTS["disk"](replace(chart, file=facts)).level == level


def test_who_writes_and_how_large_the_log_is(tmp_path: Path) -> None:
    service = served(tmp_path / "s")
    facts = file_facts(tmp_path / "s")
    assert facts.holder == str(os.getpid())
    assert facts.log_size == (tmp_path / "s-wal").stat().st_size > 0
    assert facts.size == (tmp_path / "s").stat().st_size
    open_finding = {
        f.check: f for f in doctor([str(tmp_path / "s")], now=service.time)
    }["lock"]
    assert open_finding.what == f"process {os.getpid()} writes to it"
    service.store.close()
    closed = file_facts(tmp_path / "s")
    assert (closed.log_size, closed.holder, closed.broken) == (0, None, None)
    assert closed.free > 0
    (tmp_path / "s.lock").unlink()
    assert file_facts(tmp_path / "s").holder is None


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "s"
    served(path, n=300).store.close()
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4096] = b"\xff" * 4096
    path.write_bytes(content)
    (tmp_path / "text").write_text("no store")
    findings = doctor(
        [str(path), str(tmp_path / "text"), str(tmp_path / "nowhere")], now=BEGAN
    )
    damaged = [
        finding
        for finding in findings
        if finding.place == str(path) and finding.check == "file"
    ]
    assert [finding.level for finding in damaged] == ["problem"]
    others = findings[-2:]
    assert [(finding.check, finding.level) for finding in others] == [
        ("file", "problem")
    ] * 2
    assert "there is no such file" in others[1].what


def test_policies_without_a_judge_are_looked_at_as_far_as_possible(
    tmp_path: Path,
) -> None:
    service = Served(tmp_path / "s", od.policies.UCB1(3))
    service.decide("d", None)
    findings = found(service)
    assert findings["learning"].level == "notice"
    assert "does not say how its policy weighs votes" in findings["learning"].what


def test_a_store_without_events(tmp_path: Path) -> None:
    SQLiteStore(tmp_path / "s", policy()).close()
    assert {finding.level for finding in doctor([str(tmp_path / "s")])} <= {
        "ok",
        "notice",
    }


def test_each_snapshot_is_opened(tmp_path: Path) -> None:
    service = served(tmp_path / "s")
    service.follow()
    save_snapshot(service.store, service.folded, service.time)
    position = service.store.head()
    service.store.close()
    assert level(tmp_path / "s", "snapshots") == "ok"
    with closing(sqlite3.connect(tmp_path / "s")) as connection, connection:
        connection.execute("update snapshots set content = zeroblob(100)")
    connection.close()
    (found,) = (
        one for one in doctor([str(tmp_path / "s")]) if one.check == "snapshots"
    )
    assert (found.level, found.what) == (
        "problem",
        f"1 snapshot is damaged, the last at position {position:,}",
    )


def level(path: Path, check: str) -> str:
    return next(
        finding.level for finding in doctor([str(path)]) if finding.check == check
    )
