"""What the matrix of doors is made of: contexts complete and not, forms of them, and
policies that read them."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import oddsmith as od

ARMS = ("stay", "go")
ROWS: list[dict[str, Any]] = [
    {"age": 31.5, "visits": 3, "city": "Rome", "member": True},
    {"age": 45.0, "visits": 0, "city": "Oslo", "member": False},
    {"age": 18.25, "visits": 7, "city": "Rome", "member": False},
    {"age": 60.0, "visits": 1, "city": "Bern", "member": True},
]
REWARDS = [1.0, 0.0, 0.5, 1.0]
SCHEMA = od.Schema(("age", "visits", "member"), ("city",), buckets=4)


def with_values(**values: Any) -> list[dict[str, Any]]:
    """The rows, the second one with these values."""
    return [row | values if i == 1 else dict(row) for i, row in enumerate(ROWS)]


def renamed(old: str, new: str | None) -> list[dict[str, Any]]:
    """The rows with another name for a column, or without it."""
    return [
        {
            new if name == old else name: value  # type: ignore[misc]
            for name, value in row.items()
            if name != old or new
        }
        for row in ROWS
    ]


CONDITIONS: dict[str, list[dict[str, Any]]] = {
    "complete": ROWS,
    "None": with_values(age=None, city=None, member=None),
    "NaN": with_values(age=float("nan")),
    "NA": with_values(age=pd.NA, visits=pd.NA, city=pd.NA),
    "all missing": [row | {"age": None} for row in ROWS],
    "new category": with_values(city="Lima"),
    "column missing": renamed("visits", None),
    "column too many": [row | {"shop": "north", "margin": 0.5} for row in ROWS],
    "misspelt": renamed("city", "citty"),
    "timestamp": [
        row | {"age": datetime(2026, 1, day + 1)} for day, row in enumerate(ROWS)
    ],
    "NaT": [row | {"age": pd.NaT} for row in ROWS],
    "nested": [row | {"age": {"years": 3}} for row in ROWS],
    "text for a number": with_values(age="old"),
}


def frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(rows)


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows as polars and pyarrow take them: None is what is missing."""
    return [
        {
            name: None if pd.api.types.is_scalar(v) and pd.isna(v) else v
            for name, v in r.items()
        }
        for r in rows
    ]


def structured(rows: list[dict[str, Any]]) -> Any:
    return np.array(
        [tuple(row.values()) for row in rows],
        dtype=[(name, object) for name in rows[0]],
    )


FORMS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "dicts": lambda rows: rows,
    "pandas": frame,
    "pandas nullable": lambda rows: frame(rows).convert_dtypes(),
    "rows of pandas": lambda rows: [row for _, row in frame(rows).iterrows()],
    "polars": lambda rows: pl.DataFrame(plain(rows), strict=False),
    "pyarrow": lambda rows: pa.Table.from_pylist(plain(rows)),
    "structured": structured,
}


def by_hand(context: Any, arm: str) -> float:
    age = context.get("age")
    if not isinstance(age, float) or age != age:
        return float("nan")  # no opinion
    return 0.7 if (age > 40) == (arm == "go") else 0.3


def by_city(context: Any) -> list[float]:
    return [0.6, 0.2] if context.get("city") == "Rome" else [0.2, 0.6]


class Shares:
    """A model that was fitted on a frame with names, and takes frames only."""

    feature_names_in_ = np.array(["city", "age", "visits", "member"])

    def predict(self, x: Any) -> Any:
        assert list(x.columns) == list(self.feature_names_in_)
        young = (
            pd.to_numeric(
                pd.Series([np.nan if v is None else v for v in x["age"]])
            ).fillna(30.0)
            < 40
        )
        return np.where(young, 0.3, 0.6)[:, None] + [[0.0, 0.1]]


class Middle:
    """A regressor that is the mean of what it was fitted to."""

    def fit(self, x: Any, y: Any) -> Any:
        self.mean = y.mean()
        return self

    def predict(self, x: Any) -> Any:
        return np.full(len(x), self.mean)


FUNCTIONS = od.FunctionExperts({"by hand": by_hand, "by city": by_city}, ARMS)
MODELS = od.ModelExperts({"shares": Shares()}, ARMS)
LINES = od.experts.Encoded(
    od.LinearExperts(np.linspace(-0.1, 0.1, 3 * 2 * 7).reshape(3, 2, 7), arms=ARMS),
    SCHEMA,
)
REFITTED = od.RefittedExperts(ARMS, {"middle": Middle()}, first=2, schema=SCHEMA)


def weighed(bank: Any) -> Any:
    return od.GeneralizedThompsonSampling(bank, gamma=0.1)


# for policies that leave reading to a bank named above
FEW = ("complete", "None", "NA", "new category", "misspelt")


class Door(NamedTuple):
    """A policy that reads contexts with names, and how: by a schema, by all names, as a
    model or function likes."""

    make: Callable[[], Any]
    reads: str
    conditions: tuple[str, ...] = tuple(CONDITIONS)


