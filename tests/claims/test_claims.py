"""Claims can fail: rules are stated first, judgements err as often as they state,
deliberate errors are caught."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from oddsmith.claims import EXPERIMENTS
from oddsmith.claims import judgement as judging
from oddsmith.claims.claim import Break, Claim, Experiment, Outcome, Rule, Setup
from oddsmith.claims.reproduce import experiment_names, rejected_statements
from oddsmith.cli.main import main

CLAIMING = {
    name: experiment for name, experiment in EXPERIMENTS.items() if experiment.rules
}
QUICK = (
    "thompson",
    "conditions",
    "elimination",
    "condition2",
    "lemma1-paper",
    "corollary2",
    "floor",
)


def check_power(names: tuple[str, ...], workers: int = 1) -> None:
    """Every error is caught by a statement, and every statement rejects an error."""
    rejected = rejected_statements(
        names, engine="local" if workers > 1 else "serial", workers=workers
    )
    assert not [key for key, statements in rejected.items() if not statements]
    seen = {
        (name, statement)
        for (name, _), statements in rejected.items()
        for statement in statements
    }
    assert {
        (name, rule.statement) for name in names for rule in EXPERIMENTS[name].rules
    } == seen


def test_errors_are_caught_where_that_is_quick() -> None:
    check_power(QUICK)


@pytest.mark.soak
def test_every_error_is_caught_and_every_statement_rejects_one() -> None:
    check_power(tuple(CLAIMING), workers=2)


def test_every_rule_is_whole() -> None:
    rules = [rule for experiment in CLAIMING.values() for rule in experiment.rules]
    assert len({rule.statement for rule in rules}) == len(rules)
    for rule in rules:
        assert rule.statement
        assert rule.where
        assert rule.accept
        assert (rule.false_alarm is None) is (rule.false_pass is not None)
        assert 0 <= rule.level <= 0.05
    assert all(experiment.breaks for experiment in CLAIMING.values())
    assert not [
        name
        for name, experiment in EXPERIMENTS.items()
        if experiment.breaks and not experiment.rules
    ]


def test_rules_are_printed_before_anything_is_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["reproduce", "--rules"]) == 0
    printed = capsys.readouterr().out
    assert all(
        rule.statement in printed
        for experiment in CLAIMING.values()
        for rule in experiment.rules
    )
    assert main(["reproduce", "horizon", "--rules"]) == 0
    assert (
        capsys.readouterr().out
        == "These experiments only draw figures and have no claims.\n"
    )


def test_a_name_is_one_experiment_or_a_family() -> None:
    assert experiment_names(["lemma1"]) == ["lemma1"]
    assert experiment_names(["gallery"]) == [
        name for name in EXPERIMENTS if name.startswith("gallery-")
    ]
    assert experiment_names([]) == list(EXPERIMENTS)


def test_what_is_not_caught_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    assert (
        main(["reproduce", "thompson", "--broken", "--quick", "--engine", "serial"])
        == 0
    )
    told = (
        "2 of 2 deliberate errors are caught; 2 of 2 statements reject at least one.\n"
    )
    assert capsys.readouterr().out.startswith(told)
    blind = Rule("anything goes", "nowhere", "always")
    always = Experiment(
        lambda _: Outcome("", "", (Claim(blind, "", "", "", True),), ()),
        (blind,),
        (Break("nothing"),),
    )
    monkeypatch.setitem(EXPERIMENTS, "phase", always)
    assert main(["reproduce", "phase", "--broken", "--engine", "serial"]) == 3
    printed = capsys.readouterr().out
    assert (
        "0 of 1 deliberate errors are caught; 0 of 1 statements reject at least one."
    ) in printed
    assert "no deliberate error makes this fail: anything goes" in printed


def test_cases_beyond_those_stated_are_refused() -> None:
    rule = Rule("s", "w", "a", cases=1)
    twice = Experiment(
        lambda _: Outcome(
            "t",
            "",
            (Claim(rule, "1", "", "", True), Claim(rule, "2", "", "", True)),
            (),
        )
    )
    for rules in ((rule,), ()):
        with pytest.raises(AssertionError, match="2 cases, but states 1"):
            Experiment(twice.run, rules)(Setup(quick=True))


RATE, TRIES = 0.02, 4000
SAMPLES: dict[str, Callable[[np.random.Generator], Claim]] = {
    "mean_is, exact error": lambda rng: judging.mean_is(
        Rule("", "", "", RATE), "", rng.normal(1.0, 2.0, 30), 1.0, error=2 / np.sqrt(30)
    ),
    "mean_is, own error": lambda rng: judging.mean_is(
        Rule("", "", "", RATE), "", rng.normal(1.0, 2.0, 8), 1.0
    ),
    "mean_most": lambda rng: judging.mean_most(
        Rule("", "", "", RATE), "", rng.normal(1.0, 2.0, 8), 1.0
    ),
    "mean_least": lambda rng: judging.mean_least(
        Rule("", "", "", RATE), "", rng.normal(1.0, 2.0, 8), 1.0
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_judgements_err_as_often_as_their_rule_states(name: str) -> None:
    """At the edge, where the mean is the bound: a binomial test that itself errs once
    in 10,000, both ways."""
    rng = np.random.default_rng(5)
    alarms = sum(not SAMPLES[name](rng).holds for _ in range(TRIES))
    assert abs(alarms - RATE * TRIES) <= 3.9 * np.sqrt(TRIES * RATE * (1 - RATE))


def test_rare_events_and_differences_err_no_more_than_stated() -> None:
    rng, rare, apart = (
        np.random.default_rng(6),
        Rule("", "", "", RATE),
        Rule("", "", "", None, 1, RATE),
    )
    alarms = sum(
        not judging.rare(rare, "", rng.random(200) < 0.1, 0.1).holds
        for _ in range(TRIES)
    )
    passes = sum(
        judging.above_zero(apart, "", rng.normal(0.0, 1.0, 8)).holds
        for _ in range(TRIES)
    )
    most = RATE * TRIES + 3.7 * np.sqrt(TRIES * RATE * (1 - RATE))
    assert alarms <= most
    assert RATE * TRIES / 2 <= passes <= most


def test_exact_judgements() -> None:
    rule = Rule("", "", "")
    assert judging.most(rule, "", 1.0, 1.0).holds
    assert not judging.most(rule, "", 1.0 + 1e-12, 1.0).holds
    assert judging.least(rule, "", 1.0, 1.0).holds
    assert not judging.least(rule, "", 1.0 - 1e-12, 1.0).holds
    assert judging.equal(rule, "", 1.01, 1.0, relative=0.011).holds
    assert not judging.equal(rule, "", 1.01, 1.0, relative=0.009, off=0.009).holds
    assert judging.within(rule, "", 2.0, 1.0, 2.0).holds
    assert not judging.within(rule, "", float("nan"), 1.0, 2.0).holds
