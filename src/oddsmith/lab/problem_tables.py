"""Read the worlds of an experiment file, each with its experts and features."""

from collections.abc import Callable
from typing import Any

import numpy as np

from oddsmith.core.arrays import Array, Ints
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

# Number of contexts to sample for elimination if a world has infinitely many.
_SAMPLE = 256
_MOST = 200_000_000  # maximum size of a table of predictions


def read_problem(keys: Keys) -> Problem:
    """Return the world and experts that a table of an experiment file describes."""
    kind = keys.text("kind", choices=_KINDS)
    try:
        problem = _KINDS[kind](keys)
    except InvalidInput as error:
        raise keys.blame(error) from error
    keys.close()
    return problem


def _table(keys: Keys) -> Array:
    """Return random predictions (contexts, experts, arms)."""
    contexts = keys.whole("contexts", 10)
    experts = keys.whole("experts", 32)
    arms = keys.whole("arms", 3)
    size = contexts * experts * arms
    if size > _MOST:
        raise TooLarge(
            f"{keys.named('contexts')} · experts · arms must be at most {_MOST:,}; got "
            f"{size:,}"
        )
    return random_table(contexts, experts, arms, keys.whole("seed", 7, least=0))


def _random(keys: Keys) -> Problem:
    table = _table(keys)
    return table_problem(table, contexts=np.arange(len(table)))


def _adversary(keys: Keys) -> Problem:
    table = _table(keys)
    return table_problem(table, AdaptiveAdversary(TableWorld(table[:, 0])))


def _switching(keys: Keys) -> Problem:
    table = _table(keys)
    n_experts = table.shape[1]
    truths = keys.get("truths")
    until = keys.get("until")
    is_list = isinstance(truths, list) and len(truths) > 0
    if not is_list or any(type(i) is not int or not 0 <= i < n_experts for i in truths):
        raise InvalidInput(
            f"truths must be experts 0 … {n_experts - 1}; got {truths!r:.60}"
        )
    if not isinstance(until, list) or any(type(step) is not int for step in until):
        raise InvalidInput(f"until must be a list of steps; got {until!r:.60}")
    worlds = [TableWorld(table[:, i]) for i in truths]
    world = SwitchingWorld(worlds, until)
    return table_problem(table, world, truth=None, contexts=np.arange(len(table)))


def _own_table(keys: Keys) -> Problem:
    """Return a world with the means and predictions in the file. The first expert that
    predicts the means exactly is the right one."""
    means = keys.numbers("means", ndim=2)
    predictions = keys.numbers("experts", ndim=3)
    _check_means("means", means)
    _check_means("experts", predictions)
    world = TableWorld(means)
    n_contexts, n_experts, n_arms = predictions.shape
    if (n_contexts, n_arms) != means.shape:
        raise InvalidInput(
            "experts must be predictions (contexts, experts, arms) like means "
            f"{means.shape}; got shape {predictions.shape}"
        )
    truth = None
    for i in range(n_experts):
        if np.array_equal(predictions[:, i], means):
            truth = i
            break
    contexts = np.arange(n_contexts)
    return table_problem(predictions, world, truth=truth, contexts=contexts)


def _check_means(name: str, values: Array) -> None:
    """Raise an error if numbers are outside [0, 1]."""
    if not ((values >= 0) & (values <= 1)).all():
        low = values.min()
        high = values.max()
        raise InvalidInput(
            f"{name} must be mean rewards in [0, 1]; got {low:g} to {high:g}"
        )


def _logistic(keys: Keys) -> Problem:
    """Return a world with the weight vector theta, and experts with other vectors of
    the same norm; the first expert is right."""
    theta = keys.numbers("theta", ndim=1)
    world = LogisticWorld(theta, n_arms=keys.whole("arms", 2))
    rng = np.random.default_rng(keys.whole("seed", 7, least=0))
    n_others = keys.whole("experts", 32) - 1
    others = rng.standard_normal((n_others, len(theta)))
    contexts = world.context(1, _SAMPLE, rng)
    return Problem(
        world,
        _linear_bank(theta, others),
        truth=0,
        columns=column_names(len(theta)),
        contexts=contexts,
    )


