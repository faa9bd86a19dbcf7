"""Advice has names: a policy learns from what its own experts said, whatever their
order; others are asked anew."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.logs.advice import decisions_for

ARMS = ("left", "right")
RNG = np.random.default_rng(3)
CONTEXTS = RNG.random((40, 2))
MEANS = np.clip(CONTEXTS, 0.1, 0.9)  # the context is what each arm earns
FORMATS = ("parquet", "csv", "jsonl", "dsjson")


def good(x: Any) -> Any:
    return np.clip(x, 0.1, 0.9)


def bad(x: Any) -> Any:
    return 1 - good(x)


def flat(x: Any) -> Any:
    return np.full(2, 0.4)


SAYS = {"good": good, "bad": bad, "flat": flat}


def bank(*names: str) -> od.FunctionExperts:
    return od.FunctionExperts({name: SAYS[name] for name in names}, ARMS)


def gts(*names: str) -> od.GeneralizedThompsonSampling:
    return od.GeneralizedThompsonSampling(bank(*names), od.log_loss, eta=0.5, gamma=0.1)


def logged(policy: Any, **names: Any) -> od.Log:
    agent = od.Agent(policy, seed=5, arms=ARMS)
    decisions = [agent.decide(x) for x in CONTEXTS]
    rewards = [
        float(RNG.random() < MEANS[t, d.number]) for t, d in enumerate(decisions)
    ]
    return od.Log.of(decisions, rewards, arms=ARMS, **names)


LOG = logged(gts("good", "bad"), experts=("good", "bad"))


def by_hand(log: od.Log, *names: str) -> dict[str, float]:
    """The posterior from what the experts say of the drawn arms, by the formula."""
    losses = {}
    for name in names:
        said = np.array(
            [SAYS[name](x)[arm] for x, arm in zip(CONTEXTS, log.arm, strict=True)]
        )
        losses[name] = -np.log(np.where(log.reward == 1, said, 1 - said)).sum()
    least = min(losses.values())
    weights = {name: np.exp(-0.5 * (loss - least)) for name, loss in losses.items()}
    return {name: weight / sum(weights.values()) for name, weight in weights.items()}


def fitted(policy: Any, log: Any) -> dict[str, float]:
    fit = od.fit_log(policy, log)
    return dict(zip(policy.experts.names, policy.posterior(fit.state), strict=True))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("names", [("good", "bad"), ("bad", "good"), ("good",)])
def test_advice_is_found_by_name_in_every_format(
    form: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / f"log.{form}"
    od.write_log(LOG, path)
    again = od.read_log(path, arms=ARMS)
    assert again.experts == LOG.experts
    np.testing.assert_array_equal(again.advice, LOG.advice)
    bare = again.without("context")
    for log in (path, bare):  # which needs nobody's word but the log's
        assert fitted(gts(*names), log) == pytest.approx(
            by_hand(LOG, *names), rel=1e-12
        )
    assert od.fit_log(gts(*names), bare).computed == 0


def test_only_those_that_the_log_does_not_have_are_asked() -> None:
    calls: list[str] = []

    def heard(name: str) -> Any:
        def says(x: Any) -> Any:
            calls.append(name)
            # not what was logged
            return flat(x) if name == "flat" else np.full(2, 0.99)

        return says

    experts = od.FunctionExperts(
        {name: heard(name) for name in ("flat", "bad", "good")}, ARMS
    )
    policy = od.GeneralizedThompsonSampling(experts, od.log_loss, eta=0.5, gamma=0.1)
    decisions = decisions_for(policy, policy.init(), LOG)
    advice = np.asarray(decisions.advice)
    np.testing.assert_array_equal(advice[:, 0], 0.4)
    np.testing.assert_array_equal(advice[:, [2, 1]], LOG.advice)
    assert "flat" in calls
    fit = od.fit_log(policy, LOG)
    assert fit.computed == len(LOG)
    assert policy.posterior(fit.state) == pytest.approx(
        list(by_hand(LOG, "flat", "bad", "good").values()), rel=1e-12
    )


@pytest.mark.parametrize("wrap", [False, True])
def test_without_contexts_they_are_refused_by_name(wrap: bool) -> None:
    policy = gts("good", "flat", "bad")
    refused = (
        "column advice: must contain the expert 'flat', or context must be given so that "
        "it can predict; got advice of good, bad"
    )
    with pytest.raises(od.InvalidInput, match=refused):
        od.fit_log(
            od.Bounded(policy, 0.01, 1.0) if wrap else policy, LOG.without("context")
        )


def test_advice_without_names_is_its_own_policys_alone() -> None:
    policy = gts("bad", "good")
    unnamed = od.Log(**LOG.columns(), arms=ARMS)
    assert unnamed.experts is None
    fit = od.fit_log(policy, unnamed)  # asked anew, since nothing says whose it is
    assert fit.computed == len(LOG)
    assert fitted(policy, unnamed) == pytest.approx(
        by_hand(LOG, "bad", "good"), rel=1e-12
    )
    with pytest.raises(
        od.InvalidInput, match="experts of its columns are not known: name them"
    ):
        od.fit_log(policy, unnamed.without("context"))
    named = od.read_log(unnamed.without("context"), experts=["good", "bad"])
    assert fitted(policy, named) == pytest.approx(
        by_hand(LOG, "bad", "good"), rel=1e-12
    )
    own = gts("good", "bad")
    marked = od.Log(
        **LOG.columns(), arms=ARMS, fingerprint=[od.fingerprint(own)] * len(LOG)
    ).without("context")
    assert od.fit_log(own, marked).computed == 0
    assert fitted(own, marked) == pytest.approx(by_hand(LOG, "good", "bad"), rel=1e-12)
    with pytest.raises(od.InvalidInput, match="experts of its columns are not known"):
        od.fit_log(policy, marked)


def test_predictions_are_no_votes() -> None:
    """EXP4 learns from votes: it asks for them, and takes those of a log for its own
    only by its fingerprint."""
    exp4 = od.policies.EXP4(bank("good", "bad"), eta=0.1, gamma=0.2)
    by_votes = od.fit_log(exp4, LOG.without("advice", "log_weights"))
    np.testing.assert_array_equal(
        od.fit_log(exp4, LOG).state.log_weights, by_votes.state.log_weights
    )
    with pytest.raises(od.InvalidInput, match="column advice"):
        od.fit_log(exp4, LOG.without("context"))
    own = logged(exp4, fingerprint=[od.fingerprint(exp4)] * len(CONTEXTS))
    asked = od.fit_log(exp4, own.without("advice", "log_weights"))
    np.testing.assert_allclose(
        od.fit_log(exp4, own.without("context")).state.log_weights,
        asked.state.log_weights,
        atol=1e-12,
    )


def test_sleepers_by_name() -> None:
    """A sleeper is charged the mix of those awake; in another order that is the
    same."""
    experts = od.GivenExperts(["a", "b", "c"])
    policy = od.GeneralizedThompsonSampling(experts, eta=0.5, gamma=0.1)
    said = RNG.uniform(0.1, 0.9, (30, 3, 2))
    said[::3, 1] = np.nan
    agent = od.Agent(policy, seed=2)
    decisions = [agent.decide(one) for one in said]
    rewards = RNG.integers(0, 2, 30).astype(float)
    log = od.Log.of(decisions, rewards, experts=["a", "b", "c"]).without("context")
    turned = od.GeneralizedThompsonSampling(
        od.GivenExperts(["c", "a", "b"]), eta=0.5, gamma=0.1
    )
    expected = policy.posterior(od.fold(policy, policy.init(), decisions, rewards))
    assert turned.posterior(od.fit_log(turned, log).state) == pytest.approx(
        expected[[2, 0, 1]], rel=1e-12
    )


@pytest.mark.parametrize(
    "wrap",
    [
        lambda gts: gts,
        lambda gts: od.Bounded(gts, 0.01),
        lambda gts: od.Windowed(gts, 99),
    ],
)
def test_one_that_slept_beside_one_that_is_asked(wrap: Any) -> None:
    """By hand, row by row: the sleeper is charged the mix of the two awake, by the
    weights of the prior."""
    slept = np.arange(len(LOG)) % 4 == 0
    columns = LOG.columns() | {
        "advice": np.where(
            slept[:, None] & [True, False], np.nan, np.asarray(LOG.advice)
        )
    }
    log = od.Log(**columns, arms=ARMS, experts=["good", "bad"])
    policy = wrap(gts("good", "bad", "flat"))
    decisions = decisions_for(policy, policy.init(), log)
    advice, hit = np.asarray(decisions.advice), LOG.reward[:, None] == 1
    factors = np.where(hit, advice, 1 - advice) ** 0.5
    factors[slept, 0] = factors[slept, 1:].mean(axis=1)
    expected = factors.prod(axis=0)
    state = od.fold(policy, policy.init(), decisions, LOG.reward)
    np.testing.assert_allclose(
        policy.posterior(state), expected / expected.sum(), rtol=1e-12
    )


def test_a_policy_without_log_weights_asks_sleepers() -> None:
    """Regressor elimination keeps no weights: what the experts say now is all it
    needs."""
    contexts = RNG.uniform(0.1, 0.9, (30, 2, 2))
    contexts[::3, 0] = np.nan
    policy = od.policies.RegressorElimination(
        od.GivenExperts(["a", "b"]), contexts=contexts
    )
    columns: Any = {
        "arm": [0, 1] * 15,
        "reward": [1, 0, 0] * 10,
        "propensities": np.full((30, 2), 0.5),
    }
    log = od.Log(**columns, context=contexts)
    assert od.fit_log(policy, log).learnt == 30


def test_hindsight_finds_advice_by_name() -> None:
    found = od.evaluation.hindsight(gts("flat", "good", "bad"), LOG)
    expected = by_hand(LOG, "flat", "good", "bad")
    assert dict(zip(found.names, found.posterior, strict=True)) == pytest.approx(
        expected, rel=1e-12
    )


def test_names_that_do_not_fit() -> None:
    with pytest.raises(
        od.InvalidInput,
        match="column advice: must have 3 entries per row like experts; got 2",
    ):
        od.Log(**LOG.columns(), experts=["a", "b", "c"])
    with pytest.raises(od.InvalidInput, match="experts must be distinct"):
        od.Log(**LOG.columns(), experts=["a", "a"])
    with pytest.raises(
        od.InvalidInput,
        match=r"log must have the experts \['x', 'y'\] in this order; it has",
    ):
        od.read_log(LOG, experts=["x", "y"])
    turned = od.Log(**LOG.columns(), arms=ARMS, experts=["bad", "good"])
    with pytest.raises(
        od.InvalidInput, match="logs must have advice of the same experts"
    ):
        od.Log.concatenated([LOG, turned])


def test_runs_and_replays_name_their_experts() -> None:
    from oddsmith.lab import simulate
    from oddsmith.lab.worlds import TableWorld

    table = RNG.random((4, 3, 2))
    policy = od.GeneralizedThompsonSampling(
        od.TableExperts(table, names=["x", "y", "z"]), gamma=0.2
    )
    log = simulate(
        policy, TableWorld(table[:, 0]), steps=50, runs=1, seed=1, trace=("log",)
    ).log()
    assert log.experts == ("x", "y", "z")
    replayed = od.replay(gts("good", "bad"), LOG, seed=1)
    assert replayed.log().experts == ("good", "bad")
