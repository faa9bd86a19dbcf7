"""Any sequence of calls, restarts, snapshots and replicas gives the state of the clean fold (B3 of the test plan)."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import oddsmith as od
from oddsmith.policies.judge import judge_from_json
from oddsmith.service import deciding, handlers
from oddsmith.service import messages as m
from oddsmith.service.clock import Clock
from oddsmith.service.experiment import Experiment
from oddsmith.service.opening import open_experiments
from oddsmith.service.windows import Windows
from oddsmith.storage import Folded, SQLiteReader, advance, restore, roster_change
from service.model import posterior_of
from storage.samples import WithoutSnapshots, stored

IDS = ["a", "b", "c", "d"]
REWARDS = st.sampled_from([0.0, 0.25, 1.0])


def write_policy(folder: Path) -> Path:
    """Three experts, one of them asleep at times, and two more on the bench."""
    rng = np.random.default_rng(3)
    np.savez(folder / "lines.npz", weights=rng.normal(size=(3, 3, 2)), names=["ann", "ben", "cy"])
    for name in ("dot", "eve"):
        np.savez(folder / f"{name}.npz", weights=rng.normal(size=(1, 3, 2)), names=[name])
    bench = "".join(
        f'[experts.{name}]\nkind = "linear"\nfile = "{name}.npz"\njoins = true\n' for name in ("dot", "eve")
    )
    policy = folder / "news.toml"
    policy.write_text(
        'arms = ["x", "y", "z"]\nseed = 3\npolicy.share = 0.05\npolicy.gamma = 0.1\n'
        "policy.prior.lines = { ann = 0.5, ben = 0.3, cy = 0.2 }\n"
        f'[experts.lines]\nkind = "linear"\nfile = "lines.npz"\n{bench}'
        "[service]\nwindow_s = 100\ndefault_reward = 0.25\nsnapshot_every = 7\n"
    )
    return policy


class Service(RuleBasedStateMachine):
    """An experiment as the service runs it, a replica that follows the file, and the model."""

    made = Bundle("made")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = write_policy(Path(self.folder.name))
        self.loop = asyncio.new_event_loop()
        self.time, self.keys, self.count = 0.0, 0, 0
        self.experiment: Any = None
        self.replica: Any = None

    @initialize()
    def begin(self) -> None:
        """Open the experiment; nothing runs by itself, so that every step is ours."""

        async def start() -> Experiment:
            opened = open_experiments([self.path])[0]
            experiment = Experiment(opened, Clock(wall=lambda: 0.0, steady=lambda: self.time))
            await experiment.follower.begin()
            experiment.steps = experiment.store.tally().get("decision", 0)
            self.windows = Windows(opened.store, experiment.writer, experiment.clock, 100.0, 0.25)
            return experiment

        self.experiment = self.loop.run_until_complete(start())
        if self.replica is None:
            policy = self.experiment.opened.policy
            self.replica = Folded(policy.init(), 0, policy)

    def judge(self, reader: SQLiteReader) -> Any:
        return judge_from_json(reader.about["judge"])

    def call(self, coroutine: Any) -> Any:
        self.time += 1
        return self.loop.run_until_complete(coroutine)

    @rule(target=made, id=st.sampled_from([*IDS, None]), deferred=st.booleans(), data=st.data())
    def decide(self, id: str | None, deferred: bool, data: Any) -> Any:
        """A decision for a new id, or one that may be there already."""
        context: list[float] = data.draw(st.lists(st.sampled_from([-1.0, 0.0, 2.0]), min_size=2, max_size=2))
        eligible = data.draw(st.sampled_from([None, ["x", "y"], ["z"]]))
        asked = m.Decide(context=context, id=id, deferred=deferred, eligible=eligible)
        answer = self.call(deciding.decide(self.experiment, asked, "anyone"))
        assert abs(sum(answer.odds.values()) - 1) < 1e-12
        again = self.call(deciding.decide(self.experiment, m.Decide(context=[9.0, 9.0], id=answer.id), "anyone"))
        assert (again.arm, again.odds, again.position, again.new) == (answer.arm, answer.odds, answer.position, False)
        return answer.id

    @rule(id=st.one_of(made, st.sampled_from(IDS)), reward=REWARDS)
    def reward(self, id: str, reward: float) -> None:
        """A reward, early or late; a repeat has no effect, another value is refused."""
        try:
            first = self.call(handlers.reward(self.experiment, m.RewardGiven(id=id, reward=reward), "anyone"))
        except od.Conflict:
            return
        again = self.call(handlers.reward(self.experiment, m.RewardGiven(id=id, reward=reward), "anyone"))
        assert (again.position, again.new) == (first.position, False)

    @rule(id=made, reward=REWARDS)
    def correct(self, id: str, reward: float) -> None:
        """A correction, where there is something to correct."""
        self.keys += 1
        try:
            self.call(handlers.correct(self.experiment, m.Correct(id=id, reward=reward, key=f"k{self.keys}"), "anyone"))
        except od.Conflict:
            return

    @rule(id=made)
    def activate(self, id: str) -> None:
        """It was shown."""
        self.call(handlers.activate(self.experiment, m.Activate(id=id), "anyone"))

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
            expert=expert, change="added" if add else "retired", key=f"k{self.keys}", share=0.2 if add else None
        )
        self.call(self.experiment.follower.catch_up())
        try:
            self.call(self.changed(asked))
        except (od.Conflict, od.InvalidInput):
            return

    async def changed(self, asked: m.RosterChange) -> None:
        """The call waits for the learner, whose turns are ours to take."""
        task = asyncio.ensure_future(handlers.experts(self.experiment, asked, "anyone"))
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
            opened = self.experiment.opened
            self.replica = advance(reader, opened.policy, self.replica, change=opened.change)
        now = self.experiment.follower.now
        assert self.replica.position == now.position
        assert self.replica.state.log_weights.tobytes() == now.state.log_weights.tobytes()

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
        """The state after all events, three times."""
        now = self.experiment.follower.now
        with SQLiteReader(self.experiment.store.path) as reader:
            clean: Any = WithoutSnapshots(reader)
            folded = restore(clean, self.judge(reader), change=roster_change())
        assert folded.state.log_weights.tobytes() == now.state.log_weights.tobytes()
        assert folded.state.learnt == now.state.learnt
        events = [event for _, event in stored(self.experiment.store)]
        wanted = posterior_of(["ann", "ben", "cy"], [0.5, 0.3, 0.2], 0.05, events)
        assert self.experiment.weights() == pytest.approx(wanted, abs=1e-9)


def run(examples: int) -> None:
    """50 steps each."""
    steps: Any = {"max_examples": examples, "stateful_step_count": 50, "derandomize": True}
    chosen = settings(deadline=None, suppress_health_check=list(HealthCheck), **steps)
    run_state_machine_as_test(Service, settings=chosen)


def test_any_sequence_gives_the_clean_fold() -> None:
    run(40)


@pytest.mark.soak
def test_any_sequence_gives_the_clean_fold_for_long() -> None:
    run(4000)
