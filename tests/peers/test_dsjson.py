"""dsjson next to Vowpal Wabbit itself: it trains on what we write, and we read what it
decided."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od

MEANS = np.array([[0.1, 0.9, 0.4], [0.8, 0.2, 0.3]])
ARMS = ("sports", "politics", "tech")


def wabbit() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(
            "vowpalwabbit",
            reason="peer vowpalwabbit is not installed (make bench installs it)",
        )


@pytest.mark.filterwarnings("ignore")
def test_it_trains_on_what_we_write(tmp_path: Path) -> None:
    """A policy it learns from our file prefers the better arm in both contexts."""
    vw, rng = wabbit(), np.random.default_rng(0)
    place = rng.integers(2, size=3000)
    arm = rng.integers(3, size=3000)
    log = od.Log(
        arm=arm,
        reward=(rng.random(3000) < MEANS[place, arm]).astype(float),
        propensities=np.full((3000, 3), 1 / 3),
        context=[{"place": f"p{p}"} for p in place],
        step=np.arange(3000),
        arms=ARMS,
    )
    path = tmp_path / "log.dsjson"
    od.write_log(log, path)
    settings = f"--cb_explore_adf --dsjson --quiet -q xa --epsilon 0.1 -d {path}"
    learner = vw.Workspace(settings)
    assert learner.get_weighted_examples() == 3000
    for where, best in ((0, 1), (1, 0)):
        event = next(
            json.loads(line)
            for line, p in zip(path.open(), place, strict=True)
            if p == where
        )
        examples = learner.parse(
            json.dumps({k: v for k, v in event.items() if not k.startswith("_label")})
        )
        assert int(np.argmax(learner.predict(examples))) == best
        learner.finish_example(examples)
    learner.finish()


@pytest.mark.filterwarnings("ignore")
def test_we_read_what_it_decided(tmp_path: Path) -> None:
    """Decisions made with its odds, in its own layout, which it also trains on
    itself."""
    vw, rng = wabbit(), np.random.default_rng(1)
    learner = vw.Workspace("--cb_explore_adf --dsjson --quiet -q xa --epsilon 0.2")
    arms: list[int] = []
    odds: list[Any] = []
    rewards: list[float] = []
    lines: list[str] = []
    for t in range(200):
        place = int(rng.integers(2))
        shown = {
            "x": {f"p{place}": 1},
            "_multi": [{"_tag": name, "a": {name: 1}} for name in ARMS],
        }
        asked = learner.parse(
            json.dumps(
                {
                    "Version": "1",
                    "EventId": str(t),
                    "a": [1, 2, 3],
                    "c": shown,
                    "p": [1, 1, 1],
                }
            )
        )
        pmf = np.array(learner.predict(asked))
        learner.finish_example(asked)
        arm = int(rng.choice(3, p=pmf / pmf.sum()))
        reward = float(rng.random() < MEANS[place, arm])
        order = [arm, *(a for a in range(3) if a != arm)]
        event: Any = {
            "_label_cost": -reward,
            "_label_probability": float(pmf[arm]),
            "_label_Action": arm + 1,
        }
        event |= {
            "_labelIndex": arm,
            "Timestamp": f"2026-03-01T00:{t // 60:02}:{t % 60:02}.0000000Z",
            "Version": "1",
        }
        event |= {
            "EventId": str(t),
            "a": [a + 1 for a in order],
            "c": shown,
            "p": [float(pmf[a]) for a in order],
        }
        lines.append(json.dumps(event | {"VWState": {"m": "1"}}))
        taught = learner.parse(lines[-1])
        learner.learn(taught)
        learner.finish_example(taught)
        arms, odds, rewards = [*arms, arm], [*odds, pmf], [*rewards, reward]
    learner.finish()
    path = tmp_path / "theirs.json"
    path.write_text("\n".join(lines))
    log = od.read_log(path)
    np.testing.assert_array_equal(log.arm, arms)
    np.testing.assert_array_equal(log.reward, rewards)
    np.testing.assert_allclose(np.asarray(log.propensities), odds, atol=1e-6)
    assert (log.kind, log.n_arms, log.decision_id[7]) == ("exact", 3, "7")
    assert log.time[61] == np.datetime64("2026-03-01T00:01:01")
    again = vw.Workspace(f"--cb_explore_adf --dsjson --quiet -d {path}")
    assert again.get_weighted_examples() == 200
    again.finish()
    od.write_log(log, tmp_path / "ours.dsjson")
    np.testing.assert_array_equal(
        od.read_log(tmp_path / "ours.dsjson").propensities, log.propensities
    )
