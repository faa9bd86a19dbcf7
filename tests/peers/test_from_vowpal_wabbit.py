"""As you did it in Vowpal Wabbit: both codes of the page run, and agree where both
must; skipped by name without it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddsmith.evaluation import ips
from peers.side_by_side import Check, Names, complete, peer, play

BEST = {"morning": "politics", "evening": "sports"}


def vw_begins_even(theirs: Names, ours: Names) -> None:
    np.testing.assert_allclose(theirs["first"], 1 / 3, atol=1e-6)
    np.testing.assert_allclose(ours["decision"].propensities, 1 / 3, atol=1e-12)


def vw_learns_the_same(theirs: Names, ours: Names) -> None:
    """The same arm in both contexts, and the same odds: 1 - ε + ε/K and ε/K."""
    for when, best in BEST.items():
        odds = theirs["vw"].predict(theirs["lines"](when))
        mine = ours["agent"].decide({"when": when}, arms=ours["topics"])
        assert ours["ARMS"][int(np.argmax(odds))] == best
        assert ours["agent"].best({"when": when}, arms=ours["topics"]) == best
        np.testing.assert_allclose(mine.propensities, odds, atol=1e-6)


def vw_knows_topics(theirs: Names, ours: Names) -> None:
    assert int(np.argmax(theirs["fresh"])) == 1
    assert int(np.argmax(ours["fresh"].propensities)) == 1
    assert ours["fresh"].arms[1] == "article-91"


def vw_log(theirs: Names, ours: Names) -> None:
    history = ours["history"]
    assert theirs["reader"].get_weighted_examples() == len(history) == 400
    assert (history.kind, history.arms) == ("exact", ("sports", "politics", "tech"))
    np.testing.assert_allclose(
        history.propensities, np.tile(ours["ODDS"], (400, 1)), atol=1e-12
    )
    assert [row["user.when"] for row in history.context] == [
        when for when, _ in ours["VISITS"]
    ]


def vw_odds(wabbit: Any, events: list[str]) -> Any:
    """The odds of a workspace that reads dsjson, normalised: it has single
    precision."""
    found = []
    for event in events:
        examples = wabbit.parse(event)
        found.append(wabbit.predict(examples))
        wabbit.finish_example(examples)
    return np.array(found) / np.sum(found, axis=1, keepdims=True)


def vw_warm(theirs: Names, ours: Names) -> None:
    odds = vw_odds(theirs["warm"], ours["events"])
    for (when, _), row in zip(ours["VISITS"], odds, strict=True):
        assert ours["ARMS"][int(row.argmax())] == BEST[when]
    for when, best in BEST.items():
        arms = {name: {"article.topic": name} for name in ours["ARMS"]}
        assert ours["warmed"].best({"user.when": when}, arms=arms) == best


def vw_has_our_ips(theirs: Names, ours: Names) -> None:
    asked = theirs["vowpalwabbit"].Workspace("-t -i first.vw --dsjson --quiet")
    target = vw_odds(asked, ours["events"][200:])
    assert ips(ours["second"], target).values.mean() == pytest.approx(
        theirs["value"], abs=1e-6
    )


def vw_epsilon(theirs: Names, ours: Names) -> None:
    np.testing.assert_allclose(
        theirs["their_odds"], [0.9 + 0.1 / 3, 0.1 / 3, 0.1 / 3], atol=1e-6
    )
    np.testing.assert_allclose(ours["our_odds"], theirs["their_odds"], atol=1e-6)


CHECKS: dict[str, Check] = {
    "Create and choose": vw_begins_even,
    "Learn": vw_learns_the_same,
    "Arms that change": vw_knows_topics,
    "dsjson logs": vw_log,
    "Warm start from a log": vw_warm,
    "Off-policy evaluation": vw_has_our_ips,
    "Exploration settings": vw_epsilon,
}


def test_every_pair_has_a_check() -> None:
    complete("vowpal-wabbit.md", CHECKS)


@pytest.mark.filterwarnings("ignore")
def test_both_codes_run_and_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer("vowpalwabbit")
    monkeypatch.chdir(tmp_path)
    play("vowpal-wabbit.md", CHECKS)
