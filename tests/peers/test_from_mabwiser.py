"""As you did it in MABWiser: both codes of the page run, and agree where both must;
skipped by name without it."""

from pathlib import Path

import numpy as np
import pytest

import oddsmith as od
from oddsmith.evaluation import estimate, ips, policy_target
from peers.side_by_side import Check, Names, complete, peer, play, same_shares


def mab_has_learnt_the_same(theirs: Names, ours: Names) -> None:
    """Upper bounds of both, for all visitors."""
    policy, state = ours["policy"], od.fit_log(ours["policy"], [ours["log"]]).state
    expected = theirs["mab"].predict_expectations(contexts=ours["visitors"])
    for visitor, row in zip(ours["visitors"], expected, strict=True):
        np.testing.assert_allclose(
            policy.bounds(state, visitor), list(row.values()), atol=1e-8
        )


def mab_chooses(theirs: Names, ours: Names) -> None:
    assert theirs["mail"] == ours["agent"].best(ours["visitors"][0])


def mab_expects(theirs: Names, ours: Names) -> None:
    expected = [theirs["expected"][mail] for mail in ours["ARMS"]]
    np.testing.assert_allclose(ours["bounds"], expected, atol=1e-8)


def mab_learns(theirs: Names, ours: Names) -> None:
    """One more row on each side: the bounds are again the same, of the same rows."""
    visitor, policy = ours["visitors"][0], ours["policy"]
    more = od.Log(arm=np.array([2]), reward=np.ones(1), context=visitor[None])
    state = od.fit_log(policy, [ours["log"], more]).state
    expected = theirs["mab"].predict_expectations(contexts=[visitor])
    np.testing.assert_allclose(
        policy.bounds(state, visitor), list(expected.values()), atol=1e-8
    )


def mab_arms(theirs: Names, ours: Names) -> None:
    assert set(theirs["mab"].arms) == {"discount", "story", "poll"}
    assert set(ours["changing"].arms) == {"discount", "news", "story", "poll"}
    assert ours["later"].arm != "news"
    assert ours["later"].propensities[1] == 0


def mab_epsilon(theirs: Names, ours: Names) -> None:
    assert sorted(ours["odds"]) == pytest.approx([0.1, 0.1, 0.8])
    same_shares(ours["odds"], theirs["drawn"], ours["ARMS"])


def mab_thompson(theirs: Names, ours: Names) -> None:
    same_shares(ours["beta_odds"], theirs["tosses"], ours["ARMS"])


def mab_value(theirs: Names, ours: Names) -> None:
    even, policy = ours["even"][150:], ours["explored"]
    refused = estimate(ips(even, policy_target(even, policy, ours["learnt"])))
    assert refused.refused
    assert not ours["value"].refused


CHECKS: dict[str, Check] = {
    "Create and fit": mab_has_learnt_the_same,
    "Choose": mab_chooses,
    "Expectations": mab_expects,
    "Learn": mab_learns,
    "Arms change": mab_arms,
    "Exploration settings": mab_epsilon,
    "Thompson sampling": mab_thompson,
    "Off-policy evaluation and metrics": mab_value,
}


def test_every_pair_has_a_check() -> None:
    complete("mabwiser.md", CHECKS)


@pytest.mark.filterwarnings("ignore")
def test_both_codes_run_and_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer("mabwiser.mab")
    monkeypatch.chdir(tmp_path)
    play("mabwiser.md", CHECKS)
