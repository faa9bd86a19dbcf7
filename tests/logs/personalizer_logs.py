"""Logs in the layout that Azure AI Personalizer wrote, made from a world that is
known."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

import oddsmith as od

ARTICLES = [f"article-{i}" for i in range(12)]
TOPICS = ["sports", "tech", "art"]
START = datetime(2021, 4, 7, 16, 40, 25, tzinfo=UTC)


def event(
    id: str,
    actions: Mapping[str, Any],
    odds: Sequence[float],
    *,
    drawn: int = 0,
    reward: float = 0.0,
    **more: Any,
) -> dict[str, Any]:
    """One event: the drawn action first in `a` and `p`, the others in their order
    behind it."""
    order = [drawn, *(place for place in range(len(actions)) if place != drawn)]
    seen = [{"v": reward, "EventId": id, "ActionTaken": False}] if reward else []
    return {
        "_label_cost": -reward,
        "_label_probability": odds[drawn],
        "_label_Action": drawn + 1,
        "_labelIndex": drawn,
        "o": seen,
        "Timestamp": "2021-04-07T16:40:25.0000000Z",
        "Version": "1",
        "EventId": id,
        "a": [place + 1 for place in order],
        "c": {
            "FromUrl": [{"timeOfDay": "morning"}],
            "_multi": [
                {"_tag": name, "i": {"constant": 1, "id": name}, "j": [features]}
                for name, features in actions.items()
            ],
        },
        "p": [odds[place] for place in order],
        "VWState": {"m": "N/A"},
        "_original_label_cost": -reward,
    } | more


def world(n: int, seed: int = 0) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Events, each with the row that it must become: sports are clicked in the morning,
    tech in the evening."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        names = [ARTICLES[place] for place in rng.permutation(12)[: rng.integers(2, 6)]]
        morning, age = bool(rng.integers(2)), float(rng.integers(100)) / 4
        features = {
            name: {"topic": TOPICS[int(name[8:]) % 3], "words": int(name[8:]) * 100}
            for name in names
        }
        odds = rng.dirichlet(np.ones(len(names))) * 0.8 + 0.2 / len(names)
        odds[-1] = 1 - odds[:-1].sum()
        drawn = int(rng.choice(len(names), p=odds / odds.sum()))
        liked = features[names[drawn]]["topic"] == ("sports" if morning else "tech")
        reward = float(rng.random() < (0.8 if liked else 0.2))
        time = START + timedelta(seconds=i)
        context: list[dict[str, Any]] = [
            {"timeOfDay": "morning" if morning else "evening"},
            {"user": {"age": age}},
        ]
        found = event(f"ev {i}/é", features, odds.tolist(), drawn=drawn, reward=reward)
        found |= {"Timestamp": f"{time:%Y-%m-%dT%H:%M:%S}.1234560Z"}
        found["c"]["FromUrl"] = context
        yield (
            found,
            {
                "arm": drawn,
                "reward": reward,
                "propensities": odds,
                "context": {"timeOfDay": context[0]["timeOfDay"], "user.age": age},
                "offered": tuple(names),
                "features": features,
                "decision_id": f"ev {i}/é",
                "time": (time + timedelta(microseconds=123456)).replace(tzinfo=None),
            },
        )


def write(path: Path, *events: Any) -> Path:
    """A file of events; text stands as it is."""
    with path.open("w", encoding="utf-8", newline="") as file:
        for one in events:
            file.write((one if isinstance(one, str) else json.dumps(one)) + "\n")
    return path


def assert_rows(log: od.Log, rows: Sequence[Mapping[str, Any]]) -> None:
    """Every column of every row."""
    assert len(log) == len(rows)
    for found, expected in zip(log, rows, strict=True):
        n = len(expected["offered"])
        np.testing.assert_allclose(
            found["propensities"][:n], expected["propensities"], rtol=0, atol=1e-12
        )
        assert not found["propensities"][n:].any()
        for name in expected.keys() - {"propensities"}:
            assert found[name] == expected[name], name
