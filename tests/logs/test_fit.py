"""fit_log is the fold over the whole log: on every engine, from stored advice or from
contexts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from logs.fit_logs import EXPERTS, event_log, files, policy, write_table
from oddsmith.core.losses import log_loss, total_log_loss


def plain(gts: Any, log: od.Log) -> Any:
    """One update after the other."""
    state, known = gts.init(), log.rewarded()
    for decision, reward in zip(known.decisions().rows(), known.reward, strict=True):
        state = gts.update(state, decision, float(reward))
    return state


@pytest.mark.parametrize(
    ("engine", "sleepy"),
    [("serial", False), ("serial", True), ("local", True), ("dask", False)],
)
def test_every_engine_is_the_plain_fold(
    tmp_path: Path, engine: str, sleepy: bool
) -> None:
    paths, log = files(tmp_path, sleepy=sleepy)
    gts = policy()
    fit = od.fit_log(
        gts, paths, engine=engine, workers=2, reader=od.logs.LogReader(rows=97)
    )
    np.testing.assert_allclose(
        fit.state.log_weights, plain(gts, log).log_weights, atol=1e-9, rtol=0
    )
    assert (fit.learnt, fit.waiting, fit.state.learnt, fit.computed) == (
        1347,
        3,
        1347,
        0,
    )
    assert fit.kinds == ("exact",)
    assert fit.floor == pytest.approx(1 / 3)


@pytest.mark.parametrize("engine", ["serial", "local"])
def test_a_log_in_memory_is_a_log(tmp_path: Path, engine: str) -> None:
    """As one, among files, with or without advice: the same state as from a file."""
    log, gts = event_log(300, 3, sleepy=True), policy()
    od.write_log(log, tmp_path / "log.parquet")
    expected = od.fit_log(gts, tmp_path / "log.parquet")
    fit = od.fit_log(
        gts, log, engine=engine, workers=2, reader=od.logs.LogReader(rows=97)
    )
    np.testing.assert_allclose(
        fit.state.log_weights, expected.state.log_weights, atol=1e-9, rtol=0
    )
    assert (fit.learnt, fit.waiting, fit.kinds, fit.floor) == (
        expected.learnt,
        expected.waiting,
        expected.kinds,
        expected.floor,
    )
    both = od.fit_log(gts, [log[:100], tmp_path / "log.parquet"])
    assert both.learnt == expected.learnt + len(log[:100].rewarded())
    bare = od.fit_log(gts, log.without("advice", "log_weights"))
    assert bare.computed == expected.learnt


def test_arms_of_a_log_in_memory_are_those_of_the_policy() -> None:
    log = event_log(20, 3)
    reader = od.logs.LogReader(arms=["x", "y", "z"])
    assert reader.read_log(log).arms == ("x", "y", "z")
    assert [batch.arms for batch in reader.batches(log)] == [("x", "y", "z")]
    assert od.read_log(log) is log
    named = reader.read_log(log)
    with pytest.raises(
        od.InvalidInput,
        match=r"log must have the arms \['y', 'x', 'z'\] in this order; it has",
    ):
        od.read_log(named, arms=["y", "x", "z"])
    with pytest.raises(od.InvalidInput, match="columns must not be given for a Log"):
        od.read_log(log, columns={"reward": "click"})


@pytest.mark.parametrize(
    "settings", [{}, {"loss": od.square_loss, "eta": 1.0}, {"optimism": 0.2}]
)
@pytest.mark.parametrize("engine", ["serial", "local"])
def test_advice_that_is_not_stored_is_computed(
    tmp_path: Path, settings: Any, engine: str
) -> None:
    """Contexts of sleepers too: they are charged as if no reward had come before, in
    any order."""
    log, gts = event_log(500, 3, sleepy=True), policy(**settings)
    od.write_log(
        log.without("advice", "log_weights").split(130), tmp_path / "bare.parquet"
    )
    fit = od.fit_log(
        gts, tmp_path / "bare.parquet", engine=engine, reader=od.logs.LogReader(rows=64)
    )
    known = log.rewarded()
    bonus = np.fmax.reduce(known.context, axis=-1) if settings.get("optimism") else None
    expected = od.fold(
        gts, gts.init(), known.decisions()._replace(bonus=bonus), known.reward
    )
    np.testing.assert_allclose(fit.state.log_weights, expected.log_weights, atol=1e-9)
    assert fit.computed == 499
    assert "499 rows lacked predictions of experts" in str(fit)
    inside = od.fit_log(
        od.Bounded(gts, floors=0.01), tmp_path / "bare.parquet", engine=engine
    )
    np.testing.assert_allclose(
        inside.state.log_weights, expected.log_weights, atol=1e-9
    )


def test_order_is_kept_where_it_counts(tmp_path: Path) -> None:
    paths, log = files(tmp_path)
    for settings in ({"share": 0.01}, {"discount": 0.99}):
        gts = policy(**settings)
        fit = od.fit_log(gts, paths, reader=od.logs.LogReader(rows=60))
        np.testing.assert_allclose(
            fit.state.log_weights, plain(gts, log).log_weights, atol=1e-9
        )
        bare = [tmp_path / f"bare{i}.parquet" for i in range(3)]
        for path, target in zip(paths, bare, strict=True):
            od.write_log(od.read_log(path).without("advice"), target)
        again = od.fit_log(gts, bare, reader=od.logs.LogReader(rows=60))
        np.testing.assert_allclose(
            again.state.log_weights, fit.state.log_weights, atol=1e-9
        )
        with pytest.raises(
            od.errors.OrderMatters, match=r"engine must be 'serial' .* got 'local'"
        ):
            od.fit_log(gts, paths, engine="local")


def test_learners_learn_from_a_log(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    context, arm = rng.normal(size=(80, 3)), rng.integers(2, size=80)
    log = od.Log(
        arm=arm,
        reward=(rng.random(80) < 0.5).astype(float),
        context=context,
        propensity=np.full(80, 0.5),
    )
    od.write_log(log, tmp_path / "log.parquet")
    agents = [od.auto(["x", "y"])] * 2
    fit = od.fit_log(
        agents[0], tmp_path / "log.parquet", reader=od.logs.LogReader(arms=["x", "y"])
    )
    state: Any = agents[1].init()
    for i in range(80):
        odds = agents[1].odds(state, context[i], step=None)
        advice: Any = odds.advice
        said = (advice[:, arm[i]].astype(float), odds.bonus, odds.log_weights)
        decision = od.Decision(
            None, context[i], None, int(arm[i]), np.array([0.5, 0.5]), *said
        )
        state = agents[1].update(state, decision, float(log.reward[i]))
    np.testing.assert_allclose(
        agents[0].posterior(fit.state), agents[1].posterior(state), atol=1e-9
    )
    with pytest.raises(od.errors.OrderMatters, match="one stream"):
        od.fit_log(agents[0], tmp_path / "log.parquet", engine="local")


def test_policies_that_divide_by_odds_need_them(tmp_path: Path) -> None:
    log = event_log(60, 1)
    exp4 = od.policies.EXP4(od.GivenExperts(EXPERTS), eta=0.1)
    bare = log.without("advice")
    od.write_log(bare, tmp_path / "exact.parquet")
    od.write_log(bare.without("propensities"), tmp_path / "drawn.parquet")
    od.write_log(
        bare.without("propensities", "propensity"), tmp_path / "unknown.parquet"
    )
    exact, drawn = (
        od.fit_log(exp4, tmp_path / f"{name}.parquet") for name in ("exact", "drawn")
    )
    np.testing.assert_array_equal(exact.state.log_weights, drawn.state.log_weights)
    with pytest.raises(
        od.InvalidInput, match=r"importance weights .* this one is unknown"
    ):
        od.fit_log(exp4, tmp_path / "unknown.parquet")
    # GTS needs none
    assert od.fit_log(policy(), tmp_path / "unknown.parquet").learnt == 59
    with pytest.raises(
        od.InvalidInput, match="columns advice and bonus: required for EXP4P"
    ):
        od.fit_log(
            od.policies.EXP4P(od.GivenExperts(EXPERTS), steps=100),
            tmp_path / "exact.parquet",
        )


@pytest.mark.parametrize(
    ("odds", "says"),
    [
        ({"propensities": [[0.2, 0.8], [0.7, 0.3]]}, "propensity of at least 0.2"),
        (
            {"propensities": [[0.0, 1.0], [0.7, 0.3]]},
            "Some eligible arms had propensity 0",
        ),
        (
            {"propensity": [0.5, 0.5]},
            "The log is drawn: its exploration is unknown",
        ),
        ({"propensity": [1.0, 1.0]}, "The log is deterministic"),
        ({}, "The log is unknown"),
    ],
)
def test_it_says_what_the_theory_promises(tmp_path: Path, odds: Any, says: str) -> None:
    columns: Any = {
        "arm": [1, 0],
        "reward": [1, 0],
        "advice": [[0.5, 0.2, 0.1, 0.6]] * 2,
    } | odds
    od.write_log(od.Log(**columns, experts=EXPERTS), tmp_path / "log.parquet")
    fit = od.fit_log(
        policy(), tmp_path / "log.parquet", reader=od.logs.LogReader(rows=1)
    )
    assert isinstance(fit, od.logs.Fit)
    assert says in str(fit)
    assert "2 rewards learnt, 0 still waiting." in str(fit)


def test_wrong_calls(tmp_path: Path) -> None:
    paths, log = files(tmp_path)
    calls: Any = (
        (lambda: od.fit_log(policy(), paths, engine="cloud"), "engine must be one of"),
        (
            lambda: od.fit_log(policy(), 7),
            "paths must be a file, a folder, a table, a Log, or a list",
        ),
        (lambda: od.fit_log(policy(), []), "paths must hold at least one row"),
        (
            lambda: od.fit_log(od.GivenExperts(["x"]), paths),  # type: ignore[arg-type]
            "policy must have the methods",
        ),
    )
    for call, message in calls:
        with pytest.raises(od.InvalidInput, match=message):
            call()
    od.write_log(log.without("advice", "context"), tmp_path / "bare.parquet")
    with pytest.raises(od.InvalidInput, match="column advice: required, or context"):
        od.fit_log(policy(), tmp_path / "bare.parquet")
    od.write_log(
        od.Log(arm=log.arm, reward=log.reward, advice=log.advice[:, :2]),  # type: ignore[index]
        tmp_path / "two.parquet",
    )
    with pytest.raises(
        od.InvalidInput, match="column advice: the experts of its columns are not known"
    ):
        od.fit_log(policy(), tmp_path / "two.parquet")


def test_sixteen_rows_to_a_logarithm() -> None:
    rng = np.random.default_rng(0)
    for rows in (1, 15, 16, 17, 200):
        f, r = (
            rng.uniform(1e-12, 1 - 1e-12, (rows, 5)),
            rng.integers(2, size=rows).astype(float),
        )
        found: Any = total_log_loss(f, r)
        np.testing.assert_allclose(
            found, log_loss(f, r[:, None]).sum(axis=0), rtol=1e-13
        )
    one = np.ones(20)
    for f in (
        np.full((20, 1), 1.5),
        np.full((20, 1), -0.5),
        np.full((20, 1), np.nan),
        np.full((20, 1), 1e-30),
    ):
        assert total_log_loss(f, one) is None
    assert total_log_loss(np.full((20, 1), 0.5), one / 2) is None


def test_a_log_that_waits_for_all_rewards_leaves_the_prior() -> None:
    log, gts = event_log(20, 3, sleepy=False), policy()
    waiting = od.Log(**(log.columns() | {"reward": np.full(20, np.nan)}))
    fit = od.fit_log(gts, waiting)
    assert (fit.learnt, fit.waiting) == (0, 20)
    np.testing.assert_array_equal(fit.state.log_weights, gts.init().log_weights)
    assert str(fit).startswith("0 rewards learnt, 20 still waiting.")


def test_progress_is_that_of_the_whole_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Rows done of the rows in all files, by learners one by one; said where no
    terminal is, too, and with every engine."""
    columns: Any = {
        "arm": [0, 1] * 20,
        "reward": [1, 0] * 20,
        "context": np.arange(80.0).reshape(40, 2),
    }
    paths = [tmp_path / f"{i}.parquet" for i in range(2)]
    for path in paths:
        od.write_log(od.Log(**columns), path)
    monkeypatch.setattr("oddsmith.logs.fit.LINE_EVERY_S", 0.0)
    od.fit_log(od.auto(["a", "b"], size="small"), paths)
    told = capsys.readouterr().err.splitlines()
    assert [line.split()[2:5] for line in told[40:42]] == [
        ["40", "of", "80,"],
        ["41", "of", "80,"],
    ]
    assert "80 of 80" in told[-1]
    fixed = od.GeneralizedThompsonSampling(
        od.LinearExperts(np.ones((3, 2, 2))), od.square_loss
    )
    for engine in ("serial", "local"):
        od.fit_log(
            fixed, paths, engine=engine, workers=1, reader=od.logs.LogReader(rows=20)
        )
        told = capsys.readouterr().err.splitlines()
        assert "80 of 80" in told[-1]
        assert len(told) == (4 if engine == "serial" else 2)


