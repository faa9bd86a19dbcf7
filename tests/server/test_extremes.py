"""Every event that is accepted can be folded, restored, verified and exported, on both
databases; what is refused is a 4xx.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from extremes import CLOCKS, IDS, MOMENTS, NUMBERS, PROPENSITIES, SCALES, to_json
from oddsmith.files.policy import read_policy
from oddsmith.server.audit import doctor, export, verify
from oddsmith.server.audit.story import story_of
from oddsmith.server.compat.personalizer.entrance import Personalizer
from oddsmith.server.fold.fold import restore, roster_change
from oddsmith.server.store.events import DecisionMade
from oddsmith.server.store.place import open_reader
from server.extreme_calls import ARMS, READS, calls
from server.offering import weights
from server.served import CONTEXT, EXPERTS, Hands, Here, here, place
from server.store.postgres_server import Server
from server.store.samples import WithoutSnapshots, bits

_LINES = '[experts.lines]\nkind = "linear"\nfile = "lines.npz"\n'
_LATE = '[experts.late]\nkind = "linear"\nfile = "late.npz"\njoins = true\n'
VARIANTS = {
    "gts": ("[policy]\nshare = 0.05\ngamma = 0.1\n" + _LINES + _LATE, ""),
    "auto": ('[policy]\nkind = "auto"\nsize = "small"\n', ""),
    "greedy": ("[policy]\ngamma = 0.0\n" + _LINES, ""),
    "hedged": ('[policy]\nkind = "hedged"\n' + _LINES, ""),
    "exp4": ('[policy]\nkind = "exp4"\neta = 0.1\n' + _LINES, ""),
    "window": ("[policy]\ngamma = 0.1\n" + _LINES, "window_s = 1e-3\n"),
    "sum": (
        "[policy]\ngamma = 0.1\n" + _LINES,
        'window_s = 1e10\nreward_rule = "sum"\nlate_reward = "rewrites"\n',
    ),
    "shadow": ('[policy]\nkind = "auto"\nsize = "small"\n', "shadow = true\n"),
}
"""Policies and rules of rewards: the table of policies, lines of [service]."""


def write_policy(folder: Path, name: str, number: int, store: str = "") -> Path:
    """The policy file of a variant; every other one has arms of its calls, if it can."""
    policy, service = VARIANTS[name]
    np.savez(folder / "lines.npz", weights=weights(), names=EXPERTS)
    np.savez(folder / "late.npz", weights=weights()[::-1][:1], names=["late"])
    low, high = SCALES[number % len(SCALES)]
    arms = (
        ""
        if offers(name, number)
        else f"arms = {json.dumps(ARMS, ensure_ascii=False)}\n"
    )
    path = folder / f"{name}{number}.toml"
    path.write_text(
        f'name = "{name}{number}"\nseed = 5\n{arms}{policy}[reward]\nlow = {low!r}\n'
        f"high = {high!r}\n[service]\nsnapshot_every = 20\ntimeout_ms = 60000\n"
        f"{service}{store}"
    )
    return path


def offers(name: str, number: int) -> bool:
    return name in ("auto", "shadow") and number % 2 == 0


def live(file: Path, name: str, number: int, n: int, parts: int = 3) -> Counter[int]:
    """Answers by status to n calls, by a service that is restarted in between, with
    clocks that are extreme."""
    found = Counter[int]()
    before: tuple[int, Any] | None = None
    for part in range(parts):
        hands = Hands(CLOCKS[(number + part) % len(CLOCKS)])
        with here(
            file, clock=hands.clock(), doors=[Personalizer()], trusts_clock=True
        ) as served:
            again = state_of(served)
            assert before is None or before[0] < again[0] or before == again
            seed = 1000 * number + part
            for call in calls(seed, n // parts, offers=offers(name, number)):
                answer = served.ask(call.method, call.path, content=call.content)
                found[answer.status_code] += 1
                assert answer.status_code < 500, (call, answer.text)
            before = state_of(served)
            for path in READS:
                assert served.ask("GET", path).status_code == 200, path
            ready = served.get("/readyz")
            assert (ready["ok"], ready.get("warnings", {})) == (True, {})
    return found


def state_of(served: Here) -> tuple[int, Any]:
    """The end of the log, and the state there; windows may close at any time."""
    (name,) = served.service.experiments
    state = served.state(name)
    return served.experiment(name).follower.now.position, bits(state)


def prove(file: Path, place: str, name: str, folder: Path) -> int:
    """Fold, verify and export what was accepted; returns the number of events."""
    policy = read_policy(file)
    with closing(open_reader(place, name)) as reading:
        verdict = verify(reading, policy=None)
        assert verdict.holds, verdict.misses
        change = roster_change(policy.bench)
        restored = restore(reading, policy.policy, change=change)
        whole: Any = WithoutSnapshots(reading)
        again = restore(whole, policy.policy, change=change)
        assert bits(restored.state) == bits(again.state)
        events = sum(reading.tally().values())
        if reading.tally().get("decision"):
            story_of(reading, next(_decided(reading))).record()
            if policy.arms is not None:  # CSV has no lists, and reads "NaN" as missing
                export(reading, folder / "log.csv")
            for suffix in ("jsonl", "parquet", "dsjson"):
                counts = export(reading, folder / f"log.{suffix}")
                log = od.read_log(folder / f"log.{suffix}")
                assert (len(log), counts.impossible) == (counts.rows, 0)
    findings = {one.check: one for one in doctor([place], experiment=name)}
    assert (findings["statistics"].level, findings["file"].level) == ("ok", "ok")
    return events


def _decided(reading: Any) -> Iterator[str]:
    return (one.id for one in reading.lines(0, reading.head()) if one.arm is not None)


SLOTS = [{"name": "top", "eligible": ["a"], "features": [1.0]}]
ODDS = {"incumbent": "a", "incumbent_odds": {"a": 0.5, "b": 0.5}}
ACTIONS = [{"id": "a", "features": [{"x": 1}]}, {"id": "b", "features": []}]
PAGE = {"actions": ACTIONS, "slots": [{"id": "top", "baselineAction": "a"}]}
EVALUATION = {"name": "e", "startTime": "2021-04-07", "endTime": "2021-04-08"}
BODIES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/v1/decide", {"context": [1, 2], "id": "d", "eligible": ["a"],
                            "unit": "u", "deferred": True, "odds": True} | ODDS),
    ("POST", "/v1/decide", {"context": [1], "id": "s", "slots": SLOTS}),
    ("POST", "/v1/decide/batch", {"decisions": [{"context": [1, 2]}], "arms": ["a"]}),
    ("POST", "/v1/reward", {"id": "d", "reward": 1, "key": "k"}),
    ("POST", "/v1/reward", {"slate": "s", "slot": "top", "reward": 1}),
    ("POST", "/v1/reward/batch", {"rewards": [{"id": "d", "reward": 1}]}),
    ("POST", "/v1/correct", {"id": "d", "reward": 1, "key": "k"}),
    ("POST", "/v1/activate", {"id": "d"}),
    ("POST", "/v1/activate", {"slate": "s"}),
    ("POST", "/v1/experts", {"expert": "late", "change": "added", "key": "k",
                             "share": 0.1}),
    ("POST", "/personalizer/v1.0/rank", {"actions": ACTIONS, "eventId": "p",
                                         "contextFeatures": [{"x": 1}],
                                         "excludedActions": ["a"],
                                         "deferActivation": True}),
    ("POST", "/personalizer/v1.0/events/p/reward", {"value": 1}),
    ("POST", "/personalizer/v1.1-preview.1/multislot/rank", PAGE | {"eventId": "m"}),
    ("POST", "/personalizer/v1.1-preview.1/multislot/events/m/reward",
     {"reward": [{"slotId": "top", "value": 1}]}),
    ("POST", "/personalizer/v1.0/evaluations", EVALUATION),
    ("POST", "/ofrep/v1/evaluate/flags/arm", {"context": {"targetingKey": "t"}}),
]  # fmt: skip


def extreme_bodies(step: int) -> Iterator[tuple[str, str, str]]:
    """Each field of each body with every `step`-th extreme value, also in the fields of
    its first entry."""
    count = 0
    for method, path, body in BODIES:
        for field, usual in body.items():
            for value in (*NUMBERS, *PROPENSITIES, *IDS, *MOMENTS):
                count += 1
                if count % step:
                    continue
                yield method, path, to_json(body | {field: value})
                if isinstance(usual, list) and isinstance(usual[0], dict):
                    for inner in usual[0]:
                        changed = [usual[0] | {inner: value}]
                        yield method, path, to_json(body | {field: changed})
                if isinstance(usual, dict):
                    yield method, path, to_json(body | {field: usual | {"a": value}})


def check_every_field(folder: Path, step: int) -> None:
    for name in ("gts", "auto"):
        file = write_policy(folder, name, 5)
        with here(file, doors=[Personalizer()]) as served:
            served.post("decide", {"context": [1, 2]})
            for method, path, content in extreme_bodies(step):
                answer = served.ask(method, path, content=content)
                assert answer.status_code < 500, (path, content[:300], answer.text)
                if answer.status_code >= 400:
                    assert answer.json(), (path, content[:300])
            state_of(served)
            assert served.get("/readyz")["ok"]
        prove(file, str(file.with_suffix(".sqlite")), file.stem, folder)


def test_every_field_of_every_route(tmp_path: Path) -> None:
    check_every_field(tmp_path, 23)


@pytest.mark.soak
def test_every_field_of_every_route_with_every_value(tmp_path: Path) -> None:
    check_every_field(tmp_path, 1)


@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_accepted_can_be_folded(tmp_path: Path, name: str) -> None:
    number = list(VARIANTS).index(name)
    file = write_policy(tmp_path, name, number)
    found = live(file, name, number, 60)
    assert found[200] > 10
    assert prove(file, str(file.with_suffix(".sqlite")), file.stem, tmp_path) > 10


def test_what_is_accepted_can_be_folded_in_postgres(
    tmp_path: Path, server: Server
) -> None:
    file = write_policy(tmp_path, "gts", 100, f"store = {json.dumps(server.url())}\n")
    live(file, "gts", 100, 90)
    assert prove(file, server.url(), file.stem, tmp_path) > 10


@pytest.mark.parametrize("p", [5e-324, 1e-300, 1e-160, 9e-13])
def test_a_propensity_that_no_input_accepts_is_folded_where_a_store_has_it(
    tmp_path: Path, p: float
) -> None:
    """As of stores that were written before there was a least one."""
    with here(place(tmp_path)) as served:
        asked: dict[str, Any] = {"context": CONTEXT, "incumbent": "tech"}
        mine = {"incumbent": "tech", "incumbent_odds": {"tech": p, "sports": 1.0}}
        slots = [{"name": "top"} | mine]  # whose number joins the context
        for body in (asked | mine, {"context": [0.3], "slots": slots}):
            said = served.post("decide", body, status=422)["error"]
            assert "must be at least 1e-12 for the incumbent, 'tech'" in said
        served.post("decide", asked | {"id": "good"})
        store = served.experiment().store
        (line,) = store.history(["good"], 100)
        ((decision, drawn),) = store.decisions_with_draws([line.position])
        (evidence,) = store.evidence([line.position])
        assert drawn is not None
        old = decision._replace(propensities=np.array([1.0, 0.0, p]))
        event = DecisionMade(
            "old", old, 0, 0.0, votes=evidence.votes, shadow=True, own=evidence.own
        )
        store.append([event]).result(timeout=30)
        served.reward("old", 1)
        served.reward("good", 0)
        assert served.state().learnt == 2
        assert all(served.ask("GET", path).status_code == 200 for path in READS)
        assert served.get("/readyz").get("warnings", {}) == {}
        whole = bits(served.state())
    with here(tmp_path / "news.toml") as served:
        assert bits(served.state()) == whole
    path = str(tmp_path / "news.sqlite")
    with closing(open_reader(path)) as reading:
        counts = export(reading, tmp_path / "log.jsonl")
        assert (counts.rows, counts.impossible) == (1, 1)
        restore(WithoutSnapshots(reading), read_policy(tmp_path / "news.toml").policy)
    assert "statistics" not in {
        one.check for one in doctor([path]) if one.level != "ok"
    }


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_twenty_thousand_extreme_events(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    """Run with -s to see what was answered."""
    events, answers, began = 0, Counter[int](), time.monotonic()
    number = 0
    url = ""
    if kind == "postgres":
        url = request.getfixturevalue("server").url()
    while events < 20_000:
        name = list(VARIANTS)[number % len(VARIANTS)]
        folder = tmp_path / str(number)
        folder.mkdir()
        store = f"store = {json.dumps(url)}\n" if url else ""
        file = write_policy(folder, name, number, store)
        answers += live(file, name, number, 900)
        place = url or str(file.with_suffix(".sqlite"))
        events += prove(file, place, file.stem, folder)
        number += 1
    print(f"\n{kind}: {events:,} events in {number} logs, answers {dict(answers)}, "
          f"{time.monotonic() - began:.0f} s")  # fmt: skip
