"""Untouched stores verify clean, on all levels; what could not be checked is counted,
with the reason."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core import kernels
from oddsmith.server.audit import Level, Miss, VerifyReport, verify
from oddsmith.server.audit import walk as walking
from oddsmith.server.audit.walk import start_of, walk
from oddsmith.server.fold.fold import FoldState, roster_change, save_snapshot
from oddsmith.server.fold.judge import judge
from oddsmith.server.store import Correction, Line, Reward, SQLiteStore, open_reader
from oddsmith.server.store.protocol import Rule
from server.audit.served import ARMS, Served, lived, newcomer, policy
from server.fold.memory import Memory
from server.store.samples import bits, made, reference, stored

BENCH = {"late": newcomer()}
LEVELS = ["facts", "events", "draw", "odds", "states"]
POLICIES: dict[str, Any] = {
    "plain": policy(),
    "drifting": policy(share=0.02, discount=0.99),
    "schedule, square": policy(
        gamma=od.policies.PowerSchedule(0.5), eta=1.0, loss=od.square_loss, optimism=0.1
    ),
    "bounds": od.Bounded(policy(), floors=[0.05, 0.0, 0.1], caps=0.8),
    "groups": od.Bounded(
        policy(),
        floors=0.01,
        cap_groups=[
            od.policies.CapGroup(0.5, arms=ARMS[:2]),
            od.policies.CapGroup(0.2, arms=ARMS[1:2]),
        ],
    ),
}


class Weak(od.Experts):
    """The second of two experts has no opinion while it is tired."""

    names, arms, tired = ("a", "b"), ARMS, True

    def predict(self, state: Any, context: Any) -> Any:
        said = np.array([[0.2, 0.5, 0.6], [0.4, 0.3, 0.7]])
        return np.where(self.tired * np.array([[False], [True]]), np.nan, said)


def counts(verdict: VerifyReport) -> dict[str, tuple[int, int, dict[str, int]]]:
    return {
        level.name: (level.checked, level.followed, dict(level.untested))
        for level in verdict.levels
    }


@pytest.mark.parametrize("rule", ["first", "first_at_close", "sum"])
@pytest.mark.parametrize("kind", POLICIES)
def test_what_was_served_follows(tmp_path: Path, kind: str, rule: Rule) -> None:
    with lived(
        Served(tmp_path / "s", POLICIES[kind], rule=rule, bench=BENCH), 120
    ).store as store:
        verdict = verify(store, policy=POLICIES[kind], bench=BENCH)
        shadows = sum(
            found.shadow
            for found in store.evidence(
                [v.line.position for v in walk(store, None, None, store.head())]
            )
        )
    assert 0 < shadows < 60
    assert verdict.holds
    assert not verdict.misses
    drawn: tuple[int, int, dict[str, int]] = (
        120,
        120,
        {},
    )  # of incumbents, what the policy would have done
    events = verdict.events
    levels = {
        "events": (events, events, {}),
        "draw": drawn,
        "odds": drawn,
        "experts": (120, 120, {}),
    }
    assert counts(verdict) == levels | {"facts": (6, 6, {}), "states": (2, 2, {})}
    assert (verdict.experiment, verdict.decisions) == ("news", 120)
    with open_reader(str(tmp_path / "s")) as reader:
        assert [level.name for level in verify(reader).levels] == LEVELS


@pytest.mark.parametrize(
    "sizes", [{}, {"_WINDOW": 7, "_BEHIND": 11, "_APART": 4, "_DENSE": 2, "_CHUNK": 5}]
)
def test_every_state_is_the_fold_by_its_definition(
    tmp_path: Path, monkeypatch: Any, sizes: dict[str, int]
) -> None:
    """Against the fold written down in the tests of storage; corrections rewrite what
    was learnt, near and far back."""
    for name, size in sizes.items():
        monkeypatch.setattr(walking, name, size)
    mine = policy(share=0.05)
    with lived(Served(tmp_path / "s", mine), 150, rosters=False).store as store:
        alone: Any = judge(mine)
        events = stored(store)
        assert sum(isinstance(event, Correction) for _, event in events) > 3
        seen = -1
        for visit in walk(store, start_of(store, alone), None, store.head()):
            assert visit.folded is not None
            assert visit.line.seen is not None
            assert visit.line.seen >= seen
            seen = visit.line.seen
            assert visit.folded.position == seen
            by_definition = reference(alone, [(p, e) for p, e in events if p <= seen])
            assert bits(visit.folded.state) == bits(by_definition)


def test_learners_are_folded_along(tmp_path: Path) -> None:
    mine = od.auto(ARMS, size="small")
    service = lived(Served(tmp_path / "s", mine), 80, rosters=False)
    with service.store as store:
        verdict = verify(store, policy=od.auto(ARMS, size="small"))
        assert verdict.holds
        assert counts(verdict)["experts"] == (80, 80, {})
        store.erase(service.time - 40)  # the older contexts
        erased = counts(verify(store, policy=od.auto(ARMS, size="small")))
        assert erased["odds"] == counts(verdict)["odds"]  # needs no contexts
        checked, followed, untested = erased["experts"]
        assert checked == followed < 10
        assert any(why.startswith("the fold stops before position") for why in untested)


def test_erased_contexts_of_fixed_experts_cost_their_own_check_only(
    tmp_path: Path,
) -> None:
    service = lived(Served(tmp_path / "s", policy(), bench=BENCH), 60)
    with service.store as store:
        half = service.time - 50
        erased = store.erase(half)
        assert 0 < erased < 60
        found = counts(verify(store, policy=policy(), bench=BENCH))
        assert found["experts"] == (
            60 - erased,
            60 - erased,
            {"its context was erased": erased},
        )


def test_policies_without_a_judge_need_their_models(tmp_path: Path) -> None:
    other = od.policies.SquareCB(
        od.TableExperts(np.random.default_rng(1).uniform(0.1, 0.9, (4, 2, 3))), 10.0
    )
    service = Served(tmp_path / "s", other)
    for i in range(20):
        service.decide(f"d{i}", i % 4)
        service.reward(f"d{i}", float(i % 3 == 0))
        service.follow()
    with service.store as store:
        assert counts(verify(store))["odds"] == (
            0,
            0,
            {"the store does not describe how its policy weighs votes": 20},
        )
        verdict = verify(store, policy=other)
        assert verdict.holds
        assert counts(verdict)["odds"] == counts(verdict)["experts"] == (20, 20, {})
        wrong = od.policies.SquareCB(other.experts, 11.0)
        assert not verify(store, policy=wrong).holds


def test_a_loss_of_ones_own_is_judged_by_the_policy_that_is_given(
    tmp_path: Path,
) -> None:
    mine = policy(loss=od.losses.scaled(od.log_loss, 2.0))
    with lived(Served(tmp_path / "s", mine, bench=BENCH), 40).store as store:
        assert counts(verify(store))["odds"][0] == 0
        assert counts(verify(store, policy=mine, bench=BENCH))["odds"][:2] > (30, 30)


def test_a_fitted_state_may_be_the_beginning(tmp_path: Path) -> None:
    mine = policy()
    state = mine.init()._replace(log_weights=np.array([-1.0, 0.0, -2.0]), learnt=9)
    with SQLiteStore(tmp_path / "s", mine, about={"seed": 41}) as store:
        save_snapshot(store, FoldState(state, 0, mine), 0.0)
    service = lived(Served(tmp_path / "s", mine), 30, rosters=False)
    with service.store as store:
        assert service.folded.state.learnt > 9
        assert verify(store, policy=mine).holds
        alone: Any = judge(mine)
        assert bits(start_of(store, alone).state.log_weights) == bits(state.log_weights)


def test_another_policy_is_refused_and_a_missing_expert_is_said(tmp_path: Path) -> None:
    with lived(Served(tmp_path / "s", policy(), bench=BENCH), 60).store as store:
        with pytest.raises(
            od.BadFile, match=r"the store was made with; policy.gamma was 0.1, is 0.2"
        ):
            verify(store, policy=policy(gamma=0.2))
        (*_, experts) = verify(store, policy=policy()).levels
        assert experts.checked == experts.followed > 0
        assert any("'late' joined at position" in why for why in experts.untested)


def test_experts_that_failed_then_are_not_held_to_what_they_say_now(
    tmp_path: Path,
) -> None:
    bank = Weak()
    mine = od.GeneralizedThompsonSampling(bank, gamma=0.0)
    service = Served(tmp_path / "s", mine)
    service.decide("d", 0)
    bank.tired = False
    service.decide("e", 0)
    with service.store as store:
        verdict = verify(store, policy=mine)
        assert counts(verdict)["experts"] == (
            1,
            1,
            {"an expert made no prediction then that makes one now": 1},
        )
        bank.tired = True
        assert [miss.id for miss in verify(store, policy=mine).misses] == ["e"]


def test_other_roundings_are_told_from_other_odds(tmp_path: Path) -> None:
    """Numpy and compiled kernels differ in last bits: a verdict says so, and a
    tolerance lets it pass."""
    before = kernels.choice()
    try:
        kernels.use("numpy")
        service = lived(Served(tmp_path / "s", policy(), bench=BENCH), 150)
        kernels.use("numba")
        with service.store as store:
            verdict = verify(store)
            assert not verdict.holds
            assert verdict.rounding
            assert verify(store, tolerance=1e-12).holds
            assert not verify(store, tolerance=1e-17).holds
            with pytest.raises(od.InvalidInput, match="tolerance"):
                verify(store, tolerance=0.1)
    finally:
        kernels.use(before)


@pytest.mark.parametrize("what", ["log_weights", "advice"])
def test_sleepers_are_held_to_the_weights_and_to_silence(
    tmp_path: Path, what: str
) -> None:
    """A weight that is one ulp off, and advice of one who did not vote."""
    service = Served(tmp_path / "s", policy())
    service.decide("awake", [0.4, 0.2])
    service.decide("slept", [-0.4, 0.2])
    service.store.close()
    with closing(sqlite3.connect(tmp_path / "s")) as connection, connection:
        (content,) = connection.execute(
            "select numbers from events where position = 2"
        ).fetchone()
        # odds, advice, log weights: three of each
        numbers = np.frombuffer(content[: 9 * 8], dtype="<f8").copy()
        numbers[7 if what == "log_weights" else 5] = (
            np.nextafter(numbers[7], -9.0) if what == "log_weights" else 0.5
        )
        connection.execute(
            "update events set numbers = ? where position = 2",
            (numbers.tobytes() + content[9 * 8 :],),
        )
    connection.close()
    with open_reader(str(tmp_path / "s")) as reader:
        (miss,) = verify(reader).misses
    assert (miss.level, miss.id) == ("odds", "slept")
    assert miss.recorded.startswith(what.replace("_", " "))


def test_a_verdict_is_json_and_says_what_it_found() -> None:
    level = Level(
        "odds", misses=[Miss("odds", "d7", 12, "0.5", "0.25")], checked=2, followed=1
    )
    verdict = VerifyReport("news", 12, 2, (level,))
    assert not verdict.holds
    assert (
        str(verdict.misses[0]) == "odds, position 12 'd7': recorded 0.5; 0.25 follows"
    )
    levels = verdict.record()["levels"]
    assert isinstance(levels, dict)
    assert levels["odds"]["misses"][0]["recorded"] == "0.5"


def test_a_roster_change_needs_a_share(tmp_path: Path) -> None:
    change = roster_change()
    line = Line(3, "expert added", "late", "k", None, 0.0, False, None)
    with pytest.raises(
        od.InvalidInput,
        match="share of expert 'late' must be between 0 and 1; got None",
    ):
        change(policy(), policy().init(), line)


def test_places_are_files_of_the_right_experiment(tmp_path: Path) -> None:
    Served(tmp_path / "s", policy()).store.close()
    open_reader(str(tmp_path / "s"), "news").close()
    with pytest.raises(
        od.InvalidInput,
        match="must be the store of experiment 'other'; it belongs to 'news'",
    ):
        open_reader(str(tmp_path / "s"), "other")
    with pytest.raises(od.InvalidInput, match=r"an address that starts with redis://$"):
        open_reader("redis://user:secret@host/0")


@pytest.mark.parametrize("shadow", [True, False])
def test_where_an_incumbent_acted_our_own_draw_and_odds_are_checked(
    tmp_path: Path, shadow: bool
) -> None:
    """In shadow mode, and where a client has fallen back: all records follow; our arm
    or odds changed are found."""
    service = Served(tmp_path / "s", policy(), shadow=shadow)
    for i in range(6):
        service.decide(f"d{i}", [0.4, 0.2], incumbent=i % 3)
    service.store.close()
    with closing(open_reader(str(tmp_path / "s"))) as reading:
        verdict = verify(reading)
        assert verdict.complete
        assert counts(verdict)["draw"] == counts(verdict)["odds"] == (6, 6, {})
    for level in ("draw", "odds"):
        copy = tmp_path / level
        shutil.copy(tmp_path / "s", copy)
        with closing(sqlite3.connect(copy)) as connection, connection:
            body = json.loads(
                connection.execute(
                    "select body from events where position = 3"
                ).fetchone()[0]
            )
            own = body["shadow"]
            odds = [own["odds"][0] + 1e-12, *own["odds"][1:]]
            changed = (
                {"would": (own["would"] + 1) % 3} if level == "draw" else {"odds": odds}
            )
            text = json.dumps(body | {"shadow": own | changed})
            connection.execute("update events set body = ? where position = 3", (text,))
        connection.close()
        with closing(open_reader(str(copy))) as reading:
            assert [(miss.level, miss.id) for miss in verify(reading).misses] == [
                (level, "d2")
            ]


@pytest.mark.parametrize("rule", ["first", "first_at_close", "sum"])
def test_what_was_served_follows_where_late_rewards_rewrite(
    tmp_path: Path, rule: Rule
) -> None:
    served = Served(
        tmp_path / "s", POLICIES["drifting"], rule=rule, late="rewrites", bench=BENCH
    )
    with lived(served, 120).store as store:
        assert verify(store, policy=POLICIES["drifting"], bench=BENCH).holds


def test_positions_that_are_far_apart_are_not_walked_one_by_one() -> None:
    """As those of a server are: 2²⁰ from one transaction to the next."""
    store: Any = Memory(step=2**20)
    store.append(
        *(
            event
            for i in range(30)
            for event in (made(f"d{i}"), Reward(f"d{i}", 0.5, 0.0))
        )
    )
    read, asked = store.lines, list[int]()

    def noted(after: int, until: int) -> Any:
        asked.append(after)
        assert len(asked) < 10
        return read(after, until)

    store.lines = noted
    store.history = lambda ids, until: [
        line for line in read(0, until) if line.id in ids
    ]
    assert len(list(walking.Ahead(store, store.head()).lines(0, store.head()))) == 60
