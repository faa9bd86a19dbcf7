"""Experiment files: what they run, what they refuse and with which key."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.cli.main import main
from oddsmith.lab import simulate
from oddsmith.lab.problem_tables import MODELS
from oddsmith.lab.study import Study, read_study

GOOD = """
steps = 60
runs = 3
seeds = [0, 4]
delay = { mean = 2.0 }
rewards = { beta = 5.0 }

[worlds.random]
kind = "random"
experts = 8

[worlds.own]
kind = "table"
means = [[0.2, 0.8], [0.6, 0.4]]
experts = [[[0.5, 0.4], [0.2, 0.8]], [[0.4, 0.5], [0.6, 0.4]]]

[worlds.hostile]
kind = "adversary"
contexts = 4
experts = 5

[worlds.changing]
kind = "switching"
experts = 5
truths = [0, 3]
until = [30]

[worlds.features]
kind = "logistic"
theta = [1.0, -2.0]
experts = 6

[worlds.flowers]
kind = "classification"
data = "iris"
train = 30

[policies.mixed]
loss = "square"
eta = 1.0
gamma = { scale = 0.5, power = 0.5 }

[policies.plain]
kind = "thompson_sampling"

[policies.greedy]
kind = "epsilon_greedy"
epsilon = 0.1

[policies.theory]
kind = "tuned"

[policies.blind]
kind = "uniform"

[policies.rival]
kind = "squarecb"
oracle = "mixture"
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(text)
    return path


def test_every_kind_of_world_and_policy(tmp_path: Path) -> None:
    study = read_study(written(tmp_path, GOOD))
    assert isinstance(study, Study)
    table = study.run(tmp_path / "out", engine="serial").table
    assert len(table.rows) == 6 * 6
    assert {row[0] for row in table.rows} == {
        "random",
        "own",
        "hostile",
        "changing",
        "features",
        "flowers",
    }
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count("<figure>") == 6
    assert "http://" not in page.replace("http://www.w3.org", "")
    blind = next(row for row in table.rows if row[:2] == ("own", "blind"))
    # contexts are drawn
    assert float(blind[2]) == pytest.approx(60 * (0.3 + 0.1) / 2, rel=0.2)


def test_a_cell_is_a_simulation(tmp_path: Path) -> None:
    study = read_study(written(tmp_path, GOOD))
    cell = study.cells()[0]
    table = study.run(tmp_path / "out", engine="serial").table
    runs = [
        simulate(
            cell.plays,
            cell.where,
            steps=60,
            runs=3,
            seed=seed,
            delay=cell.delay,
            noise=cell.noise,
        )
        for seed in (0, 4)
    ]
    mean = np.concatenate([run.total for run in runs]).mean()
    assert float(table.rows[0][2]) == pytest.approx(mean, abs=0.01)


def test_the_bound_is_shown_where_theory_has_one(tmp_path: Path) -> None:
    text = (
        "steps = 50\n[worlds.w]\nkind = 'random'\nexperts = 4\n[policies.a]\n"
        "gamma = 0.1\n[policies.b]\neta = 0.3\n"
    )
    text += "[policies.c]\ngamma = 0.1\ndiscount = 0.9\n"
    table = (
        read_study(written(tmp_path, text)).run(tmp_path / "out", engine="serial").table
    )
    bound = od.theory.regret_bound(
        "log", n_arms=3, steps=50, prior=0.25, gamma=0.1
    ).bound
    assert [row[-1] for row in table.rows] == [f"{bound:,.0f}", "", ""]


BASE = "steps = 10\n[worlds.w]\nkind = 'random'\n[policies.p]\ngamma = 0.1\n"


