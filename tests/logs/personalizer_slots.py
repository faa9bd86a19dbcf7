"""Events of several slots in the layout that Azure AI Personalizer wrote, made from a
world that is known."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np

from logs.personalizer_logs import ARTICLES, START, TOPICS
from oddsmith.server.store.slates import slot_id

SLOTS = {"top": {"size": "large"}, "side/é": {"size": "small"}, "below": {}}
LOOKS = {"top": 1.0, "side/é": 0.5, "below": 0.25}


def slot_event(
    id: Any, names: list[str], outcomes: list[dict[str, Any]], **more: Any
) -> dict[str, Any]:
    """One event: `outcomes` have `_a` (from 0, the drawn action first), `_p` and
    `_label_cost`."""
    articles = [{"topic": TOPICS[int(name[8:]) % 3]} for name in names]
    return {
        "Timestamp": "2021-04-07T16:40:25.0000000Z",
        "Version": "1",
        "EventId": id,
        "c": {
            "FromUrl": [{"timeOfDay": "morning"}],
            "_multi": [
                {"_tag": name, "i": {"constant": 1, "id": name}, "j": [features]}
                for name, features in zip(names, articles, strict=True)
            ],
            "_slots": [
                {"_id": name, "sj": [features]}
                for name, features in list(SLOTS.items())[: len(outcomes)]
            ],
        },
        "_outcomes": [
            {"_id": name, "_o": [], **one}
            for name, one in zip(SLOTS, outcomes, strict=False)
        ],
        "VWState": {"m": "N/A"},
        "_ba": list(range(len(outcomes))),
    } | more


def slot_world(
    n: int, seed: int = 0, low: float = 0.0
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Events of three slots, each with the rows that it must become; rewards are `low`
    or 1."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        names = [ARTICLES[place] for place in rng.permutation(12)[: rng.integers(3, 7)]]
        morning, time, left = (
            bool(rng.integers(2)),
            START + timedelta(seconds=i),
            list(range(len(names))),
        )
        features = {name: {"topic": TOPICS[int(name[8:]) % 3]} for name in names}
        outcomes, rows = [], []
        for place, (slot, about) in enumerate(SLOTS.items(), 1):
            odds = rng.dirichlet(np.ones(len(left))) * 0.8 + 0.2 / len(left)
            drawn = int(rng.choice(len(left), p=odds / odds.sum()))
            order = [left[drawn], *(action for action in left if action != left[drawn])]
            mine = dict(zip(left, odds.tolist(), strict=True))
            liked = features[names[left[drawn]]]["topic"] == (
                "sports" if morning else "tech"
            )
            reward = (
                1.0 if rng.random() < LOOKS[slot] * (0.8 if liked else 0.2) else low
            )
            outcomes.append(
                {
                    "_label_cost": -reward,
                    "_a": order,
                    "_p": [mine[action] for action in order],
                }
            )
            rows.append(
                {
                    "arm": left[drawn],
                    "reward": (reward - low) / (1.0 - low),
                    "propensities": np.array(
                        [mine.get(action, 0.0) for action in range(len(names))]
                    ),
                    "context": {
                        "timeOfDay": "morning" if morning else "evening",
                        "slot": place,
                        **about,
                    },
                    "offered": tuple(names),
                    "features": features,
                    "decision_id": slot_id(f"ev {i}/é", slot),
                    "slate": f"ev {i}/é",
                    "slot": place,
                    "time": time.replace(tzinfo=None),
                }
            )
            left.remove(left[drawn])
        found = slot_event(
            f"ev {i}/é", names, outcomes, Timestamp=f"{time:%Y-%m-%dT%H:%M:%S}.0000000Z"
        )
        found["c"]["FromUrl"] = [{"timeOfDay": "morning" if morning else "evening"}]
        yield found, rows
