"""What the routes do that list and wait, for pages and programs that look on."""

import asyncio
from functools import partial
from math import isnan
from typing import Literal

from oddsmith import __version__
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.fold.accounts import Account
from oddsmith.server.fold.decisions import Listed, Wanted, page_of
from oddsmith.server.fold.judge import active, gts_inside
from oddsmith.server.http.keys import Key
from oddsmith.server.http.service import Service
from oddsmith.server.messages import lists as m

__all__ = ["changes", "decisions", "experiments"]


async def experiments(service: Service, key: Key) -> m.Experiments:
    """The experiments that a key may read."""
    readable = [one for name, one in service.experiments.items() if key.may("read", name)]
    served = all(one.opened.writes for one in service.experiments.values())
    return m.Experiments([_facts(one) for one in readable], __version__, service.ring is not None, served)


async def decisions(experiment: Experiment, query: m.DecisionsQuery) -> m.Decisions:
    """A page of decisions, the newest first."""
    rewarded = None if query.reward == "any" else query.reward == "some"
    wanted = Wanted(query.before, query.limit, query.arm, rewarded)
    run = experiment.long_reads.run if wanted.chooses else asyncio.to_thread
    return await run(partial(_listed, experiment, wanted))


async def changes(experiment: Experiment, query: m.ChangesQuery) -> m.Changes:
    """Where log and state are, once the state has moved on; the database is asked once, at the end."""
    if experiment.follower.now.position <= query.after and query.wait:
        await experiment.long_polls.wait(partial(experiment.follower.moved, query.after), query.wait)
    head, position = await asyncio.to_thread(experiment.store.head), experiment.follower.now.position
    return m.Changes(experiment.name, max(head, position), position)


def _facts(experiment: Experiment) -> m.ExperimentFacts:
    settings, scale, follower = experiment.settings, experiment.scale, experiment.follower
    policy, arms = follower.now.policy, experiment.arms
    bank = follower.now.experts
    names = active(policy) if gts_inside(policy) is not None else [] if bank is None else list(bank.names)
    return m.ExperimentFacts(
        experiment.name,
        None if arms is None else list(arms),
        names,
        settings.shadow,
        settings.sticky,
        settings.window,
        None if settings.window is None else scale.value(settings.default),
        m.RewardRange(scale.low, scale.high),
        follower.now.state is not None and not follower.trouble,
        follower.trouble,
        experiment.store.fingerprint,
        experiment.opened.file.kind,
        settings.show_contexts,
    )


def _listed(experiment: Experiment, wanted: Wanted) -> m.Decisions:
    head = experiment.store.head()
    page = page_of(experiment.store, head, wanted)
    rows = [_row(experiment, one) for one in page.decisions]
    return m.Decisions(experiment.name, head, rows, page.before, page.searched)


def _row(experiment: Experiment, one: Listed) -> m.ListedDecision:
    line, account, draw = one
    return m.ListedDecision(
        line.id,
        line.position,
        line.time,
        str(line.arm),
        draw.propensity,
        None if isnan(account.value) else experiment.scale.value(account.value),
        _counts(account),
        draw.shadow,
        bool(line.deferred),
        account.shown if line.deferred else None,
        draw.unit if experiment.settings.show_contexts else None,  # who it is for is part of what is hidden
        draw.slate,
        draw.slot,
    )


def _counts(account: Account) -> Literal["reward", "default", "correction"] | None:
    """What a decision counts with; None until it does."""
    if not account.settled:
        return None
    if account.correction is not None:
        return "correction"
    return "reward" if account.parts else "default"
