"""An exported log says what the store says: its rows, its rewards, and the posterior
that they give."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.server.audit import Exported, export
from oddsmith.server.audit.log_export import _ROWS, log_batches_of
from oddsmith.server.fold.fold import restore
from oddsmith.server.fold.judge import gts_inside, judge
from oddsmith.server.store import DecisionMade
from oddsmith.server.store.protocol import Rule
from server.audit.served import ARMS, BEGAN, Served, lived, newcomer, policy

BENCH = {"late": newcomer()}


@pytest.mark.parametrize("rule", ["first", "first_at_close", "sum"])
def test_a_fit_of_the_log_is_the_fold_of_the_store(tmp_path: Path, rule: Rule) -> None:
    """Late, early and corrected rewards, defaults, sleepers, masks and incumbents
    included, to 1e-12."""
    mine = policy()
    with lived(
        Served(tmp_path / "s", mine, rule=rule), 200, rosters=False
    ).store as store:
        found = export(store, tmp_path / "log.parquet")
        folded = restore(store, mine)
    fitted = od.fit_log(mine, tmp_path / "log.parquet")
    assert fitted.learnt == folded.state.learnt == found.rewarded
    np.testing.assert_allclose(
        mine.posterior(fitted.state), mine.posterior(folded.state), rtol=0, atol=1e-12
    )
    assert found.unshown > 0
    assert found.shadows > 0
    assert found.rows + found.unshown == 200


def test_rows_are_the_decisions(tmp_path: Path) -> None:
    service = Served(tmp_path / "s", policy())
    decided = [
        service.decide("plain", [0.3, 0.1]),
        service.decide("masked", [0.2, 0.9], eligible=[True, False, True]),
        service.decide("slept", [-0.5, 0.4]),
        service.decide("shadow", [0.1, 0.2], incumbent=2),
        service.decide("shown", [0.7, 0.2], deferred=True),
    ]
    service.decide("never shown", [0.5, 0.5], deferred=True)
    service.activate("shown")
    service.reward("never shown", 1.0)
    service.reward("shown", 0.25)
    service.default("plain", 0.0)
    service.reward("plain", 1.0)
    service.reward("slept", 1.0)
    service.correct("slept", 0.5, "k")
    with service.store as store:
        assert export(store, tmp_path / "log.parquet") == Exported(
            rows=5, rewarded=3, shadows=1, unshown=1
        )
        name = store.fingerprint
    log = od.read_log(tmp_path / "log.parquet")
    assert list(log.decision_id) == ["plain", "masked", "slept", "shadow", "shown"]
    np.testing.assert_array_equal(log.reward, [1.0, np.nan, 0.5, np.nan, 0.25])
    assert log.step is not None
    assert log.step.tolist() == [1, 2, 3, 4, 5]
    assert log.time.tolist() == [
        np.datetime64(int(BEGAN) + i, "s").astype("datetime64[us]").item()
        for i in range(1, 6)
    ]
    assert set(log.fingerprint) == {name} == {od.fingerprint(policy())}
    assert (log.arms, log.kind) == (ARMS, "exact")
    for row, decision in zip(log.decisions().rows(), decided, strict=True):
        assert row.arm == decision.index
        assert row.context == decision.context
        np.testing.assert_array_equal(row.propensities, decision.propensities)
        np.testing.assert_array_equal(row.advice, decision.advice)
        np.testing.assert_array_equal(
            row.eligible, [True] * 3 if decision.eligible is None else decision.eligible
        )
        if decision.log_weights is not None:
            np.testing.assert_array_equal(row.log_weights, decision.log_weights)
    assert log.propensities is not None
    assert log.propensities[3].tolist() == [0.0, 0.0, 1.0]


def test_erased_contexts_are_empty_or_left_out(tmp_path: Path) -> None:
    service = lived(Served(tmp_path / "s", policy()), 40, rosters=False)
    with service.store as store:
        everything = export(store, tmp_path / "all.parquet")
        erased = store.erase(service.time - 30)
        holes, rest = (
            export(store, tmp_path / "holes.parquet"),
            export(store, tmp_path / "rest.parquet", contexts_only=True),
        )
    assert 0 < holes.erased <= erased
    assert holes._replace(erased=0) == everything
    assert (rest.without, rest.rows, rest.erased) == (
        holes.erased,
        everything.rows - holes.erased,
        0,
    )
    assert (
        sum(
            context is None
            for context in od.read_log(tmp_path / "holes.parquet").context
        )
        == holes.erased
    )
    assert None not in od.read_log(tmp_path / "rest.parquet").context
    assert (
        od.fit_log(policy(), tmp_path / "holes.parquet").learnt == everything.rewarded
    )


def test_whoever_joined_later_sleeps_in_what_was_before(tmp_path: Path) -> None:
    """Where rewards come at once, weights at the decision are those of the fold, and a
    fit is the fold, to 1e-12."""
    service = Served(tmp_path / "s", policy(), bench=BENCH)
    rng = np.random.default_rng(2)
    for i in range(90):
        service.follow()
        service.decide(f"d{i}", rng.normal(size=2).tolist())
        service.reward(f"d{i}", float(rng.integers(2)))
        if i == 30:
            service.change_expert("late", "added", 0.3)
        if i == 60:
            service.change_expert("b", "retired")
    service.follow()
    with service.store as store:
        export(store, tmp_path / "log.parquet")
    log, last = od.read_log(tmp_path / "log.parquet"), service.folded
    assert log.advice is not None
    assert log.advice.shape == (90, 4)
    assert log.experts == ("a", "b", "c", "late")
    assert np.isnan(log.advice[:31, 3]).all()
    assert not np.isnan(log.advice[31:, 3]).any()
    inner, alone = gts_inside(last.policy), judge(last.policy)
    assert inner is not None
    assert alone is not None
    fitted = od.fit_log(alone, tmp_path / "log.parquet")
    np.testing.assert_allclose(
        inner.posterior(fitted.state), inner.posterior(last.state), rtol=0, atol=1e-12
    )


def test_batches_have_the_same_columns(tmp_path: Path) -> None:
    service = Served(tmp_path / "s", policy())
    service.decide("d", np.array([0.5, 0.1]))
    with service.store as store:
        event = store.decisions([1])[0]
        votes = store.evidence([1])[0].votes
        many = [
            DecisionMade(f"e{i}", event, 0, BEGAN, votes=votes) for i in range(_ROWS)
        ]
        store.append(many).result(timeout=60)
        sizes = [0 if log is None else len(log) for log, _ in log_batches_of(store)]
        assert sizes == [_ROWS, 1]
        assert export(store, tmp_path / "log.parquet").rows == _ROWS + 1
    assert od.read_log(tmp_path / "log.parquet").context[0] == [0.5, 0.1]


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    service = Served(
        tmp_path / "s", policy(loss=od.losses.scaled(od.log_loss, 2.0)), bench=BENCH
    )
    service.decide("d", [0.1, 0.2], deferred=True)
    with service.store as store:
        with pytest.raises(
            od.InvalidInput, match="must have decisions to export; 1 were left out"
        ):
            export(store, tmp_path / "log.parquet")
        assert not (tmp_path / "log.parquet").exists()


def test_policies_without_experts_have_no_advice(tmp_path: Path) -> None:
    service = Served(tmp_path / "s", od.policies.UCB1(3))
    service.decide("d", None)
    with service.store as store:
        export(store, tmp_path / "log.parquet")
    log: Any = od.read_log(tmp_path / "log.parquet")
    assert log.advice is None


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_slates_are_in_the_log(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every batch of it, also where no decision of a batch has one; without any
    slate there is no such column."""
    monkeypatch.setattr("oddsmith.server.audit.log_export._ROWS", 2)
    service = Served(tmp_path / "s", policy())
    for id in ("alone 1", "alone 2"):
        service.decide(id, [0.3, 0.1])
    export(service.store, tmp_path / f"before.{suffix}")
    assert od.read_log(tmp_path / f"before.{suffix}").slate is None
    first = service.decide("s-1", [0.2, 0.9], place=("s", 1))
    service.decide(
        "s-2", [0.2, 0.9], eligible=[i != first.index for i in range(3)], place=("s", 2)
    )
    service.decide("alone 3", [0.3, 0.1])
    service.reward("s-2", 1.0)
    with service.store as store:
        export(store, tmp_path / f"log.{suffix}")
    log = od.read_log(tmp_path / f"log.{suffix}")
    assert list(log.slate) == [None, None, "s", "s", None]
    assert log.slot is not None
    assert log.slot.tolist() == [0, 0, 1, 2, 0]
    assert dict(zip(log.decision_id, log.reward.tolist(), strict=True))["s-2"] == 1.0
