"""The worlds of the gallery: benign, pessimistic, adversarial, linear, real data, and
one with small costs."""

import numpy as np

from oddsmith.claims.chain import INSTANCE
from oddsmith.claims.claim import Experiment, Outcome, Setup, instance
from oddsmith.claims.gallery import show
from oddsmith.experts.linear import LinearExperts
from oddsmith.experts.models import ModelExperts
from oddsmith.experts.tables import TableExperts
from oddsmith.lab.problems import Problem, column_names, table_problem
from oddsmith.lab.worlds.adversary import AdaptiveAdversary
from oddsmith.lab.worlds.linear import LogisticWorld
from oddsmith.lab.worlds.tables import TableWorld, random_table

__all__ = ["GALLERY"]


def benign(setup: Setup) -> Outcome:
    """A random table of 32 experts, one of which is right."""
    text = (
        "Ten contexts, three arms, 32 experts; the first expert is right. For linear "
        "policies the context is one of ten categories."
    )
    return show(instance(), setup, about=("Gallery: a benign world", text))


def pessimistic(setup: Setup) -> Outcome:
    """Two experts: the right one has prior 0.001, and only it votes for the arm that
    distinguishes them."""
    prior = [1e-3, 1 - 1e-3]
    text = (
        "The right expert, f_1 = (0.5, 0.9), has prior 0.001; the other is f_2 = "
        "(0.5, 0.1). Until arm 2 is tried, nothing can be learnt. Policies that use "
        "no prior are not misled by it."
    )
    problem = table_problem(INSTANCE, contexts=np.arange(1), prior=prior)
    return show(problem, setup, about=("Gallery: a pessimistic world", text), runs=60)


def adversarial(setup: Setup) -> Outcome:
    """An adversary that shows the context in which the current propensities have the
    largest expected regret."""
    table = random_table()
    text = (
        "The table of the benign world, but in each run an adversary who sees the "
        "policy's state chooses the context."
    )
    world = AdaptiveAdversary(TableWorld(table[:, 0]))
    problem = table_problem(table, world)
    about = ("Gallery: an adversarial world", text)
    return show(problem, setup, about=about, steps=(2000, 300), runs=16)


def linear(setup: Setup) -> Outcome:
    """A logistic world in four dimensions, with 64 weight vectors of equal norm as
    experts."""
    theta = np.array([1.5, -1.0, 0.5, 2.0])
    others = np.random.default_rng(3).standard_normal((63, 4))
    length = np.linalg.norm(theta)
    others *= length / np.linalg.norm(others, axis=1, keepdims=True)
    text = (
        "Each of three arms has a feature vector in four dimensions; the probability "
        "of a reward is a logistic function of it."
    )
    world = LogisticWorld(theta, n_arms=3)
    experts = LinearExperts(np.vstack([theta, others]))
    problem = Problem(world, experts, 0, columns=column_names(4))
    about = ("Gallery: a logistic world", text)
    return show(problem, setup, about=about, steps=(2000, 400), runs=16)


def real(setup: Setup) -> Outcome:
    """Handwritten digits. The experts are four models trained on the first 150 digits;
    linear policies learn from the pixels."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.tree import DecisionTreeClassifier

    digits = load_digits()
    rng = np.random.default_rng(7)
    order = rng.permutation(len(digits.target))
    x = digits.data[order] / 16
    y = digits.target[order]
    past = (x[:150], y[:150])
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    models = {
        "neighbours": KNeighborsClassifier(5).fit(*past),
        "logistic": LogisticRegression(C=1.0, max_iter=500).fit(x[:30], y[:30]),
        "bayes": GaussianNB(var_smoothing=1e-2).fit(*past),
        "tree": tree.fit(*past),
    }
    new_x = x[150:]
    new_y = y[150:]
    arms = [str(digit) for digit in range(10)]
    bank = ModelExperts(models, arms=arms)
    experts = TableExperts(bank.predict((), new_x), names=tuple(models))
    rewards = new_y[:, None] == np.arange(10)
    world = TableWorld(rewards.astype(np.float64))
    ones = np.ones((len(new_x), 1))
    features = np.hstack([new_x, ones])
    text = (
        "1,647 handwritten digits, ten arms; four models trained on at most 150 digits "
        "are the experts."
    )
    columns = column_names(features.shape[1])
    sample = np.arange(0, 1647, 8)
    problem = Problem(world, experts, None, features, columns, sample)
    about = ("Gallery: real data", text)
    return show(problem, setup, about=about, steps=(1600, 300), runs=8)


def cheap(setup: Setup) -> Outcome:
    """Mean rewards near 1, that is, small costs, for which FastCB's propensities are
    designed (X13)."""
    rng = np.random.default_rng(7)
    losses = rng.beta(1, 12, (10, 32, 3))
    table = 1 - np.clip(losses, 0.002, 0.95)
    text = (
        "Costs (one minus the reward) are small: Beta(1, 12). FastCB's regret scales "
        "with the cost of the best policy."
    )
    problem = table_problem(table, contexts=np.arange(10))
    return show(problem, setup, about=("Gallery: small costs", text))


GALLERY = {
    f"gallery-{world.__name__}": Experiment(world)
    for world in (benign, pessimistic, adversarial, linear, real, cheap)
}
