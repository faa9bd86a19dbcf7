"""`oddsmith evaluate | replay | fit` on logs whose arms came with the call, and with
policy files without arms."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from evaluation import changing_arms as world
from oddsmith import evaluation as ev
from oddsmith.cli.main import main

SCHEMAS = '[schema]\nnumbers = ["x"]\n[schema.arms]\nnumbers = ["price"]\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    path = Path(tmp_path_factory.mktemp("offers"))
    log, _ = world.played(800, seed=1)
    dicts = [
        {name: {"price": float(own[0])} for name, own in row.items()}
        for row in log.features
    ]
    columns = log.columns() | {
        "features": dicts,
        "context": [{"x": float(x)} for x in log.context[:, 0]],
    }
    od.write_log(od.Log(**columns), path / "log.parquet")
    pairs = zip(dicts, log.offered, log.arm, strict=True)
    drawn = [{names[arm]: row[names[arm]]} for row, names, arm in pairs]
    od.write_log(od.Log(**columns | {"features": drawn}), path / "drawn.jsonl")
    np.savez(path / "lines.npz", weights=np.array([[1.0, -2.0], [-1.5, 1.0]]))
    linear = '[experts.lines]\nkind = "linear"\nfile = "lines.npz"\n'
    (path / "lines.toml").write_text(
        SCHEMAS + '[policy]\nloss = "square"\ngamma = 0.3\n' + linear
    )
    (path / "arms.toml").write_text(
        'arms = ["new", "e", "d", "c", "b", "a"]\n[policy]\nkind = "auto"\n'
        'size = "small"\n'
    )
    return path


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(folder)


def asked(capsys: Any, *arguments: str, code: int = 0) -> Any:
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def refused(capsys: Any, *arguments: str) -> str:
    assert main(list(arguments)) == 2
    return str(capsys.readouterr().err)


def test_the_numbers_are_the_librarys(capsys: Any) -> None:
    found = asked(
        capsys,
        "evaluate",
        "log.parquet",
        "--target=lines.toml",
        "--target=uniform",
        "--target=first",
    )
    log = od.read_log("log.parquet")
    target = ev.policy_target(log, od.read_policy("lines.toml").policy)
    np.testing.assert_allclose(
        target, ev.policy_target(world.played(800, seed=1)[0], world.POLICY), atol=1e-9
    )
    targets = {
        "lines.toml": target,
        "uniform": ev.uniform_target(log),
        "first": ev.first_target(log),
    }
    for name, odds in targets.items():
        one = ev.estimate(ev.snips(log, odds))
        said = found["targets"][name]["snips"]
        assert [said["value"], said["low"], said["high"]] == [
            one.value,
            one.low,
            one.high,
        ]
        assert not found["targets"][name]["dr"]["refused"]
    assert not found["differences"]["dr"]["first"]["refused"]


def test_an_arm_that_not_all_rows_offered(capsys: Any) -> None:
    log = od.read_log("log.parquet")
    some = sum("b" in names for names in log.offered)
    sentence = refused(capsys, "evaluate", "log.parquet", "--target=arm:b")
    assert f"{800 - some} of 800 rows did not" in sentence
    assert "--where-offered" in sentence
    found = asked(
        capsys, "evaluate", "log.parquet", "--target=arm:b", "--where-offered"
    )
    assert found["notes"] == [f"All results use the {some} of 800 rows that offered b."]
    assert found["rows"] == some
    assert "must go with a target arm:NAME" in refused(
        capsys, "evaluate", "log.parquet", "--target=first", "--where-offered"
    )
    assert "did you mean first?" in refused(
        capsys, "evaluate", "log.parquet", "--target=frist"
    )


def test_features_of_drawn_arms_alone(capsys: Any) -> None:
    found = asked(capsys, "evaluate", "drawn.jsonl", "--target=uniform")
    assert "dr" not in found["targets"]["uniform"]
    assert not found["targets"]["uniform"]["ips"]["refused"]
    why = (
        "need the features of all arms offered; this log has those of the drawn arm "
        "only"
    )
    assert why in refused(capsys, "evaluate", "drawn.jsonl", "--target=lines.toml")
    assert why in refused(
        capsys, "evaluate", "drawn.jsonl", "--target=uniform", "--model=trees"
    )


def test_fit_then_evaluate_with_the_state(capsys: Any) -> None:
    learnt = asked(
        capsys, "fit", "drawn.jsonl", "--policy=lines.toml", "--out=state.npz"
    )
    policy = od.read_policy("lines.toml").policy
    expected = policy.posterior(od.fit_log(policy, od.read_log("log.parquet")).state)
    assert list(learnt["posterior"].values()) == pytest.approx(
        sorted(expected, reverse=True), abs=1e-12
    )
    found = asked(
        capsys, "evaluate", "log.parquet", "--target=lines.toml", "--state=state.npz"
    )
    assert found["notes"] == [
        "The state must not have learnt from this log, because its estimated value "
        "would be too high."
    ]
    agent = od.Agent.load("state.npz", policy)
    assert agent.decide({"x": 0.5}, arms={"z": {"price": 0.3}}).arm == "z"


@pytest.mark.parametrize("policy", ["lines.toml", "arms.toml"])
def test_replay(policy: str, capsys: Any) -> None:
    # too few rows for a comparison
    lived = asked(capsys, "replay", "log.parquet", f"--policy={policy}", code=3)
    assert lived["rows"] == 800
    assert 20 < lived["accepted"] < 100


def test_a_policy_with_more_arms_than_were_offered(capsys: Any) -> None:
    found = asked(
        capsys, "evaluate", "log.parquet", "--target=arms.toml", "--target=uniform"
    )
    assert found["targets"]["arms.toml"]["ips"]["value"] == pytest.approx(
        found["targets"]["uniform"]["ips"]["value"]
    )
    assert (
        asked(capsys, "fit", "log.parquet", "--policy=arms.toml", "--out=wide.npz")[
            "learnt"
        ]
        == 800
    )


def test_a_file_without_arms_on_a_log_of_fixed_arms(capsys: Any) -> None:
    rng = np.random.default_rng(0)
    common: Any = {
        "propensities": np.full((200, 3), 1 / 3),
        "context": rng.normal(size=(200, 2)),
    }
    common["reward"] = rng.integers(2, size=200)
    log = od.Log(arm=rng.integers(3, size=200), arms=["a", "b", "c"], **common)
    od.write_log(log, "fixed.parquet")
    Path("auto.toml").write_text('[policy]\nkind = "auto"\nsize = "small"\n')
    found = asked(
        capsys, "evaluate", "fixed.parquet", "--target=auto.toml", "--model=none"
    )
    assert found["targets"]["auto.toml"]["ips"]["value"] == pytest.approx(
        log.reward.mean()
    )
    asked(capsys, "fit", "fixed.parquet", "--policy=auto.toml", "--out=auto.npz")
    policy = od.read_policy("auto.toml").policy
    state = od.fit_log(policy, log.offering(["a", "b", "c"])).state
    agents = od.Agent.load("auto.npz", policy), od.Agent(policy, seed=0, state=state)
    odds = [agent.explain(np.ones(2), arms=["c", "b"]).propensities for agent in agents]
    np.testing.assert_array_equal(odds[0], odds[1])
    assert (
        asked(capsys, "replay", "fixed.parquet", "--policy=auto.toml", code=3)[
            "accepted"
        ]
        < 100
    )


@pytest.mark.parametrize("known", ["propensities", "propensity"])
def test_a_report_of_arms_that_come_and_go(
    tmp_path: Path, capsys: Any, known: str
) -> None:
    """Nine arms in all, three in each row: the figure of overlap has arms by their
    names."""
    rng, rows = np.random.default_rng(3), []
    for row in range(600):
        odds = (
            {"propensities": [1 / 3] * 3}
            if known == "propensities"
            else {"propensity": 1 / 3}
        )
        offered = [f"sku-{row // 200}-{place}" for place in range(3)]
        rows.append(
            {
                "arm": int(rng.integers(3)),
                "reward": int(rng.random() < 0.3),
                "offered": offered,
                **odds,
            }
        )
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    out = ["--out", str(tmp_path / "report")]
    assert (
        main(
            [
                "evaluate",
                str(tmp_path / "log.jsonl"),
                "--target=uniform",
                "--target=first",
                *out,
            ]
        )
        == 0
    )
    page = (tmp_path / "report" / "index.html").read_text()
    assert all(f"sku-{week}-{place}" in page for week in range(3) for place in range(3))
