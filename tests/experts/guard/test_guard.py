"""Guards: whatever an expert does, the decision is made from the others, and the
failure has a name."""

import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.losses import domain
from oddsmith.experts import Experts
from oddsmith.experts.guard.policy import guarded

ARMS = ("a", "b")
GOOD = [0.7, 0.4]


def fine(context: Any) -> list[float]:
    return [0.2, 0.8]


def broken(context: Any) -> list[float]:
    raise ZeroDivisionError("boom")


def leave(context: Any) -> Any:
    sys.exit(0)


def interrupt(context: Any) -> Any:
    raise KeyboardInterrupt


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def mute(context: Any) -> Any:
    raise Mute


class Switched(Experts):
    """One expert that says `advice` while it is poisoned, a pair of arrays or whatever
    it is; else what is good."""

    names = ("poison",)

    def __init__(self, advice: Callable[[Any], Any]) -> None:
        self.advice, self.poisoned = advice, True

    def predict(self, state: Any, context: Any) -> Any:
        return self.advise(state, context)[0]

    def advise(self, state: Any, context: Any, eligible: Any = None) -> Any:
        if self.poisoned:
            return self.advice(context)
        return np.array([GOOD]), np.array([[1.0, 0.0]])


def said(*predictions: Any) -> Callable[[Any], Any]:
    return lambda context: (np.array([predictions]), np.array([[1.0, 0.0]]))


def voted(*votes: float) -> Callable[[Any], Any]:
    return lambda context: (np.array([GOOD]), np.array([votes]))


POISONS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "raises": (broken, "raised"),
    "raises what cannot be printed": (mute, "raised"),
    "out of memory": (lambda context: np.zeros(2**60), "raised"),
    "exits": (leave, "raised"),
    "inf": (said(np.inf, 0.1), "values"),
    "-inf": (said(-np.inf, 0.1), "values"),
    "beyond the loss": (said(1.7, 0.1), "values"),
    "complex": (said(1j, 0.1), "values"),
    "objects": (said(object(), 0.1), "values"),
    "texts": (said("x", "y"), "values"),
    "days": (
        lambda context: (
            np.array([["2026-01-01"] * 2], dtype="M8[D]"),
            np.zeros((1, 2)),
        ),
        "values",
    ),
    "too many arms": (said(0.1, 0.2, 0.3), "shape"),
    "huge": (lambda context: (np.zeros((1, 10**7)), np.zeros((1, 10**7))), "shape"),
    "rows of its own": (
        lambda context: (np.zeros((5, 1, 2)), np.zeros((5, 1, 2))),
        "shape",
    ),
    "too many experts": (lambda context: (np.zeros((2, 2)), np.zeros((2, 2))), "shape"),
    "a number": (lambda context: (0.5, 0.5), "shape"),
    "nothing": (lambda context: None, "raised"),
    "negative votes": (voted(-1.0, 2.0), "values"),
    "votes of nan": (voted(np.nan, 1.0), "values"),
    "infinite votes": (voted(np.inf, -np.inf), "values"),
    "too many votes": (voted(1.0, 1.0), "values"),
}


@pytest.mark.parametrize("timeout_ms", [None, 30_000.0])
@pytest.mark.parametrize("name", POISONS)
def test_poison_changes_nothing_for_the_others(
    name: str, timeout_ms: float | None
) -> None:
    advice, kind = POISONS[name]
    poison, sound = Switched(advice), od.FunctionExperts({"fine": fine}, ARMS)
    policy = guarded(
        od.GeneralizedThompsonSampling(od.stack(poison, sound), gamma=0.1), timeout_ms
    )
    alone = od.GeneralizedThompsonSampling(sound, gamma=0.1)
    bank: Any = policy.experts
    for eligible in (None, np.array([True, True]), np.array([True, False])):
        odds = policy.odds(policy.init(), {}, eligible=eligible)
        assert abs(odds.propensities.sum() - 1) < 1e-12
        np.testing.assert_array_equal(
            odds.propensities,
            alone.odds(alone.init(), {}, eligible=eligible).propensities,
        )
    assert bank.failures() == {"poison": {kind: 3}}
    assert list(bank.reasons()) == ["poison"]
    agent = od.Agent(policy, seed=1)
    agent.learn(agent.decide({}), 1)
    # a sleeper is charged the mix, so nobody moves
    assert agent.posterior() == {"poison": 0.5, "fine": 0.5}
    poison.poisoned = False
    np.testing.assert_array_equal(
        policy.odds(policy.init(), {}).advice, [GOOD, [0.2, 0.8]]
    )
    assert bank.failures() == {"poison": {kind: 4}}


@pytest.mark.parametrize("name", POISONS)
def test_unguarded_poison_is_a_failure(name: str) -> None:
    """The same experts without a guard: a decision or what is learnt from it raises, or
    it rules the odds."""
    sound = od.FunctionExperts({"fine": fine}, ARMS)
    agent = od.Agent(
        od.GeneralizedThompsonSampling(
            od.stack(Switched(POISONS[name][0]), sound), gamma=0.1
        ),
        seed=1,
    )
    try:
        odds = agent.decide({}).propensities
        for _ in range(20):
            agent.learn(agent.decide({}), 1)
    except BaseException:
        return
    alone = od.GeneralizedThompsonSampling(sound, gamma=0.1)
    assert not np.allclose(odds, alone.odds(alone.init(), {}).propensities)


