"""Every kind of policy that has experts, and every way in which an expert can fail: the
decision is made, its odds are exact, and rewards are learnt."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.files.kinds import KINDS, parameters
from oddsmith.files.policy import read_policy
from oddsmith.server.audit import verify
from oddsmith.server.store import SQLiteReader
from server.served import Here, here, wait

ARMS = ("sports", "politics", "tech")
WITH_EXPERTS = [kind for kind in KINDS if {"experts", "models"} & set(parameters(kind))]
SETTINGS = dict.fromkeys(
    ("tuned", "feel_good", "squarecb", "exp4", "exp4p"), "steps = 200\n"
) | {"regressor_elimination": 'contexts = ["home page"]\n'}
FACTORY = """
import os, sys, time
import numpy as np
import oddsmith as od

FAILURES = {
    "raises": lambda: 1 / 0,
    "exits": lambda: sys.exit("bye"),
    "late": lambda: time.sleep(0.4) or [0.4, 0.5, 0.6],
    "nan": lambda: [float("nan")] * 3,
    "one nan": lambda: [0.5, float("nan"), 0.5],
    "inf": lambda: [0.5, float("inf"), 0.5],
    "huge": lambda: [1e300, -1e300, 0.5],
    "outside": lambda: [1.5, -0.5, 0.5],
    "short": lambda: [0.5, 0.5],
    "deep": lambda: [[0.1, 0.2, 0.3]] * 3,
    "empty": lambda: [],
    "nothing": lambda: None,
    "text": lambda: ["a", "b", "c"],
    "complex": lambda: np.full(3, 0.5 + 0.5j),
    "objects": lambda: np.array([{}, {}, {}]),
}


def page_of(context):
    return context["page"] if isinstance(context, dict) else context


def honest(context):
    context = page_of(context)
    if context.endswith("for all"):
        return FAILURES[context.removesuffix(" for all")]()
    return [0.2, 0.3, 0.7]


def poison(context):
    context = page_of(context)
    failure = context.removesuffix(" for all")
    return FAILURES[failure]() if failure in FAILURES else [0.4, 0.5, 0.6]


def mortal(context):
    return os._exit(3) if page_of(context) == "dies" else [0.6, 0.5, 0.4]


def bank(arms):
    return od.FunctionExperts({"honest": honest, "poison": poison}, arms)


def mortals(arms):
    return od.FunctionExperts({"mortal": mortal}, arms)
"""
FAILURES = (
    *("raises", "exits", "late", "nan", "one nan", "inf", "huge", "outside", "short"),
    *("deep", "empty", "nothing", "text", "complex", "objects"),
)
FOR_ALL = ("raises for all", "nan for all")
# what a loss can score, and what sleeps for one arm only, differs by kind
DIFFERS = ("one nan", "outside")


def context_of(kind: str, page: str) -> Any:
    """The context of a page: learners of `auto` read names and values."""
    return {"page": page} if kind == "auto" else page


def policy_file(
    folder: Path, kind: str, *, top: str = "", isolated: bool = False
) -> Path:
    module = f"failing_{folder.name.replace('-', '_')}"
    (folder / f"{module}.py").write_text(FACTORY)
    tables = {"bank": "mortals"} if isolated else {"bank": "bank"}
    text = f"arms = {list(ARMS)}\nseed = 5\n{top}"
    for name, factory in tables.items():
        text += f'[experts.{name}]\nkind = "python"\nfactory = "{module}:{factory}"\n'
        text += "isolate = true\n" if isolated else ""
    if isolated:
        text += f'[experts.more]\nkind = "python"\nfactory = "{module}:bank"\n'
    text += f'[policy]\nkind = "{kind}"\n{SETTINGS.get(kind, "")}'
    # calls that are late for other reasons are asleep, too
    text += f"[service]\ntimeout_ms = {60_000 if isolated else 150}\n"
    path = folder / f"{kind}.toml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Here]]:
    folder = tmp_path_factory.mktemp("failing")
    with here(*(policy_file(folder, kind) for kind in WITH_EXPERTS)) as service:
        yield folder, service


@pytest.mark.parametrize("kind", WITH_EXPERTS)
def test_a_served_decision_is_made_exact_and_learnt(
    served: tuple[Path, Here], kind: str
) -> None:
    folder, service = served
    contexts = ("home page", *FAILURES, *FOR_ALL, "home page")
    for number, context in enumerate(contexts):
        asked = {"context": context_of(kind, context), "experiment": kind}
        answer = service.post("decide", asked)
        odds = answer["odds"]
        assert abs(sum(odds.values()) - 1) < 1e-12
        assert answer["propensity"] == odds[answer["arm"]] > 0
        if context in FAILURES and context not in DIFFERS:
            assert kind == "epoch_greedy" or "poison" in answer["asleep"], context
        if context in FOR_ALL and kind != "auto":  # whose learners never fail
            assert list(odds.values()) == pytest.approx([1 / 3] * 3)
        service.reward(answer["id"], number % 2, experiment=kind)
    state = service.state(kind)
    assert state.learnt == len(contexts)
    assert all(
        np.isfinite(value) for value in service.experiment(kind).weights().values()
    )
    with SQLiteReader(folder / f"{kind}.sqlite") as reader:
        assert verify(reader).holds
        assert verify(reader, policy=read_policy(folder / f"{kind}.toml").policy).holds


@pytest.mark.parametrize("kind", WITH_EXPERTS)
def test_a_decision_of_an_agent_is_made_exact_and_learnt(
    tmp_path: Path, kind: str
) -> None:
    file = policy_file(
        tmp_path, kind, top="floors = 0.01\nguard = true\ntimeout_ms = 150\n"
    )
    agent = od.Agent(read_policy(file).policy, arms=ARMS, seed=5)
    for number, context in enumerate(("home page", *FAILURES, *FOR_ALL, "home page")):
        decision = agent.decide(context_of(kind, context))
        odds = decision.propensities
        assert abs(odds.sum() - 1) < 1e-12
        assert decision.propensity == odds[list(ARMS).index(decision.arm)] > 0
        agent.learn(decision, number % 2)
    assert agent.state.learnt == number + 1
    agent.save(tmp_path / "agent.npz")
    again = od.Agent.load(tmp_path / "agent.npz", read_policy(file).policy)
    assert again.state.learnt == agent.state.learnt


@pytest.mark.soak
@pytest.mark.parametrize("kind", WITH_EXPERTS)
def test_an_expert_whose_process_dies_fails_no_decision(
    tmp_path: Path, kind: str
) -> None:
    check_process(tmp_path, kind)


def test_an_expert_of_hedged_whose_process_dies_fails_no_decision(
    tmp_path: Path,
) -> None:
    check_process(tmp_path, "hedged")


def check_process(folder: Path, kind: str) -> None:
    with here(policy_file(folder, kind, isolated=True)) as service:

        def decide(context: str) -> Any:
            answer = service.post("decide", {"context": context_of(kind, context)})
            assert abs(sum(answer["odds"].values()) - 1) < 1e-12
            service.reward(answer["id"], 1)
            return answer

        wait(lambda: "asleep" not in decide("home page"), 60)
        assert decide("dies")["asleep"] == ["mortal"]
        wait(lambda: "asleep" not in decide("home page"), 60)
        assert service.state(kind).learnt > 2
    with SQLiteReader(folder / f"{kind}.sqlite") as reader:
        assert verify(reader).holds
