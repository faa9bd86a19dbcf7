"""Arms that come with calls, for tests that hold for both kinds of experiments: the
same test, on either.

A test that takes the fixture `arms` runs with arms that the policy file fixes, and with
the same arms in every call; one that takes `any_arms`, with offers that change from
call to call. `served.place` then writes a policy file without arms, and the clients of
this module bring them; a body that has arms is sent as it is.
"""

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import httpx
import numpy as np

__all__ = [
    "ARMS",
    "AsyncClient",
    "Client",
    "Kind",
    "arms_line",
    "bringing",
    "brought",
    "said",
    "weights",
]

Kind: TypeAlias = Literal["fixed", "same", "changing"]
ARMS = ("sports", "politics", "tech")
KNOWN = (*ARMS, "culture", "weather", "a/17", "ünï", "42", "x" * 256)

_RNG = np.random.default_rng(8)
# of four experts: for each arm, two numbers of the context
_FIXED = _RNG.normal(size=(4, 3, 2))
_SHARED = _RNG.normal(size=(4, 5))  # two numbers of the context, three of the arm
_FEATURES = {
    arm: row.round(3).tolist()
    for arm, row in zip(ARMS, _RNG.normal(size=(3, 3)), strict=True)
}


@dataclass(frozen=True)
class _Calls:
    """What calls bring, and whether experts read features by name."""

    kind: Kind = "fixed"
    by_name: bool = False

    def brought(self, path: str, body: Any) -> Any:
        """The body as it is sent: with arms, where calls bring them and it has none."""
        if self.kind == "fixed" or not isinstance(body, Mapping) or "arms" in body:
            return body
        if path.endswith("/decide"):
            return (
                {**body, "arms": dict(_FEATURES)}
                if self.kind == "same"
                else self._with_others(body)
            )
        if not path.endswith("/decide/batch") or not isinstance(
            body.get("decisions"), list
        ):
            return body
        if self.kind == "same":
            return {**body, "arms": dict(_FEATURES)}
        return {
            **body,
            "decisions": [
                self.brought("/decide", entry) for entry in body["decisions"]
            ],
        }

    def _with_others(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """One to eight arms, known and new, at times with those that are eligible; a
        repeat brings the same."""
        rng = random.Random(
            str(body.get("id") or body.get("unit") or json.dumps(body, default=str))
        )
        names = rng.sample(KNOWN, rng.randint(1, 6)) + [
            f"new {rng.random()}" for _ in range(rng.randint(0, 2))
        ]
        if "eligible" in body:
            names = list(dict.fromkeys([*ARMS, *names]))
        offer = {name: self._row(rng) for name in names}
        if all(row is None for row in offer.values()) and not self.by_name:
            offer[names[-1]] = [0.0, 1.0, 0.5]  # of one arm at least something is known
        eligible = rng.sample(names, rng.randint(1, len(names)))
        return {
            **({"eligible": eligible} if rng.random() < 0.3 else {}),
            **body,
            "arms": offer,
        }

    def _row(self, rng: random.Random) -> Any:
        """What is known of an arm: numbers, categories, gaps, or nothing."""
        if rng.random() < 0.2:
            return None
        if not self.by_name:
            return [round(rng.gauss(0, 1), 3) for _ in range(3)]
        row = {
            "age": round(rng.random(), 3),
            "topic": rng.choice(["tech", "art", None]),
            "paid": rng.random() < 0.5,
        }
        return {name: value for name, value in row.items() if rng.random() < 0.8}


_now = _Calls()


@contextmanager
def bringing(kind: Kind) -> Iterator[None]:
    """Policy files that are written meanwhile, and clients that are made, are of this
    kind."""
    global _now
    before, _now = _now, _Calls(kind)
    try:
        yield
    finally:
        _now = before


def arms_line(experts: str) -> str:
    """The line of a policy file that says which arms there are."""
    global _now
    _now = replace(_now, by_name='"auto"' in experts and '"linear"' not in experts)
    return f"arms = {list(ARMS)}\n" if _now.kind == "fixed" else ""


def brought(path: str, body: Any) -> Any:
    """The body as it is sent."""
    return _now.brought(path, body)


def weights() -> Any:
    """Those of the linear experts a, b, c and d."""
    return _FIXED if _now.kind == "fixed" else _SHARED


def said(context: list[float], experts: Any = None) -> Any:
    """What logistic experts predict of the same three arms, (N, K)."""
    experts = weights() if experts is None else experts
    if experts.ndim == 3:
        scores = experts @ np.array(context)
    else:
        scores = experts @ np.array([[*context, *_FEATURES[arm]] for arm in ARMS]).T
    return np.clip(1 / (1 + np.exp(-scores)), 1e-4, 1 - 1e-4)


class Client(httpx.Client):
    """A client that brings arms, where calls do."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._calls = _now

    def request(self, method: Any, url: Any, **more: Any) -> httpx.Response:
        """The answer, whatever it is."""
        if "json" in more:
            more["json"] = self._calls.brought(str(url), more["json"])
        return super().request(method, url, **more)


class AsyncClient(httpx.AsyncClient):
    """The same, without waiting."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._calls = _now

    async def request(self, method: Any, url: Any, **more: Any) -> httpx.Response:
        """The answer, whatever it is."""
        if "json" in more:
            more["json"] = self._calls.brought(str(url), more["json"])
        return await super().request(method, url, **more)
