"""The worlds of the gallery: benign, pessimistic, adversarial, linear, real data, and
one where arms cost little."""

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
    """A random table, 32 experts, one of them true."""
    text = (
        "Ten contexts, three arms, 32 experts, the first true. Linear policies see the "
        "context as one of ten."
    )
    return show(instance(), setup, about=("Gallery: a benign world", text))


def pessimistic(setup: Setup) -> Outcome:
    """Two experts; the true one has a prior of a thousandth, and only it wants the arm
    that tells them apart."""
    prior = [1e-3, 1 - 1e-3]
    text = (
        "f_1 = (0.5, 0.9) is true with prior 0.001, f_2 = (0.5, 0.1): until arm 2 is "
        "tried, nothing can be learnt. Policies that use no prior are not misled by it."
    )
    problem = table_problem(INSTANCE, contexts=np.arange(1), prior=prior)
    return show(problem, setup, about=("Gallery: a pessimistic world", text), runs=60)


def adversarial(setup: Setup) -> Outcome:
    """The adversary shows the context on which the current odds lose most."""
    table = random_table()
    text = (
        "The benign table again, but an adversary who sees the policy's state picks "
        "the context, run by run."
    )
    world = AdaptiveAdversary(TableWorld(table[:, 0]))
    problem = table_problem(table, world)
    about = ("Gallery: an adversarial world", text)
    return show(problem, setup, about=about, steps=(2000, 300), runs=16)


def linear(setup: Setup) -> Outcome:
    """A logistic world in four dimensions; experts are 64 weight vectors of the same
    norm."""
    theta = np.array([1.5, -1.0, 0.5, 2.0])
    others = np.random.default_rng(3).standard_normal((63, 4))
    length = np.linalg.norm(theta)
    others *= length / np.linalg.norm(others, axis=1, keepdims=True)
    text = (
        "Each of three arms shows a direction in four dimensions; the chance of a "
        "reward is logistic in it."
    )
    world = LogisticWorld(theta, n_arms=3)
    experts = LinearExperts(np.vstack([theta, others]))
    problem = Problem(world, experts, 0, columns=column_names(4))
    about = ("Gallery: a logistic world", text)
    return show(problem, setup, about=about, steps=(2000, 400), runs=16)


def real(setup: Setup) -> Outcome:
    """Handwritten digits; experts are four models trained on the first 150, linear
    policies learn from the pixels."""
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
    """Small costs: mean rewards near 1, where FastCB's odds pay off (X13)."""
    rng = np.random.default_rng(7)
    losses = rng.beta(1, 12, (10, 32, 3))
    table = 1 - np.clip(losses, 0.002, 0.95)
    text = (
        "Costs, one minus the reward, are small: Beta(1, 12). FastCB's regret follows "
        "what the best policy pays."
    )
    problem = table_problem(table, contexts=np.arange(10))
    return show(problem, setup, about=("Gallery: small costs", text))


GALLERY = {
    f"gallery-{world.__name__}": Experiment(world)
    for world in (benign, pessimistic, adversarial, linear, real, cheap)
}
