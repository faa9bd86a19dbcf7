"""Experiment files about arms that come with the call: every kind that takes them,
whole files, and refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.files.kinds import KINDS
from oddsmith.lab.study import Study, read_study
from oddsmith.lab.worlds import NewsWorld

NEWS = (
    "steps = 12\nruns = 2\n[worlds.news]\nkind = 'news'\nlow = 2\nhigh = 5\n"
    "life = 8.0\n"
)
SETTINGS = {
    "exp4": "eta = 0.1",
    "squarecb": "sharpness = 20.0",
    "fastcb": "sharpness = 20.0",
}
FIXED = {
    "tuned",
    "feel_good",
    "regressor_elimination",
    "ucb1",
    "kl_ucb",
    "beta_thompson",
}
FILE = """
[schema]
numbers = ["x2", "x0", "x1"]
[schema.arms]
numbers = ["z0", "quality"]
[policy]
kind = "linucb"
alpha = 0.3
"""


def study(tmp_path: Path, text: str) -> Study:
    path = tmp_path / "study.toml"
    path.write_text(text)
    return read_study(path)


@pytest.mark.parametrize("hide", ["[]", '"quality"', '["quality", "z0", "z1", "z2"]'])
def test_every_kind_that_takes_offers(tmp_path: Path, hide: str) -> None:
    kinds = [kind for kind in KINDS if kind not in FIXED | {"python"}]
    tables = "".join(
        f"[policies.{kind}]\nkind = '{kind}'\n{SETTINGS.get(kind, '')}\n"
        for kind in kinds
    )
    found = study(tmp_path, NEWS + f"hide = {hide}\n" + tables)
    assert found.problems["news"].world.makes_offers
    rows = found.run(tmp_path / "out", engine="serial").table.rows
    assert [row[1] for row in rows] == kinds
    assert all(0 < float(row[2]) < 12 for row in rows)
    assert all(row[-1] == "" for row in rows), (
        "no expert is right here, so there is no bound"
    )


@pytest.mark.parametrize("kind", sorted(FIXED))
def test_kinds_of_given_arms_are_refused_by_key(tmp_path: Path, kind: str) -> None:
    with pytest.raises(
        od.InvalidInput,
        match=r"policies\.p\.kind must support arms that are passed",
    ):
        study(tmp_path, NEWS + f"[policies.p]\nkind = '{kind}'\n")


def test_keys_are_those_of_the_world(tmp_path: Path) -> None:
    text = NEWS + (
        "births = 0.5\npopularity = 1.0\nhide = 'z1'\nseed = 3\nexperts = 4\n"
        "[policies.p]\n"
    )
    problem = study(tmp_path, text).problems["news"]
    expected = NewsWorld(
        life=8.0, low=2, high=5, births=0.5, popularity=1.0, hide=("z1",), seed=3
    )
    assert od.fingerprint(problem.world) == od.fingerprint(expected)
    assert problem.arm_columns == ("quality", "z0", "z2")
    bank: Any = problem.experts
    np.testing.assert_array_equal(bank.weights[0], expected.weights)
    assert bank.weights.shape == (4, 6)


def test_a_file_reads_numbers_by_name_and_a_table_by_place(tmp_path: Path) -> None:
    """Ridge regressions do not depend on the order of columns; z1 and z2 are hidden,
    which the file does not read."""
    (tmp_path / "served.toml").write_text(FILE)
    text = NEWS + "hide = ['z1', 'z2']\n[policies.named]\nfile = 'served.toml'\n"
    text += (
        "[policies.plain]\nkind = 'linucb'\nalpha = 0.3\n[policies.blind]\n"
        "kind = 'uniform'\n"
    )
    rows = (
        study(tmp_path, text.replace("steps = 12", "steps = 200"))
        .run(tmp_path / "out", engine="serial")
        .table.rows
    )
    named, plain, blind = (float(row[2]) for row in rows)
    assert named == plain
    assert plain < blind / 2


def test_a_file_without_schemas_sees_arrays_and_one_without_experts_those_of_the_world(
    tmp_path: Path,
) -> None:
    (tmp_path / "auto.toml").write_text(
        "floors = 0.01\n[policy]\nkind = 'auto'\nsize = 'small'\n"
    )
    (tmp_path / "gts.toml").write_text("[policy]\ngamma = 0.3\n")
    found = study(
        tmp_path,
        NEWS + "[policies.a]\nfile = 'auto.toml'\n[policies.b]\nfile = 'gts.toml'\n",
    )
    assert isinstance(found.policies["news", "a"], od.Bounded)
    made = od.GeneralizedThompsonSampling(found.problems["news"].experts, gamma=0.3)
    assert od.fingerprint(found.policies["news", "b"]) == od.fingerprint(made)
    assert len(found.run(tmp_path / "out", engine="serial").table.rows) == 2


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (
            "arms = ['a', 'b']\n[policy]\nkind = 'ucb1'\n",
            "must not declare arms, because this world passes them in each call",
        ),
        (
            FILE.replace("x2", "hour"),
            "must have a schema of the world's columns, x0, x1, x2; got 'hour'",
        ),
        (
            FILE.replace("z0", "age"),
            "must have a schema of the world's columns, quality, z0, z1, z2; got 'age'",
        ),
    ],
)
def test_a_file_must_suit_the_world(tmp_path: Path, file: str, message: str) -> None:
    (tmp_path / "served.toml").write_text(file)
    with pytest.raises(od.InvalidInput, match=r"policies\.p\.file") as caught:
        study(tmp_path, NEWS + "[policies.p]\nfile = 'served.toml'\n")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("high = 1", "worlds.news.high must be"),
        ("life = 0.0", "worlds.news.life must be"),
        ("births = -2.0", "worlds.news.births must be"),
        ("births = 'many'", "worlds.news.births must be"),
        ("hide = ['colour']", "worlds.news.hide must be names of quality"),
        ("hidden = 3", "worlds.news.hidden is not a key"),
    ],
)
def test_wrong_keys_are_named(tmp_path: Path, line: str, message: str) -> None:
    name = line.split(" ")[0]
    kept = [row for row in NEWS.splitlines() if not row.startswith(f"{name} ")]
    with pytest.raises(od.InvalidInput) as caught:
        study(tmp_path, "\n".join([*kept, line]) + "\n[policies.p]\n")
    assert message in str(caught.value)
