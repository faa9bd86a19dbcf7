"""A policy file of each kind is what one would build by hand; served, evaluated,
replayed, fitted and simulated."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.cli.main import main
from oddsmith.files.kinds import KINDS, parameters, settings
from oddsmith.lab import Cell, simulate
from oddsmith.lab.study import read_study
from oddsmith.policies import recipes
from oddsmith.policies.parts.families import LogisticFamily
from server.served import Here, here

ARMS = ("sports", "politics", "tech")
COLUMNS = ("age", "visits")
SCHEMA = od.Schema(COLUMNS)
WEIGHTS = np.random.default_rng(4).normal(size=(2, 3, 2))
BANK = od.experts.Encoded(
    od.experts.Clipped(
        od.LinearExperts(WEIGHTS, names=("lines 0", "lines 1"), arms=ARMS)
    ),
    SCHEMA,
)
TOP = 'arms = ["sports", "politics", "tech"]\nseed = 5\nfloors = 0.01\n'
NAMES = '[schema]\nnumbers = ["age", "visits"]\n'
LINES = '[experts.lines]\nkind = "linear"\nfile = "lines.npz"\n'
FACTORY = """
import oddsmith as od


def policy(arms, wins):
    return od.BetaThompsonSampling(len(arms), wins=wins)
"""
KNOWN: Any = {"n_arms": 3, "steps": 200}
FEATURES: Any = {"n_arms": 3, "schema": SCHEMA}
HAND: dict[str, tuple[str, Any]] = {  # settings in the file, and what they stand for
    "gts": ("", od.GeneralizedThompsonSampling(BANK)),
    "tuned": ("steps = 200", recipes.tuned(BANK, **KNOWN)),
    "thompson_sampling": ("", recipes.thompson_sampling(BANK)),
    "feel_good": ("steps = 200", recipes.feel_good(BANK, **KNOWN)),
    "squarecb": ("steps = 200", recipes.squarecb(BANK, **KNOWN)),
    "fastcb": ("", recipes.fastcb(BANK, n_arms=3)),
    "exp4": ("steps = 200", recipes.exp4(BANK, **KNOWN)),
    "exp4p": ("steps = 200", od.policies.EXP4P(BANK, steps=200)),
    "hedged": ("trust = 0.4", recipes.hedged(BANK, trust=0.4)),
    "rate_mixture": (
        "rates = [1, 0.25]",
        od.policies.RateMixture(BANK, rates=[1.0, 0.25]),
    ),
    "regressor_elimination": (
        "contexts = [{ age = 0.5, visits = 1 }]",
        od.policies.RegressorElimination(BANK, [{"age": 0.5, "visits": 1}]),
    ),
    "epoch_greedy": ("", od.policies.EpochGreedy(BANK)),
    "epsilon_greedy": ("", recipes.epsilon_greedy(BANK)),
    "follow_the_leader": ("", recipes.follow_the_leader(BANK)),
    "uniform": ("", recipes.uniform(BANK)),
    "ucb1": ("", od.policies.UCB1(3)),
    "kl_ucb": ("", od.policies.KLUCB(3)),
    "beta_thompson": ("", od.BetaThompsonSampling(3)),
    "linucb": ("", od.LinUCB(**FEATURES)),
    "glm_ucb": ("", od.policies.GLMUCB(**FEATURES)),
    "linear_thompson": ("", od.LinearThompsonSampling(**FEATURES)),
    "linear_class": ("", od.policies.linear_class(**FEATURES)),
    "logistic_thompson": ("", od.policies.LogisticThompsonSampling(**FEATURES)),
    "logistic_class": ("", od.policies.logistic_class(**FEATURES)),
    "probit_thompson": ("", od.policies.ProbitThompsonSampling(**FEATURES)),
    "particles": (
        "dim = 2\nn_particles = 16",
        od.policies.ParticleThompsonSampling(LogisticFamily(), 2, n_particles=16),
    ),
    "auto": ("size = 'small'", od.auto(ARMS, schema=SCHEMA, size="small")),
    "python": (
        "factory = 'kinds_of_policies:policy'\nargs = { wins = 2.0 }",
        od.BetaThompsonSampling(3, wins=2.0),
    ),
}
ROWS = 400
# they learn from a bonus that only their own decisions have
OWN_LOG = ("exp4p", "hedged", "epoch_greedy")
NO_POSTERIOR = ("ucb1", "kl_ucb")  # they have upper bounds
PER_ARM = ("particles",)  # their contexts have a row of numbers for each arm


def table(kind: str) -> str:
    return f"kind = '{kind}'\n{HAND[kind][0]}\n"


def text(kind: str) -> str:
    experts = LINES if "experts" in parameters(kind) else ""
    # a busy machine puts no expert to sleep
    patient = "[service]\ntimeout_ms = 60000\n"
    return (
        TOP
        + ("" if kind in PER_ARM else NAMES)
        + experts
        + f"[policy]\n{table(kind)}"
        + patient
    )


def contexts(kind: str, n: int) -> list[Any]:
    rng = np.random.default_rng(2)
    if kind in PER_ARM:
        return list(rng.normal(size=(n, 3, 2)).tolist())
    return [
        dict(zip(COLUMNS, row, strict=True)) for row in rng.normal(size=(n, 2)).tolist()
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    path = Path(tmp_path_factory.mktemp("kinds"))
    np.savez(path / "lines.npz", weights=WEIGHTS)
    (path / "kinds_of_policies.py").write_text(FACTORY)
    rng = np.random.default_rng(6)
    arm, reward = (
        rng.integers(3, size=ROWS),
        rng.integers(2, size=ROWS).astype(np.float64),
    )
    for kind in KINDS:
        (path / f"{kind}.toml").write_text(text(kind))
        columns: Any = {
            "arm": arm,
            "reward": reward,
            "propensities": np.full((ROWS, 3), 1 / 3),
            "arms": ARMS,
        }
        od.write_log(
            od.Log(context=contexts(kind, ROWS), **columns), path / f"{kind}.jsonl"
        )
    features = rng.normal(size=(60, 2))
    np.savez(
        path / "labels.npz", X=features, y=np.arange(60) % 3, columns=np.array(COLUMNS)
    )
    return path


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Here]:
    with here(*(folder / f"{kind}.toml" for kind in KINDS)) as service:
        yield service


@pytest.fixture(scope="module")
def cells(folder: Path) -> dict[str, Cell]:
    """Each kind as a whole file, and as the same table inside an experiment, in a world
    that it can read."""
    data, models = folder / "labels.npz", ["prior", "bayes"]
    worlds = {
        "labels": (
            f"kind = 'classification'\ndata = '{data}'\ntrain = 20\nmodels = {models}\n"
        ),
        "rows": "kind = 'logistic'\ntheta = [1.0, -2.0]\narms = 3\nexperts = 2\n",
    }
    found: dict[str, Cell] = {}
    for world, about in worlds.items():
        tables = ""
        for kind in KINDS:
            if (kind in PER_ARM) == (world == "rows"):
                tables += (
                    f"[policies.{kind}]\n{inside(kind)}[policies.'{kind} file']\n"
                    f"file = '{kind}.toml'\n"
                )
        path = folder / f"{world}-experiment.toml"
        path.write_text(f"steps = 200\nruns = 2\n[worlds.{world}]\n{about}{tables}")
        found |= {cell.policy: cell for cell in read_study(path).cells()}
    return found


def inside(kind: str) -> str:
    """The table of a policy file, inside an experiment: the world knows contexts and
    width."""
    known = ("contexts", "dim")
    return "".join(
        f"{line}\n" for line in table(kind).splitlines() if not line.startswith(known)
    )


def test_the_table_has_every_kind() -> None:
    assert list(HAND) == list(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_what_one_would_build_by_hand(folder: Path, kind: str) -> None:
    made = od.read_policy(folder / f"{kind}.toml").policy
    assert od.fingerprint(made) == od.fingerprint(od.Bounded(HAND[kind][1], 0.01, 1.0))


@pytest.mark.parametrize("kind", KINDS)
def test_served(served: Here, kind: str) -> None:
    for i, context in enumerate(contexts(kind, 3)):
        answer = served.post(
            "decide", {"experiment": kind, "id": f"v{i}", "context": context}
        )
        assert sum(answer["odds"].values()) == pytest.approx(1)
        assert min(answer["odds"].values()) >= 0.01 - 1e-12
        served.post("reward", {"experiment": kind, "id": f"v{i}", "reward": 1})
    assert served.state(kind).learnt == 3


@pytest.mark.parametrize("kind", KINDS)
def test_the_posterior_of_a_served_policy_is_that_of_an_agent(
    served: Here, folder: Path, kind: str
) -> None:
    for i, context in enumerate(contexts(kind, 3)):
        served.post("decide", {"experiment": kind, "id": f"p{i}", "context": context})
        served.post("reward", {"experiment": kind, "id": f"p{i}", "reward": i % 2})
    state, policy = served.state(kind), od.read_policy(folder / f"{kind}.toml").policy
    answer = served.get(f"/v1/posterior?experiment={kind}")
    experts = served.get(f"/v1/stats?experiment={kind}")["experts"]
    if kind in NO_POSTERIOR:
        with pytest.raises(od.InvalidInput, match="has none"):
            policy.named_posterior(state, ARMS)
        assert (answer["posterior"], experts) == ({}, {})
        return
    known = policy.named_posterior(state, ARMS)
    assert known
    assert answer["posterior"] == json.loads(json.dumps(known))
    assert (answer["learnt"], answer["retired"]) == (state.learnt, [])
    weights = {name: one["weight"] for name, one in experts.items()}
    assert weights == (known if "experts" in parameters(kind) or kind == "auto" else {})


@pytest.mark.parametrize("kind", KINDS)
def test_evaluated_replayed_and_fitted(folder: Path, kind: str, capsys: Any) -> None:
    policy, log, state = (
        str(folder / f"{kind}.toml"),
        str(folder / f"{kind}.jsonl"),
        str(folder / f"{kind}.npz"),
    )
    assert main(["evaluate", log, "--target", policy, "--model", "none", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["targets"][policy]["snips"]
    assert found["low"] < found["value"] < found["high"]
    assert main(["replay", log, "--policy", policy, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accepted"] >= 100
    made = od.read_policy(policy).policy
    if kind in OWN_LOG:
        assert main(["fit", log, "--policy", policy, "--out", state]) == 2
        assert "columns advice and bonus: required" in capsys.readouterr().err
        agent = od.Agent(made, seed=1)
        decisions = [agent.decide(context) for context in contexts(kind, ROWS)]
        od.write_log(
            od.Log.of(
                decisions, np.ones(ROWS), fingerprint=[od.fingerprint(made)] * ROWS
            ),
            log,
        )
    assert main(["fit", log, "--policy", policy, "--out", state, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["learnt"] == ROWS
    agent = od.Agent.load(state, made)
    agent.learn(agent.decide(contexts(kind, 1)[0]), 1.0)
    assert agent.state.learnt == ROWS + 1


@pytest.mark.parametrize("kind", KINDS)
def test_simulated(cells: dict[str, Cell], kind: str) -> None:
    for cell in (cells[kind], cells[f"{kind} file"]):
        run = simulate(cell.plays, cell.where, steps=5, runs=cell.runs)
        assert ((run.regret >= 0) & (run.regret <= 1)).all()
        assert run.state.learnt == 5


def test_settings_are_the_parameters_of_the_class() -> None:
    assert settings("gts") == (
        "loss",
        "eta",
        "gamma",
        "optimism",
        "share",
        "discount",
        "prior",
        "window",
    )
    assert settings("squarecb") == ("steps", "prior", "oracle", "sharpness")
    assert settings("ucb1") == ()
