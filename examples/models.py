"""Which model to follow: scikit-learn models of a shop, one of which goes stale, and a
better one that joins.

A shop shows one of six offers to each visitor and learns only whether it was clicked.
Four models choose; nobody knows which one is good. After a third of the visitors tastes
change, and after two thirds a model that was retrained joins. The same visitors are
played many times by `od.auto(models=…)` and by what people do instead.

Run it with `make demo`; it prints a table, and writes a report (index.html) and the log
of decisions. The models are real and the visitors are simulated.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import oddsmith as od
from oddsmith.core.policy import Policy
from oddsmith.files.reports import Figure, Section, Table, write
from oddsmith.files.reports.answer import chart
from oddsmith.files.reports.style import (
    COLOURS,
    DASHES,
    EDGE,
    SOFT,
    legend,
    panels,
    save,
    svg,
)
from oddsmith.lab.leaders import interval_of
from oddsmith.logs.progress import progress
from oddsmith.policies.roster import add_expert

OFFERS = ("garden", "kitchen", "games", "books", "sport", "travel")
NEW = "retrained forest"
AGENT = "oddsmith, auto(models=…)"
BY_CLICKS = "Thompson sampling, models as arms"
EPSILON = "epsilon-greedy, models as arms"
AB_TEST = "A/B test, then the winner"
GTS = "Generalized Thompson Sampling"
BAYES = "plain Thompson sampling"
RANDOM = "a random model"
KNOWN = "best model of each third"
BEST = "best model in hindsight"
METHODS = {
    AGENT: "It calibrates each model, and weighs models by predictions and by clicks.",
    BY_CLICKS: "It learns the click rate of each model, and tries a new one at once.",
    EPSILON: "It follows the model with the best click rate, and one time in ten any.",
    AB_TEST: "It tests all models on a sixth of the visitors, ships the winner, and "
    "tests the new model against it.",
    GTS: "It weighs models by how well they predict, and assumes that one is right.",
    BAYES: "It follows the model that predicts best, here the logistic regression.",
    RANDOM: "It follows another model for each visitor.",
    BEST: "It is known only afterwards.",
}
PARTS = ("at first", "tastes changed", "model joined")

_WORLD = np.random.default_rng(5)
_LASTING = _WORLD.normal(size=(6, 6)) / 6**0.5
_SEASONAL = _WORLD.normal(size=(3, 6))


def click_rates(visitors: Any, *, new_season: bool) -> Any:
    """The click rate of each offer (n, 6): one taste lasts, one turns with the
    season."""
    pairs = np.tanh(1.5 * visitors[:, ::2] * visitors[:, 1::2])
    turned = -pairs if new_season else pairs
    score = 1.5 * visitors @ _LASTING + 1.8 * turned @ _SEASONAL
    return 0.02 + 0.28 / (1 + np.exp(2.6 - score))


def logged_clicks(n: int, seed: int, *, new_season: bool) -> tuple[Any, Any, Any]:
    """Visitors, the offer that each one saw, drawn at random, and whether it was
    clicked."""
    rng = np.random.default_rng(seed)
    visitors = rng.normal(size=(n, 6))
    offer = rng.integers(len(OFFERS), size=n)
    rates = click_rates(visitors, new_season=new_season)
    return visitors, offer, rng.random(n) < rates[np.arange(n), offer]


def fit(make: Callable[[], Any], log: tuple[Any, Any, Any], n: int) -> dict[str, Any]:
    """A model of clicks for each offer, fitted to the first n visitors of a log."""
    visitors, offer, clicked = (part[:n] for part in log)
    return {
        name: make().fit(visitors[offer == i], clicked[offer == i])
        for i, name in enumerate(OFFERS)
    }


def forest() -> Any:
    """Fitted to balanced classes, as is common where clicks are rare: it chooses well,
    and its probabilities are several times too high."""
    return RandomForestClassifier(
        30, min_samples_leaf=10, class_weight="balanced", random_state=0
    )


def train() -> dict[str, Any]:
    """The models of last season."""
    log = logged_clicks(20_000, 1, new_season=False)
    return {
        "forest": fit(forest, log, 20_000),
        "logistic regression": fit(LogisticRegression, log, 3_000),
        "naive Bayes": fit(GaussianNB, log, 600),
        "neighbours": fit(lambda: KNeighborsClassifier(5), log, 1_200),
    }


def retrain() -> dict[str, Any]:
    """The model that joins, fitted to clicks of the new season."""
    log = logged_clicks(20_000, 2, new_season=True)
    return fit(forest, log, 20_000)


class Remembered:
    """A model whose predictions of all visitors were made at once, so that many runs
    take seconds."""

    def __init__(self, by_offer: dict[str, Any], visitors: Any) -> None:
        columns = [by_offer[name].predict_proba(visitors)[:, 1] for name in OFFERS]
        self.table = np.stack(columns, axis=1)
        self._row = {visitor.tobytes(): i for i, visitor in enumerate(visitors)}

    def predict(self, rows: Any) -> Any:
        rows = np.ascontiguousarray(rows, dtype=float)
        return self.table[[self._row[row.tobytes()] for row in rows]]


@dataclass(frozen=True)
class Shop:
    """The visitors (T, runs, 6) of each run, their click rates (T, runs, 6), and the
    models."""

    visitors: Any
    rates: Any
    models: dict[str, Remembered]
    newcomer: Remembered

    @property
    def length(self) -> int:
        return len(self.visitors)

    @property
    def runs(self) -> int:
        return int(self.visitors.shape[1])

    @property
    def turn(self) -> int:
        """The visitor with whom tastes change."""
        return self.length // 3

    @property
    def arrival(self) -> int:
        """The visitor with whom the new model joins."""
        return 2 * self.length // 3

    @cached_property
    def earned(self) -> Any:
        """The click rate (T, 5, runs) of what each model chooses; the new one comes
        last."""
        found = []
        for model in [*self.models.values(), self.newcomer]:
            flat = model.predict(self.visitors.reshape(-1, 6)).argmax(axis=1)
            choice = flat.reshape(self.length, self.runs, 1)
            found.append(np.take_along_axis(self.rates, choice, axis=-1)[..., 0])
        return np.stack(found, axis=1)

    def candidates(self, visit: int) -> int:
        """How many models there are."""
        return len(self.models) + (visit >= self.arrival)


def open_shop(length: int, runs: int, seed: int) -> Shop:
    """Visitors in another order in every run, and the models that were trained."""
    rng = np.random.default_rng(seed)
    visitors = rng.normal(size=(2 * length, 6))
    order = np.stack([rng.permutation(2 * length)[:length] for _ in range(runs)], 1)
    turn = length // 3
    before = click_rates(visitors, new_season=False)[order[:turn]]
    after = click_rates(visitors, new_season=True)[order[turn:]]
    models = {name: Remembered(one, visitors) for name, one in train().items()}
    newcomer = Remembered(retrain(), visitors)
    return Shop(visitors[order], np.concatenate([before, after]), models, newcomer)


def follow(policy: Policy, shop: Shop, seed: int) -> Any:
    """The expected clicks (T, runs) of a policy over the models, all runs at once."""
    draws = np.random.default_rng([seed, 1])
    coins = np.random.default_rng([seed, 2])
    runs = np.arange(shop.runs)
    earned = np.empty((shop.length, shop.runs))
    state = policy.init((shop.runs,))
    newcomer = od.ModelExperts({NEW: shop.newcomer}, OFFERS)
    for visit in progress(range(shop.length), shop.length, "visitors"):
        if visit == shop.arrival:
            assert policy.bank is not None
            share = 1 / (len(policy.bank.names) + 1)
            policy, state = add_expert(policy, state, NEW, share, newcomer)
        visitors = shop.visitors[visit]
        odds = policy.odds(state, visitors, step=visit + 1)
        decision = od.draw(odds, visitors, draws.random(shop.runs), step=visit + 1)
        rates = shop.rates[visit]
        earned[visit] = (odds.propensities * rates).sum(axis=-1)
        clicked = coins.random(shop.runs) < rates[runs, decision.arm]
        state = policy.update(state, decision, clicked.astype(float))
    return earned


Rule = Callable[[Any, Any, np.random.Generator], Any]


def models_as_arms(shop: Shop, rule: Rule, seed: int) -> Any:
    """The expected clicks (T, runs) of a bandit whose arms are the models; `rule` picks
    one by how often each was shown and clicked (M, runs)."""
    rng = np.random.default_rng([seed, 3])
    runs = np.arange(shop.runs)
    shown = np.zeros((len(shop.models) + 1, shop.runs))
    clicked = np.zeros_like(shown)
    earned = np.empty((shop.length, shop.runs))
    for visit in range(shop.length):
        n = shop.candidates(visit)
        model = rule(shown[:n], clicked[:n], rng)
        earned[visit] = shop.earned[visit, model, runs]
        shown[model, runs] += 1
        clicked[model, runs] += rng.random(shop.runs) < earned[visit]
    return earned


def thompson_rule(shown: Any, clicked: Any, rng: np.random.Generator) -> Any:
    """The model with the largest draw from the Beta posterior of its click rate."""
    return rng.beta(1 + clicked, 1 + shown - clicked).argmax(axis=0)


def epsilon_rule(shown: Any, clicked: Any, rng: np.random.Generator) -> Any:
    """The model with the best click rate so far; in one case of ten any model."""
    rates = np.where(shown > 0, clicked / np.maximum(shown, 1), 1.0)
    explores = rng.random(shown.shape[1]) < 0.1
    anyone = rng.integers(len(shown), size=shown.shape[1])
    return np.where(explores, anyone, rates.argmax(axis=0))


def ab_test(earned: Any, arrival: int, seed: int) -> Any:
    """The expected clicks (T, runs) of a test whose winner is shipped, and tested
    against the new model when that joins; `earned` (T, M, runs) is what each model
    earns, the new one comes last."""
    length, n_models, n_runs = earned.shape
    clicked = np.random.default_rng([seed, 4]).random(earned.shape) < earned
    runs = np.arange(n_runs)
    sixth = length // 6

    def test(start: int, contenders: Any) -> tuple[Any, Any]:
        """What the contenders (M, runs) earn in turns, and the winner of each run."""
        visits = start + np.arange(sixth)[:, None]
        model = contenders[np.arange(sixth) % len(contenders)]
        clicks = clicked[visits, model, runs]
        rates = [clicks[i :: len(contenders)].mean(0) for i in range(len(contenders))]
        winner = contenders[np.argmax(rates, axis=0), runs]
        return earned[visits, model, runs], winner

    every = np.repeat(np.arange(n_models - 1)[:, None], n_runs, axis=1)
    first, winner = test(0, every)
    newcomer = np.full(n_runs, n_models - 1)
    second, last = test(arrival, np.stack([winner, newcomer]))
    between = earned[sixth:arrival, winner, runs]
    rest = earned[arrival + sixth :, last, runs]
    return np.concatenate([first, between, second, rest])


def race(shop: Shop, seed: int) -> dict[str, Any]:
    """The expected clicks (T, runs) of everybody, visitor by visitor."""
    experts = od.ModelExperts(shop.models, OFFERS)
    policies = {
        AGENT: od.auto(OFFERS, models=shop.models),
        GTS: od.GeneralizedThompsonSampling(experts),
        BAYES: od.thompson_sampling(experts),
    }
    earned = {name: follow(policy, shop, seed) for name, policy in policies.items()}
    earned[BY_CLICKS] = models_as_arms(shop, thompson_rule, seed)
    earned[EPSILON] = models_as_arms(shop, epsilon_rule, seed)
    earned[AB_TEST] = ab_test(shop.earned, shop.arrival, seed)
    old = shop.earned[:, :-1].mean(axis=1)
    everyone = shop.earned.mean(axis=1)
    earned[RANDOM] = np.concatenate([old[: shop.arrival], everyone[shop.arrival :]])
    return earned


def serve(shop: Shop, seed: int) -> tuple[od.Agent, list[od.Decision], Any]:
    """The loop of an application, with the visitors of the first run: the agent, its
    decisions, and after each of them how much it follows each model."""
    agent = od.Agent(od.auto(OFFERS, models=shop.models), seed=seed)
    coins = np.random.default_rng([seed, 5])
    decisions = []
    posteriors = []
    for visit in range(shop.length):
        if visit == shop.arrival:
            agent.add_expert(NEW, shop.newcomer)
        decision = agent.decide(shop.visitors[visit, 0])
        rate = shop.rates[visit, 0, OFFERS.index(decision.arm)]
        agent.learn(decision, float(coins.random() < rate))
        decisions.append(decision)
        posteriors.append(agent.posterior())
    return agent, decisions, posteriors


def by_model(posteriors: list[dict[str, float]], models: list[str]) -> dict[str, Any]:
    """How much each model, and all learners of `auto` together, were followed (T)."""
    found = {
        name: np.array([one.get(name, np.nan) for one in posteriors]) for name in models
    }
    learners = [
        sum(part for name, part in one.items() if name not in models)
        for one in posteriors
    ]
    return found | {"auto's own learners": np.array(learners)}


@dataclass(frozen=True)
class Result:
    """Expected clicks (T, runs) of those who learn, and of each model alone."""

    earned: dict[str, Any]
    alone: dict[str, Any]
    turn: int
    arrival: int

    @property
    def best_alone(self) -> str:
        """The model that earns most of all that were there from the beginning."""
        names = [name for name in self.alone if name != NEW]
        return max(names, key=lambda name: float(self.alone[name].mean()))

    @cached_property
    def everybody(self) -> dict[str, Any]:
        """All rows of the table: those who learn, and the best model in hindsight."""
        return self.earned | {BEST: self.alone[self.best_alone]}

    @property
    def thirds(self) -> list[slice]:
        """Visitors before tastes change, before the new model joins, and after it."""
        ends = (0, self.turn, self.arrival, None)
        return [slice(start, end) for start, end in pairwise(ends)]

    @property
    def ranks(self) -> list[str]:
        """Names, the most clicks first."""
        return sorted(self.everybody, key=lambda name: -self.per_thousand(name).mean())

    def per_thousand(self, name: str) -> Any:
        """Clicks of 1,000 visitors (runs)."""
        return 1000 * self.everybody[name].mean(axis=0)

    def gain(self, name: str, over: str) -> Any:
        """How much more than `over` somebody earns (runs), in per cent of its mean."""
        base = self.per_thousand(over)
        return 100 * (self.per_thousand(name) - base) / base.mean()

    def known(self) -> Any:
        """Clicks (T, runs) of the best model of each third."""
        found = []
        for third in self.thirds:
            names = [name for name in self.alone if name != NEW or third.stop is None]
            best = max(names, key=lambda name: float(self.alone[name][third].mean()))
            found.append(self.alone[best][third])
        return np.concatenate(found)


def verdict(result: Result) -> str:
    """What was gained over what people do instead, in one sentence."""
    clicks = [result.per_thousand(name).mean() for name in (AGENT, AB_TEST, BEST)]
    over_test = result.gain(AGENT, AB_TEST).mean()
    over_best = result.gain(AGENT, BEST).mean()
    return (
        f"With the same models, oddsmith earned {_more(over_test)} clicks than an A/B "
        f"test and {_more(over_best)} than the best single model: {clicks[0]:.0f} of "
        f"1,000 visitors clicked, instead of {clicks[1]:.0f} and {clicks[2]:.0f}."
    )


def _more(per_cent: float) -> str:
    word = "fewer" if per_cent < 0 else "more"
    return f"{abs(per_cent):.0f} % {word}"


def nearest(result: Result) -> str:
    """Which method came nearest, or was better, in a sentence."""
    rival = next(name for name in result.ranks if name != AGENT)
    lead = interval_of(result.gain(AGENT, rival))
    rank = "best alternative" if lead.value > 0 else "best method"
    reason = "" if lead.value > 0 else f" {METHODS[rival]}"
    return (
        f"The {rank} was {rival}; compared with it, oddsmith earned "
        f"{lead.value:+.1f} %, [{lead.low:+.1f}, {lead.high:+.1f}] (95 % interval over "
        f"{result.earned[AGENT].shape[1]} runs).{reason}"
    )


_WHEN = dict(
    zip(
        PARTS,
        ("At first", "After tastes changed", "After the model joined"),
        strict=True,
    )
)


def ahead(result: Result) -> str:
    """Which methods earned more than the agent in a third of the visitors, and why."""
    lines = []
    for third, words in zip(result.thirds, PARTS, strict=True):
        clicks = {n: 1000 * part[third].mean() for n, part in result.earned.items()}
        leader = max(clicks, key=lambda name: float(clicks[name]))
        if leader != AGENT:
            when = _WHEN[words]
            lines.append(
                f"{when}, {leader} earned more: {clicks[leader]:.0f} "
                f"clicks instead of {clicks[AGENT]:.0f}. {METHODS[leader]}"
            )
    return " ".join(lines)


def picture(result: Result) -> str:
    """Gains over a random model, for a terminal."""
    names = [name for name in result.ranks if name != RANDOM]
    bars = [(name, interval_of(result.gain(name, RANDOM))) for name in names]
    return chart(bars, zero=f"{RANDOM}; further right: more clicks, in per cent")


def results(result: Result) -> Table:
    """Clicks of 1,000 visitors, overall and in each third."""
    rows = []
    for name in result.ranks:
        clicks = 1000 * result.everybody[name]
        total = interval_of(result.per_thousand(name))
        reach = total.high - total.value
        gain = f"{result.gain(name, RANDOM).mean():+.0f} %"
        thirds = [f"{clicks[third].mean():.0f}" for third in result.thirds]
        rows.append((name, f"{total.value:.1f}", f"{reach:.1f}", gain, *thirds))
    return Table(
        ("method", "clicks", "±", "gain", *PARTS),
        tuple(rows),
        "Clicks of 1,000 visitors with half of their 95 % interval, gain over a random "
        "model, and clicks in each third",
    )


def gains(result: Result, height: float) -> Any:
    """Bars: what was gained over a random model."""
    figures, (panel,) = panels(height=height)
    names = [name for name in reversed(result.ranks) if name != RANDOM]
    for place, name in enumerate(names):
        span = interval_of(result.gain(name, RANDOM))
        own = name == AGENT
        panel.barh(place, span.value, 0.62, color=COLOURS[0] if own else EDGE)
        panel.annotate(
            f"  {span.value:+.0f} %",
            (max(span.value, 0), place),
            va="center",
            fontweight="bold" if own else "normal",
        )
    panel.set(yticks=range(len(names)), yticklabels=names)
    panel.set(xlabel="more clicks than a random model, per cent")
    panel.margins(x=0.12)
    panel.grid(False, axis="y")
    return figures


def course(result: Result) -> Any:
    """Lines: clicks over time."""
    figures, (panel,) = panels(height=3.4)
    length = len(result.earned[AGENT])
    width = max(2, length // 15)
    known = result.known()
    lines: dict[str, dict[str, Any]] = {
        AGENT: {"color": COLOURS[0], "lw": 3},
        BY_CLICKS: {"color": COLOURS[1], "ls": DASHES[1]},
        AB_TEST: {"color": COLOURS[2], "ls": DASHES[2]},
        GTS: {"color": COLOURS[3], "ls": DASHES[3]},
    }
    for name, style in lines.items():
        panel.plot(*_smooth(result.earned[name], width), label=name, **style)
    panel.plot(*_smooth(known, width), color=EDGE, lw=1, label=KNOWN)
    low, high = panel.get_ylim()
    panel.set(xlabel="visitors", ylabel="clicks of 1,000 visitors")
    panel.set(xlim=(0, length), ylim=(low, high + 0.1 * (high - low)))
    events = {result.turn: " tastes change", result.arrival: " a model joins"}
    for place, words in events.items():
        panel.axvline(place, color=EDGE, lw=1)
        panel.annotate(words, (place, high + 0.02 * (high - low)), color=SOFT)
    legend(panel)
    return figures


def _smooth(earned: Any, width: int) -> tuple[Any, Any]:
    """Clicks of 1,000 visitors, the mean of the last `width` of all runs."""
    mean = np.convolve(1000 * earned.mean(axis=1), np.ones(width) / width, "valid")
    visits = np.arange(width, len(earned) + 1)
    thinned = np.linspace(0, len(mean) - 1, min(len(mean), 150)).astype(int)
    return visits[thinned], mean[thinned]


def trust(posteriors: dict[str, Any], turn: int) -> Figure:
    """How much each model is followed, visitor by visitor."""
    figures, (panel,) = panels()
    for i, (name, part) in enumerate(posteriors.items()):
        panel.plot(part, color=COLOURS[i], ls=DASHES[i], label=name)
    panel.axvline(turn, color=EDGE, lw=1)
    panel.annotate(" tastes change", (turn, 0.95), color=SOFT)
    panel.set(xlabel="visitors", ylabel="weight", ylim=(0, 1), xlim=(0, None))
    legend(panel)
    return Figure(svg(figures), "How much each model is followed, in one run.")


def draw_result(result: Result) -> tuple[Figure, Figure]:
    """The first figures: what was gained, and when."""
    total = Figure(
        svg(gains(result, 2.7)),
        f"Clicks of {len(result.earned[AGENT]):,} visitors, compared with following "
        f"{RANDOM}. All methods choose among the same models. Means of "
        f"{result.earned[AGENT].shape[1]} runs.",
    )
    over_time = Figure(
        svg(course(result)),
        "The forest chooses best until tastes change, and then worst. It was fitted to "
        "balanced classes, as is common, so its probabilities are several times too "
        "high: methods that ask only how well models predict never follow it, nor the "
        "retrained one.",
    )
    return total, over_time


def draw_file(result: Result, path: Path) -> None:
    """Write both figures as one SVG file."""
    save([*gains(result, 4.2), *course(result)], path)


def play(length: int, runs: int, seed: int) -> tuple[Shop, Result]:
    """The shop, and what everybody earned in it."""
    shop = open_shop(length, runs, seed)
    names = [*shop.models, NEW]
    alone = dict(zip(names, shop.earned.transpose(1, 0, 2), strict=True))
    return shop, Result(race(shop, seed), alone, shop.turn, shop.arrival)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("report"),
        help="folder for the report and the log",
    )
    parser.add_argument("--seed", type=int, default=7, help="seed of the visitors")
    parser.add_argument("--runs", type=int, default=40, help="how often all play")
    parser.add_argument("--visitors", type=int, default=3000, help="in each run")
    arguments = parser.parse_args()
    if arguments.runs < 2 or arguments.seed < 0 or arguments.visitors < 60:
        parser.error(
            "runs must be at least 2, seed at least 0 and visitors at least 60; got "
            f"{arguments.runs}, {arguments.seed} and {arguments.visitors}"
        )
    print("Training five models of clicks; then seven methods choose among them …")
    shop, result = play(arguments.visitors, arguments.runs, arguments.seed)
    agent, decisions, posteriors = serve(shop, arguments.seed)
    explained = str(agent.explain(shop.visitors[-1, 0]))
    table = results(result)
    answer = f"{verdict(result)}\n\n{nearest(result)}"
    print(f"\n{answer}\n\n{picture(result)}\n\n{table}")
    print(f"\none decision explained:\n{explained}")

    at_random = 5 * (result.earned[AGENT].mean() - shop.rates.mean())
    told = (
        "The models are fitted by scikit-learn to clicks of last season: a forest to "
        "20,000 visitors, a logistic regression to 3,000, neighbours to 1,200 and "
        "naive Bayes to 600. The visitors are simulated: tastes that last, and tastes "
        "of pairs of numbers, which turn with the season. After a third of the "
        "visitors the season turns; after two thirds a forest joins that was fitted to "
        "20,000 visitors of the new one. All methods see the same visitors, and only "
        "the click on the offer that was shown.\n\n"
        "od.auto draws one offer in 200 at random, so that any other policy can be "
        f"evaluated from its log. That costs {at_random:.2f} clicks of 1,000 visitors."
    )
    total, over_time = draw_result(result)
    methods = Table(("method", "what it does"), tuple(METHODS.items()))
    followed = by_model(posteriors, [*shop.models, NEW])
    sections = [
        Section("What was gained", figures=(total,), tables=(table,)),
        Section("Clicks over time", ahead(result), figures=(over_time,)),
        Section("Which models it follows", figures=(trust(followed, shop.turn),)),
        Section("One decision explained", printed=explained),
        Section("How it was played", told, tables=(methods,), folded=True),
    ]
    page = write(
        arguments.out / "index.html", "Which model to follow", answer, sections
    )
    draw_file(result, arguments.out / "models.svg")
    (arguments.out / "decisions.jsonl").write_text(
        "\n".join(decision.to_json() for decision in decisions) + "\n"
    )
    print(f"\nreport: {page}   log: {arguments.out / 'decisions.jsonl'}")


if __name__ == "__main__":
    main()