DOORS: dict[str, Door] = {
    "functions": Door(lambda: weighed(FUNCTIONS), "any"),
    "models": Door(lambda: weighed(MODELS), "model"),
    "encoded lines": Door(lambda: weighed(LINES), "schema"),
    "refitted": Door(lambda: weighed(REFITTED), "schema"),
    "stack": Door(lambda: weighed(od.stack(FUNCTIONS, LINES)), "schema"),
    "guarded": Door(lambda: weighed(od.Guarded(od.stack(FUNCTIONS, LINES))), "any"),
    "clipped": Door(lambda: weighed(od.experts.Clipped(LINES)), "schema", FEW),
    "exp4": Door(lambda: od.policies.EXP4(FUNCTIONS, 0.5, gamma=0.1), "any", FEW),
    "squarecb": Door(lambda: od.policies.SquareCB(FUNCTIONS, 10.0), "any", FEW),
    "exp4p": Door(lambda: od.policies.EXP4P(FUNCTIONS, 100), "any", FEW),
    "hedged": Door(lambda: od.Bounded(od.hedged(FUNCTIONS), 0.1), "any", FEW),
    "mixture of rates": Door(lambda: od.policies.RateMixture(FUNCTIONS), "any", FEW),
    "fastcb": Door(lambda: od.policies.FastCB(FUNCTIONS, 10.0), "any", FEW),
    "epoch greedy": Door(lambda: od.policies.EpochGreedy(FUNCTIONS), "any", FEW),
    "windowed": Door(lambda: od.Windowed(weighed(FUNCTIONS), 2), "any", FEW),
    "bounded": Door(
        lambda: od.Bounded(od.LinUCB(n_arms=2, schema=SCHEMA), 0.1), "schema", FEW
    ),
    "auto": Door(lambda: od.auto(ARMS, size="small"), "names"),
    "auto, schema": Door(lambda: od.auto(ARMS, schema=SCHEMA), "schema"),
    "linucb": Door(lambda: od.LinUCB(n_arms=2, schema=SCHEMA), "schema"),
    "glm ucb": Door(lambda: od.policies.GLMUCB(n_arms=2, schema=SCHEMA), "schema"),
    "linear thompson": Door(
        lambda: od.LinearThompsonSampling(n_arms=2, schema=SCHEMA, gamma=0.1), "schema"
    ),
    "logistic thompson": Door(
        lambda: od.policies.LogisticThompsonSampling(
            n_arms=2, schema=SCHEMA, gamma=0.1
        ),
        "schema",
    ),
    "probit thompson": Door(
        lambda: od.policies.ProbitThompsonSampling(n_arms=2, schema=SCHEMA, gamma=0.1),
        "schema",
    ),
    "beta thompson": Door(
        lambda: od.BetaThompsonSampling(2, gamma=0.1), "nothing", FEW
    ),
    "ucb1": Door(lambda: od.policies.UCB1(2), "nothing", FEW),
}
# by what a door reads: the conditions it refuses, and the words it says
REFUSED: dict[str, dict[str, str]] = {
    "any": {},
    "nothing": {},
    "model": {
        "misspelt": "'citty'.*did you mean city",
        "nested": "model 'shares' raised TypeError",
        "text for a number": "model 'shares' raised ValueError",
    },
    "schema": {
        "misspelt": "'citty'.*did you mean city",
        "timestamp": "column 'age'.*hour and weekday",
        "nested": "column 'age'.*'age.years'",
        "text for a number": "column 'age'.*'old'.*None",
    },
    "names": {
        "timestamp": "column 'age'.*hour and weekday",
        "nested": "column 'age'.*'age.years'",
    },
}


NUMBERS = [[31.5, 3.0, 1.0], [45.0, 0.0, 0.0], [18.25, 7.0, 0.0], [60.0, 1.0, 1.0]]
NAMES = ["age", "visits", "member"]
LINEAR = np.linspace(-0.01, 0.02, 3 * 2 * 3).reshape(3, 2, 3)
ARRAY_DOORS: dict[str, tuple[Callable[[], Any], bool]] = {  # and whether it takes NaN
    "linear experts": (lambda: weighed(od.LinearExperts(LINEAR, arms=ARMS)), True),
    "functions of arrays": (
        lambda: weighed(od.FunctionExperts({"f": lambda x: [0.2, 0.3]}, ARMS)),
        True,
    ),
    "auto": (lambda: od.auto(ARMS, size="small"), True),
    "refitted": (
        lambda: weighed(od.RefittedExperts(ARMS, {"middle": Middle()}, first=2)),
        True,
    ),
    "models": (lambda: weighed(od.ModelExperts({"s": Sums()}, ARMS)), True),
    "linucb": (lambda: od.LinUCB(3, 2), False),
    "linear thompson": (lambda: od.LinearThompsonSampling(3, 2), False),
    "logistic thompson": (lambda: od.policies.LogisticThompsonSampling(3, 2), False),
    "probit thompson": (lambda: od.policies.ProbitThompsonSampling(3, 2), False),
    "glm ucb": (lambda: od.policies.GLMUCB(3, 2), False),
}
ARRAY_FORMS: dict[str, Callable[[Any], Any]] = {
    "array": lambda rows: np.array(rows, dtype=np.float64),
    "objects": lambda rows: np.array(rows, dtype=np.object_),
    "lists": lambda rows: [list(row) for row in rows],
    "rows": lambda rows: list(np.array(rows, dtype=np.float64)),
    "pandas": lambda rows: pd.DataFrame(rows, columns=NAMES[: len(rows[0])]),
    "pandas without names": pd.DataFrame,
    "polars": lambda rows: pl.DataFrame(
        rows, schema=NAMES[: len(rows[0])], orient="row"
    ),
}


class Sums:
    """A model of arrays, or of whatever becomes one."""

    def predict(self, x: Any) -> Any:
        return np.nan_to_num(np.asarray(x, dtype=np.float64)).sum(axis=1)[:, None] * [
            [0.005, 0.004]
        ]
