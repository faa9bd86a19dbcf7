"""`oddsmith evaluate --control`: metrics of targets against a control."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oddsmith.cli.words import Refusal, as_json
from oddsmith.contexts.metrics import REWARD, Metric
from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.arrays import Array
from oddsmith.core.errors import InvalidInput
from oddsmith.files.experiment import ExperimentDesign, read_design
from oddsmith.files.keys import read_toml
from oddsmith.files.policy import PolicyFile, read_policy
from oddsmith.logs.table import Log

if TYPE_CHECKING:
    from oddsmith.evaluation.scorecard import MetricResult
    from oddsmith.evaluation.segments import SegmentScores

__all__ = ["score"]


class _Comparison(NamedTuple):
    """The rows of a scorecard, the odds of the targets and of the control on them, and
    the number of rows per day; None if it is not known."""

    log: Log
    targets: Mapping[str, Array]
    control: Array
    per_day: float | None = None


def score(
    asked: argparse.Namespace,
    log: Log,
    targets: Mapping[str, Array],
    scale: RewardScale,
    notes: list[str],
) -> str | Refusal:
    """Return the scorecard as text, or as JSON."""
    from oddsmith.evaluation.sample_ratio import check_log
    from oddsmith.evaluation.scorecard import score_metrics
    from oddsmith.evaluation.scorecard_table import (
        Scorecard,
        scorecard_record,
        scorecard_text,
    )

    design = _read_design(asked.metrics)
    control_name = _control_name(asked, design)
    metrics = _metrics(design, scale)
    settings: dict[str, Any] = {
        "control_name": control_name,
        "interval": "anytime" if asked.interval == "anytime" else "one_look",
        "level": asked.level,
        "lift": asked.lift,
        "floor": asked.floor,
        "overrule": asked.overrule,
    }
    log = _in_units(log, scale)
    compared = _compare(log, targets, control_name, design)
    results = score_metrics(
        compared.log, compared.targets, compared.control, metrics, **settings
    )
    primary = next(one for one in metrics if one.name == design.primary)
    scorecard = Scorecard(
        asked.level,
        control_name,
        results,
        _score_segments(compared, design, primary, settings),
        _score_slots(log, targets, control_name, design, primary, settings),
        check_log(compared.log),
        compared.per_day,
        tuple(notes),
    )
    if asked.json:
        text = as_json(scorecard_record(scorecard))
    else:
        text = scorecard_text(scorecard)
    is_answered = any(one.outcome != "refused" for one in results)
    return text if is_answered else Refusal(text)


def _compare(
    log: Log, targets: Mapping[str, Array], control_name: str, design: ExperimentDesign
) -> _Comparison:
    """Return the rows to compare: decisions, or units of a holdout by unit."""
    from oddsmith.evaluation.holdouts import has_groups, unit_log
    from oddsmith.evaluation.lift import daily_volume

    per_day = daily_volume(log.time)
    if not has_groups(log):
        control = _control_odds(log, control_name, design)
        return _Comparison(log, targets, control, per_day)
    if list(targets) != ["policy"]:
        raise InvalidInput(
            f"target must be policy where a holdout is by unit; got "
            f"{', '.join(targets)}"
        )
    units = unit_log(log)
    if per_day is not None:
        per_day *= len(units) / len(log)
    policy = np.array([1.0, 0.0])
    return _Comparison(units, {"policy": policy}, 1 - policy, per_day)


def _read_design(path: Path | None) -> ExperimentDesign:
    if path is None:
        return ExperimentDesign()
    keys = read_toml(path)
    design = read_design(
        keys, path.parent, None, lambda file: read_policy(str(file)).policy
    )
    keys.close()
    return design


def _control_name(asked: argparse.Namespace, design: ExperimentDesign) -> str:
    if asked.control is not None:
        return str(asked.control)
    if design.control is not None:
        return design.control.name
    raise InvalidInput("metrics need a control: --control, or control in the file")


def _control_odds(log: Log, name: str, design: ExperimentDesign) -> Array:
    from oddsmith.evaluation.targets import control_target

    if design.control is not None and design.control.name == name:
        return control_target(log, design.control)
    if Path(name).exists():
        file: PolicyFile = read_policy(name)
        return control_target(log, file.policy)
    return control_target(log, name)


def _metrics(design: ExperimentDesign, scale: RewardScale) -> list[Metric]:
    """Return the declared metrics, and the reward first where none of them is primary.

    Without a declared cap, a reward has an upper end only in [0, 1]: the highest reward
    of a policy file is for learning. A cap may be larger, for the totals of units.
    """
    declared = dict(design.metrics)
    role: Any = "secondary"
    if design.primary == REWARD:
        role = "primary"
    elif REWARD not in declared:
        return list(declared.values())
    metric = declared.pop(REWARD, Metric(REWARD, role=role))
    if scale == RewardScale(0.0, 1.0):
        metric = replace(metric, high=max(1.0, metric.cap or 0.0))
    else:
        metric = replace(metric, low=scale.low)
    return [metric, *declared.values()]


def _in_units(log: Log, scale: RewardScale) -> Log:
    """Return the log with its rewards in their unit, as a metric."""
    if scale == RewardScale(0.0, 1.0):
        return log
    amounts = [scale.low + log.reward * (scale.high - scale.low)]
    if log.metric is not None:
        amounts += list(log.metric.T)
    columns = log.columns() | {"metric": np.column_stack(amounts)}
    names = (REWARD, *(log.metrics or ()))
    return Log(**columns, arms=log.arms, experts=log.experts, metrics=names)


def _score_segments(
    compared: _Comparison,
    design: ExperimentDesign,
    primary: Metric,
    settings: dict[str, Any],
) -> "dict[str, SegmentScores]":
    """Return the primary metric of each target in the declared segments."""
    from oddsmith.evaluation.segments import score_segments, segment_masks

    if not design.segments:
        return {}
    masks = segment_masks(compared.log, design.segments)
    return {
        name: score_segments(
            compared.log,
            masks,
            odds,
            compared.control,
            primary,
            target_name=name,
            **settings,
        )
        for name, odds in compared.targets.items()
    }


def _score_slots(
    log: Log,
    targets: Mapping[str, Array],
    control_name: str,
    design: ExperimentDesign,
    primary: Metric,
    settings: dict[str, Any],
) -> "dict[int, tuple[MetricResult, ...]]":
    """Return the primary metric of each target in each slot of slates, at levels that
    hold together."""
    from oddsmith.evaluation.scorecard import score_metrics
    from oddsmith.evaluation.segments import segment_level
    from oddsmith.evaluation.slates import slates_of

    if slates_of(log) is None:
        return {}
    slot_of_row = np.asarray(log.slot)
    slots = np.unique(slot_of_row[slot_of_row > 0]).tolist()
    level = segment_level(settings["level"], len(slots))
    own_settings = settings | {"level": level}
    results = {}
    for slot in slots:
        rows = np.flatnonzero(slot_of_row == slot)
        own_targets = {name: odds[rows] for name, odds in targets.items()}
        compared = _compare(log[rows], own_targets, control_name, design)
        results[slot] = score_metrics(
            compared.log,
            compared.targets,
            compared.control,
            [primary],
            **own_settings,
        )
    return results