@pytest.mark.parametrize("format", ["parquet", "csv", "jsonl", "table"])
def test_contexts_that_columns_name_are_read_when_experts_need_them(
    tmp_path: Path, format: str
) -> None:
    """The log has no advice: fixed experts are asked, about columns of any name."""
    rng = np.random.default_rng(0)
    country = np.array(["IT", "DE"])[rng.integers(2, size=50)].tolist()
    theirs: dict[str, list[Any]] = {
        "shown": rng.integers(2, size=50).tolist(),
        "clicked": rng.integers(2, size=50).astype(float).tolist(),
        "country": country,
        "age": rng.integers(18, 80, size=50).tolist(),
    }
    source: Any = tmp_path / f"log.{format}"
    if format == "jsonl":
        rows = [
            dict(zip(theirs, row, strict=True))
            for row in zip(*theirs.values(), strict=True)
        ]
        source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        source = write_table(theirs, source, format)
    gts = od.GeneralizedThompsonSampling(
        od.FunctionExperts(
            {
                "home": lambda context, arm: 0.8 if context["country"] == "IT" else 0.3,
                "old": lambda context, arm: 0.7 if context["age"] > 50 else 0.4,
            },
            ["0", "1"],
        )
    )
    ours: Any = {"arm": "shown", "reward": "clicked", "context": ["country", "age"]}
    fit = od.fit_log(gts, source, reader=od.logs.LogReader(columns=ours))
    predictions = [
        (0.8 if place == "IT" else 0.3, 0.7 if age > 50 else 0.4)
        for place, age in zip(country, theirs["age"], strict=True)
    ]
    loss = log_loss(np.array(predictions), np.array(theirs["clicked"])[:, None])
    weights = np.exp(-gts.eta * loss.sum(axis=0))
    np.testing.assert_allclose(gts.posterior(fit.state), weights / weights.sum())
    assert fit.computed == 50
