"""An expert that does anything at all never fails a decision that is served (F8 of the
test plan)."""

from pathlib import Path
from typing import Any

import pytest

from server.served import Here, here, place, wait

FACTORY = """
import os, sys, time
import numpy as np
import oddsmith as od

POISONS = {
    "raises": lambda: 1 / 0,
    "exits": lambda: sys.exit("bye"),
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "text": lambda: "text",
    "huge": lambda: np.zeros(10_000_000),
    "late": lambda: time.sleep(5) or 0.5,
    "dies": lambda: os._exit(3),
}


def honest(context, arm):
    return 0.7 if arm == "tech" else 0.2


def poison(context, arm):
    return POISONS[context]() if context in POISONS else 0.4


def bank(arms):
    return od.FunctionExperts({"poison": poison}, arms)


def good(arms):
    return od.FunctionExperts({"honest": honest}, arms)
"""
TABLES = """
[experts.good]
kind = "python"
factory = "poisonous_MODULE:good"
[experts.poison]
kind = "python"
factory = "poisonous_MODULE:bank"
ISOLATE
"""
KINDS = {
    "raises": "raised",
    "exits": "raised",
    "inf": "values",
    "text": "values",
    "huge": "shape",
    "late": "late",
}


def served(folder: Path, poison: str, isolate: str = "") -> Path:
    """An experiment of one honest expert and one that is not; a busy machine makes
    nobody else late."""
    (folder / f"poisonous_{folder.name}.py").write_text(FACTORY)
    tables = TABLES.replace("MODULE", folder.name).replace("ISOLATE", isolate)
    # which is also the time of a process of its own
    top = "guard = true\ntimeout_ms = 60000\n" if isolate else ""
    path = place(folder, experts=tables, top=top)
    if poison == "late":
        path.write_text(
            path.read_text().replace("timeout_ms = 60000", "timeout_ms = 1500")
        )
    return path


def decided(service: Here, context: str) -> Any:
    """A decision whose odds are exact, whoever sleeps."""
    answer = service.post("decide", {"context": context})
    assert abs(sum(answer["odds"].values()) - 1) < 1e-12
    assert answer["propensity"] == answer["odds"][answer["arm"]]
    return answer


@pytest.mark.usefixtures("arms")
@pytest.mark.parametrize("poison", [*KINDS, "nan"])
def test_poison_sleeps_is_counted_and_comes_back(tmp_path: Path, poison: str) -> None:
    with here(served(tmp_path, poison)) as service:
        before = decided(service, "home page")
        assert "asleep" not in before
        poisoned = decided(service, poison)
        assert poisoned["asleep"] == ["poison"]
        # the honest one alone, with its gamma
        assert poisoned["odds"]["tech"] == pytest.approx(1 - 0.1 * 2 / 3)
        service.reward(poisoned["id"], 1.0)
        failures = service.get("/v1/stats")["experts"]["poison"]["failures"]
        metrics = service.ask("GET", "/metrics").text
        if poison == "nan":  # no opinion is no failure
            assert failures == {}
        else:
            assert failures == {KINDS[poison]: 1}
            kind = f'experiment="news",expert="poison",kind="{KINDS[poison]}"'
            assert f"oddsmith_expert_failures_total{{{kind}}} 1.0" in metrics
        assert "asleep" not in decided(service, "home page")
        assert service.state().learnt == 1


@pytest.mark.usefixtures("arms")
def test_an_expert_that_ends_its_process_sleeps_until_it_is_back(
    tmp_path: Path,
) -> None:
    with here(served(tmp_path, "isolated", "isolate = true")) as service:
        answers = [decided(service, "dies") for _ in range(3)]
        assert all(answer["asleep"] == ["poison"] for answer in answers)
        assert service.get("/v1/stats")["experts"]["poison"]["failures"]["died"] >= 1
        # it is started again beside the decisions
        wait(lambda: "asleep" not in decided(service, "home page"), 60)


def test_unguarded_poison_would_fail_the_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test has teeth."""
    from oddsmith.server.experiment import start as opening

    monkeypatch.setattr(opening, "guarded", lambda policy, *_, **__: policy)
    with here(served(tmp_path, "unguarded")) as service:
        assert (
            service.ask("POST", "/v1/decide", json={"context": "raises"}).status_code
            >= 400
        )


WRITES = """
import oddsmith as od


def writes(context):
    context["seen"] = {1, 2}
    del context["hour"]
    return [0.1, 0.2, 0.3]


def bank(arms):
    return od.FunctionExperts({"writes": writes}, arms)
"""


@pytest.mark.usefixtures("arms")
def test_an_expert_that_writes_into_its_context_changes_no_record(
    tmp_path: Path,
) -> None:
    module = f"poisonous_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(WRITES)
    with here(
        place(
            tmp_path,
            experts=f'[experts.one]\nkind = "python"\nfactory = "{module}:bank"\n',
        )
    ) as one:
        made = one.post("decide", {"context": {"hour": 9, "tags": ["a"]}})
        assert "asleep" not in made
        assert one.get(f"/v1/decisions/{made['id']}")["context"] == {
            "hour": 9,
            "tags": ["a"],
        }
