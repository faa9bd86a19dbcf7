"""Any sequence of events, repeats, snapshots, erasures and restarts gives the state of
the clean fold, bit for bit."""

from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

import oddsmith as od
from oddsmith.core.errors import Conflict, InvalidInput
from oddsmith.server.fold.fold import advance, restore, save_snapshot
from oddsmith.server.store import (
    Activation,
    Correction,
    DecisionMade,
    DefaultReward,
    Event,
    PostgresStore,
    Reward,
    SQLiteStore,
    Store,
)
from oddsmith.server.store.protocol import RULES, Late, Rule
from server.store.postgres_server import Server
from server.store.samples import bits, made, offer_of, policy, reference

IDS = st.sampled_from("abc")
VALUES = st.sampled_from([0.0, 0.25, 1.0])


class Machine(RuleBasedStateMachine):
    """A store, a live state that follows it, and the list of what was accepted."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.judge = self.policy()
        self.accepted: list[tuple[int, Event]] = []

    def policy(self) -> od.Policy:
        return policy()

    def made(self, id: str, seed: int = 0, deferred: bool = False) -> DecisionMade:
        return made(id, seed=seed, deferred=deferred)

    @initialize(
        kind=st.sampled_from(RULES), late=st.sampled_from(["arrives", "rewrites"])
    )
    def begin(self, kind: Rule, late: Late) -> None:
        self.kind: Rule = kind
        self.late: Late = late
        self.open()
        self.live, self.replica = (
            restore(self.store, self.judge),
            restore(self.store, self.judge),
        )

    def open(self) -> None:
        path = Path(self.folder.name) / "events.sqlite"
        self.store: Store = SQLiteStore(
            path, self.judge, rule=self.kind, late=self.late
        )

    def append(self, event: Event) -> None:
        receipt = self.store.append([event]).result()[0]
        if receipt.new:
            self.accepted.append((receipt.position, event))
        elif receipt.refused is not None:
            assert isinstance(receipt.refused, Conflict | InvalidInput)

    @rule(id=IDS, seed=st.integers(0, 1), deferred=st.booleans())
    def decide(self, id: str, seed: int, deferred: bool) -> None:
        self.append(self.made(id, seed, deferred))

    @rule(id=IDS, value=VALUES, snapshot=st.booleans())
    def decide_and_settle(self, id: str, value: float, snapshot: bool) -> None:
        """The usual course of things, and what a correction then has to rewrite."""
        for event in (
            self.made(id),
            Reward(id, value, 0.0),
            DefaultReward(id, 0.0, 0.0),
        ):
            self.append(event)
            self.the_live_state_is_the_clean_fold()
            if snapshot:
                self.snapshot()

    @rule(id=IDS)
    def activate(self, id: str) -> None:
        self.append(Activation(id, 0.0))

    @rule(id=IDS, value=VALUES, key=st.sampled_from(["", "x", "y"]))
    def reward(self, id: str, value: float, key: str) -> None:
        self.append(Reward(id, value, 0.0, key if self.kind == "sum" else ""))

    @rule(id=IDS, value=VALUES)
    def default(self, id: str, value: float) -> None:
        self.append(DefaultReward(id, value, 0.0))

    @rule(id=IDS, value=VALUES, key=st.sampled_from(["x", "y"]))
    def correct(self, id: str, value: float, key: str) -> None:
        self.append(Correction(id, value, 0.0, key))

    @rule()
    def snapshot(self) -> None:
        save_snapshot(self.store, self.live, 0.0)

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.open()
        self.live = restore(self.store, self.judge)

    @precondition(lambda self: not self.judge.experts.learns)  # learners need contexts
    @rule()
    def erase(self) -> None:
        self.store.erase(before=1.0)

    @precondition(lambda self: len(self.accepted) > 2)
    @rule(back=st.integers(0, 2))
    def follow_a_little(self, back: int) -> None:
        """A replica that is behind, at any position."""
        until = max(self.replica.position, self.accepted[-1 - back][0])
        self.replica = advance(self.store, self.judge, self.replica, until=until)
        known = [row for row in self.accepted if row[0] <= until]
        assert bits(self.replica.state) == bits(self.folded(known))

    def folded(self, events: list[tuple[int, Event]]) -> Any:
        return reference(self.judge, events, self.kind, self.late, self.store.secret)

    @invariant()
    def the_live_state_is_the_clean_fold(self) -> None:
        if hasattr(self, "live"):
            self.live = advance(self.store, self.judge, self.live)
            assert self.live.position == max(
                (position for position, _ in self.accepted), default=0
            )
            assert bits(self.live.state) == bits(self.folded(self.accepted))

    def teardown(self) -> None:
        if hasattr(self, "store"):
            assert bits(restore(self.store, self.judge).state) == bits(self.live.state)
            self.store.close()
        self.folder.cleanup()


class PostgresMachine(Machine):
    """The same on PostgreSQL."""

    server: ClassVar[Server]
    names = count()

    def __init__(self) -> None:
        super().__init__()
        self.experiment = f"any-order-{next(self.names)}"

    def open(self) -> None:
        url = self.server.url()
        self.store = PostgresStore(
            url, self.judge, experiment=self.experiment, rule=self.kind, late=self.late
        )


@cache
def offered(id: str, seed: int) -> od.Decision:
    """A decision of learners over the arms that came with the call."""
    offer = next(
        offer for i in count() if (offer := offer_of(id, 10 * i + seed)) is not None
    )
    agent = od.Agent(od.auto(size="small"), seed=seed)
    return agent.decide(
        {"hour": len(id) + seed}, arms=offer.features or list(offer.arms)
    )


class OfferMachine(Machine):
    """The same with learners, whose arms come with the calls."""

    def policy(self) -> od.Policy:
        return od.auto(size="small")

    def made(self, id: str, seed: int = 0, deferred: bool = False) -> DecisionMade:
        return DecisionMade(id, offered(id, seed), 0, 0.0, deferred)


@pytest.fixture(scope="module")
def _started(server: Server) -> None:
    PostgresMachine.server = server


TestAnyOrder: Any = Machine.TestCase
TestAnyOrder.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestAnyOrderOfOffers: Any = OfferMachine.TestCase
TestAnyOrderOfOffers.settings = settings(
    max_examples=8, stateful_step_count=30, deadline=None
)
TestAnyOrderOnPostgres: Any = pytest.mark.usefixtures("_started")(
    PostgresMachine.TestCase
)
TestAnyOrderOnPostgres.settings = settings(
    max_examples=6, stateful_step_count=30, deadline=None
)
