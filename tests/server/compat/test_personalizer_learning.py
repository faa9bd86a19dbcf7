"""What Personalizer's programs are answered is what our own API answers: the same
draws, the same odds, one state."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddsmith.evaluation import estimate, logged
from oddsmith.lab.worlds.news import ARTICLE_COLUMNS, VISITOR_COLUMNS, NewsWorld
from oddsmith.logs.table import Log
from oddsmith.server.audit.log_export import log_batches_of
from oddsmith.server.compat.personalizer.entrance import Personalizer
from oddsmith.server.store.place import open_reader
from server.compat.test_personalizer import file
from server.compat.test_personalizer_evaluations import ended, posted
from server.served import Here, here


def ranked(
    one: Here, id: str, visitor: dict[str, float], articles: dict[str, Any]
) -> tuple[str, dict[str, float]]:
    actions = [{"id": name, "features": [row]} for name, row in articles.items()]
    body = {"eventId": id, "contextFeatures": [visitor], "actions": actions}
    answer = one.ask("POST", "/personalizer/v1.0/rank", json=body).json()
    return answer["rewardActionId"], {
        each["id"]: each["probability"] for each in answer["ranking"]
    }


def decided(
    one: Here, id: str, visitor: dict[str, float], articles: dict[str, Any]
) -> tuple[str, dict[str, float]]:
    answer = one.post(
        "decide", {"id": id, "context": visitor, "arms": articles, "odds": True}
    )
    return answer["arm"], answer["odds"]


def test_both_ways_lead_to_the_same_decisions_to_the_last_bit(tmp_path: Path) -> None:
    """Where each reward is learnt before the next visitor comes."""
    world, rng = NewsWorld(low=3, high=6), np.random.default_rng(3)
    for name in ("theirs", "ours"):
        (tmp_path / name).mkdir()
    with (
        here(file(tmp_path / "theirs"), doors=[Personalizer()]) as theirs,
        here(file(tmp_path / "ours")) as ours,
    ):
        for step in range(1, 51):
            (offer,) = world.context(step, 1, rng)
            visitor = dict(zip(VISITOR_COLUMNS, offer.context.tolist(), strict=True))
            rows = {name: row.tolist() for name, row in offer.features.items()}
            articles = {
                name: dict(zip(ARTICLE_COLUMNS, row, strict=True))
                for name, row in rows.items()
            }
            drawn, odds = ranked(theirs, f"v{step}", visitor, articles)
            assert (drawn, odds) == decided(ours, f"v{step}", visitor, articles)
            value = float(rng.integers(3) - 1)
            path = f"/personalizer/v1.0/events/v{step}/reward"
            assert theirs.ask("POST", path, json={"value": value}).status_code == 204
            ours.reward(f"v{step}", value)
            assert theirs.state().learnt == ours.state().learnt == step
        assert max(odds.values()) > 1.2 / len(odds)  # it has learnt


@pytest.mark.soak
def test_evaluations_of_pages_with_several_slots(tmp_path: Path) -> None:
    """Two slots of three articles: each is an event, and the numbers are those of
    `oddsmith evaluate`."""
    path = file(tmp_path)
    path.write_text(f"floors = 0.25\n{path.read_text()}")
    rng = np.random.default_rng(5)
    arms = {name: {"topic": name} for name in ("art", "news", "tech")}
    with here(path, doors=[Personalizer()]) as one:
        for page in range(110):
            made = one.post(
                "decide",
                {
                    "id": f"page-{page}",
                    "context": {"hour": 9},
                    "arms": arms,
                    "slots": 2,
                },
            )
            rewards = [
                {"id": slot["id"], "reward": float(rng.integers(3) - 1)}
                for slot in made["slots"]
            ]
            one.post("reward/batch", {"rewards": rewards})
        found = ended(one, posted(one))
    assert (found["status"], found["events"]) == ("completed", 220)
    with open_reader(str(tmp_path / "news.sqlite"), "news") as reading:
        log = Log.concatenated(
            [log for log, _ in log_batches_of(reading) if log is not None]
        )
    online, own = found["policyResults"][0]["totalSummary"], estimate(logged(log))
    assert own.diagnostics.n == 110
    assert [online["averageReward"], online["low"]] == pytest.approx(
        [2 * own.value - 1, 2 * own.low - 1], abs=1e-9
    )
