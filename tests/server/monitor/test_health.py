"""Checks of a running service: troubles, rewards that are due, what the theory
promises, when to switch."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.gts import PowerSchedule
from oddsmith.evaluation.draws import standing_bets
from oddsmith.server.fold.accounts import Count
from oddsmith.server.fold.judge import judge
from oddsmith.server.http.routes.checks import _calibration_sentence
from oddsmith.server.messages.figures import ExpertCheck
from oddsmith.server.monitor.promises import promise
from oddsmith.server.monitor.shadow import switch_of
from oddsmith.server.statistics import Sums
from oddsmith.server.store.events import OwnDraw
from oddsmith.server.store.protocol import Draw
from oddsmith.theory import regret_bound
from server.monitor.test_figures import exported, live
from server.served import Hands, here, place, wait

PLAIN = "policy.share = 0.0\n"


def test_checks_are_what_the_exported_log_says_and_outlive_a_restart(
    tmp_path: Path,
) -> None:
    hands, file = Hands(), place(tmp_path)
    with here(file, clock=hands.clock()) as served:
        empty = served.get("/v1/checks")
        assert empty["served_as_logged"]["sentence"] == "No decision was shown yet."
        assert (empty["calibration"], empty["last_reward_t"], empty["switch"]) == (
            [],
            None,
            None,
        )
        assert empty["rewarded"] == {"due": 0, "rewarded": 0, "share": None}
        live(served, hands, 60)
        answer, log = served.get("/v1/checks"), exported(tmp_path)
        told = answer["served_as_logged"]
        wanted = standing_bets(log)
        assert (told["n"], told["word"]) == (len(log), "well")
        assert told["e_value"] == pytest.approx(wanted.e_value, rel=1e-9)
        known = int((~np.isnan(log.reward)).sum())
        assert answer["rewarded"] == {
            "due": len(log),
            "rewarded": known,
            "share": pytest.approx(known / len(log)),
        }
        assert answer["last_decision_t"] == pytest.approx(
            log.time.max().astype(np.int64) / 1e6, abs=1e-3
        )
        assert {one["expert"] for one in answer["calibration"]} == {"a", "b", "c", "d"}
        assert "experts predict other means" in answer["calibration_sentence"]
        assert (
            answer["trouble"],
            answer["store_trouble"],
            answer["warning"],
            answer["asleep"],
        ) == ("", "", "", {})
    with here(file, clock=hands.clock()) as served:
        assert served.get("/v1/checks") == answer


def test_with_a_window_what_is_due_is_what_had_time(tmp_path: Path) -> None:
    hands = Hands(wall=1e9)
    with here(
        place(tmp_path, service="window_s = 100\ndefault_reward = 0.0\n"),
        clock=hands.clock(),
    ) as served:
        for i in range(4):
            served.decide(f"d{i}")
        served.reward("d0", 1.0)
        served.state()
        assert served.get("/v1/checks")["rewarded"] == {
            "due": 0,
            "rewarded": 0,
            "share": None,
        }
        hands.pass_by(120.0)
        served.decide("later")
        wait(lambda: served.get("/v1/checks")["rewarded"]["due"] == 4)
        assert served.get("/v1/checks")["rewarded"] == {
            "due": 4,
            "rewarded": 1,
            "share": 0.25,
        }


def test_the_switch_is_safe_once_the_policy_is_above_the_incumbent(
    tmp_path: Path,
) -> None:
    with here(place(tmp_path, service="shadow = true\n")) as served:
        assert served.get("/v1/checks")["switch"]["ready"] is False
        arms = list(served.experiment().arms or ())
        served.decide("sure", incumbent=arms[0])
        served.reward("sure", 1.0)
        served.decide("sure 2", incumbent=arms[0])
        served.reward("sure 2", 1.0)
        served.state()
        found = served.get("/v1/checks")["switch"]
        assert found["ready"] is False
        assert "is on arms the logging policy could not draw" in found["sentence"]
        assert "incumbent_odds" in found["sentence"]


@pytest.mark.parametrize(
    ("good", "start"),
    [(1, "It is safe to switch"), (0, "Do not switch"), (2, "Not yet")],
)
def test_the_switch_by_sums(good: int, start: str) -> None:
    """Two arms drawn with odds 1/2; the policy would always draw arm 1, which is the
    good one, is not, or hardly."""
    sums, rng = Sums.of({"arms": ["a", "b"]}), np.random.default_rng(0)
    own = OwnDraw(1, np.array([0.0, 1.0]))
    for i in range(400):
        arm = i % 2
        reward = (
            float(rng.random() < (0.55 if good == 2 and arm else 0.5))
            if good == 2
            else float(arm == good)
        )
        drawn = Draw("ab"[arm], arm, np.array([0.5, 0.5]), None, None, True, own)
        sums.values.count(Count(i, i, reward), drawn, {"a": 0.5, "b": 0.5}, sums.named)
    found = switch_of(sums, od.RewardScale(0.0, 10.0))
    assert found.sentence.startswith(start)
    assert found.ready == (good == 1)
    if good == 2:
        assert "decisions like these" in found.sentence or "no better" in found.sentence


def test_promises_are_the_bounds_of_the_theory() -> None:
    experts: Any = od.GivenExperts(["a", "b", "c", "d"])
    gts = od.GeneralizedThompsonSampling(experts, gamma=0.1, prior=[0.4, 0.3, 0.2, 0.1])
    found = promise(gts, ["x", "y", "z"], 100_000)
    wanted = regret_bound("log", n_arms=3, steps=100_000, prior=0.1, gamma=0.1)
    assert found.covered
    assert found.bound == pytest.approx(wanted.bound)
    assert (found.steps, found.eta, found.gamma) == (100_000, 0.5, 0.1)
    assert found.prior == pytest.approx(0.1)
    assert found.exploration_paid == pytest.approx(10_000)
    zero = od.GeneralizedThompsonSampling(experts, gamma=0.0)
    wanted = regret_bound("log", n_arms=3, steps=9_000_000, prior=0.25, gamma=0.0)
    assert promise(zero, ["x", "y", "z"], 9_000_000).bound == pytest.approx(
        wanted.bound
    )
    tuned = od.tuned(experts, n_arms=3)
    assert isinstance(tuned.gamma, PowerSchedule)
    later = promise(tuned, ["x", "y", "z"], 1_000_000)
    assert later.covered
    assert later.exploration_paid == pytest.approx(
        float(np.sum(tuned.gamma_at(np.arange(1, 1_000_001))))
    )
    assert "of no use yet" in promise(gts, ["x", "y", "z"], 10).sentence
    assert "from the first decision on" in promise(gts, ["x"], 0).sentence


@pytest.mark.parametrize(
    ("arms", "choices"), [(["x", "y"], 2), (list("abcdefgh"), 5), (None, 5)]
)
def test_hedged_promises_its_own_bound(arms: Any, choices: int) -> None:
    """By the formula of theory 7.4: D = ln(1 / min π), the experts' half of the prior
    shared by theirs."""
    prior = [0.4, 0.3, 0.2, 0.1]
    experts: Any = od.GivenExperts(["a", "b", "c", "d"])
    policy = od.Hedged(
        od.GeneralizedThompsonSampling(experts, gamma=0.0, prior=prior, share=0.1)
    )
    found, depth = promise(policy, arms, 50_000), np.log(1 / 0.05)
    assert found.covered
    assert found.bound == pytest.approx(
        2 * (0.5 + np.sqrt(0.25 + depth * choices * 50_000)) - 1
    )
    assert found.prior == pytest.approx(0.1)
    assert (found.steps, found.eta, found.gamma, found.exploration_paid) == (
        50_000,
        None,
        None,
        None,
    )
    assert "no expert need be right" in found.sentence
    assert f"{found.bound:,.4g} more" in found.sentence
    assert "of no use yet" in promise(policy, arms, 3).sentence
    assert "from the first decision on" in promise(policy, arms, 0).sentence
    learning: Any = od.hedged(od.auto(["a", "b"], size="small").experts)
    # to what they said in these decisions
    assert promise(learning, ["a", "b"], 50_000).covered
    assert not promise(policy, arms, 50_000, shadow=True).covered


@pytest.mark.parametrize(
    ("policy", "arms", "words"),
    [
        (
            od.policies.RateMixture(od.GivenExperts(["a", "b"])),
            ["a", "b"],
            'kind = "hedged" has one',
        ),
        (
            od.Bounded(od.hedged(od.GivenExperts(["a", "b"])), floors=0.1),
            ["a", "b"],
            "without bounds on propensities",
        ),
        (od.LinUCB(1, n_arms=2), ["a", "b"], "this is another policy"),
        (od.auto(["a", "b"], size="small"), ["a", "b"], "these learn"),
        (
            od.GeneralizedThompsonSampling(od.GivenExperts(["a"])),
            None,
            "here calls pass their arms",
        ),
        (
            judge(od.GeneralizedThompsonSampling(od.GivenExperts(["a"]))),
            ["a"],
            "does not show whether its experts learn",
        ),
        (
            od.GeneralizedThompsonSampling(od.GivenExperts(["a", "b"]), share=0.1),
            ["a"],
            "share 0",
        ),
        (
            od.GeneralizedThompsonSampling(
                od.GivenExperts(["a", "b"]), gamma=lambda step: 0.1
            ),
            ["a"],
            "schedule",
        ),
    ],
)
def test_what_is_not_covered_says_why(policy: Any, arms: Any, words: str) -> None:
    found = promise(policy, arms, 100)
    assert not found.covered
    assert found.bound is None
    assert words in found.sentence


def test_a_hedged_policy_says_whether_the_best_predictor_has_the_best_policy(
    tmp_path: Path,
) -> None:
    file = place(tmp_path, top="floors = 0.05\n")
    file.write_text(
        file.read_text().replace("policy.gamma = 0.1", 'policy.kind = "hedged"')
    )
    with here(file) as served:
        for i in range(101):
            served.decide(f"d{i}")
            served.reward(f"d{i}", float(i % 3 == 0))
        served.state()
        assert served.get("/v1/checks")["choices_sentence"].startswith(
            ("The best predictor, ", "The policy of ")
        )
        assert served.get("/v1/decisions/d0?explain=true")[
            "choices_sentence"
        ].startswith(("The best", "The policy"))
        promised = served.get("/v1/checks")["guarantee"]
        assert promised["bound"] is None  # by its floors
        assert "without bounds on propensities" in promised["sentence"]


@pytest.mark.parametrize(
    ("asked", "best", "rest"),
    [
        # slept once
        (
            99,
            "good with mean loss 0.506 over 99 of 100, is consistent with the rewards.",
            "",
        ),
        # joined half way
        (
            50,
            "good with mean loss 0.506 over 50 of 100, is consistent with the rewards.",
            "",
        ),
        (
            1,
            "bad with mean loss 1.318, is refuted",
            "; 1 expert was asked for less than half as many",
        ),
        (100, "good with mean loss 0.506, is consistent with the rewards.", ""),
    ],
)
def test_an_expert_that_slept_now_and_then_may_be_the_best(
    asked: int, best: str, rest: str
) -> None:
    told = [
        ExpertCheck("good", 0.506, asked, 0.1, False),
        ExpertCheck("bad", 1.318, 100, 1e9, True),
    ]
    sentence = _calibration_sentence(told, 100)
    assert sentence.startswith(
        "1 of 2 experts predict other means than 100 rewards have (each at level "
        "0.05); the best, "
    )
    assert f"the best, {best}{rest}" in sentence


def test_a_retired_expert_is_not_the_best_of_those_that_act() -> None:
    old, new = (
        ExpertCheck("old", 0.3, 1000, 0.1, False),
        ExpertCheck("new", 0.5, 50, 0.1, False),
    )
    assert "the best, old with" in _calibration_sentence([old, new], 1000)
    assert "the best, new with mean loss 0.5, is" in _calibration_sentence(
        [old, new], 1000, {"old"}
    )
    assert "the best, old with" in _calibration_sentence([old], 1000, {"old"})