def world(kind: str) -> str:
    return BASE.replace("kind = 'random'", f"kind = {kind}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            BASE.replace("steps = 10", "steps = -5"),
            "steps must be a whole number from 1 to 1,000,000,000; got -5",
        ),
        (BASE.replace("steps = 10", "step = 10"), "steps must be given"),
        ("rusn = 3\n" + BASE, "rusn is not a key; did you mean runs?"),
        ("seeds = []\n" + BASE, "seeds must be a list"),
        (
            "delay = -1\n" + BASE,
            "delay must be a whole number from 0 to 1,000,000,000; got -1",
        ),
        ("delay = { men = 3 }\n" + BASE, "delay.mean must be given"),
        ("rewards = 'gauss'\n" + BASE, "rewards must be one of bernoulli"),
        (
            BASE + "prior = [0.5, 0.5]\n",
            "policies.p.prior must have one entry for each of the 32 experts; got 2",
        ),
        (BASE + "prior = [0.5, 'a']\n", "policies.p.prior must"),
        (
            BASE + "loss = 'hinge'\n",
            "policies.p.loss must be one of log, square; got 'hinge'",
        ),
        (BASE + "eta = -1.0\n", "policies.p.eta must be in (0, 1e+12]; got -1.0"),
        (BASE + "kind = 'crystal ball'\n", "policies.p.kind must be one of"),
        (BASE + "kind = 'uniform'\n", "policies.p.gamma is not a key"),
        (BASE + "etta = 1.0\n", "policies.p.etta is not a key; did you mean eta?"),
        (
            BASE.replace("gamma = 0.1", "gamma = 1.5"),
            "policies.p.gamma must be in [0, 1]; got 1.5",
        ),
        (
            BASE.replace("gamma = 0.1", "gamma = { scal = 1 }"),
            "policies.p.gamma.scale must be given",
        ),
        (world("'moon'"), "worlds.w.kind must be one of random"),
        (world("'random'\narms = 0"), "worlds.w.arms must be a whole number"),
        (
            world("'random'\narmz = 2"),
            "worlds.w.armz is not a key; did you mean arms?",
        ),
        (
            world("'table'\nmeans = [[2.0]]\nexperts = [[[0.5]]]"),
            "worlds.w.means must be mean rewards in [0, 1]",
        ),
        (
            world("'table'\nmeans = [[0.5]]\nexperts = [[0.5]]"),
            "worlds.w.experts must have 3 axes",
        ),
        (
            world("'table'\nmeans = [[0.5], [1, 2]]\nexperts = 1"),
            "worlds.w.means must be",
        ),
        (world("'switching'\ntruths = [99]\nuntil = []"), "worlds.w.truths must be"),
        (
            world("'classification'\ndata = 'nowhere.npz'"),
            "worlds.w.data must be an existing file.npz; got nowhere.npz",
        ),
        (
            world("'classification'\ndata = 'iris'\ntrain = 900"),
            "worlds.w.train must be",
        ),
        (
            world("'classification'\ndata = 'iris'\nmodels = ['llm']"),
            f"worlds.w.models must be among {', '.join(MODELS)}",
        ),
        ("seeds = [true]\n" + BASE, "seeds must be a list of whole numbers"),
        (f"seeds = [{2**70}]\n" + BASE, "seeds must be a list of whole numbers"),
        ("seeds = [1, 1]\n" + BASE, "seeds must differ"),
        (
            BASE.replace("steps = 10", "steps = 1000000000000"),
            "steps must be a whole number from 1 to 1,000,000,000",
        ),
        (
            BASE.replace("steps = 10", "steps = 10\nruns = 1000000000"),
            "steps · runs must be at most 400,000,000",
        ),
        (
            world("'random'\ncontexts = 1000000000"),
            "worlds.w.contexts · experts · arms must be at most 200,000,000",
        ),
        (BASE + "eta = 1e308\n", "policies.p.eta must be in (0, 1e+12]"),
        (
            BASE + "eta = 1" + "0" * 400 + "\n",
            "policies.p.eta must be in (0, 1e+12]; got a whole number of 401 digits",
        ),
        (
            world("'switching'\ntruths = [0, 1.0]\nuntil = [5]"),
            "worlds.w.truths must be",
        ),
        (
            world("'switching'\ntruths = [0, 1]\nuntil = [true]"),
            "worlds.w.until must be",
        ),
        (
            world("'table'\nmeans = [['0.5']]\nexperts = [[[0.5]]]"),
            "worlds.w.means must be",
        ),
        (world("'logistic'"), "worlds.w.theta must be given"),
        ("a = " + "[" * 5000, "must be TOML"),
        (
            "steps = 10\n[worlds]\n[policies.p]\n",
            "worlds must have at least one table [worlds.NAME]",
        ),
        ("steps = 10\nworlds = 3\n", "worlds must be a table"),
    ],
)
def test_bad_files_get_one_sentence_with_the_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    code = main(
        ["simulate", str(written(tmp_path, text)), "--out", str(tmp_path / "out")]
    )
    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_the_command_prints_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            [
                "simulate",
                str(written(tmp_path, BASE)),
                "--out",
                str(tmp_path / "out"),
                "--engine",
                "serial",
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out
    header = next(line for line in printed.splitlines() if line.startswith("world"))
    assert header.split() == [
        "world",
        "policy",
        "regret",
        "±",
        "s.e.",
        "reward",
        "per",
        "step",
        "bound",
    ]
    assert "report:" in printed


def test_who_earns_most_comes_first_then_the_picture_then_the_table(
    tmp_path: Path, capsys: Any
) -> None:
    text = "steps = 200\nruns = 10\n[worlds.w]\nkind = 'random'\nexperts = 4\n"
    text += "[policies.own]\n[policies.blind]\nkind = 'uniform'\n"
    assert (
        main(
            [
                "simulate",
                str(written(tmp_path, text)),
                "--out",
                str(tmp_path / "out"),
                "--engine",
                "serial",
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out
    assert printed.startswith("own earns ")
    assert " more in 200 steps than blind, [" in printed.splitlines()[0]
    assert printed.splitlines()[0].endswith("(95 % interval over 10 paired runs).")
    assert printed.index("0 is no regret") < printed.index("reward per step")
    page = (tmp_path / "out" / "index.html").read_text()
    places = [
        page.index(part)
        for part in ('<p class="lead">own earns', "<figure>", "<table>", "<details>")
    ]
    assert places == sorted(places)


FLOWERS = """
arms = ["setosa", "versicolor", "virginica"]
[schema]
numbers = ["sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)"]
[policy]
kind = "linucb"
alpha = 0.3
"""
IRIS = (
    "steps = 150\nruns = 4\n[worlds.iris]\nkind = 'classification'\ndata = 'iris'\n"
    "train = 30\nmodels = ['prior']\n"
)


def test_features_by_name_are_the_features(tmp_path: Path) -> None:
    """A whole file reads the world by its columns' names, a table by their order: the
    same policy, the same regret."""
    (tmp_path / "flowers.toml").write_text(FLOWERS)
    text = IRIS + (
        "[policies.named]\nfile = 'flowers.toml'\n[policies.plain]\n"
        "kind = 'linucb'\nalpha = 0.3\n"
    )
    text += "[policies.blind]\nkind = 'uniform'\n"
    rows = (
        read_study(written(tmp_path, text))
        .run(tmp_path / "out", engine="serial")
        .table.rows
    )
    named, plain, blind = (float(row[2]) for row in rows)
    assert named == plain
    assert plain < blind / 2


def test_a_file_without_experts_weighs_those_of_the_world(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        "arms = ['a', 'b', 'c']\nfloors = 0.1\n[policy]\ngamma = 0.3\n"
    )
    text = BASE.replace("gamma = 0.1", "file = 'own.toml'")
    (policy,) = read_study(written(tmp_path, text)).policies.values()
    bank = read_study(written(tmp_path, BASE)).problems["w"].experts
    made = od.Bounded(od.GeneralizedThompsonSampling(bank, gamma=0.3), 0.1)
    assert od.fingerprint(policy) == od.fingerprint(made)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (
            FLOWERS.replace("sepal length (cm)", "weight"),
            "a schema of the world's columns, sepal length",
        ),
        (
            FLOWERS.replace('"setosa", ', ""),
            "policies.p.file must have the world's 3 arms; got 2",
        ),
        (
            FLOWERS.replace("alpha", "alpa"),
            "flowers.toml: policy.alpa is not a key; did you mean alpha?",
        ),
    ],
)
def test_a_file_must_suit_the_world(tmp_path: Path, file: str, message: str) -> None:
    (tmp_path / "flowers.toml").write_text(file)
    with pytest.raises(od.InvalidInput) as caught:
        read_study(written(tmp_path, IRIS + "[policies.p]\nfile = 'flowers.toml'\n"))
    assert message in str(caught.value)


def test_particles_need_a_row_for_each_arm(tmp_path: Path) -> None:
    with pytest.raises(
        od.InvalidInput,
        match=r"policies\.p\.kind must fit the world, which has no row of features",
    ):
        read_study(written(tmp_path, IRIS + "[policies.p]\nkind = 'particles'\n"))


ONE_WORLD = """
steps = 20
runs = 2

[worlds.own]
kind = "table"
means = [[0.2, 0.8], [0.6, 0.4]]
experts = [[[0.5, 0.4], [0.2, 0.8]], [[0.2, 0.8], [0.6, 0.4]]]

[policies.theory]
kind = "tuned"
loss = "LOSS"
"""


def spherical(prediction: Any, reward: Any) -> Any:
    """A proper loss that is neither log nor square."""
    norm = np.sqrt(prediction**2 + (1 - prediction) ** 2)
    return 1 - (reward * prediction + (1 - reward) * (1 - prediction)) / norm


def absolute(prediction: Any, reward: Any) -> Any:
    """A loss that breaks C1."""
    return abs(prediction - reward)


def bounds(study: Study, out: Path) -> list[str]:
    return [row[-1] for row in study.run(out, engine="serial").table.rows]


@pytest.mark.parametrize("name", [*od.losses.LOSSES, "third"])
def test_every_named_loss_has_a_bound(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    third = od.losses.scaled(od.square_loss, 2.0)
    monkeypatch.setitem(od.losses.LOSSES, "third", third)
    study = read_study(written(tmp_path, ONE_WORLD.replace("LOSS", name)))
    assert all(bounds(study, tmp_path / "out"))


@pytest.mark.parametrize(
    ("loss", "has_bound"),
    [
        (spherical, True),
        (od.losses.scaled(od.log_loss, 4.0), True),
        (od.losses.scaled(spherical, 2.0), True),
        (absolute, False),
    ],
)
def test_an_own_loss_has_a_bound_where_the_theory_has_one(
    loss: Any, has_bound: bool, tmp_path: Path
) -> None:
    study = read_study(written(tmp_path, ONE_WORLD.replace("LOSS", "log")))
    eta = od.theory.tight_coefficient(loss).eta if has_bound else 1.0
    policies: dict[tuple[str, str], od.Policy] = {
        key: replace(policy, loss=loss, eta=eta)
        for key, policy in study.policies.items()
        if isinstance(policy, od.GeneralizedThompsonSampling)
    }
    own = replace(study, policies=policies)
    assert [bound != "" for bound in bounds(own, tmp_path / "out")] == [has_bound]
