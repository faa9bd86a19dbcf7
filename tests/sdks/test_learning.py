"""Learning through Azure's own client alone, in a world that is known: as good as
through our API, and told so.

Visitors, articles, clicks and the seeds of draws are the same for both; what differs is
when a reward is learnt.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest

import oddsmith as od
from oddsmith.files.template import start_policy_file
from oddsmith.lab.worlds.news import ARTICLE_COLUMNS, VISITOR_COLUMNS, NewsWorld
from server.served import process, wait

sdk = pytest.importorskip(
    "azure.cognitiveservices.personalizer",
    reason="requirements/sdks.txt is not installed",
)
models = pytest.importorskip("azure.cognitiveservices.personalizer.models")
authentication = pytest.importorskip("msrest.authentication")

VISITORS, FEW, RUNS = 5000, 2000, 3
pytestmark = pytest.mark.soak


class Visitor(NamedTuple):
    """Who comes, which articles there are, how likely each is clicked, and the number
    that decides about the click."""

    id: str
    context: dict[str, float]
    articles: dict[str, dict[str, float]]
    means: dict[str, float]
    luck: float


def visitors(run: int, n: int) -> Iterator[Visitor]:
    world, rng = NewsWorld().for_seed(run), np.random.default_rng([run, 21])
    for step in range(1, n + 1):
        (offer,) = world.context(step, 1, rng)
        means = world.means(step, [offer])[0].tolist()
        articles = {
            name: dict(zip(ARTICLE_COLUMNS, row.tolist(), strict=True))
            for name, row in offer.features.items()
        }
        context = dict(zip(VISITOR_COLUMNS, offer.context.tolist(), strict=True))
        by_name = dict(zip(offer.arms, means, strict=False))
        yield Visitor(
            f"visitor-{step}", context, articles, by_name, float(rng.random())
        )


class Lived(NamedTuple):
    """Mean rewards: of what was served by its odds, of the caller's own order, of even
    odds, and of the best."""

    served: float
    first: float
    even: float
    best: float

    @property
    def captured(self) -> float:
        return (self.served - self.even) / (self.best - self.even)


Decide = Callable[[Visitor], tuple[str, dict[str, float]]]


def lived(
    coming: Iterable[Visitor], decide: Decide, reward: Callable[..., object]
) -> Lived:
    """All visitors, one after the other; a click is a reward of 1, none is one of 0."""
    rows = []
    for visitor in coming:
        drawn, odds = decide(visitor)
        reward(visitor.id, float(visitor.luck < visitor.means[drawn]))
        means = np.array(list(visitor.means.values()))
        served = sum(odds[name] * mean for name, mean in visitor.means.items())
        rows.append((served, means[0], means.mean(), means.max()))
    return Lived(*np.mean(rows, axis=0).tolist())


def by_their_client(coming: Iterable[Visitor], port: int) -> Lived:
    credentials = authentication.CognitiveServicesCredentials("any text")
    client = sdk.PersonalizerClient(f"http://127.0.0.1:{port}", credentials)

    def decide(visitor: Visitor) -> tuple[str, dict[str, float]]:
        actions = [
            models.RankableAction(id=name, features=[row])
            for name, row in visitor.articles.items()
        ]
        asked = models.RankRequest(
            actions=actions, context_features=[visitor.context], event_id=visitor.id
        )
        answer = client.rank(asked)
        return answer.reward_action_id, {
            one.id: one.probability for one in answer.ranking
        }

    return lived(coming, decide, client.events.reward)


def by_our_client(coming: Iterable[Visitor], port: int) -> Lived:
    with od.Client(f"http://127.0.0.1:{port}") as client:

        def decide(visitor: Visitor) -> tuple[str, dict[str, float]]:
            decided = client.decide(
                visitor.context, arms=visitor.articles, id=visitor.id
            )
            return decided.arm, dict(decided.odds or {})

        return lived(coming, decide, client.reward)


def served(folder: Path, run: int, top: str = "") -> Any:
    """A service as `oddsmith serve --personalizer` begins it, with a seed, and settings
    at the top of its file."""
    folder.mkdir()
    start_policy_file(folder / "news.toml")
    text = (folder / "news.toml").read_text()
    (folder / "news.toml").write_text(f"seed = {run}\n{top}{text}timeout_ms = 60000\n")
    return process(folder / "news.toml", more=["--personalizer"])


def evaluated(client: httpx.Client, n: int) -> dict[str, Any]:
    """The totals of an evaluation of all of it, by policy."""
    home = "/personalizer/v1.1-preview.3/evaluations"
    times = {"startTime": "2020-01-01T00:00:00Z", "endTime": "2099-01-01T00:00:00Z"}
    made = client.post(home, json={"name": "all", **times, "policies": []})
    assert made.status_code == 201, made.text
    where = made.headers["location"]
    wait(lambda: client.get(where).json()["status"] != "pending", 600)
    found = client.get(where).json()
    assert (found["status"], found["events"]) == ("completed", n), found["why"]
    return {one["name"]: one["totalSummary"] for one in found["policyResults"]}


def judged(totals: dict[str, Any], truth: Lived) -> list[float]:
    """How far averages are from the truth, as a part of their half widths; only of
    those that are not refused."""
    truths = {"Online": truth.served, "Baseline": truth.first, "Random": truth.even}
    answered = {
        name: total for name, total in totals.items() if total["refused"] is None
    }
    off = {
        name: abs(total["averageReward"] - truths[name])
        for name, total in answered.items()
    }
    return [off[name] / answered[name]["confidenceInterval"] for name in answered]


def test_the_captured_share_is_that_of_our_own_api(tmp_path: Path) -> None:
    """On average over runs, within 0.02; what was served earns what an evaluation says.

    Shares of two runs differ by 0.012 (one standard deviation) as rewards are learnt a
    little sooner or later: of three runs, by 0.02 on average with odds of 0.004. An
    interval of 95 % misses by twice its half width with 0.0001.
    """
    shares = []
    for run in range(RUNS):
        with served(tmp_path / f"theirs-{run}", run) as one:
            theirs = by_their_client(visitors(run, VISITORS), one.port)
            totals = evaluated(one.client, VISITORS)
        with served(tmp_path / f"ours-{run}", run) as one:
            ours = by_our_client(visitors(run, VISITORS), one.port)
        shares.append((theirs.captured, ours.captured))
        off = judged(totals, theirs)
        print(
            f"run {run}: captured {theirs.captured:.4f} by their client, "
            f"{ours.captured:.4f} by ours; off {off}"
        )
        assert totals["Online"]["refused"] is None
        assert max(off) <= 2
    own, other = np.mean(shares, axis=0)
    assert abs(own - other) <= 0.02, shares
    assert min(own, other) > 0.5, shares


def test_evaluations_hold_the_truth_where_the_log_explores(tmp_path: Path) -> None:
    """With odds of 0.05 at least, no policy is refused; of nine intervals of 95 % three
    miss with odds of 0.008."""
    off: list[float] = []
    for run in range(RUNS):
        with served(tmp_path / f"explores-{run}", run, "floors = 0.05\n") as one:
            truth = by_their_client(visitors(run, FEW), one.port)
            totals = evaluated(one.client, FEW)
        found = judged(totals, truth)
        print(f"run {run}: {truth}; off by {found} half widths")
        assert len(found) == 3, totals
        off += found
    assert sum(one > 1 for one in off) <= 2, off
    assert max(off) <= 2, off
