"""Evaluation of logs whose arms came with the call: values by enumeration, and fixed
arms as a special case."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from evaluation import changing_arms as world
from evaluation.changing_arms import fixed_and_offered
from oddsmith import evaluation as ev
from oddsmith.evaluation.assessment import assess
from oddsmith.evaluation.reward_models import JoinedRows

OPEN_BANDIT = Path(__file__).parents[3] / "shared" / "data" / "logged"
TARGETS: dict[str, Any] = {
    "policy": lambda log: ev.policy_target(log, world.POLICY),
    "uniform": ev.uniform_target,
    "first": ev.first_target,
}
ODDS: dict[str, Any] = {
    "policy": world.policy_odds(),
    "uniform": (world.LOGGER > 0) / (world.LOGGER > 0).sum(axis=1, keepdims=True),
    "first": np.eye(world.WIDTH)[[0] * len(world.CASES)],
}


@pytest.mark.parametrize("name", TARGETS)
def test_targets_are_the_odds_of_each_row(name: str) -> None:
    log, cases = world.played(200, seed=1)
    np.testing.assert_allclose(
        TARGETS[name](log), ODDS[name][cases], rtol=0, atol=1e-12
    )


def test_ips_is_unbiased() -> None:
    """Means of 300 logs; 4.5 standard errors for each of three targets: wrong once in
    50,000 runs."""
    found: dict[str, list[float]] = {name: [] for name in TARGETS}
    for seed in range(300):
        log, cases = world.played(150, seed)
        for name, odds in ODDS.items():
            found[name].append(ev.ips(log, odds[cases]).values.mean())
    for name, values in found.items():
        error = np.std(values, ddof=1) / np.sqrt(len(values))
        assert abs(np.mean(values) - world.value(ODDS[name])) < 4.5 * error, name


def test_snips_and_dr_are_consistent() -> None:
    """Within 4.5 standard errors of 20,000 rows, which are below 0.01: wrong once in
    20,000 runs for the six."""
    log, cases = world.played(20_000, seed=3)
    predictions = ev.cross_fit(log, _ridge())
    for name, odds in ODDS.items():
        target, truth = odds[cases], world.value(odds)
        for terms in (ev.snips(log, target), ev.dr(log, target, predictions)):
            error = terms.values.std() / np.sqrt(len(terms))
            assert error < 0.01
            assert abs(terms.values.mean() - truth) < 4.5 * error, (name, terms.name)


@pytest.mark.parametrize(
    ("name", "drawn"), [("policy", False), ("uniform", True), ("first", False)]
)
def test_default_intervals_cover(name: str, drawn: bool) -> None:
    """200 logs: at least 0.95 less two standard errors, in a run whose seeds were fixed
    before it was made."""
    covered, truth = [], world.value(ODDS[name])
    for seed in range(200):
        log, cases = world.played(400, 5000 + seed)
        given = log.without("propensities") if drawn else log
        found = ev.estimate(ev.ips(given, ODDS[name][cases]))
        assert not found.refused
        covered.append(found.low <= truth <= found.high)
    assert np.mean(covered) >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / 200)


def _ridge() -> Any:
    linear_model = pytest.importorskip("sklearn.linear_model")
    return linear_model.Ridge(1e-6)


def test_a_reward_model_sees_context_features_and_names() -> None:
    log, _ = world.played(500, seed=8)
    joined = JoinedRows(log)
    place = int(np.flatnonzero((joined.row == 7) & (joined.place == 1))[0])
    seen, name = joined.numbers(np.array([place]))[0], log.offered[7][1]
    np.testing.assert_array_equal(seen[:2], [log.context[7, 0], world.PRICES[name]])
    assert seen[2:].sum() == 1
    assert len(seen) == 2 + len(world.PRICES)
    predictions = ev.cross_fit(log, _ridge())
    offered: Any = log.eligible
    assert (predictions[~offered] == 0).all()
    assert predictions[offered].std() > 0.02


def test_a_reward_model_of_dicts_goes_through_schemas() -> None:
    log, _ = world.played(300, seed=9)
    dicts = [
        {name: {"price": float(own[0])} for name, own in row.items()}
        for row in log.features
    ]
    contexts = [{"x": float(x)} for x in log.context[:, 0]]
    named = od.Log(**log.columns() | {"features": dicts, "context": contexts})
    schema, arm_schema = od.Schema(numbers=("x",)), od.Schema(numbers=("price",))
    given = ev.cross_fit(named, _ridge(), schema=schema, arm_schema=arm_schema)
    np.testing.assert_allclose(given, ev.cross_fit(log, _ridge()), rtol=0, atol=1e-9)
    assert ev.cross_fit(named, _ridge()).shape == given.shape


def same(one: Any, other: Any) -> None:
    """All answers, diagnostics and differences are equal to 1e-12."""
    assert one.answers.keys() == other.answers.keys()
    for mine, theirs in (
        (one.answers, other.answers),
        (one.differences, other.differences),
    ):
        for key, answers in mine.items():
            for name, answer in answers.items():
                if isinstance(answer, str):
                    assert answer == theirs[key][name]
                    continue
                ours, others = answer._asdict(), theirs[key][name]._asdict()
                diagnostics = ours.pop("diagnostics"), others.pop("diagnostics")
                for field, number in (ours | diagnostics[0]._asdict()).items():
                    against = (others | diagnostics[1]._asdict())[field]
                    if isinstance(number, float):
                        assert number == pytest.approx(
                            against, rel=1e-12, abs=1e-12, nan_ok=True
                        ), (key, name, field)
                    else:
                        assert number == against, (key, name, field)


@pytest.mark.parametrize("known", ["propensities", "propensity"])
@pytest.mark.parametrize("interval", ["beta", "bernstein", "anytime"])
def test_fixed_arms_that_are_offered_give_the_same_numbers(
    known: str, interval: str
) -> None:
    fixed, offered = fixed_and_offered()
    if known == "propensity":
        fixed, offered = fixed.without("propensities"), offered.without("propensities")
    settings: Any = {"interval": interval, "floor": 1e-6, "baseline": "uniform"}
    one, other = (assess(log, _mixtures(log), **settings) for log in (fixed, offered))
    assert (
        one.differences["ips"]["mostly one"].low  # type: ignore[union-attr]
        < one.differences["ips"]["mostly one"].high  # type: ignore[union-attr]
    )
    same(one, other)


def _mixtures(log: od.Log) -> dict[str, Any]:
    arm = "arm 3" if log.arms is None or "arm 3" in log.arms else "3"
    even = ev.uniform_target(log)
    return {"uniform": even, "mostly one": 0.7 * even + 0.3 * ev.arm_target(log, arm)}


@pytest.mark.parametrize("file", ["obd_random_men.parquet", "obd_bts_women.parquet"])
def test_open_bandit_logs_with_their_arms_offered(file: str) -> None:
    if not (OPEN_BANDIT / file).exists():
        pytest.skip(f"no {file} in {OPEN_BANDIT}")
    fixed = od.read_log(OPEN_BANDIT / file)[:4000]
    parquet = pytest.importorskip("pyarrow.parquet")
    items = parquet.read_table(
        OPEN_BANDIT / f"obd_items_{file[:-8].split('_')[-1]}.parquet"
    ).to_pandas()
    offered = fixed.offering(items.set_index("item_id"))
    assert offered.known_features == "all"
    same(*(assess(log, _mixtures(log)) for log in (fixed, offered)))


def test_policies_with_arms_of_their_own_are_asked_by_name() -> None:
    log, _ = world.played(300, seed=4)
    arms = sorted(world.PRICES)
    bank = od.FunctionExperts(
        {"price": lambda context, arm: 1 - world.PRICES[arm]}, arms
    )
    policy = od.GeneralizedThompsonSampling(bank, gamma=0.1)
    target = ev.policy_target(log, policy)
    for row, names in enumerate(log.offered):
        cheapest = min(names, key=lambda name: world.PRICES[name])
        expected = [0.1 / len(names) + 0.9 * (name == cheapest) for name in names]
        np.testing.assert_allclose(target[row, : len(names)], expected)
        assert (target[row, len(names) :] == 0).all()
    with pytest.raises(
        od.errors.BrokenLog,
        match=r"column offered, row \d+: must be among the policy's arms .*; got 'e'",
    ):
        ev.policy_target(
            log,
            od.GeneralizedThompsonSampling(
                od.FunctionExperts({"p": lambda x, a: 0.5}, arms[:4])
            ),
        )


def test_policies_that_cannot_choose_among_arms_of_the_call_refuse() -> None:
    log, _ = world.played(50, seed=4)
    with pytest.raises(
        od.InvalidInput,
        match="UCB1 cannot choose among arms that are passed in the call",
    ):
        ev.policy_target(log, od.policies.UCB1(5))


def test_an_arm_that_rows_did_not_offer() -> None:
    log, _ = world.played(400, seed=5)
    absent = sum("b" not in names for names in log.offered)
    with pytest.raises(
        od.InvalidInput,
        match=f"{absent} of 400 rows did not: restrict the log to the other",
    ):
        ev.arm_target(log, "b")
    kept = ev.where_offered(log, "b")
    assert len(kept) == 400 - absent
    target = ev.arm_target(kept, "b")
    assert all(
        names[place] == "b"
        for names, place in zip(kept.offered, target.argmax(axis=1), strict=True)
    )
    with pytest.raises(
        od.InvalidInput, match=r"must name one of the log's arms, .*; got 'z'"
    ):
        ev.arm_target(log, "z")


def test_features_of_drawn_arms_alone_allow_weights_and_no_models() -> None:
    log, cases = world.played(400, seed=6)
    pairs = zip(log.features, log.offered, log.arm, strict=True)
    drawn = od.Log(
        **log.columns()
        | {"features": [{names[arm]: row[names[arm]]} for row, names, arm in pairs]}
    )
    np.testing.assert_array_equal(
        ev.ips(drawn, ODDS["first"][cases]).values,
        ev.ips(log, ODDS["first"][cases]).values,
    )
    for ask in (
        lambda: ev.policy_target(drawn, world.POLICY),
        lambda: ev.cross_fit(drawn, _ridge()),
        lambda: od.replay(world.POLICY, drawn, seed=1),
    ):
        with pytest.raises(
            od.InvalidInput,
            match="features of all arms offered; this log has those of the drawn arm",
        ):
            ask()
    full, few = (od.fit_log(world.POLICY, one).state for one in (log, drawn))
    np.testing.assert_array_equal(
        world.POLICY.posterior(full), world.POLICY.posterior(few)
    )


def test_a_target_beyond_the_offer_is_refused() -> None:
    log, _ = world.played(20, seed=6)
    row = next(row for row, names in enumerate(log.offered) if len(names) < world.WIDTH)
    target = ev.uniform_target(log)
    target[row] = np.eye(world.WIDTH)[-1]
    with pytest.raises(
        od.InvalidInput,
        match=f"target, row {row}: must be 0 beyond the {len(log.offered[row])} arms",
    ):
        ev.ips(log, target)
