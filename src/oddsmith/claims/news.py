"""News articles as arms that are published and expire: the value of learning each
article by its name, and the cost of short lifetimes."""

from dataclasses import replace
from typing import Any

import numpy as np

from oddsmith.claims.claim import (
    Break,
    Experiment,
    Outcome,
    Rule,
    Setup,
    format_mean,
    measure,
)
from oddsmith.claims.drawing import means_and_errors
from oddsmith.claims.judgement import above_zero
from oddsmith.core.arrays import Array
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.experts.learners import SharedExperts
from oddsmith.files.reports.page import Figure, Table
from oddsmith.files.reports.style import COLOURS, MARKERS, legend, panels, svg
from oddsmith.lab.run import Run, mean_and_error
from oddsmith.lab.worlds.news import ARTICLE_COLUMNS, NewsWorld
from oddsmith.policies.auto import auto

__all__ = ["LIVES", "MEMORY", "captured_share"]

REMEMBERS = Rule(
    "Learning each arm by its name increases the captured share where a feature is "
    "hidden",
    "decisions/040",
    "Student's lower limit of the paired difference over runs is above 0",
    None,
    false_pass=0.025,
)
FALLS = Rule(
    "Regret per step is smaller where arms live longer",
    "decisions/040",
    "Student's lower limit of the paired difference between lives is above 0",
    None,
    cases=2,
    false_pass=0.05,
)
FORGETFUL = Break("learners do not learn arms by name", other="forgetful")
ALIKE = Break("all arms have the same lifetime", other="alike")
# Decay so strong that earlier observations underflow to 0. With a weaker decay, they
# would still break ties between arms.
_FORGETFUL = 1e300
_SHORT = 50  # lifetime of an article in steps
_LONG = 800
_HIDDEN = "decisive one hidden"


def _learners(setup: Setup) -> GeneralizedThompsonSampling:
    """Return `auto()`. In a quick run, return it without its forest."""
    size = "normal"
    if setup.quick:
        size = "small"
    return auto(size=size)


def _runs(setup: Setup) -> int:
    if setup.quick:
        return 4
    return 12


def _forgetful(policy: GeneralizedThompsonSampling) -> GeneralizedThompsonSampling:
    """Return the same policy with learners that use features only, not the names of the
    arms."""
    bank: Any = policy.experts
    assert isinstance(bank, SharedExperts)
    learners: Any = bank.learners
    forgetful = tuple(replace(learner, pull=_FORGETFUL) for learner in learners)
    return replace(policy, experts=replace(bank, learners=forgetful))


def _world(hide: tuple[str, ...], life: float) -> NewsWorld:
    return NewsWorld(life=life, low=3, high=7, hide=hide)


def captured_share(run: Run) -> Array:
    """Return (earned - uniform) / (best - uniform) of each run, (runs,). 1 means the
    best arm at every step, 0 means chance."""
    uniform = np.zeros(run.regret.shape[1])
    for t, context in enumerate(run.contexts):
        means = run.world.means(t + 1, context)
        best = np.nanmax(means, axis=1)
        uniform += best - np.nanmean(means, axis=1)
    share: Array = 1 - run.total / uniform
    return share


def memory(setup: Setup) -> Outcome:
    """Show that learning arms by name earns much if the decisive feature is hidden, and
    costs little if all features are known."""
    steps = setup.steps(2000, 800)
    runs = _runs(setup)
    both = _learners(setup)
    if setup.wrong.other == "forgetful":
        both = _forgetful(both)
    policies = {"features and memory": both, "features alone": _forgetful(both)}
    views: dict[str, tuple[str, ...]] = {_HIDDEN: ("quality",)}
    if not setup.quick:
        views["all features"] = ()
    plays = []
    for name, policy in policies.items():
        for view, hide in views.items():
            plays.append((name, view, policy, hide))
    if not setup.quick:
        plays.append(("names alone", "", both, ARTICLE_COLUMNS))
    shares = {}
    for name, view, policy, hide in plays:
        world = _world(hide, _SHORT)
        run = measure(policy, world, steps=steps, runs=runs)
        shares[name, view] = captured_share(run)
    with_memory = shares["features and memory", _HIDDEN]
    without = shares["features alone", _HIDDEN]
    case = "captured share gained by names, the decisive feature hidden"
    claim = above_zero(REMEMBERS, case, with_memory - without)
    text = (
        f"Articles live for {_SHORT} steps on average, 3 to 7 are available at a "
        f"time, {steps:,} steps, {runs} runs. The captured share is the reward earned "
        "above chance, divided by the reward of the best article above chance. An "
        "article's own popularity, which no feature contains, and a hidden feature "
        "can be learnt only by the article's name."
    )
    title = "Learning each arm by its name"
    bars = _bars(shares)
    return Outcome(title, text, (claim,), (bars,), (_differences(shares),))


