"""Any sequence of calls, restarts, snapshots and replicas gives the state of the clean
fold (B3 of the test plan)."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

import oddsmith as od
from oddsmith.files.policy import read_policy
from oddsmith.server.audit import verify
from oddsmith.server.experiment.clock import Clock
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.experiment.windows import Windows
from oddsmith.server.fold.fold import advance, initial_fold, restore, roster_change
from oddsmith.server.fold.judge import judge_from_json
from oddsmith.server.http.routes import rewards
from oddsmith.server.http.routes.decide import decide
from oddsmith.server.http.routes.experts import experts
from oddsmith.server.messages import calls as m
from oddsmith.server.store import SQLiteReader
from server.model import posterior_of
from server.store.samples import WithoutSnapshots, bits, stored

IDS = ["a", "b", "c", "d"]
NAMES = ["x", "y", "z", "v", "w", "new 1", "new 2", "ü" * 256]
NUMBERS = st.sampled_from([-1.0, 0.0, 2.0])
REWARDS = st.sampled_from([0.0, 0.25, 1.0])
Arms: TypeAlias = Literal["fixed", "offered", "learnt"]
_LINEAR = """
policy.prior.lines = { ann = 0.5, ben = 0.3, cy = 0.2 }
[experts.lines]
kind = "linear"
file = "lines.npz"
"""
_BENCH = '[experts.%s]\nkind = "linear"\nfile = "%s.npz"\njoins = true\n'
_LEARNERS = '[experts.own]\nkind = "auto"\nsize = "small"\n'


def write_policy(folder: Path, arms: Arms) -> Path:
    """Three experts, one of them asleep at times, and two more on the bench; or
    learners, of arms that are offered."""
    rng = np.random.default_rng(3)
    shape = (3, 2) if arms == "fixed" else (4,)  # of each arm, or of context and arm
    np.savez(
        folder / "lines.npz",
        weights=rng.normal(size=(3, *shape)),
        names=["ann", "ben", "cy"],
    )
    for name in ("dot", "eve"):
        np.savez(
            folder / f"{name}.npz", weights=rng.normal(size=(1, *shape)), names=[name]
        )
    policy = folder / "news.toml"
    policy.write_text(
        ('arms = ["x", "y", "z"]\n' if arms == "fixed" else "")
        + "seed = 3\npolicy.share = 0.05\npolicy.gamma = 0.1\n"
        + (
            _LEARNERS
            if arms == "learnt"
            else _LINEAR + "".join(_BENCH % (name, name) for name in ("dot", "eve"))
        )
        + "[service]\nwindow_s = 100\ndefault_reward = 0.25\nsnapshot_every = 7\n"
    )
    return policy


@st.composite
def offers(draw: Any) -> dict[str, Any]:
    """One to eight arms, known and new, of most of which two numbers are known; at
    times only some are eligible."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=8, unique=True))
    known = st.one_of(st.none(), st.tuples(NUMBERS, NUMBERS).map(list))
    arms = {name: draw(known) for name in names} | {names[0]: [0.5, 1.0]}
    eligible = draw(
        st.one_of(st.none(), st.lists(st.sampled_from(names), min_size=1, unique=True))
    )
    return {"arms": arms, "eligible": eligible}


