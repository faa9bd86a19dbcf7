"""Odd contexts at every door: each is read, or refused in one sentence by an error of
the library."""

import warnings
from collections import deque
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import oddsmith as od
from contexts.doors import ARMS, ARRAY_DOORS, DOORS, weighed
from oddsmith.contexts.numbers import numbers
from oddsmith.contexts.values import single
from oddsmith.core.exact_json import decode, encode
from oddsmith.evaluation import cross_fit

Make = Callable[[], Any]


def people(*ages: Any) -> list[dict[str, Any]]:
    return [
        {"age": age, "visits": i, "city": "Rome", "member": True}
        for i, age in enumerate(ages)
    ]


def endless() -> list[Any]:
    one: list[Any] = []
    one.append(one)
    return one


BATCHES: dict[str, Make] = {
    "frame without rows or columns": pd.DataFrame,
    "frame without rows": lambda: pd.DataFrame({"age": [], "visits": []}),
    "frame without columns": lambda: pd.DataFrame(index=range(3)),
    "array without columns": lambda: np.zeros((3, 0)),
    "array without rows": lambda: np.zeros((0, 3)),
    "one row": lambda: pd.DataFrame(people(3)),
    "a name twice": lambda: pd.DataFrame([[1, 2], [3, 4]], columns=["age", "age"]),
    "a name twice, pyarrow": lambda: pa.table(
        [pa.array([1]), pa.array([2])], names=["age", "age"]
    ),
    "names of two levels": lambda: pd.DataFrame(
        [[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])
    ),
    "numbers for names": lambda: pd.DataFrame([[1, 2, 0], [3, 4, 1]]),
    "text and numbers for names": lambda: pd.DataFrame(
        [[1, 2], [3, 4]], columns=["age", 0]
    ),
    "ragged": lambda: [[1, 2], [3]],
    "three axes": lambda: [[[1, 2, 3]], [[4, 5, 6]]],
    "set": lambda: {1, 2, 3},
    "generator": lambda: (context for context in people(1)),
    "values of a dict": {"age": 1}.values,
    "grouped": lambda: pd.DataFrame(people(1, 2)).groupby("city"),
    "deque": lambda: deque(people(1, 2)),
    "dict, then list": lambda: [{"age": 1}, [1, 2]],
    "list, then dict": lambda: [[1, 2, 3], {"age": 1}],
    "list of itself": endless,
    "masked": lambda: np.ma.masked_array([[1.0, 2, 3]], mask=[[False, True, False]]),
    "masked, with names": lambda: np.ma.array(
        [(1.0, 2)], mask=[(True, False)], dtype=[("age", "f8"), ("visits", "i4")]
    ),
    "float16": lambda: np.ones((2, 3), dtype=np.float16),
    "long double": lambda: np.ones((2, 3), dtype=np.longdouble),
    "matrix": lambda: np.matrix([[1, 2, 3], [4, 5, 6]]),
    "complex": lambda: np.ones((2, 3), dtype=np.complex64),
    "times": lambda: np.full((2, 3), np.datetime64("2026-01-01", "ns")),
    "spans": lambda: np.ones((2, 3), dtype="m8[s]"),
    "bytes": lambda: np.array([[b"a", b"b", b"c"]]),
    "sparse columns": lambda: pd.DataFrame({"age": pd.arrays.SparseArray([0, 1.0])}),
    "categories that are numbers": lambda: pd.DataFrame(
        {"age": pd.Categorical([1, 2]), "visits": 1}
    ),
    "time zone": lambda: pd.DataFrame(
        {"age": pd.date_range("2026-01-01", periods=2, tz="UTC")}
    ),
    "cut": lambda: pd.DataFrame({"age": pd.cut([1, 50], [0, 18, 99]), "visits": 1}),
    "polars decimals": lambda: pl.DataFrame({"age": [Decimal("1.1"), None]}),
    "polars lists": lambda: pl.DataFrame({"age": [[1], None]}),
    "pyarrow nanoseconds": lambda: pa.table({"age": pa.array([1], pa.time64("ns"))}),
    "pyarrow dictionary": lambda: pa.table(
        {"age": pa.array([1, 2]).dictionary_encode()}
    ),
    "surrogate": lambda: people("\ud800"),
    "huge": lambda: people(10**400, Decimal("1e400"), Fraction(10**400)),
    "uncommon": lambda: people(
        Decimal("1.1"), Decimal("sNaN"), Fraction(1, 3), np.float16(2), np.array(2.0)
    ),
    "labels": lambda: people(pd.Period("2026-01"), pd.Interval(0, 1), UUID(int=3)),
    "no values": lambda: people(
        b"x", {1}, 1j, len, [], np.ones(1), timedelta(3), date(2026, 1, 1)
    ),
    "keys that are numbers": lambda: [{0: 1.0, 1: "a"}],
}
FEW = (
    "functions",
    "models",
    "encoded lines",
    "refitted",
    "guarded",
    "auto",
    "auto, schema",
    "linucb",
    "ucb1",
)
MAKES: dict[str, Make] = {
    **{name: DOORS[name].make for name in FEW},
    **{
        f"{name}, numbers": make
        for name, (make, _) in ARRAY_DOORS.items()
        if "ucb" not in name
    },
    "tables": lambda: weighed(od.TableExperts(np.full((3, 2, 2), 0.3))),
    "features of arms": lambda: weighed(
        od.ModelExperts({"m": Flat()}, ARMS, arm_features=np.eye(2))
    ),
    "shared": lambda: od.LinUCB(3),
}