def _differences(shares: dict[tuple[str, str], Array]) -> Table:
    """Return the cost of learning names if all features are known, and the gain of
    features over names alone."""
    everything = ("features and memory", "all features")
    pairs = {
        "features and names minus features alone, all features known": (
            "features alone",
            "all features",
        ),
        "features and names minus names alone": ("names alone", ""),
    }
    rows = []
    for name, other in pairs.items():
        if everything in shares and other in shares:
            totals = shares[everything] - shares[other]
            mean, error = mean_and_error(totals)
            rows.append((name, format_mean(mean, error)))
    headers = ("difference of captured shares", "± s.e.")
    return Table(headers, tuple(rows), "Paired differences over runs")


def _bars(shares: dict[tuple[str, str], Array]) -> Figure:
    names = list(dict.fromkeys(name for name, _ in shares))
    rows = sorted(shares, key=lambda row: row[1], reverse=True)
    height = 0.7 + 0.5 * len(rows)
    figure, (panel,) = panels(height=height)
    for place, (name, view) in enumerate(rows):
        mean, error = mean_and_error(shares[name, view])
        i = names.index(name)
        hatch = ("", "//", "..")[i]
        style: Any = {"color": COLOURS[i], "hatch": hatch}
        panel.barh(place, mean, xerr=2 * error, capsize=4, height=0.7, **style)
        end = mean + 2 * error + 0.02
        panel.annotate(f"{mean:.2f}", (end, place), va="center")
    labels = [f"{name}\n{view}".strip() for name, view in rows]
    panel.set_yticks(range(len(rows)), labels)
    ylim = (len(rows) - 0.5, -0.5)
    panel.set(xlim=(0, 1.1), ylim=ylim, xlabel="captured share")
    caption = (
        "Captured share (with two standard errors): 1 means the best article at "
        "every step, 0 means chance."
    )
    return Figure(svg(figure), caption)


def lives(setup: Setup) -> Outcome:
    """Show that regret per step falls as arms live longer, because every new arm must
    be learnt."""
    steps = setup.steps(2000, 400)
    runs = _runs(setup)
    policy = _learners(setup)
    spans: tuple[int, ...] = (_SHORT, 200, _LONG)
    if setup.quick:
        spans = (_SHORT, _LONG)
    if setup.wrong.other == "alike":
        spans = (_SHORT,) * len(spans)
    views: dict[str, tuple[str, ...]] = {"decisive feature hidden": ("quality",)}
    if not setup.quick:
        views["names alone"] = ARTICLE_COLUMNS
    claims = []
    figure, (panel,) = panels()
    for i, (name, hide) in enumerate(views.items()):
        regrets = []
        for life in spans:
            world = _world(hide, life)
            run = measure(policy, world, steps=steps, runs=runs)
            regrets.append(run.total / steps)
        case = f"life {_SHORT} minus life {_LONG}, {name}"
        differences = regrets[0] - regrets[-1]
        claims.append(above_zero(FALLS, case, differences))
        means, errors = means_and_errors(regrets)
        dashes = ("-", "--")[i]
        style: Any = {"color": COLOURS[i], "marker": MARKERS[i], "ls": dashes}
        panel.errorbar(spans, means, 2 * errors, label=name, ms=6, capsize=4, **style)
    panel.set(xscale="log", xlim=(40, 1000), ylim=(0, None))
    panel.set(xlabel="life of an article (steps)", ylabel="regret per step")
    legend(panel)
    text = (
        f"3 to 7 articles are available for every lifetime, {steps:,} steps, {runs} "
        "runs, learners that learn arms by name: only the rate at which articles are "
        "replaced differs."
    )
    caption = (
        "Regret per step (with two standard errors) against the mean lifetime of "
        "arms: when an arm expires, the policy loses its observations of it."
    )
    drawing = Figure(svg(figure), caption)
    return Outcome("Arms that live for L steps", text, tuple(claims), (drawing,))


MEMORY = Experiment(memory, (REMEMBERS,), (FORGETFUL,))
LIVES = Experiment(lives, (FALLS,), (ALIKE,))
