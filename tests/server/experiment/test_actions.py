"""Actions of operators on both stores: what is in force, refusals, restarts, backups,
two operators at once, and the log that proves it."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.draw import Uniforms
from oddsmith.files.policy import read_policy
from oddsmith.server.audit import verify
from oddsmith.server.audit.log_export import export
from oddsmith.server.experiment.operator import KILL
from oddsmith.server.http.routes.turns import Turns
from oddsmith.server.operations.requests import Request
from oddsmith.server.store import open_reader
from oddsmith.server.store.backup import back_up, restore_backup
from server.served import Here, here, place, wait
from server.store.postgres_server import Server

ARMS = ("sports", "politics", "tech")
CONTROL = 'policy.share = 0.05\ncontrol = "arm:politics"\n'
HOLDOUT = (
    '[experts.lines]\nkind = "linear"\nfile = "lines.npz"\n[holdout]\nshare = 0.2\n'
)
AUTO = 'arms = ["a", "b", "c"]\nseed = 5\npolicy.kind = "auto"\n[service]\n'
Make = Callable[..., Path]


@pytest.fixture(params=["sqlite", "postgres"])
def make(request: Any, tmp_path: Path) -> Make:
    """Writes the policy file of an experiment in a folder, for either store."""
    store = ""
    name = "news"
    if request.param == "postgres":
        server: Server = request.getfixturevalue("server")
        name = request.getfixturevalue("experiment")
        store = f"store = {json.dumps(server.url())}\n"

    def write(folder: str = "one", service: str = "", **more: str) -> Path:
        (tmp_path / folder).mkdir(exist_ok=True)
        return place(tmp_path / folder, name, service=store + service, **more)

    return write


def act(served: Here, action: str, status: int = 200, **fields: Any) -> Any:
    body = {"action": action, "reason": "a test"} | fields
    return served.post("actions", body, status)


def reading(path: Path) -> Any:
    """The store of a policy file, once it is at rest."""
    table = read_policy(path).table["service"]
    if "store" in table:
        return closing(open_reader(table["store"], path.stem))
    return closing(open_reader(str(path.with_suffix(".sqlite"))))


def check(path: Path) -> None:
    """Every decision follows from the log, with and without the policy file."""
    policy = read_policy(path).policy
    with reading(path) as store:
        for models in (None, policy):
            report = verify(store, policy=models)
            assert report.holds, str(report)
            assert not any(level.lacking for level in report.levels), str(report)


class Model:
    """What should be in force, from the descriptions of the actions alone."""

    def __init__(self, served: Here, name: str) -> None:
        self.served, self.name = served, name
        self.paused: set[str] = set()
        self.gamma: float | None = None
        self.caps: float | None = None
        self.share = 0.0
        self.held = False

    def odds(self, context: Any) -> Any:
        now = self.served.experiment(self.name).follower.now
        free = np.array([arm not in self.paused for arm in ARMS])
        control = np.array([0.0, 1.0, 0.0])
        if "politics" in self.paused:
            control = np.eye(3)[int(free.argmax())]
        if self.held:
            return control
        policy: Any = now.policy
        if self.gamma is not None:
            policy = replace(policy, gamma=self.gamma)
        if self.caps is not None:
            policy = od.policies.Bounded(policy, caps=self.caps)
        mask = None if free.all() else free
        odds = policy.odds(now.state, np.array(context), eligible=mask).propensities
        return (1 - self.share) * odds + self.share * control if self.share else odds

    def expect(self, id: str) -> None:
        """A decision with the odds in force, and its reward."""
        self.served.state(self.name)
        context = [0.1 * len(id), -0.3]
        odds = self.odds(context)
        answer = self.served.post("decide", {"id": id, "context": context})
        assert list(answer["odds"].values()) == odds.tolist(), id
        assert answer["arm"] not in self.paused
        uniform = Uniforms(5)(id)
        assert answer["arm"] == ARMS[int((uniform >= odds.cumsum()).sum())]
        self.served.reward(id, 1.0)


def run(served: Here, model: Model) -> None:
    """Every action, each followed by decisions."""
    ids = iter(f"v{i}" for i in range(1000))

    def decisions() -> None:
        for _ in range(3):
            model.expect(next(ids))

    def learnt() -> int:
        return int(served.state(model.name).learnt)

    decisions()
    assert act(served, "pause_arm", arm="politics")["in_force"]["paused_arms"] == [
        "politics"
    ]
    model.paused.add("politics")
    decisions()
    act(served, "resume_arm", arm="politics")
    model.paused.clear()
    decisions()
    before = learnt()
    for start, end, state in (
        ("pause", "resume", "paused"),
        ("kill", "restore", "killed"),
    ):
        served.decide(f"before {state}")
        assert act(served, start)["in_force"]["state"] == state
        model.held = True
        decisions()
        assert learnt() == before
        served.reward(f"before {state}", 0.5)  # it still counts
        before = learnt()
        act(served, end)
        model.held = False
        decisions()
        before = learnt()
    act(served, "freeze")
    decisions()
    assert learnt() == before
    act(served, "learn")
    decisions()
    assert learnt() == before + 3
    act(served, "set", gamma=0.6, caps=0.5)
    model.gamma, model.caps = 0.6, 0.5
    decisions()
    act(served, "set", caps=None)
    model.caps = None
    decisions()
    act(served, "holdout", share=0.7)
    model.share = 0.7
    decisions()
    assert act(served, "finish", verdict="ship")["in_force"]["verdict"] == "ship"


def test_every_action_is_in_force_and_proved(make: Make, tmp_path: Path) -> None:
    path = make(top=CONTROL)
    with here(path) as served:
        run(served, Model(served, path.stem))
        listed = served.get("/v1/actions")
        sent = [one["action"] for one in listed["actions"]][::-1]
        assert sent[:3] == ["pause_arm", "resume_arm", "pause"]
        assert len(sent) == 12
        assert {one["sender"] for one in listed["actions"]} == {"anyone"}
    with here(path) as served:  # in force again after a restart
        model = Model(served, path.stem)
        model.gamma, model.share = 0.6, 0.7
        model.expect("after the restart")
        assert served.get("/v1/actions")["in_force"] == listed["in_force"]
    check(path)
    with reading(path) as store:
        counts = export(store, tmp_path / "log.jsonl")
        assert counts.paused == 6
    service = read_policy(path).table["service"]
    place_of_store = service.get("store", str(path.with_suffix(".sqlite")))
    back_up(place_of_store, tmp_path / "copy", experiment=path.stem)
    restored = tmp_path / "restored.sqlite"
    restore_backup(tmp_path / "copy", str(restored))
    with closing(open_reader(str(restored))) as store:
        assert verify(store).holds
        assert len(store.actions()) == 12


def test_refusals_change_nothing(make: Make) -> None:
    with here(make(top=CONTROL, service="")) as served:
        refusals: list[tuple[str, dict[str, Any], int, str]] = [
            ("resume", {}, 409, "is not paused"),
            ("restore", {}, 409, "is not stopped"),
            ("learn", {}, 409, "learns already"),
            ("pause_arm", {"arm": "spots"}, 422, "did you mean sports"),
            ("pause_arm", {}, 422, "arm must be given"),
            ("pause", {"arm": "tech"}, 422, "arm must be left out"),
            ("resume_arm", {"arm": "tech"}, 409, "is not paused"),
            ("set", {"caps": 0.2}, 422, "caps"),
            ("set", {"floors": {"sprots": 0.1}}, 422, "did you mean sports"),
            ("set", {"floors": 0.5}, 422, "floors"),
            ("set", {"gamma": 2}, 422, "gamma"),
            ("holdout", {"share": 1.0}, 422, "share"),
            ("finish", {"verdict": "maybe"}, 422, "verdict"),
            ("explode", {}, 422, "action"),
            ("pause", {"reason": ""}, 422, "reason"),
        ]
        for action, fields, status, text in refusals:
            answer = act(served, action, status, **fields)
            assert text in answer["error"], (action, answer)
        assert served.get("/v1/actions")["actions"] == []
        act(served, "pause_arm", arm="tech")
        answer = act(served, "set", 422, caps=0.4)  # two arms are left
        assert "caps" in answer["error"]
        act(served, "set", caps=0.6)
        act(served, "pause_arm", arm="sports")
        assert "last one" in act(served, "pause_arm", 409, arm="politics")["error"]
        first = act(served, "pause", request_id="r7")
        again = act(served, "pause", request_id="r7")
        assert (first["new"], again["new"]) == (True, False)
        assert first["position"] == again["position"]
        other = act(served, "freeze", 409, request_id="r7")
        assert "another action" in other["error"]
        assert "paused already" in act(served, "pause", 409)["error"]
        assert len(served.get("/v1/actions")["actions"]) == 4


def test_a_pause_without_a_control_is_refused(tmp_path: Path) -> None:
    top = 'policy.share = 0.05\ncontrol = "incumbent"\n'
    with here(place(tmp_path, top=top)) as served:
        for action in ("pause", "kill"):
            assert "incumbent" in act(served, action, 422)["error"]
        assert "holdout must be left out" not in str(act(served, "holdout", share=0.5))
    with here(place(tmp_path, "plain")) as served:
        assert "names no control" in act(served, "holdout", 422, share=0.5)["error"]


def test_operators_at_once_cannot_pause_every_arm(make: Make) -> None:
    """Each is checked against those before it; one of three is refused."""
    path = make(top=CONTROL)
    other = path if "store" not in path.read_text() else make("two", top=CONTROL)
    with ExitStack() as stack:
        replicas = [stack.enter_context(here(path))]
        if other != path:
            replicas.append(stack.enter_context(here(other)))
        statuses = Counter[int]()

        def pause(number: int) -> None:
            served = replicas[number % len(replicas)]
            body = {"action": "pause_arm", "arm": ARMS[number], "reason": "at once"}
            answer = served.ask("POST", "/v1/actions", json=body)
            statuses[answer.status_code] += 1

        threads = [threading.Thread(target=pause, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert statuses == {200: 2, 409: 1}
        for served in replicas:  # every replica has read them
            wait(lambda served=served: _paused(served) == 2)


def _paused(served: Here) -> int:
    return len(served.get("/v1/actions")["in_force"]["paused_arms"])


def test_the_environment_stops_an_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place(tmp_path, top=CONTROL)
    monkeypatch.setenv(KILL, "shop, news")
    with here(path) as served:
        follower = served.experiment().follower
        follower.now = follower.now._replace(advise=_refuse)
        answer = served.decide("v1")
        assert (answer["arm"], answer["propensity"]) == ("politics", 1.0)
        in_force = served.get("/v1/actions")["in_force"]
        assert (in_force["state"], in_force["environment"]) == ("killed", True)
        assert served.get("/v1/decisions/v1")["paused"]
    monkeypatch.delenv(KILL)
    with here(path) as served:
        assert served.decide("v2")["propensity"] < 1
    check(path)


def test_a_forged_log_is_noticed(tmp_path: Path) -> None:
    """A decision of the policy in a pause, and one that offers a paused arm."""
    path = place(tmp_path, top=CONTROL)
    with here(path) as served:
        act(served, "pause_arm", arm="tech")
        operator: Any = served.experiment().operator
        operator.bars_arms = False  # broken on purpose
        served.decide("v1")
        operator.bars_arms = True
        act(served, "pause")
        operator.serves_control = False  # broken on purpose
        served.decide("v2")
    with reading(path) as store:
        report = verify(store)
        assert not report.holds
        (odds,) = [level for level in report.levels if level.name == "odds"]
        assert [miss.id for miss in odds.misses] == ["v1", "v2"]


def test_sticky_units_follow_a_pause(tmp_path: Path) -> None:
    path = place(tmp_path, top=CONTROL, service="sticky = true\n")
    with here(path) as served:
        first = served.decide(unit="u")["arm"]
        act(served, "pause")
        assert served.decide(unit="u")["arm"] == "politics"
        assert not served.decide(unit="u")["new"]
        act(served, "resume")
        assert served.decide(unit="u")["arm"] == first
        act(served, "pause_arm", arm=first)
        assert served.decide(unit="u")["arm"] != first
    check(path)


def test_an_action_between_two_slots_is_for_the_whole_slate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "news.toml"
    path.write_text(AUTO)
    with here(path) as served:
        act(served, "set", caps=0.9)
        operator = served.experiment("news").operator
        caps = [{"a": 0.1}]

        async def give(_: Turns) -> None:
            if caps:
                fields = {"caps": caps.pop()}
                await operator.act(Request.of("set", fields, reason="a test"))

        monkeypatch.setattr(Turns, "give", give)
        answer = served.post("decide", {"context": {"age": 30}, "slots": 2})
        assert answer["slots"][0]["odds"]["a"] <= 0.1
    check(path)


def test_an_action_while_the_state_learns_is_for_decisions_that_wait(
    tmp_path: Path,
) -> None:
    path = tmp_path / "news.toml"
    path.write_text(AUTO)
    with here(path) as served:
        experiment = served.experiment("news")
        assert experiment.follower.now.in_place
        act(served, "set", caps=0.9)

        async def act_before_the_decision() -> Any:
            decide = {"id": "v1", "context": {"age": 30}}
            async with experiment.follower.learning:
                call = served.client.post("/v1/decide", json=decide)
                waiting = asyncio.create_task(call)
                await asyncio.sleep(0.2)
                fields = {"caps": {"b": 0.1}}
                request = Request.of("set", fields, reason="a test")
                await experiment.operator.act(request)
            return (await waiting).json()

        answer = served.portal.call(act_before_the_decision)
        assert answer["odds"]["b"] <= 0.1
    check(path)


def test_frequencies_are_the_propensities(tmp_path: Path) -> None:
    """Chi-square of the drawn arms, with a cap, more exploration and a paused arm; of
    four checks each fails by chance in one of 10,000 runs."""
    path = place(tmp_path, top=CONTROL, experts=HOLDOUT)
    with here(path) as served:
        act(served, "set", caps={"sports": 0.3}, gamma=0.3)
        drawn: list[tuple[str, dict[str, float]]] = []
        for arm in ("", "tech"):
            if arm:
                act(served, "pause_arm", arm=arm)
            batch = [{"context": [0.2, 0.1]} for _ in range(1000)]
            for _ in range(2):
                answers = served.post("decide/batch", {"decisions": batch})["results"]
                drawn += [(one["arm"], one["odds"]) for one in answers]
        for part in (drawn[:2000], drawn[2000:]):
            odds = part[0][1]
            counts = Counter(arm for arm, _ in part)
            free = {arm: p for arm, p in odds.items() if p > 0}
            assert set(counts) <= set(free)
            chi = sum(
                (counts[arm] - 2000 * p) ** 2 / (2000 * p) for arm, p in free.items()
            )
            assert chi < 18.4  # 99.99 % quantile for 2 degrees of freedom
        assert set(free) == {"sports", "politics"}


def _refuse(*_: Any) -> Any:
    raise AssertionError("no expert may be called")


def test_a_log_that_spans_changes_is_evaluated_without_bias(tmp_path: Path) -> None:
    """The value of uniform choice, from 2,400 draws under four settings; a pause among
    them is left out. Off by four standard errors in one of 10,000 runs."""
    rewards = dict(zip(ARMS, (0.2, 0.5, 0.8), strict=True))
    path = place(tmp_path, top=CONTROL)
    truth: list[float] = []
    with here(path) as served:
        for change in (
            {"action": "set", "gamma": 0.5},
            {"action": "pause_arm", "arm": "tech"},
            {"action": "pause"},
            {"action": "resume"},
            {"action": "set", "floors": 0.2, "gamma": 0.1},
            {"action": "holdout", "share": 0.3},
        ):
            act(served, **change)
            batch = [{"context": [0.4, 0.1]} for _ in range(480)]
            answers = served.post("decide/batch", {"decisions": batch})["results"]
            given = [
                {"id": one["id"], "reward": rewards[one["arm"]]} for one in answers
            ]
            served.post("reward/batch", {"rewards": given})
            if change["action"] != "pause":
                free = [arm for arm, p in answers[0]["odds"].items() if p > 0]
                truth += [float(np.mean([rewards[arm] for arm in free]))] * 480
    with reading(path) as store:
        counts = export(store, tmp_path / "log.parquet")
    assert (counts.rows, counts.paused) == (2_400, 480)
    log = od.read_log(tmp_path / "log.parquet")
    assert log.propensities is not None
    target = od.evaluation.uniform_target(log)
    drawn = np.arange(len(log)), log.arm
    terms = log.reward * target[drawn] / log.propensities[drawn]
    error = terms.std() / np.sqrt(len(log))
    assert abs(terms.mean() - np.mean(truth)) < 4 * error
    assert error < 0.02


def test_what_callers_report_in_a_pause_is_kept(tmp_path: Path) -> None:
    """A client's fallback, sent as an incumbent's choice, teaches nothing."""
    path = place(tmp_path, top=CONTROL)
    with here(path) as served:
        act(served, "pause")
        served.decide(
            "v1", incumbent="tech", incumbent_odds={"tech": 0.5, "sports": 0.5}
        )
        served.reward("v1", 1.0)
        record = served.get("/v1/decisions/v1")
        assert (record["arm"], record["propensity"]) == ("tech", 0.5)
        assert (record["shadow"], record["paused"]) == (True, True)
        assert served.state().learnt == 0
        assert "operators" in served.get("/v1/checks")["guarantee"]["sentence"]
        marks = served.get("/v1/posterior/history")["marks"]
        assert [mark["kind"] for mark in marks] == ["pause"]
    check(path)
