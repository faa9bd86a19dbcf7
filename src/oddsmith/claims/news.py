"""Articles that come and go: what a memory of each by its name is worth, and what short
lives cost."""

from dataclasses import replace
from typing import Any

import numpy as np

from oddsmith.claims.claim import (
    Break,
    Experiment,
    Outcome,
    Rule,
    Setup,
    measure,
    shown,
)
from oddsmith.claims.judgement import above_zero
from oddsmith.core.arrays import Array
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.experts.learners import SharedExperts
from oddsmith.files.reports.page import Figure, Table
from oddsmith.files.reports.style import COLOURS, MARKERS, legend, panels, svg
from oddsmith.lab.run import Run, mean_and_error
from oddsmith.lab.worlds.news import ARTICLE_COLUMNS, NewsWorld
from oddsmith.policies.auto import auto

__all__ = ["LIVES", "MEMORY", "captured"]

REMEMBERS = Rule(
    "A memory of each arm by its name adds to what is captured where a feature is "
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
FORGETFUL = Break("learners remember no arm", other="forgetful")
ALIKE = Break("all arms live as long", other="alike")
# a pull so strong that memories are 0 in floats; a merely large one still breaks ties
_FORGETFUL = 1e300
_SHORT, _LONG = 50, 800  # lives of articles


def _learners(setup: Setup) -> GeneralizedThompsonSampling:
    """`auto()`, for a quick look without its forest."""
    return auto(size="small" if setup.quick else "normal")


def _runs(setup: Setup) -> int:
    return 4 if setup.quick else 12


def _forgetful(policy: GeneralizedThompsonSampling) -> GeneralizedThompsonSampling:
    """The same policy with features alone: its learners remember no arm."""
    bank: Any = policy.experts
    assert isinstance(bank, SharedExperts)
    learners: Any = bank.learners
    return replace(
        policy,
        experts=replace(
            bank, learners=tuple(replace(one, pull=_FORGETFUL) for one in learners)
        ),
    )


def _world(hide: tuple[str, ...], life: float) -> NewsWorld:
    return NewsWorld(life=life, low=3, high=7, hide=hide)


def captured(run: Run) -> Array:
    """(got - uniform) / (best - uniform) of each run (runs,): 1 is the best arm at
    every step, 0 is chance."""
    even = np.zeros(run.regret.shape[1])
    for t, context in enumerate(run.contexts):
        means = run.world.means(t + 1, context)
        even += np.nanmax(means, axis=1) - np.nanmean(means, axis=1)
    share: Array = 1 - run.total / even
    return share


def memory(setup: Setup) -> Outcome:
    """Where the decisive feature is hidden, a memory by name earns much; where all is
    known it costs little."""
    steps, runs, both = setup.steps(2000, 800), _runs(setup), _learners(setup)
    both = _forgetful(both) if setup.broken.other == "forgetful" else both
    policies = {"features and memory": both, "features alone": _forgetful(both)}
    views: dict[str, tuple[str, ...]] = {"decisive one hidden": ("quality",)}
    views |= {} if setup.quick else {"all features": ()}
    played = [
        (name, policy, view, hide)
        for name, policy in policies.items()
        for view, hide in views.items()
    ]
    played += [] if setup.quick else [("names alone", both, "", ARTICLE_COLUMNS)]
    shares = {
        (name, view): captured(
            measure(policy, _world(hide, _SHORT), steps=steps, runs=runs)
        )
        for name, policy, view, hide in played
    }
    part = [shares[name, "decisive one hidden"] for name in policies]
    claim = above_zero(
        REMEMBERS,
        "share that memory adds, the decisive feature hidden",
        part[0] - part[1],
    )
    text = (
        f"Articles live for {_SHORT} steps on average, 3 to 7 are on offer, {steps:,} "
        f"steps, {runs} runs. Captured share: what is earned above chance, over what "
        "the best article earns above it. An article's own popularity, which no "
        "feature shows, and a feature that is hidden can be learnt by its name alone."
    )
    return Outcome(
        "A memory of each arm by its name",
        text,
        (claim,),
        (_bars(shares),),
        (_differences(shares),),
    )


def _differences(shares: dict[tuple[str, str], Array]) -> Table:
    """What memory costs where all is shown, and what features add to names."""
    pairs = {
        "memory less features alone, all features shown": [
            ("features and memory", "all features"),
            ("features alone", "all features"),
        ],
        "features and memory less names alone": [
            ("features and memory", "all features"),
            ("names alone", ""),
        ],
    }
    rows = [
        (name, shown(*mean_and_error(shares[one] - shares[other])))
        for name, (one, other) in pairs.items()
        if one in shares and other in shares
    ]
    return Table(
        ("difference of captured shares", "± s.e."),
        tuple(rows),
        "Paired differences over runs",
    )


def _bars(shares: dict[tuple[str, str], Array]) -> Figure:
    names = list(dict.fromkeys(name for name, _ in shares))
    ordered = sorted(shares, key=lambda one: one[1], reverse=True)
    figure, (panel,) = panels(height=0.7 + 0.5 * len(ordered))
    for place, (name, view) in enumerate(ordered):
        mean, error = mean_and_error(shares[name, view])
        i = names.index(name)
        panel.barh(
            place,
            mean,
            xerr=2 * error,
            color=COLOURS[i],
            hatch=("", "//", "..")[i],
            capsize=4,
            height=0.7,
        )
        panel.annotate(f"{mean:.2f}", (mean + 2 * error + 0.02, place), va="center")
    panel.set_yticks(
        range(len(ordered)), [f"{name}\n{view}".strip() for name, view in ordered]
    )
    panel.set(xlim=(0, 1.1), ylim=(len(ordered) - 0.5, -0.5), xlabel="captured share")
    return Figure(
        svg(figure),
        "Captured share (two standard errors): 1 is the best article at every step, 0 "
        "is chance.",
    )


def lives(setup: Setup) -> Outcome:
    """Regret per step falls as arms live longer: each has to be learnt once."""
    steps, runs, both = setup.steps(2000, 400), _runs(setup), _learners(setup)
    spans: tuple[int, ...] = (_SHORT, _LONG) if setup.quick else (_SHORT, 200, _LONG)
    spans = (_SHORT,) * len(spans) if setup.broken.other == "alike" else spans
    views = {"decisive feature hidden": ("quality",)} | (
        {} if setup.quick else {"names alone": ARTICLE_COLUMNS}
    )
    lost = {
        name: [
            measure(both, _world(hide, life), steps=steps, runs=runs).total / steps
            for life in spans
        ]
        for name, hide in views.items()
    }
    claims = [
        above_zero(
            FALLS, f"life {_SHORT} less life {_LONG}, {name}", values[0] - values[-1]
        )
        for name, values in lost.items()
    ]
    figure, (panel,) = panels()
    for i, (name, values) in enumerate(lost.items()):
        points = np.array([mean_and_error(one) for one in values])
        style: Any = {
            "color": COLOURS[i],
            "marker": MARKERS[i],
            "ms": 6,
            "ls": ("-", "--")[i],
        }
        panel.errorbar(
            spans, points[:, 0], 2 * points[:, 1], label=name, capsize=4, **style
        )
    panel.set(xscale="log", xlim=(40, 1000), ylim=(0, None))
    panel.set(xlabel="life of an article (steps)", ylabel="regret per step")
    legend(panel)
    text = (
        f"As many articles are on offer whatever their life (3 to 7), {steps:,} steps, "
        f"{runs} runs, learners with a memory: only the rate at which articles are "
        "replaced differs."
    )
    caption = (
        "Regret per step (two standard errors) against the mean life of arms: what is "
        "learnt of one dies with it."
    )
    return Outcome(
        "Arms that live for L steps",
        text,
        tuple(claims),
        (Figure(svg(figure), caption),),
    )


MEMORY, LIVES = (
    Experiment(memory, (REMEMBERS,), (FORGETFUL,)),
    Experiment(lives, (FALLS,), (ALIKE,)),
)