def _linear_bank(true: Array, others: Array) -> LinearExperts:
    """Return experts with the true weights (d,), then the others (N - 1, d), scaled to
    the same norm."""
    norms = np.linalg.norm(others, axis=1, keepdims=True)
    scaled = others * (np.linalg.norm(true) / norms)
    return LinearExperts(np.vstack([true, scaled]))


def _classification(keys: Keys) -> Problem:
    """Return a world and models for a data set. The models are trained on the first
    rows of the shuffled data; the contexts of the world are the numbers of the other
    rows."""
    seed = keys.whole("seed", 0, least=0)
    data = dataset(keys.text("data"), seed=seed)
    n_train = keys.whole("train", 100, least=2)
    names = keys.get("models", list(MODELS))
    is_list = isinstance(names, list) and len(names) > 0
    if not is_list or any(name not in MODELS for name in names):
        raise InvalidInput(
            f"models must be among {', '.join(MODELS)}; got {names!r:.80}"
        )
    absent = _absent_class(data.y, data.n_arms)
    if absent is not None:
        raise InvalidInput(
            f"data must have rows of every class 0 … {data.n_arms - 1}; got none of "
            f"{absent}"
        )
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data.X))
    if n_train >= len(order):
        raise InvalidInput(
            f"train must be below the {len(order)} rows of the data; got {n_train}"
        )
    x = data.X[order]
    y = data.y[order]
    train_y = y[:n_train]
    test_x = x[n_train:]
    unseen = _absent_class(train_y, data.n_arms)
    if unseen is not None:
        raise InvalidInput(
            f"train must include rows of every class; got {n_train} rows without "
            f"class {unseen}"
        )
    models = {}
    for name in names:
        models[name] = _train(name, x[:n_train], train_y)
    bank = ModelExperts(models, arms=column_names(data.n_arms, ""))
    predictions = bank.predict(bank.init(), test_x)
    test_y = y[n_train:, None]
    is_right = test_y == np.arange(data.n_arms)
    means = is_right.astype(np.float64)
    contexts = np.arange(len(means))
    return Problem(
        TableWorld(means),
        TableExperts(predictions, names=names),
        features=test_x,
        columns=data.columns or column_names(x.shape[1]),
        contexts=contexts,
    )


def _absent_class(y: Ints, n_classes: int) -> int | None:
    """Return the first class 0 … n - 1 without a row, or None."""
    counts = np.bincount(y, minlength=n_classes)
    absent = np.flatnonzero(counts == 0)
    if len(absent):
        return int(absent[0])
    return None


def _news(keys: Keys) -> Problem:
    """Return a world of articles that are published and expire. The first expert has
    the true weights of the visible columns, the others random ones."""
    hide = keys.get("hide", [])
    births = keys.get("births", None)
    life = keys.number("life", 200.0, low=1, high=1e9)
    popularity = keys.number("popularity", 0.5, low=0, high=100)
    seed = keys.whole("seed", 0, least=0)
    world = NewsWorld(
        life=life,
        low=keys.whole("low", 5),
        high=keys.whole("high", 15),
        births=births,
        popularity=popularity,
        hide=hide,
        seed=seed,
    )
    rng = np.random.default_rng(world.seed)
    true = world.weights
    n_others = keys.whole("experts", 32) - 1
    others = rng.standard_normal((n_others, len(true)))
    return Problem(
        world,
        _linear_bank(true, others),
        columns=VISITOR_COLUMNS,
        arm_columns=world.article_columns,
    )


MODELS = ("logistic", "tree", "forest", "neighbours", "bayes", "prior")


def _train(name: str, x: Array, y: Any) -> Any:
    try:
        return _model(name).fit(x, y)
    except (ValueError, ArithmeticError) as error:
        raise InvalidInput(
            f"data must allow training {name}; {error!s:.120}"
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

    logistic = LogisticRegression(C=0.1, max_iter=1000)
    models = {
        "logistic": make_pipeline(StandardScaler(), logistic),
        "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
        "forest": RandomForestClassifier(50, random_state=0),
        "neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier(5)),
        "bayes": GaussianNB(var_smoothing=1e-2),
        "prior": DummyClassifier(),
    }
    return models[name]


_KINDS: dict[str, Callable[[Keys], Problem]] = {
    "random": _random,
    "table": _own_table,
    "adversary": _adversary,
    "switching": _switching,
    "logistic": _logistic,
    "classification": _classification,
    "news": _news,
}
