"""`oddsmith evaluate --control`: metrics of targets against a control."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

__all__ = ["SCORE_COLUMNS", "add_scoring", "asks_for_scorecard", "score"]

SCORE_COLUMNS = ("control", "holdout", "group", "unit", "metric")
"""The columns that a scorecard reads besides those of an evaluation."""
_CONTROL = (
    "compare with a control, metric by metric: arm:NAME, first, uniform, incumbent "
    "(the log's column control), logged, or a policy file"
)
_METRICS = (
    "a TOML file with [metrics.NAME] tables, and control and [segments] where wanted"
)


def add_scoring(parser: argparse.ArgumentParser) -> None:
    """Add the options of a scorecard."""
    group = parser.add_argument_group("scorecard of metrics")
    group.add_argument("--control", help=_CONTROL)
    group.add_argument("--metrics", type=Path, metavar="FILE", help=_METRICS)
    group.add_argument(
        "--lift",
        choices=("log", "linear"),
        default="log",
        help="scale of the one-look interval of a lift (default log)",
    )


def asks_for_scorecard(asked: argparse.Namespace) -> bool:
    """Whether the question is about metrics against a control."""
    return asked.control is not None or asked.metrics is not None


def score(
    asked: argparse.Namespace,
    log: Log,
    targets: Mapping[str, Array],
    scale: RewardScale,
    notes: list[str],
) -> str | Refusal:
    """The scorecard as text, or as JSON."""
    from oddsmith.evaluation.scorecard import score_metrics, unit_log
    from oddsmith.evaluation.scorecard_table import (
        result_sentence,
        scorecard_record,
        scorecard_table,
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
    own = _in_units(log, scale)
    if log.group is not None:
        if list(targets) != ["policy"]:
            raise InvalidInput(
                "target must be policy where a holdout is by unit; got "
                f"{', '.join(targets)}"
            )
        own = unit_log(own)
        targets = {"policy": np.array([1.0, 0.0])}
        control = np.array([0.0, 1.0])
    else:
        control = _control_odds(log, control_name, design)
    results = score_metrics(own, targets, control, metrics, **settings)
    segments = _score_segments(own, design, targets, control, metrics, settings)
    is_answered = any(one.outcome != "refused" for one in results)
    if asked.json:
        record: dict[str, Any] = {
            "control": control_name,
            "level": asked.level,
            "results": scorecard_record(results),
            "segments": _segment_record(segments),
            "notes": notes,
        }
        text = as_json(record)
    else:
        parts = ["\n".join(result_sentence(one, asked.level) for one in results)]
        parts.append(str(scorecard_table(results)))
        parts.append("\n".join([*_cap_notes(results), *_segment_notes(segments)]))
        parts.append("\n".join(notes))
        text = "\n\n".join(part for part in parts if part)
    return text if is_answered else Refusal(text)


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
    """The declared metrics, and the reward first where none of them is primary.

    Without a declared cap, a reward has an upper end only in [0, 1]: the highest reward
    of a policy file is for learning.
    """
    declared = dict(design.metrics)
    role: Any = "secondary"
    if design.primary == REWARD:
        role = "primary"
    elif REWARD not in declared:
        return list(declared.values())
    metric = declared.pop(REWARD, Metric(REWARD, role=role))
    if scale == RewardScale(0.0, 1.0):
        metric = replace(metric, high=1.0)
    else:
        metric = replace(metric, low=scale.low)
    return [metric, *declared.values()]


def _in_units(log: Log, scale: RewardScale) -> Log:
    """The log with its rewards in their unit, as a metric."""
    if scale == RewardScale(0.0, 1.0):
        return log
    amounts = [scale.low + log.reward * (scale.high - scale.low)]
    if log.metric is not None:
        amounts += list(log.metric.T)
    columns = log.columns() | {"metric": np.column_stack(amounts)}
    names = (REWARD, *(log.metrics or ()))
    return Log(**columns, arms=log.arms, experts=log.experts, metrics=names)


def _score_segments(
    log: Log,
    design: ExperimentDesign,
    targets: Mapping[str, Any],
    control: Array,
    metrics: list[Metric],
    settings: dict[str, Any],
) -> "dict[str, SegmentScores]":
    """The primary metric of each target in the declared segments."""
    from oddsmith.evaluation.segments import score_segments, segment_masks

    if not design.segments:
        return {}
    primary = next(one for one in metrics if one.name == design.primary)
    masks = segment_masks(log, design.segments)
    return {
        name: score_segments(
            log, masks, odds, control, primary, target_name=name, **settings
        )
        for name, odds in targets.items()
    }


def _segment_record(segments: "dict[str, SegmentScores]") -> dict[str, Any]:
    from oddsmith.evaluation.scorecard_table import scorecard_record

    record: dict[str, Any] = {}
    for target, found in segments.items():
        parts = zip(
            found.results, scorecard_record(list(found.results.values())), strict=True
        )
        q = found.heterogeneity
        record[target] = {
            "segments": dict(parts),
            "cochran_q": None if q is None else q._asdict(),
        }
    return record


def _cap_notes(results: "tuple[MetricResult, ...]") -> list[str]:
    """How many amounts each cap reduces, and the difference without it."""
    notes = []
    for one in results:
        if one.metric.cap is None or not one.share_above_cap:
            continue
        share = 100 * one.share_above_cap
        notes.append(
            f"{one.metric.name} is capped at {one.metric.cap:g}; {share:.2g} % of "
            f"amounts are above it. Without the cap the difference of {one.target} is "
            f"{one.uncapped_difference:+.4g}, without an interval."
        )
    return notes


def _segment_notes(segments: "dict[str, SegmentScores]") -> list[str]:
    from oddsmith.evaluation.scorecard_table import result_sentence

    notes = []
    for target, found in segments.items():
        q = found.heterogeneity
        if q is not None:
            differs = "No segment differs" if q.p_value > 0.05 else "Segments differ"
            notes.append(f"{target}: {differs} (Cochran's Q, p = {q.p_value:.2g}).")
        for name, one in found.results.items():
            notes.append(f"  {name}: {result_sentence(one, one.level)}")
    return notes