class Flat:
    def predict(self, x: Any) -> Any:
        return np.full(len(x), 0.4)


def first(contexts: Any) -> Any:
    try:
        return contexts.iloc[0] if hasattr(contexts, "iloc") else contexts[0]
    except (TypeError, IndexError, KeyError):
        return contexts


def tell(act: Callable[[], Any]) -> Any:
    """What it gives, or None where it is refused in a sentence; anything else is
    raised."""
    try:
        return act()
    except od.OddsmithError as error:
        told = str(error)
    assert "\n" not in told
    assert len(told) < 330
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("door", MAKES)
def test_read_or_refused(door: str) -> None:
    for name, make in BATCHES.items():
        agent = od.Agent(MAKES[door](), seed=1, arms=ARMS)
        decision = tell(lambda agent=agent, make=make: agent.decide_batch(make()))  # type: ignore[misc]
        if decision is not None:
            # what was decided is learnt
            agent.learn(decision, np.ones(len(decision.propensities)))
            if (text := tell(decision.to_json)) is not None:
                assert od.Decision.from_json(text) == decision, name
        for verb in (agent.decide, agent.best, agent.explain):
            tell(lambda verb=verb, make=make: verb(first(make())))  # type: ignore[misc]
            tell(lambda verb=verb, make=make: verb(make()))  # type: ignore[misc]
        tell(lambda make=make: od.Schema.of(make()))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: od.auto(ARMS), "at least one number; got none"),
        (
            lambda: weighed(od.ModelExperts({"m": Flat()}, ARMS)),
            "at least one number; got none",
        ),
        (
            lambda: weighed(od.RefittedExperts(ARMS, {"m": Flatter()})),
            "at least one number; got none",
        ),
    ],
)
def test_contexts_without_numbers(make: Make, words: str) -> None:
    agent = od.Agent(make(), seed=1)
    with pytest.raises(od.InvalidInput, match=words):
        agent.decide_batch(np.zeros((2, 0)))
    with pytest.raises(od.InvalidInput, match=words):
        agent.decide([])


class Flatter(Flat):
    def fit(self, x: Any, y: Any) -> None: ...


def test_ragged_contexts_of_models() -> None:
    agent = od.Agent(weighed(od.ModelExperts({"m": Flat()}, ARMS)), seed=1)
    with pytest.raises(
        od.InvalidInput,
        match=r"rows of the same length; got \[\[1, 2\], \[3\]\]: give every context",
    ):
        agent.decide_batch([[1, 2], [3]])


@pytest.mark.parametrize(
    ("value", "number", "written"),
    [
        (Decimal("1.5"), 1.5, 1.5),
        (Fraction(1, 4), 0.25, 0.25),
        (Decimal("NaN"), float("nan"), None),
        (Decimal("sNaN"), float("nan"), None),
        (pd.Period("2026-01"), None, "2026-01"),
        (pd.Interval(0, 18), None, "(0, 18]"),
        (UUID(int=7), None, str(UUID(int=7))),
    ],
    ids=repr,
)
def test_uncommon_values_are_the_same_at_every_door(
    value: Any, number: float | None, written: Any
) -> None:
    """Numbers where numbers are read, text as categories and in JSON; a bare text is
    what they are equal to."""
    schema = od.Schema(("x",))
    if number is None:
        with pytest.raises(
            od.InvalidInput, match="context column 'x' must be a number; got"
        ):
            schema.encode({"x": value})
    else:
        np.testing.assert_array_equal(schema.encode({"x": value}), [number])
        np.testing.assert_array_equal(numbers([value]), [number])
    assert decode(encode({"x": value})) == {"x": written}
    labels, hashed = od.Schema(categories=("x",), buckets=64), od.Schema()
    for reads in (labels, hashed):
        np.testing.assert_array_equal(
            reads.encode({"x": value}), reads.encode({"x": written})
        )
    frame = pd.DataFrame({"x": pd.Series([value, value], dtype=object)})
    np.testing.assert_array_equal(
        labels.encode(frame), labels.encode([{"x": written}] * 2)
    )
    assert od.Schema.of(frame).categories == (
        ("x",) if isinstance(written, str) else ()
    )