class Service(RuleBasedStateMachine):
    """An experiment as the service runs it, a replica that follows the file, and the
    model."""

    made = Bundle("made")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        self.time, self.keys, self.count = 0.0, 0, 0
        self.experiment: Any = None
        self.replica: Any = None

    @initialize(arms=st.sampled_from(["fixed", "offered", "learnt"]))
    def serve(self, arms: Arms) -> None:
        """An experiment with arms of its own, or with those of its calls."""
        self.arms, self.path = arms, write_policy(Path(self.folder.name), arms)
        self.begin()

    def begin(self) -> None:
        """Open the experiment; nothing runs by itself, so that every step is ours."""

        async def start() -> Experiment:
            opened = open_experiments([self.path])[0]
            experiment = Experiment(
                opened, Clock(wall=lambda: 0.0, steady=lambda: self.time)
            )
            await experiment.follower.begin()
            experiment.steps = experiment.store.tally().get("decision", 0)
            self.windows = Windows(
                opened.store, experiment.writer, experiment.clock, 100.0, 0.25
            )
            return experiment

        self.experiment = self.loop.run_until_complete(start())
        if self.replica is None:
            policy = self.experiment.setup.policy
            self.replica = initial_fold(self.experiment.store, policy, policy.init())

    def judge(self, reader: SQLiteReader) -> Any:
        return judge_from_json(reader.about["judge"])

    def call(self, coroutine: Any) -> Any:
        self.time += 1
        return self.loop.run_until_complete(coroutine)

    @rule(
        target=made,
        id=st.sampled_from([*IDS, None]),
        deferred=st.booleans(),
        data=st.data(),
    )
    def decide(self, id: str | None, deferred: bool, data: Any) -> Any:
        """A decision for a new id, or one that may be there already."""
        context: list[float] = data.draw(st.lists(NUMBERS, min_size=2, max_size=2))
        eligible = st.sampled_from([None, ["x", "y"], ["z"]])
        about = (
            {"eligible": data.draw(eligible)}
            if self.arms == "fixed"
            else data.draw(offers())
        )
        asked = m.Decide(context=context, id=id, deferred=deferred, **about)
        try:
            answer = self.call(decide(self.experiment, asked, "anyone"))
        except od.Conflict:  # the arm that this id has is not among these
            first = self.experiment.find(id or "")
            assert first is not None
            allowed: Any = about.get("eligible") or about.get("arms")
            assert first[1].arm not in allowed
            return id
        assert abs(sum(answer.odds.values()) - 1) < 1e-12
        repeat: Any = (
            {}
            if self.arms == "fixed"
            else {"arms": {"q": [2.0, 2.0], answer.arm: None}}
        )
        again = m.Decide(context=[9.0, 9.0], id=answer.id, **repeat)
        again = self.call(decide(self.experiment, again, "anyone"))
        assert (again.arm, again.odds, again.position, again.new) == (
            answer.arm,
            answer.odds,
            answer.position,
            False,
        )
        return answer.id

    @rule(id=st.one_of(made, st.sampled_from(IDS)), reward=REWARDS)
    def reward(self, id: str, reward: float) -> None:
        """A reward, early or late; a repeat has no effect, another value is refused."""
        try:
            first = self.call(
                rewards.reward(
                    self.experiment, m.RewardGiven(id=id, reward=reward), "anyone"
                )
            )
        except od.Conflict:
            return
        again = self.call(
            rewards.reward(
                self.experiment, m.RewardGiven(id=id, reward=reward), "anyone"
            )
        )
        assert (again.position, again.new) == (first.position, False)

    @rule(id=made, reward=REWARDS)
    def correct(self, id: str, reward: float) -> None:
        """A correction, where there is something to correct."""
        self.keys += 1
        try:
            self.call(
                rewards.correct(
                    self.experiment,
                    m.Correct(id=id, reward=reward, key=f"k{self.keys}"),
                    "anyone",
                )
            )
        except od.Conflict:
            return

    @rule(id=made)
    def activate(self, id: str) -> None:
        """It was shown."""
        self.call(rewards.activate(self.experiment, m.Activate(id=id), "anyone"))

    @rule(hours=st.sampled_from([10.0, 90.0, 200.0]))
    def wait(self, hours: float) -> None:
        """Time passes, and windows close."""
        self.time += hours
        self.call(self.windows.close_due())

    @rule(expert=st.sampled_from(["ann", "ben", "dot", "eve"]), add=st.booleans())
    def change(self, expert: str, add: bool) -> None:
        """An expert joins or retires, where that means something."""
        self.keys += 1
        asked = m.RosterChange(
            expert=expert,
            change="added" if add else "retired",
            key=f"k{self.keys}",
            share=0.2 if add else None,
        )
        self.call(self.experiment.follower.catch_up())
        try:
            self.call(self.changed(asked))
        except (od.Conflict, od.InvalidInput):
            return

    async def changed(self, asked: m.RosterChange) -> None:
        """The call waits for the learner, whose turns are ours to take."""
        task = asyncio.ensure_future(experts(self.experiment, asked, "anyone"))
        while not task.done():
            await asyncio.sleep(0.001)
            await self.experiment.follower.catch_up()
        await task

    @rule()
    def learn(self) -> None:
        """The learner takes its turn."""
        self.call(self.experiment.follower.catch_up())

    @rule()
    def snapshot(self) -> None:
        """A snapshot of the state as it is."""
        self.call(self.experiment.follower.save())

    @rule()
    def restart(self) -> None:
        """The process ends, and comes back."""
        self.call(self.experiment.end())
        self.begin()

    @rule()
    def replicate(self) -> None:
        """A replica that follows the file is where the service is."""
        self.call(self.experiment.follower.catch_up())
        with SQLiteReader(self.experiment.store.path) as reader:
            opened = self.experiment.setup
            self.replica = advance(
                reader, opened.policy, self.replica, change=opened.change
            )
        now = self.experiment.follower.now
        assert self.replica.position == now.position
        assert bits(self.replica.state) == bits(now.state)

    def teardown(self) -> None:
        """Live, replayed from nothing, and by the model: one state."""
        try:
            if self.experiment is not None:
                self.replicate()
                self.compare()
        finally:
            if self.experiment is not None:
                self.call(self.experiment.end())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
            self.folder.cleanup()

    def compare(self) -> None:
        """The state after all events, three times; and every draw, all odds and what
        experts said, once more."""
        now = self.experiment.follower.now
        file = read_policy(self.path)
        with SQLiteReader(self.experiment.store.path) as reader:
            clean: Any = WithoutSnapshots(reader)
            folded = restore(clean, self.judge(reader), change=roster_change())
            assert bits(
                restore(clean, file.policy, change=roster_change(file.bench)).state
            ) == bits(now.state)
            verdict = verify(reader, policy=file.policy, bench=file.bench)
        assert verdict.holds, verdict
        assert all(level.untested == {} for level in verdict.levels)
        assert folded.state.log_weights.tobytes() == now.state.log_weights.tobytes()
        assert folded.state.learnt == now.state.learnt
        events = [event for _, event in stored(self.experiment.store)]
        prior = {"linear + curves": 0.99, "trees, last 256 rows": 0.01}
        if self.arms != "learnt":
            prior = {"ann": 0.5, "ben": 0.3, "cy": 0.2}
        wanted = posterior_of(list(prior), list(prior.values()), 0.05, events)
        assert self.experiment.weights() == pytest.approx(wanted, abs=1e-9)


def run(examples: int) -> None:
    """50 steps each."""
    steps: Any = {
        "max_examples": examples,
        "stateful_step_count": 50,
        "derandomize": True,
    }
    chosen = settings(deadline=None, suppress_health_check=list(HealthCheck), **steps)
    run_state_machine_as_test(Service, settings=chosen)


def test_any_sequence_gives_the_clean_fold() -> None:
    run(40)


@pytest.mark.soak
def test_any_sequence_gives_the_clean_fold_for_long() -> None:
    run(4000)
