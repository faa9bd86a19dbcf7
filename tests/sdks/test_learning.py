"""Learning through Azure's own client alone, in a world that is known: as good as through our API, and told so.

Visitors, articles, clicks and the seeds of draws are the same for both; what differs is when a reward is learnt.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest

import oddsmith as od
from oddsmith.files.starting import start_policy_file
from oddsmith.worlds.news import ARTICLE_COLUMNS, VISITOR_COLUMNS, NewsWorld
from service.served import process, wait

sdk = pytest.importorskip("azure.cognitiveservices.personalizer", reason="requirements/sdks.txt is not installed")
models = pytest.importorskip("azure.cognitiveservices.personalizer.models")
authentication = pytest.importorskip("msrest.authentication")

VISITORS, RUNS = 5000, 3
pytestmark = pytest.mark.soak


class Visitor(NamedTuple):
    """Who comes, which articles there are, how likely each is clicked, and the number that decides about the click."""

    id: str
    context: dict[str, float]
    articles: dict[str, dict[str, float]]
    means: dict[str, float]
    luck: float


def visitors(run: int) -> Iterator[Visitor]:
    world, rng = NewsWorld().for_seed(run), np.random.default_rng([run, 21])
    for step in range(1, VISITORS + 1):
        (offer,) = world.context(step, 1, rng)
        means = world.means(step, [offer])[0].tolist()
        articles = {name: dict(zip(ARTICLE_COLUMNS, row.tolist(), strict=True)) for name, row in offer.features.items()}
        context = dict(zip(VISITOR_COLUMNS, offer.context.tolist(), strict=True))
        by_name = dict(zip(offer.arms, means, strict=False))
        yield Visitor(f"visitor-{step}", context, articles, by_name, float(rng.random()))


class Lived(NamedTuple):
    """Mean rewards: of what was served by its odds, of the caller's own order, of even odds, and of the best."""

    served: float
    first: float
    even: float
    best: float

    @property
    def captured(self) -> float:
        return (self.served - self.even) / (self.best - self.even)


def lived(run: int, decide: Callable[[Visitor], tuple[str, dict[str, float]]], reward: Callable[..., object]) -> Lived:
    """All visitors of a run, one after the other; a click is a reward of 1, none is one of 0."""
    rows = []
    for visitor in visitors(run):
        drawn, odds = decide(visitor)
        reward(visitor.id, float(visitor.luck < visitor.means[drawn]))
        means = np.array(list(visitor.means.values()))
        served = sum(odds[name] * mean for name, mean in visitor.means.items())
        rows.append((served, means[0], means.mean(), means.max()))
    return Lived(*np.mean(rows, axis=0).tolist())


def by_their_client(run: int, port: int) -> Lived:
    client = sdk.PersonalizerClient(f"http://127.0.0.1:{port}", authentication.CognitiveServicesCredentials("any text"))

    def decide(visitor: Visitor) -> tuple[str, dict[str, float]]:
        actions = [models.RankableAction(id=name, features=[row]) for name, row in visitor.articles.items()]
        asked = models.RankRequest(actions=actions, context_features=[visitor.context], event_id=visitor.id)
        answer = client.rank(asked)
        return answer.reward_action_id, {one.id: one.probability for one in answer.ranking}

    return lived(run, decide, client.events.reward)


def by_our_client(run: int, port: int) -> Lived:
    with od.Client(f"http://127.0.0.1:{port}") as client:

        def decide(visitor: Visitor) -> tuple[str, dict[str, float]]:
            decided = client.decide(visitor.context, arms=visitor.articles, id=visitor.id)
            return decided.arm, dict(decided.odds or {})

        return lived(run, decide, client.reward)


def served(folder: Path, run: int) -> Any:
    """A service as `oddsmith serve --personalizer` begins it, with a seed."""
    folder.mkdir()
    start_policy_file(folder / "news.toml")
    text = (folder / "news.toml").read_text()
    (folder / "news.toml").write_text(f"seed = {run}\n{text}timeout_ms = 60000\n")
    return process(folder / "news.toml", more=["--personalizer"])


def evaluated(client: httpx.Client) -> dict[str, Any]:
    """The totals of an evaluation of all of it, by policy."""
    home = "/personalizer/v1.1-preview.3/evaluations"
    times = {"startTime": "2020-01-01T00:00:00Z", "endTime": "2099-01-01T00:00:00Z"}
    made = client.post(home, json={"name": "all", **times, "policies": []})
    assert made.status_code == 201, made.text
    where = made.headers["location"]
    wait(lambda: client.get(where).json()["status"] != "pending", 600)
    found = client.get(where).json()
    assert (found["status"], found["events"]) == ("completed", VISITORS), found["why"]
    return {one["name"]: one["totalSummary"] for one in found["policyResults"]}


def test_the_captured_share_and_what_evaluations_say(tmp_path: Path) -> None:
    """Shares within 0.02 on average over runs; of nine intervals of 95 %, seven hold the truth, and no half is short.

    Were each interval right with 0.95, three of nine misses would have odds of 0.008, one by twice its width 0.0001.
    """
    shares, within = [], []
    for run in range(RUNS):
        with served(tmp_path / f"theirs-{run}", run) as one:
            theirs = by_their_client(run, one.port)
            totals = evaluated(one.client)
        with served(tmp_path / f"ours-{run}", run) as one:
            ours = by_our_client(run, one.port)
        shares.append((theirs.captured, ours.captured))
        for name, truth in (("Online", theirs.served), ("Baseline", theirs.first), ("Random", theirs.even)):
            total = totals[name]
            print(run, name, truth, {key: total[key] for key in ("averageReward", "confidenceInterval", "refused")})
            if total["refused"] is None:
                off = abs(total["averageReward"] - truth)
                within.append(off <= total["confidenceInterval"])
                assert off <= 2 * total["confidenceInterval"], (run, name, truth, total)
        print(run, theirs, ours, shares[-1])
        assert totals["Online"]["refused"] is None
    own, other = np.mean(shares, axis=0)
    assert abs(own - other) <= 0.02, shares
    assert within.count(False) <= 2, within
    assert min(own, other) > 0.5, shares