@pytest.mark.parametrize("unit", ["ns", "us", "s", "D"])
def test_arrays_of_times_are_no_numbers_and_go_through_json(unit: str) -> None:
    times = np.array(["2026-01-02", "NaT"], dtype=f"M8[{unit}]")
    for values in (times, times - times[:1], pd.Series(times)):
        with pytest.raises(od.InvalidInput, match="must be a number; got the time"):
            numbers(values)
    again = decode(encode(times))
    assert again.dtype == times.dtype
    np.testing.assert_array_equal(again, times)


def test_what_json_cannot_hold_is_said() -> None:
    with pytest.raises(
        od.InvalidInput,
        match=r"contain only numbers, text, .*; got \{1\}: convert it",
    ):
        encode({"x": {1}})


def test_what_columns_stand_for_is_saved(tmp_path: Any) -> None:
    agent = od.Agent(od.auto(ARMS), seed=1)
    for city in ("Rome", "Oslo", "Rome"):
        agent.learn(agent.decide({"age": 3, "city": city}), city == "Rome")
    agent.save(tmp_path / "agent.npz")
    again = od.Agent.load(tmp_path / "agent.npz", od.auto(ARMS))

    def said(of: od.Agent, context: Any) -> Any:
        return od.auto(ARMS).experts.predict(of.state.experts, context)

    for context in (
        {"age": 3, "city": "Rome"},
        {"city": "Oslo"},
        {"city": "Lima"},
        np.zeros(3),
    ):
        np.testing.assert_array_equal(said(again, context), said(agent, context))
    assert (
        said(again, {"age": 3, "city": "Rome"})
        != said(again, {"age": 3, "city": "Oslo"})
    ).any()


def test_a_schema_of_numbered_columns() -> None:
    contexts: list[dict[Any, Any]] = [{0: 1.5, 1: "Rome"}, {0: 2.5, 1: "Oslo"}]
    schema = od.Schema.of(contexts)
    assert schema == od.Schema(("0",), ("1",), values={"1": ["Oslo", "Rome"]})
    np.testing.assert_array_equal(
        schema.encode(contexts),
        schema.encode([{"0": 1.5, "1": "Rome"}, {"0": 2.5, "1": "Oslo"}]),
    )
    assert schema.encode(contexts)[1, 0] == 2.5
    with pytest.raises(
        od.InvalidInput, match="with names; got a DataFrame: name its columns with text"
    ):
        od.Schema.of(pd.DataFrame(contexts))


@pytest.mark.parametrize(
    "form", [lambda frame: frame, pa.Table.from_pandas], ids=["pandas", "pyarrow"]
)
def test_categories_that_are_numbers_are_categories(form: Any) -> None:
    table = form(pd.DataFrame({"shop": pd.Categorical([7, 12]), "age": [3, 4]}))
    assert od.Schema.of(table) == od.Schema(
        ("age",), ("shop",), values={"shop": [12, 7]}
    )


def test_a_list_of_numbers_is_one_context_of_a_function() -> None:
    seen: list[Any] = []

    def says(context: Any) -> list[float]:
        seen.append(context)
        return [0.2, 0.3]

    od.Agent(weighed(od.FunctionExperts({"f": says}, ARMS)), seed=1).decide([])
    assert single([]).shape == seen[0].shape == (0,)


def test_no_expert_awake_is_no_excuse_for_one_context_as_a_batch() -> None:
    """Regressors sleep until they are fitted: three numbers are not three contexts."""
    agent = od.Agent(weighed(od.RefittedExperts(ARMS, {"m": Flatter()})), seed=1)
    with pytest.raises(od.InvalidInput, match="one row of propensities for each of 3"):
        agent.decide_batch(np.array([1.0, 2.0, 3.0]))


def test_reward_models_of_contexts_without_numbers() -> None:
    from sklearn.linear_model import Ridge

    log = od.Log(
        arm=np.tile([0, 1], 10),
        reward=np.tile([0.0, 1.0], 10),
        context=np.zeros((20, 0)),
    )
    with pytest.raises(od.InvalidInput, match="at least one number; got none"):
        cross_fit(log, Ridge())


def test_linear_scores_are_called_so() -> None:
    """A straight line leaves [0, 1], so explanations do not call it a reward."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", od.errors.NoExploration)
        agent = od.Agent(od.LinUCB(1, 2, ridge=0.01), seed=1)
    for _ in range(5):
        agent.learn(agent.decide([1.0]), 1)
    explained: Any = agent.explain([3.0])
    assert explained.mean.max() > 1
    assert "mean linear score" in str(explained)
    particles = od.policies.ParticleThompsonSampling(
        od.policies.LinearFamily(), 1, n_particles=64
    )
    assert "mean linear score" in str(
        particles.explain(particles.init(), np.ones((2, 1)))
    )
