"""The worlds of an experiment file, each with its experts and features."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.errors import InvalidInput, TooLarge, import_extra
from oddsmith.experts.linear import LinearExperts
from oddsmith.experts.models import ModelExperts
from oddsmith.experts.tables import TableExperts
from oddsmith.files.keys import Keys
from oddsmith.lab.problems import Problem, column_names, table_problem
from oddsmith.lab.worlds.adversary import AdaptiveAdversary
from oddsmith.lab.worlds.datasets import dataset
from oddsmith.lab.worlds.drift import SwitchingWorld
from oddsmith.lab.worlds.linear import LogisticWorld
from oddsmith.lab.worlds.news import VISITOR_COLUMNS, NewsWorld
from oddsmith.lab.worlds.tables import TableWorld, random_table

__all__ = ["MODELS", "read_problem"]

_SAMPLE = 256  # contexts of a world that has infinitely many, for elimination
_MOST = 200_000_000  # numbers in a table of predictions


def read_problem(keys: Keys) -> Problem:
    """The world and experts that a table of an experiment file describes."""
    kind = keys.text("kind", choices=_KINDS)
    try:
        problem = _KINDS[kind](keys)
    except InvalidInput as error:
        raise keys.blame(error) from error
    keys.close()
    return problem


def _table(keys: Keys) -> Array:
    """Random predictions (contexts, experts, arms)."""
    shape = keys.whole("contexts", 10), keys.whole("experts", 32), keys.whole("arms", 3)
    if prod(shape) > _MOST:
        raise TooLarge(
            f"{keys.named('contexts')} · experts · arms must be at most {_MOST:,}; got "
            f"{prod(shape):,}"
        )
    return random_table(*shape, seed=keys.whole("seed", 7, least=0))


def _random(keys: Keys) -> Problem:
    table = _table(keys)
    return table_problem(table, contexts=np.arange(len(table)))


def _adversary(keys: Keys) -> Problem:
    table = _table(keys)
    return table_problem(table, AdaptiveAdversary(TableWorld(table[:, 0])))


def _switching(keys: Keys) -> Problem:
    table = _table(keys)
    truths, until = keys.get("truths"), keys.get("until")
    experts = range(table.shape[1])
    if (
        not isinstance(truths, list)
        or not truths
        or any(type(i) is not int or i not in experts for i in truths)
    ):
        raise InvalidInput(
            f"truths must be experts 0 … {experts[-1]}; got {truths!r:.60}"
        )
    if not isinstance(until, list) or any(type(step) is not int for step in until):
        raise InvalidInput(f"until must be a list of steps; got {until!r:.60}")
    return table_problem(
        table,
        SwitchingWorld([TableWorld(table[:, i]) for i in truths], until),
        truth=None,
        contexts=np.arange(len(table)),
    )


def _given(keys: Keys) -> Problem:
    means, predictions = keys.numbers("means", ndim=2), keys.numbers("experts", ndim=3)
    for what, values in (("means", means), ("experts", predictions)):
        if not ((values >= 0) & (values <= 1)).all():
            raise InvalidInput(
                f"{what} must be mean rewards in [0, 1]; got {values.min():g} to "
                f"{values.max():g}"
            )
    world = TableWorld(means)
    if predictions.shape[::2] != means.shape:
        got = f"got shape {predictions.shape}"
        raise InvalidInput(
            "experts must be predictions (contexts, experts, arms) like means "
            f"{means.shape}; {got}"
        )
    right = [
        i
        for i in range(predictions.shape[1])
        if np.array_equal(predictions[:, i], means)
    ]
    return table_problem(
        predictions,
        world,
        truth=right[0] if right else None,
        contexts=np.arange(len(means)),
    )


def _logistic(keys: Keys) -> Problem:
    """A true weight vector theta, and a bank of other vectors of the same norm; the
    first expert is the truth."""
    theta = keys.numbers("theta", ndim=1)
    world = LogisticWorld(theta, n_arms=keys.whole("arms", 2))
    rng = np.random.default_rng(keys.whole("seed", 7, least=0))
    others = rng.standard_normal((keys.whole("experts", 32) - 1, len(theta)))
    sample = world.context(1, _SAMPLE, rng)
    others *= np.linalg.norm(theta) / np.linalg.norm(others, axis=1, keepdims=True)
    return Problem(
        world,
        LinearExperts(np.vstack([theta, others])),
        0,
        columns=column_names(len(theta)),
        contexts=sample,
    )


def _classification(keys: Keys) -> Problem:
    """Models trained on the first rows of a shuffled data set; the world is the other
    rows, by number."""
    seed = keys.whole("seed", 0, least=0)
    data = dataset(keys.text("data"), seed=seed)
    train, names = keys.whole("train", 100, least=2), keys.get("models", list(MODELS))
    if (
        not isinstance(names, list)
        or not names
        or any(name not in MODELS for name in names)
    ):
        raise InvalidInput(f"models must be of {', '.join(MODELS)}; got {names!r:.80}")
    order = np.random.default_rng(seed).permutation(len(data.X))
    if absent := sorted(set(range(data.n_arms)) - set(data.y.tolist())):
        raise InvalidInput(
            f"data must have rows of every class 0 … {data.n_arms - 1}; got none of "
            f"{absent[0]}"
        )
    if train >= len(order):
        raise InvalidInput(
            f"train must be below the {len(order)} rows of the data; got {train}"
        )
    x, y = data.X[order], data.y[order]
    if missing := sorted(set(range(data.n_arms)) - set(y[:train].tolist())):
        raise InvalidInput(
            f"train must be so many rows that every class is seen; got {train}, "
            f"without class {missing[0]}"
        )
    models = {name: _trained(name, x[:train], y[:train]) for name in names}
    bank = ModelExperts(models, arms=[str(arm) for arm in range(data.n_arms)])
    predictions = bank.predict(bank.init(), x[train:])
    right = (y[train:, None] == np.arange(data.n_arms)).astype(np.float64)
    experts, columns = (
        TableExperts(predictions, names=names),
        data.columns or column_names(x.shape[1]),
    )
    return Problem(
        TableWorld(right), experts, None, x[train:], columns, np.arange(len(right))
    )


def _news(keys: Keys) -> Problem:
    """Articles that come and go; the first expert has the true weights of what is
    shown, the others random ones."""
    hide, births = keys.get("hide", []), keys.get("births", None)
    world = NewsWorld(
        life=keys.number("life", 200.0, low=1, high=1e9),
        low=keys.whole("low", 5),
        high=keys.whole("high", 15),
        births=births,
        popularity=keys.number("popularity", 0.5, low=0, high=100),
        hide=hide,
        seed=keys.whole("seed", 0, least=0),
    )
    rng, true = np.random.default_rng(world.seed), world.weights
    others = rng.standard_normal((keys.whole("experts", 32) - 1, len(true)))
    others *= np.linalg.norm(true) / np.linalg.norm(others, axis=1, keepdims=True)
    experts = LinearExperts(np.vstack([true, others]))
    return Problem(world, experts, columns=VISITOR_COLUMNS, arm_columns=world.shown)


MODELS = ("logistic", "tree", "forest", "neighbours", "bayes", "prior")


def _trained(name: str, x: Array, y: Any) -> Any:
    try:
        return _model(name).fit(x, y)
    except (ValueError, ArithmeticError) as error:
        raise InvalidInput(
            f"data must be such that {name} can be trained on it; {error!s:.120}"
        ) from error


def _model(name: str) -> Any:
    import_extra("sklearn", "classification worlds need", "models")
    from sklearn.dummy import DummyClassifier
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    return {
        "logistic": make_pipeline(
            StandardScaler(), LogisticRegression(C=0.1, max_iter=1000)
        ),
        "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
        "forest": RandomForestClassifier(50, random_state=0),
        "neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier(5)),
        "bayes": GaussianNB(var_smoothing=1e-2),
        "prior": DummyClassifier(),
    }[name]


_KINDS: dict[str, Callable[[Keys], Problem]] = {
    "random": _random,
    "table": _given,
    "adversary": _adversary,
    "switching": _switching,
    "logistic": _logistic,
    "classification": _classification,
    "news": _news,
}
