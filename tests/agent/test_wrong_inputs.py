"""Every wrong input gets a named error with one clear sentence, and nothing is lost or
half-written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core import kernels

BANK = od.GivenExperts(("a", "b"))
F = np.array([[0.3, 0.6, 0.2], [0.5, 0.1, 0.4]])
NAN, INF = float("nan"), float("inf")


def gts(**settings: Any) -> od.GeneralizedThompsonSampling:
    return od.GeneralizedThompsonSampling(BANK, **settings)


def agent(arms: Any = ("x", "y", "z"), **settings: Any) -> od.Agent:
    return od.Agent(gts(**({"gamma": 0.1} | settings)), seed=1, arms=arms)


def learn(reward: Any, **changed: Any) -> None:
    one = agent()
    one.learn(one.decide(F)._replace(**changed), reward)


def local_loss(prediction: Any, reward: Any) -> Any:
    return lambda g, r: (g - r) ** 2


def save_with(loss: Any) -> None:
    agent(loss=loss).save("never.npz")


class NoOpinion:
    def fit(self) -> None: ...


class Square:
    def predict(self, rows: Any) -> Any:
        return np.zeros((len(rows), 7))


class Text:
    def predict(self, rows: Any) -> Any:
        return [["a", "b", "c"]] * len(rows)


def model(thing: Any, **settings: Any) -> od.ModelExperts:
    return od.ModelExperts({"m": thing}, **({"arms": ("x", "y", "z")} | settings))


InvalidInput, Infeasible, ExpertFailed, BadFile = (
    od.InvalidInput,
    od.errors.Infeasible,
    od.errors.ExpertFailed,
    od.BadFile,
)
WRONG: dict[str, tuple[type[Exception], str, Callable[[], object]]] = {
    # settings of the policy
    "prior sums to 0.97": (
        InvalidInput,
        "prior must sum to 1; got 0.97 over 2 experts",
        lambda: gts(prior=[0.9, 0.07]),
    ),
    "prior too short": (
        InvalidInput,
        "prior must have one entry for each of the 2 experts; got 1",
        lambda: gts(prior=[1]),
    ),
    "prior negative": (
        InvalidInput,
        "prior must not be negative; got -0.5 at 1",
        lambda: gts(prior=[1.5, -0.5]),
    ),
    "prior NaN": (InvalidInput, "prior must be finite", lambda: gts(prior=[NAN, 1])),
    "prior of words": (
        InvalidInput,
        "prior must be numbers",
        lambda: gts(prior=["much", "little"]),
    ),
    "prior empty": (InvalidInput, "prior must not be empty", lambda: gts(prior=[])),
    "prior of strangers": (
        InvalidInput,
        "got 'c', which is not among",
        lambda: gts(prior={"a": 0.5, "c": 0.5}),
    ),
    "prior forgets one": (
        InvalidInput,
        "prior must name every expert; got none for 'b'",
        lambda: gts(prior={"a": 1.0}),
    ),
    "eta 0": (InvalidInput, r"eta must be in \(0, 1e\+12\]; got 0", lambda: gts(eta=0)),
    "eta infinite": (InvalidInput, "eta must be in", lambda: gts(eta=INF)),
    "eta a word": (InvalidInput, "eta must be a number", lambda: gts(eta="fast")),
    "gamma 1.5": (
        InvalidInput,
        r"gamma must be in \[0, 1\]; got 1.5",
        lambda: gts(gamma=1.5),
    ),
    "gamma NaN": (InvalidInput, "gamma must be in", lambda: gts(gamma=NAN)),
    "gamma True": (InvalidInput, "gamma must be a number", lambda: gts(gamma=True)),
    "schedule leaves [0, 1]": (
        InvalidInput,
        "the schedule gave 2.0",
        lambda: agent(gamma=lambda t: 2.0).decide(F),
    ),
    "schedule cap": (
        InvalidInput,
        r"cap must be in \[0, 1\]",
        lambda: od.policies.PowerSchedule(1.0, cap=2),
    ),
    "share -1": (InvalidInput, "share must be in", lambda: gts(share=-1)),
    "optimism -1": (InvalidInput, "optimism must be in", lambda: gts(optimism=-1)),
    "loss not a function": (
        InvalidInput,
        "loss must be a function",
        lambda: gts(loss="square"),
    ),
    "beta 0": (
        InvalidInput,
        "beta must be in",
        lambda: od.losses.scaled(od.log_loss, 0),
    ),
    "experts are a list": (
        InvalidInput,
        "experts must be a bank",
        lambda: od.GeneralizedThompsonSampling([1]),  # type: ignore[arg-type]
    ),
    "merge of nothing": (
        InvalidInput,
        "merge needs at least one state",
        lambda: gts().merge(),
    ),
    "floor over cap": (
        Infeasible,
        "floors must not exceed caps",
        lambda: od.Bounded(gts(), floors=0.5, caps=0.2),
    ),
    "floors sum to 1.2": (
        Infeasible,
        "sum to at most 1",
        lambda: od.Bounded(gts(), floors=0.4).odds(gts().init(), F),
    ),
    "caps sum to 0.9": (
        Infeasible,
        "caps to at least 1",
        lambda: od.Bounded(gts(), caps=0.3).odds(gts().init(), F),
    ),
    "floors for 2 of 3": (
        InvalidInput,
        "got 2 for 3",
        lambda: od.Bounded(gts(), [0, 0]).odds(gts().init(), F),
    ),
    "floor of 2": (
        InvalidInput,
        "floors must be one number in",
        lambda: od.Bounded(gts(), floors=2),
    ),
    # experts
    "names twice": (
        InvalidInput,
        "names must be distinct; got 'a' twice",
        lambda: od.GivenExperts(("a", "a")),
    ),
    "names a string": (
        InvalidInput,
        "names must be a sequence",
        lambda: od.GivenExperts("abc"),
    ),
    "no names": (
        InvalidInput,
        "names must be at least 1 names; got 0",
        lambda: od.GivenExperts(()),
    ),
    "table of 2 axes": (
        InvalidInput,
        "table must be an array of shape",
        lambda: od.TableExperts(F),
    ),
    "table index 9": (
        InvalidInput,
        "context must be an index in 0 … 1",
        lambda: od.TableExperts(F[None, :] * [[[1]], [[1]]]).predict((), 9),
    ),
    "table index 0.5": (
        InvalidInput,
        "context must be an index",
        lambda: od.TableExperts(F[None]).predict((), 0.5),
    ),
    "weights of 1 axis": (
        InvalidInput,
        "weights must have shape",
        lambda: od.LinearExperts(np.ones(3)),
    ),
    "weights NaN": (
        InvalidInput,
        "weights must be finite",
        lambda: od.LinearExperts(np.array([[NAN]])),
    ),
    "link cauchit": (
        InvalidInput,
        "link must be one of",
        lambda: od.LinearExperts(F, link="cauchit"),  # type: ignore[arg-type]
    ),
    "features of 2": (
        InvalidInput,
        "context must have shape",
        lambda: od.LinearExperts(F).predict((), np.ones((4, 2))),
    ),
    "features of words": (
        InvalidInput,
        "context column 0 must be a number; got 'a'",
        lambda: od.LinearExperts(F).predict((), [["a"] * 3]),
    ),
    "given 3 rows for 2": (
        ExpertFailed,
        r"shape \(…, 2, K\); got \(3, 3\)",
        lambda: agent().decide(np.ones((3, 3))),
    ),
    "given words": (
        InvalidInput,
        "context must be numbers in an array; got 'hello'",
        lambda: agent().decide("hello"),
    ),
    "function of 3": (
        InvalidInput,
        "functions must take",
        lambda: od.FunctionExperts({"f": lambda a, b, c: 1}, ("x",)),
    ),
    "functions a list": (
        InvalidInput,
        "functions must be a dict",
        lambda: od.FunctionExperts([max], ("x",)),  # type: ignore[arg-type]
    ),
    "function of words": (
        ExpertFailed,
        "must return numbers",
        lambda: od.FunctionExperts({"f": lambda c: ["a"]}, ("x",)).predict((), 1),
    ),
    "function too short": (
        ExpertFailed,
        "must return 2 numbers",
        lambda: od.FunctionExperts({"f": lambda c: [1]}, ("x", "y")).predict((), 1),
    ),
    "model without predict": (
        InvalidInput,
        "must have predict_proba or predict",
        lambda: model(NoOpinion()),
    ),
    "model of 7 columns": (
        ExpertFailed,
        "must return 1 x 3 numbers",
        lambda: model(Square()).predict((), [1.0]),
    ),
    "model of words": (
        ExpertFailed,
        "must return numbers",
        lambda: model(Text()).predict((), [1.0]),
    ),
    "models a list": (
        InvalidInput,
        "models must be a dict",
        lambda: od.ModelExperts([Square()], ("x",)),  # type: ignore[arg-type]
    ),
    "models per wrong arm": (
        InvalidInput,
        "one model for each arm",
        lambda: model({"x": Square()}),
    ),
    "two models, three arms": (
        InvalidInput,
        "must be 3 models",
        lambda: model([Square(), Square()]),
    ),
    "clip upside down": (
        InvalidInput,
        "low must be below high",
        lambda: model(Square(), clip=(0.9, 0.1)),
    ),
    "clip one number": (
        InvalidInput,
        "clip must be a pair",
        lambda: model(Square(), clip=0.1),
    ),
    "arm features of 2 rows": (
        InvalidInput,
        "one row for each of 3 arms",
        lambda: model(Square(), arm_features=np.ones((2, 2))),
    ),
    "arm features a word": (
        InvalidInput,
        "arm_features must be rows",
        lambda: model(Square(), arm_features="all"),
    ),
    "onnx of a missing file": (
        BadFile,
        "must be a readable ONNX file",
        lambda: od.OnnxExperts({"m": "nowhere.onnx"}, ("x",)),
    ),
    "onnx of rubbish": (
        BadFile,
        "must be an ONNX model",
        lambda: od.OnnxExperts({"m": b"rubbish"}, ("x",)),
    ),
    "timeout_ms 0": (
        InvalidInput,
        "timeout_ms must be in",
        lambda: od.Guarded(BANK, timeout_ms=0),
    ),
    "stack of nothing": (InvalidInput, "at least one bank", od.stack),
    "stack of twins": (
        InvalidInput,
        "names over all banks must be distinct",
        lambda: od.stack(BANK, BANK),
    ),
    "stack of other arms": (
        InvalidInput,
        "banks must have the same arms",
        lambda: od.stack(model(Square()), od.ModelExperts({"n": Square()}, ("p", "q"))),
    ),
    "cover radius 0": (
        InvalidInput,
        "radius must be in",
        lambda: od.experts.ball_cover(2, 1.0, radius=0),
    ),
    "cover dim 1.5": (
        InvalidInput,
        "dim must be a whole number",
        lambda: od.experts.ball_cover(1.5, 1.0, radius=0.1),  # type: ignore[arg-type]
    ),
    "cover box inside out": (
        InvalidInput,
        "low must be below high",
        lambda: od.experts.grid_cover([1.0], [0.0], radius=0.1),
    ),
    "cover too large": (
        od.errors.TooLarge,
        "would fit",
        lambda: od.experts.ball_cover(40, 1.0, radius=0.1),
    ),
    # decisions
    "policy a dict": (
        InvalidInput,
        "policy must have the methods",
        lambda: od.Agent({}, seed=1),  # type: ignore[arg-type]
    ),
    "seed 0.5": (
        InvalidInput,
        "seed must be an integer",
        lambda: od.Agent(gts(gamma=0.1), seed=0.5),  # type: ignore[arg-type]
    ),
    "two names for three arms": (
        InvalidInput,
        "got 2 names for 3 arms",
        lambda: agent(arms=("x", "y")).decide(F),
    ),
    "eligible a stranger": (
        InvalidInput,
        "got 'w'",
        lambda: agent().decide(F, eligible=["x", "w"]),
    ),
    "eligible nobody": (
        od.errors.NoEligibleArm,
        "at least one arm",
        lambda: agent().decide(F, eligible=[]),
    ),
    "eligible all False": (
        od.errors.NoEligibleArm,
        "at least one arm",
        lambda: agent().decide(F, eligible=[False] * 3),
    ),
    "eligible too short": (
        InvalidInput,
        "mask of the 3 arms",
        lambda: agent().decide(F, eligible=[True, False]),
    ),
    "eligible without names": (
        InvalidInput,
        "boolean mask where",
        lambda: agent(arms=None).decide(F, eligible=[0, 1]),
    ),
    "eligible a list of ints": (
        InvalidInput,
        "boolean mask",
        lambda: gts().odds(gts().init(), F, eligible=[0]),  # type: ignore[arg-type]
    ),
    "batch of nothing": (
        InvalidInput,
        "at least one row",
        lambda: agent().decide_batch([]),
    ),
    "batch of a number": (
        InvalidInput,
        "contexts must be rows",
        lambda: agent().decide_batch(5),
    ),
    "batch of a dict": (
        InvalidInput,
        "contexts must be rows",
        lambda: agent().decide_batch({"a": 1}),
    ),
    # rewards
    "reward 2": (
        InvalidInput,
        r"reward must be in \[0, 1\] .*; got 2",
        lambda: learn(2),
    ),
    "reward NaN": (InvalidInput, "reward must be in", lambda: learn(NAN)),
    "reward a word": (InvalidInput, "reward must be a number", lambda: learn("good")),
    "reward None": (InvalidInput, "reward must be", lambda: learn(None)),
    "rewards for one": (InvalidInput, "match the decisions", lambda: learn([1, 0])),
    "decision a dict": (
        InvalidInput,
        "decision must be the result of decide",
        lambda: agent().learn({"arm": 1}, 1),  # type: ignore[arg-type]
    ),
    "decision of 5 experts": (
        InvalidInput,
        "advice of 2 experts",
        lambda: learn(1, advice=np.ones(5) / 2),
    ),
    "decision without advice": (
        InvalidInput,
        "advice of 2 experts; got None",
        lambda: learn(1, advice=None),
    ),
    "sleeper without weights": (
        InvalidInput,
        "decision must contain its log weights",
        lambda: learn(1, advice=np.array([NAN, 0.5])),
    ),
    "prediction 1.5, log loss": (
        od.errors.OutOfDomain,
        "1.5 of expert",
        lambda: learn(1, advice=np.array([1.5, 0.5])),
    ),
    "everyone was sure of 1": (
        od.errors.AllExpertsRefuted,
        "probability zero",
        lambda: learn(0, advice=np.ones(2)),
    ),
    "optimism without bonus": (
        InvalidInput,
        "bonus",
        lambda: gts(optimism=1.0).update(gts().init(), agent().decide(F), 1.0),
    ),
    "more rewards than decisions": (
        InvalidInput,
        "one to one",
        lambda: od.fold(gts(), gts().init(), [agent().decide(F)], [1, 0]),
    ),
    "scale upside down": (
        InvalidInput,
        "low must be below high",
        lambda: od.RewardScale(5, 1),
    ),
    "value out of scale": (
        InvalidInput,
        r"value must be in \[0, 10\]; got 12",
        lambda: od.RewardScale(0, 10).reward(12),
    ),
    "binarize 2": (
        InvalidInput,
        r"reward must be in \[0, 1\]",
        lambda: od.binarize(2.0, 0.5),
    ),
    # files and names
    "json of something else": (
        InvalidInput,
        "JSON of a Decision",
        lambda: od.Decision.from_json('{"colour": "red"}'),
    ),
    "json of nothing": (
        InvalidInput,
        "JSON of a Decision",
        lambda: od.Decision.from_json(""),
    ),
    "context that is no data": (
        InvalidInput,
        "context must contain only",
        lambda: agent().decide(F)._replace(context=object()).to_json(),
    ),
    "kernels cuda": (
        InvalidInput,
        "kernels must be one of auto, numba, numpy",
        lambda: kernels.use("cuda"),
    ),
    "save a lambda": (
        od.errors.NotPortable,
        "<lambda>",
        lambda: save_with(lambda g, r: (g - r) ** 2),
    ),
    "save a local function": (
        od.errors.NotPortable,
        "<locals>",
        lambda: save_with(local_loss(None, None)),
    ),
    "load of a missing file": (
        BadFile,
        "must be a file that Agent.save wrote",
        lambda: od.Agent.load("nowhere.npz", gts()),
    ),
    "log of nothing": (
        InvalidInput,
        "decisions must not be empty",
        lambda: od.Log.of([], []),
    ),
}


def test_the_table_is_long_enough() -> None:
    assert len(WRONG) >= 40


@pytest.mark.parametrize("name", WRONG)
def test_one_clear_sentence(
    name: str, any_kernels: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    kind, message, attempt = WRONG[name]
    with pytest.raises(kind, match=message) as caught:
        attempt()
    assert isinstance(caught.value, od.OddsmithError)
    text = str(caught.value)
    assert "\n" not in text
    assert 20 < len(text) < 300
    assert not list(tmp_path.iterdir())  # nothing half-written


@pytest.mark.parametrize(
    "changed",
    [
        {"eta": 0.7},
        {"gamma": 0.2},
        {"prior": [0.4, 0.6]},
        {"share": 0.1},
        {"loss": od.square_loss},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_file_of_another_policy_is_refused(changed: Any, tmp_path: Path) -> None:
    agent().save(tmp_path / "agent.npz")
    with pytest.raises(
        od.BadFile, match=f"another policy: policy.{next(iter(changed))}"
    ):
        od.Agent.load(tmp_path / "agent.npz", gts(**({"gamma": 0.1} | changed)))


@pytest.mark.parametrize(
    "damage", ["cut", "rubbish", "empty", "other format", "missing array"]
)
def test_a_damaged_file_is_refused(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "agent.npz"
    agent().save(path)
    whole = path.read_bytes()
    if damage in ("cut", "rubbish", "empty"):
        path.write_bytes(
            {"cut": whole[: len(whole) // 2], "rubbish": b"rubbish", "empty": b""}[
                damage
            ]
        )
    else:
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in archive.files}
        meta = json.loads(arrays["meta"].tobytes())
        if damage == "other format":
            meta["format"] = "oddsmith agent 0"
        else:
            del arrays["state/log_weights"]
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
        np.savez(path, **arrays)
    with pytest.raises(od.BadFile) as caught:
        od.Agent.load(path, gts(gamma=0.1))
    assert "\n" not in str(caught.value)


def test_a_refused_reward_leaves_the_agent_as_it_was(any_kernels: str) -> None:
    one = agent()
    decision = one.decide(F)
    one.learn(decision, 1)
    before = one.state
    for reward, changed in (
        (2, {}),
        (0, {"advice": np.ones(2)}),
        (1, {"advice": np.array([1.5, 0.5])}),
    ):
        with pytest.raises(od.OddsmithError):
            one.learn(decision._replace(**changed), reward)
        assert one.state is before
    one.learn(decision, 0)
    assert one.state.learnt == 2
