"""The paper's claims: all hold in a quick run, the report stands alone, finished work
is not done again."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.claims import EXPERIMENTS, chain, conditions
from oddsmith.claims.claim import Claim, Experiment, Outcome, Rule, Setup
from oddsmith.claims.delay import late_regret
from oddsmith.claims.report import report
from oddsmith.claims.reproduce import reproduce
from oddsmith.cli.main import main
from oddsmith.files.reports.theme import THEMES
from paper.reference import VECTORS, rational


def test_every_claim_holds_in_a_quick_run(tmp_path: Path) -> None:
    found = reproduce(tmp_path, quick=True, workers=2)
    assert list(found) == list(EXPERIMENTS)
    failing = [
        f"{name}: {c.rule.statement}, {c.case}; {c.predicted}, {c.measured}"
        for name, outcome in found.items()
        for c in outcome.claims
        if not c.holds
    ]
    assert not failing
    page = (tmp_path / "index.html").read_text()
    rules = {claim.rule for outcome in found.values() for claim in outcome.claims}
    cases = sum(len(outcome.claims) for outcome in found.values())
    assert (
        f"All {len(rules)} statements hold, in {cases} cases of {len(found)} "
        "experiments.</p>"
    ) in page
    headers = re.findall("<th[^>]*>([^<]*)</th>", page[: page.index("</table>")])
    assert headers[:5] == [
        "the paper&#x27;s statement",
        "experiment",
        "predicted",
        "measured",
        "verdict",
    ]
    assert page.count("<figure>") == 1 + sum(len(o.figures) for o in found.values())
    colours = set(re.findall(r'(?:fill|stroke)="(#[^"]*)"', page))
    # all of them follow the theme
    assert colours <= {light for light, _ in THEMES.values()}
    for fetched in ('src="http', 'href="http', "<script", "<link"):
        assert fetched not in page


def test_a_finished_experiment_is_not_run_again(tmp_path: Path) -> None:
    first = reproduce(tmp_path, ["phase"], quick=True, engine="serial")
    (kept,) = (tmp_path / "experiments").glob("phase-*.json")
    changed = json.loads(kept.read_text()) | {"title": "kept from before"}
    kept.write_text(json.dumps(changed))
    assert (
        reproduce(tmp_path, ["phase"], quick=True, engine="serial")["phase"].title
        == "kept from before"
    )
    kept.write_text("{")  # damaged: done again
    assert reproduce(tmp_path, ["phase"], quick=True, engine="serial") == first


CHEESE = Rule("the moon is cheese", "nowhere", "a bite")


def test_a_claim_that_fails_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    def wrong(setup: Setup) -> Outcome:
        return Outcome("Wrong", "", (Claim(CHEESE, "full", "yes", "no", False),), ())

    monkeypatch.setitem(EXPERIMENTS, "phase", Experiment(wrong, (CHEESE,)))
    assert (
        main(
            [
                "reproduce",
                "phase",
                "--quick",
                "--out",
                str(tmp_path),
                "--engine",
                "serial",
            ]
        )
        == 3
    )
    printed = capsys.readouterr().out
    told = "in phase, the moon is cheese, full (predicted yes, measured no)"
    assert printed.startswith(f"1 of 1 statements do not hold: {told}.\n")
    assert "    does not hold: the moon is cheese" in printed
    report(tmp_path / "page.html", {"phase": wrong(Setup(True))}, quick=True)
    assert "1 of 1 statements do not hold" in (tmp_path / "page.html").read_text()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "reproduce",
                "thompson",
                "--quick",
                "--out",
                str(tmp_path),
                "--engine",
                "serial",
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out
    assert printed.startswith("All 2 statements hold, in 2 cases of 1 experiment.\n")
    assert "2 of   2 cases hold" in printed
    assert main(["reproduce", "perpetuum", "--out", str(tmp_path)]) == 2
    assert "experiments must be among thompson, conditions" in capsys.readouterr().err
    assert main(["reproduce", "thompson"]) == 2
    assert "reproduce needs --out DIR" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["reproduce", "thompson", "--out", str(tmp_path / "file")]) == 2
    assert "out must be a writable folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    "case",
    VECTORS["pessimistic_chain"],
    ids=lambda c: f"p{c['p1']}-eta{c['eta']}-T{c['T']}",
)
def test_the_matrix_chain_is_the_enumerated_chain(case: Any) -> None:
    """Powers of two among the reference horizons, of 50-digit arithmetic; others lie
    between their neighbours."""
    settings: Any = {
        "eta": rational(case["eta"]),
        "gamma": 0.0,
        "prior": rational(case["p1"]),
    }
    horizons, regret = chain.exact_regret("log", doublings=20, **settings)
    steps, expected = int(case["T"]), rational(case["expected_pseudo_regret"])
    if steps in horizons:
        assert regret[horizons == steps][0] == pytest.approx(expected, rel=1e-10)
    else:
        assert (
            regret[horizons < steps].max() <= expected <= regret[horizons > steps].min()
        )


@pytest.mark.parametrize(
    ("loss", "gamma"), [("log", 0.0), ("square", 0.0), ("log", 0.3), ("square", 0.3)]
)
def test_the_matrix_chain_against_all_paths(loss: str, gamma: float) -> None:
    """Eight steps of the real policy along every path of arms and rewards, weighed by
    its exact odds."""
    policy = Setup(quick=True).gts(
        chain.INSTANCE, loss, eta=0.7, gamma=gamma, prior=[0.2, 0.8]
    )

    def expected(state: Any, steps: int) -> float:
        if steps == 0:
            return 0.0
        odds = policy.odds(state, 0)
        total = 0.4 * float(odds.propensities[0])
        for arm, win in ((0, 0.5), (1, 0.9)):
            decision = od.draw(odds, 0, 0.0 if arm == 0 else 1 - 1e-12)
            if odds.propensities[arm] == 0:
                continue
            decision = decision._replace(arm=arm, advice=chain.INSTANCE[0, :, arm])
            for reward, p in ((1.0, win), (0.0, 1 - win)):
                total += (
                    odds.propensities[arm]
                    * p
                    * expected(policy.update(state, decision, reward), steps - 1)
                )
        return total

    exact = chain.exact_regret(loss, eta=0.7, gamma=gamma, prior=0.2, doublings=2)[1]
    assert exact[2] == pytest.approx(expected(policy.init(), 4), rel=1e-12)


@pytest.mark.parametrize("delay", [0, 1, 2])
def test_the_late_chain_against_all_paths(delay: int) -> None:
    """Five steps of the real policy along every path, each reward learnt `delay`
    decisions late; mean and variance."""
    policy = Setup(quick=True).gts(chain.INSTANCE, eta=0.7, gamma=0.2, prior=[0.2, 0.8])

    def moments(
        state: Any, waiting: tuple[Any, ...], steps: int
    ) -> tuple[float, float]:
        """The mean and the mean square of the regret to come; the decisions that wait
        have their rewards."""
        if steps == 0:
            return 0.0, 0.0
        odds, first, second = policy.odds(state, 0), 0.0, 0.0
        cost = 0.4 * float(odds.propensities[0])
        for arm, win in ((0, 0.5), (1, 0.9)):
            decision = od.draw(odds, 0, 0.5)._replace(
                arm=arm, advice=chain.INSTANCE[0, :, arm]
            )
            for reward, p in ((1.0, win), (0.0, 1 - win)):
                queue = (*waiting, (decision, reward))
                learnt = (
                    policy.update(state, *queue[0]) if len(queue) > delay else state
                )
                mean, square = moments(
                    learnt, queue[1:] if len(queue) > delay else queue, steps - 1
                )
                share = float(odds.propensities[arm]) * p
                first, second = first + share * mean, second + share * square
        return cost + first, cost**2 + 2 * cost * first + second

    mean, square = moments(policy.init(), (), 5)
    exact = late_regret("log", eta=0.7, gamma=0.2, prior=0.2, steps=5, delay=delay)
    assert exact.mean == pytest.approx(mean, rel=1e-12)
    assert exact.deviation == pytest.approx(np.sqrt(square - mean**2), rel=1e-9)


def test_regret_after_any_number_of_steps_is_that_of_the_doublings() -> None:
    settings: Any = {"eta": 0.8, "gamma": 0.1, "prior": 0.01}
    horizons, regret = chain.exact_regret("log", doublings=6, **settings)
    for steps, expected in zip(horizons, regret, strict=True):
        assert chain.exact_regret_at(
            "log", steps=int(steps), **settings
        ) == pytest.approx(expected, rel=1e-12)
    assert regret[5] < chain.exact_regret_at("log", steps=45, **settings) < regret[6]


def test_moments_by_hand() -> None:
    first, second = conditions.moments(od.square_loss, np.array(0.3), np.array(0.7))
    assert first == pytest.approx(0.16)  # (g - f)²
    assert second == pytest.approx(0.16 * (0.16 + 4 * 0.3 * 0.7))