def test_no_opinion_is_no_failure() -> None:
    quiet = Switched(lambda context: (np.full((1, 2), np.nan), np.zeros((1, 2))))
    bank = od.Guarded(
        od.stack(quiet, od.FunctionExperts({"half": lambda c: [None, 0.3]}, ARMS))
    )
    np.testing.assert_array_equal(
        bank.predict(bank.init(), {}), [[np.nan, np.nan], [np.nan, 0.3]]
    )
    assert bank.failures() == {}


def test_clipping_does_not_hide_an_infinite_prediction() -> None:
    class Wild:
        def predict(self, rows: Any) -> Any:
            return np.full((len(rows), 2), np.inf)

    clipped = od.experts.Clipped(
        od.FunctionExperts({"one": lambda c: [np.inf, 0.0], "fine": fine}, ARMS)
    )
    bank = od.Guarded(od.stack(od.ModelExperts({"wild": Wild()}, ARMS), clipped))
    assert np.isnan(bank.predict(bank.init(), np.zeros(2))).all(axis=1).tolist() == [
        True,
        True,
        False,
    ]
    assert bank.failures() == {"wild": {"values": 1}, "one": {"values": 1}}


def test_what_a_loss_can_score_is_no_failure() -> None:
    """A linear model may say 1.02: square loss scores it, log loss cannot."""
    linear = od.LinearExperts(np.array([[[1.02], [0.5]]]), link="identity", arms=ARMS)
    for loss, failures in (
        (od.square_loss, {}),
        (od.log_loss, {"expert 0": {"values": 1}}),
    ):
        policy = guarded(od.GeneralizedThompsonSampling(linear, loss, gamma=0.1))
        policy.odds(policy.init(), np.ones(1))
        bank: Any = policy.experts
        assert bank.failures() == failures
    assert domain(od.losses.scaled(od.log_loss, 2.0)) == (0.0, 1.0)


def test_in_a_batch_the_expert_sleeps_on_every_row() -> None:
    def picky(context: Any) -> list[float]:
        return [np.inf if context["x"] == 1 else 0.1, 0.3]

    bank = od.Guarded(od.FunctionExperts({"fine": fine, "picky": picky}, ARMS))
    predictions, ballots = bank.advise((), [{"x": 0}, {"x": 1}, {"x": 2}])
    assert np.isnan(predictions[:, 1]).all()
    np.testing.assert_array_equal(ballots[:, 0], [[0, 1]] * 3)
    assert bank.failures() == {"picky": {"values": 1}}


def test_a_wrapped_policy_keeps_its_bounds_and_its_name() -> None:
    policy = od.Bounded(
        od.GeneralizedThompsonSampling(
            od.FunctionExperts({"b": broken}, ARMS), gamma=0.0
        ),
        floors=[0.3, 0.0],
    )
    safe: Any = guarded(policy, 500)
    assert safe.odds(safe.init(), {}).propensities.tolist() == [0.5, 0.5]
    assert od.fingerprint(safe) == od.fingerprint(policy)
    assert guarded(safe) is not policy
    assert guarded(safe).policy.experts is safe.policy.experts
    counting = od.policies.UCB1(2)
    assert guarded(counting) is counting
    oracles: Any = {"mixture": (0.0, 1.0), "vovk": (-1e6, 1e6)}
    for oracle, scored in oracles.items():
        bank: Any = guarded(
            od.policies.SquareCB(od.GivenExperts(["a"]), 20.0, oracle=oracle)
        ).experts
        assert bank.within == scored


def test_everybody_failing_is_uniform_and_still_a_decision() -> None:
    bank = od.Guarded(od.FunctionExperts({"broken": broken}, ARMS))
    agent = od.Agent(od.GeneralizedThompsonSampling(bank, gamma=0.1), seed=1)
    np.testing.assert_allclose(agent.decide({}).propensities, 0.5)
    batch = agent.decide_batch([{}, {}, {}])
    assert batch.propensities.shape == (3, 2)
    agent.learn(batch, [1, 0, 1])
    assert agent.state.learnt == 3
    # a bank that does not know the arms
    nameless = od.Guarded(Switched(broken), arms=ARMS)
    assert nameless.predict((), {}).shape == (1, 2)
    with pytest.raises(od.errors.ExpertFailed, match="none names its arms"):
        od.Guarded(Switched(broken)).predict((), {})


def test_a_real_interrupt_stops_the_program(interruptible: None) -> None:
    def pressed(context: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return GOOD

    with pytest.raises(KeyboardInterrupt):
        od.Guarded(od.FunctionExperts({"long": pressed}, ARMS)).predict((), {})
    # the thread is its own
    bank = od.Guarded(od.FunctionExperts({"rude": interrupt}, ARMS), timeout_ms=30000)
    assert np.isnan(bank.predict((), {})).all()
    assert bank.failures() == {"rude": {"raised": 1}}


def test_a_guard_is_no_part_of_the_fingerprint(tmp_path: Any) -> None:
    plain = od.GeneralizedThompsonSampling(
        od.FunctionExperts({"fine": fine}, ARMS), gamma=0.1
    )
    safe = guarded(plain, timeout_ms=500)
    assert (
        od.fingerprint(plain) == od.fingerprint(safe) == od.fingerprint(guarded(plain))
    )
    for one, other in ((plain, safe), (safe, plain)):
        od.Agent(one, seed=1).save(tmp_path / "agent.npz")
        assert od.Agent.load(tmp_path / "agent.npz", other).seed == 1
