"""Calls of every route with extreme values, drawn from a seed."""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

from extremes import IDS, MOMENTS, NUMBERS, PROPENSITIES, SIZES, Raw, to_json

__all__ = ["Call", "calls"]

ARMS = ["a", "b", "ünï 😀"]
_V1 = "/personalizer/v1.0"
_HUGE = 1000  # entries: as many of them as one call may have, and one more
_KNOWN = [f"d{number}" for number in range(40)]  # ids that are asked for again


class Call(NamedTuple):
    """A request; `content` is what is sent."""

    method: str
    path: str
    content: str


class _Draws:
    """Values of fields: mostly ordinary ones, so that much is accepted."""

    def __init__(self, seed: int, *, offers: bool) -> None:
        self.rng = random.Random(seed)
        self.offers = offers

    def rarely(self, p: float = 0.1) -> bool:
        return self.rng.random() < p

    def one(self, values: Any) -> Any:
        return self.rng.choice(values)

    def id(self) -> Any:
        return self.one(IDS) if self.rarely() else self.one(_KNOWN)

    def text(self) -> Any:
        """An id that URLs can carry."""
        id = self.id()
        return id if isinstance(id, str) and len(id) < 300 else "d1"

    def number(self, *usual: float) -> Any:
        return self.one(NUMBERS) if self.rarely(0.25) else self.one(usual)

    def context(self) -> Any:
        if self.rarely(0.05):
            return self.one([None, [], {}, "x", [[1]], {"x": {"y": [1]}}, *NUMBERS])
        return [self.number(-1.0, 0.5, 2.0), self.number(0.0, 1.0)]

    def arms(self) -> Any:
        if self.rarely(0.05):
            size = self.one(SIZES)
            return self.one([[], {}, None, [f"arm {i}" for i in range(size)], [1, 2]])
        names = [*ARMS, *(self.one(IDS) for _ in range(self.rarely()))]
        names = [name for name in names if isinstance(name, str)]
        features = {name: self.features() for name in names}
        return self.one([names, features])

    def features(self) -> Any:
        if self.rarely(0.3):
            return None
        return {"x": self.number(0.0, 1.0, 3.5), "kind": self.one(["s", "é", ""])}

    def decision(self) -> dict[str, Any]:
        """The fields of one decision."""
        body: dict[str, Any] = {"context": self.context()}
        if self.rarely(0.9):
            body["id"] = self.id()
        if self.offers or self.rarely(0.02):
            body["arms"] = self.arms()
        if self.rarely(0.15):
            body["eligible"] = self.one([["a"], ["a", "b"], [], ["nobody"], [""]])
        if self.rarely(0.15):
            body["deferred"] = True
        if self.rarely(0.3):
            body |= self.incumbent()
        return body

    def incumbent(self) -> dict[str, Any]:
        """Odds that sum to 1, in which the incumbent's are extreme, or anything."""
        if self.rarely():
            odds = {self.one([*ARMS, "nobody"]): self.one(NUMBERS) for _ in range(2)}
            return {
                "incumbent": self.one([*ARMS, "nobody", ""]),
                "incumbent_odds": odds,
            }
        p = self.one(PROPENSITIES)
        rest = Raw(repr(1.0 - float(p.text)))
        return {"incumbent": "a", "incumbent_odds": {"a": p, "b": rest}}

    def reward(self) -> dict[str, Any]:
        body: dict[str, Any] = {"id": self.id(), "reward": self.number(0.0, 1.0, 1.0)}
        if self.rarely():
            body["key"] = self.one(IDS)
        if self.rarely(0.05):
            body |= {
                "slate": self.id(),
                "slot": self.one([1, 2, 0, -1, "top", *NUMBERS]),
            }
        return body

    def many(self, entry: Any) -> list[Any]:
        if self.rarely(0.01):
            return [entry()] * self.one([0, _HUGE, _HUGE + 1])
        return [entry() for _ in range(self.rng.randint(1, 3))]

    def call(self) -> Call:
        """A call of one of the routes."""
        kind = self.rng.random()
        if kind < 0.35:
            return self.post("decide", self.decision())
        if kind < 0.42:
            slots = self.one(
                [1, 2, 3, [{"name": "top"}, {"name": self.id()}], *NUMBERS]
            )
            body = self.decision() | {"slots": slots}
            if self.rarely(0.5):
                body["context"] = [self.number(0.5)]  # the slot's number joins it
            return self.post("decide", body)
        if kind < 0.5:
            return self.post("decide/batch", {"decisions": self.many(self.decision)})
        if kind < 0.7:
            return self.post("reward", self.reward())
        if kind < 0.75:
            return self.post("reward/batch", {"rewards": self.many(self.reward)})
        if kind < 0.8:
            body = {"id": self.id(), "reward": self.number(0.0, 1.0), "key": self.id()}
            return self.post("correct", body)
        if kind < 0.84:
            return self.post("activate", {self.one(["id", "slate"]): self.id()})
        if kind < 0.85:
            return self.post("experts", self.roster())
        if kind < 0.93:
            return self.personalizer()
        return self.read()

    def post(self, path: str, body: Any) -> Call:
        return Call("POST", f"/v1/{path}", to_json(body))

    def roster(self) -> dict[str, Any]:
        body = {"expert": self.one(["c", "late", *IDS]), "key": self.id()}
        share = {"share": self.number(0.1, 1e-300, 1 - 1e-16)}
        if self.rarely(0.5):
            return body | {"change": "retired"}
        return body | {"change": "added"} | share

    def personalizer(self) -> Call:
        """Ranks, rewards, configurations and evaluations of the other API."""
        event = quote(self.text() or "d1", safe="")
        actions = [{"id": self.one(["a", "b", *IDS]), "features": [{"x": 1}]}]
        rank = {
            "actions": [*actions, {"id": "c", "features": []}],
            "eventId": self.id(),
        }
        times = {"startTime": self.one(MOMENTS), "endTime": self.one(MOMENTS)}
        window = {"rewardWaitTime": self.one(["PT0S", "PT1M", "P9999D", *IDS])}
        window["defaultReward"] = self.number(0.0)
        ways = [
            ("POST", "/rank", rank | {"contextFeatures": [{"x": self.number(1.0)}]}),
            ("POST", f"/events/{event}/reward", {"value": self.number(0.0, 1.0)}),
            ("POST", f"/events/{event}/activate", {}),
            ("PUT", "/configurations/service", window),
            ("POST", "/evaluations", {"name": self.id(), "policies": []} | times),
            ("GET", "/logs/properties", {}),
        ]
        method, path, body = self.one(ways)
        return Call(method, _V1 + path, to_json(body))

    def read(self) -> Call:
        """What dashboards and programs ask."""
        id = quote(self.text() or "d1", safe="").replace(".", "%2E")
        number = to_json(self.one(NUMBERS))
        return Call("GET", self.one([*READS, f"/v1/decisions/{id}?explain=true",
                                     f"/v1/decisions?limit={number}",
                                     f"/v1/stats?skip={number}",
                                     f"/v1/changes?after={number}&wait=0",
                                     f"/v1/series?range={number}"]), "")  # fmt: skip


READS = (
    "/v1/series?range=hour",
    "/v1/series?range=all",
    "/v1/values",
    "/v1/checks",
    "/v1/stats",
    "/v1/posterior",
    "/v1/posterior/history",
    "/v1/decisions",
    "/v1/experiments",
    "/metrics",
)
"""What only displays: none of it may fail, whatever was accepted."""


def calls(seed: int, n: int, *, offers: bool) -> Iterator[Call]:
    """n calls."""
    draws = _Draws(seed, offers=offers)
    for _ in range(n):
        yield draws.call()
