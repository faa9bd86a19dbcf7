"""`oddsmith evaluate`: off-policy evaluation from a log."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from oddsmith.cli.parser import Commands, add_command, add_json
from oddsmith.cli.words import (
    Refusal,
    add_reading,
    add_units,
    as_json,
    checked_seed,
    learnt_units,
    reader,
    units_of,
)
from oddsmith.contexts.rewards import RewardScale
from oddsmith.contexts.schema import Schema
from oddsmith.core.arrays import Array
from oddsmith.core.decision import State
from oddsmith.core.errors import InvalidInput, MissingExtra
from oddsmith.core.names import check_choice, hint
from oddsmith.files import state as saving
from oddsmith.files.policy import PolicyFile, read_policy
from oddsmith.logs.table import Log

__all__ = ["add_commands", "states_of"]


def states_of(
    asked: argparse.Namespace, files: Mapping[str, PolicyFile]
) -> dict[str, State]:
    """Return the states by the names of their policy files. A state without a name
    belongs to the only policy file."""
    states: dict[str, State] = {}
    for text in asked.state:
        name, path = _policy_and_state(text, files)
        if name in states:
            raise InvalidInput(
                f"state must be one for each policy file; got two for {name}"
            )
        states[name], meta = saving.read_state(Path(path), files[name].policy)
        saving.check_units(meta, learnt_units(asked, files[name]), path, name)
    return states


def _policy_and_state(text: str, files: Mapping[str, PolicyFile]) -> tuple[str, str]:
    """Return the policy file to which a state belongs, and the path of the state."""
    for name in files:
        if text.startswith(f"{name}="):
            return name, text.removeprefix(f"{name}=")
    if len(files) == 1:
        return next(iter(files)), text
    several = ""
    if files:
        several = f": name it, as in --state {next(iter(files))}={text}"
    raise InvalidInput(
        f"state must go with exactly one policy file as target; got {len(files)} "
        f"of them{several}"
    )


if TYPE_CHECKING:
    from oddsmith.evaluation.assessment import Answer, Answers, Assessment
    from oddsmith.evaluation.diagnostics import Diagnostics
    from oddsmith.evaluation.reward_models import Regressor


_MODELS = ("auto", "linear", "trees", "none")
_INTERVALS = (
    "kind of intervals: beta (default), normal, bootstrap, bernstein, anytime (the "
    "value may drift) or anytime_constant (the value does not change)"
)
_LOGS = (
    "the log: Parquet, CSV, JSON lines, dsjson or Open Bandit; several files or "
    "folders are read as one log"
)
_TARGETS = (
    "policy to evaluate: a policy file, uniform, first (the arm that the caller "
    "offered first), arm:NAME, or policy (the policy that ran beside a holdout, from "
    "the log); may be repeated"
)
_DRAWN = (
    "leave out rows in which one arm had propensity 1 although other arms were "
    "eligible (incumbents, fallbacks)"
)
_SLOT = "use only this slot of slates, from 1 on; 0: only single decisions"
_FLOOR = (
    "smallest propensity of the logging policy (default: unknown); bernstein and "
    "anytime may need it; makes intervals narrower if the log has only the "
    "propensities of drawn arms"
)
_STATE = (
    "state of a policy, from `oddsmith fit` or Agent.save (default: the state before "
    "any reward); with several policy files, auto.toml=state.npz"
)
_CONTROL = (
    "compare with a control, metric by metric: arm:NAME, first, uniform, incumbent "
    "(the log's column control), logged, or a policy file"
)
_METRICS = (
    "a TOML file with [metrics.NAME] tables, and control and [segments] where wanted"
)
_WORDS = ("uniform", "first", "policy")
_ODDS = ("propensity", "propensities", "eligible", "slate", "slot", "decision_id")
"""The columns that estimators read beside arm and reward."""
_SCORED = ("control", "holdout", "group", "unit", "metric", "time")
"""The columns that a scorecard reads besides."""
_STATE_NOTE = (
    "The state must not have learnt from this log, because its estimated value would "
    "be too high."
)


def add_commands(commands: Commands) -> None:
    """Add the command to a parser."""
    parser = add_command(
        commands,
        "evaluate",
        "estimate from a log what other policies would have earned",
        "oddsmith evaluate log.parquet --target uniform --target news.toml",
    )
    parser.add_argument("logs", nargs="+", metavar="LOG", help=_LOGS)
    parser.add_argument("--target", action="append", required=True, help=_TARGETS)
    parser.add_argument(
        "--state", action="append", default=[], metavar="[POLICY=]FILE", help=_STATE
    )
    rows = parser.add_argument_group("rows")
    rows.add_argument(
        "--where-offered",
        action="store_true",
        help="use only rows that offered the arms of arm:NAME",
    )
    rows.add_argument("--where-drawn", action="store_true", help=_DRAWN)
    rows.add_argument("--slot", type=int, metavar="N", help=_SLOT)
    rows.add_argument(
        "--whole-slates",
        action="store_true",
        help="also estimate the value of targets that fill whole slates",
    )
    method = parser.add_argument_group("estimators and intervals")
    method.add_argument(
        "--baseline",
        default="logged",
        help="target to compare with (default: logged, the logging policy)",
    )
    method.add_argument(
        "--model",
        default="auto",
        help="reward model: auto, linear, trees, none (default auto: linear if "
        "possible)",
    )
    method.add_argument("--interval", default="beta", help=_INTERVALS)
    method.add_argument(
        "--level",
        type=float,
        default=0.95,
        help="confidence level of the intervals (default 0.95)",
    )
    method.add_argument("--floor", type=float, help=_FLOOR)
    method.add_argument(
        "--overrule",
        nargs="+",
        action="extend",
        default=[],
        metavar="RULE",
        help="evaluate although these rules refuse; a refusal names its rule",
    )
    method.add_argument(
        "--seed",
        type=int,
        default=0,
        help="seed of cross-fitting and bootstrap (default 0)",
    )
    scoring = parser.add_argument_group("scorecard of metrics")
    scoring.add_argument("--control", help=_CONTROL)
    scoring.add_argument("--metrics", type=Path, metavar="FILE", help=_METRICS)
    scoring.add_argument(
        "--lift",
        choices=("log", "linear"),
        default="log",
        help="scale of the one-look interval of a lift (default log)",
    )
    add_reading(parser)
    add_units(parser)
    output = parser.add_argument_group("output")
    output.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for a report with figures"
    )
    add_json(output)
    parser.set_defaults(run=_evaluate)


def _evaluate(asked: argparse.Namespace) -> str | Refusal:
    from oddsmith.evaluation import report
    from oddsmith.evaluation.assessment import assess, in_units
    from oddsmith.files.reports.style import check_drawing

    is_scored = asked.control is not None or asked.metrics is not None
    if asked.out is not None:
        if asked.out.exists() and not asked.out.is_dir():
            raise InvalidInput(
                f"out must be a folder; got {str(asked.out)!r}, which is a file"
            )
        if is_scored:
            raise InvalidInput("out must not be given with --control or --metrics")
        # Fail before the long computation if matplotlib is missing.
        check_drawing()
    checked_seed(asked.seed)
    question = _question(asked, is_scored=is_scored)
    if is_scored:
        from oddsmith.cli.scorecard import score

        log = question.log
        return score(asked, log, question.targets, question.scale, question.notes)
    predictions = _predictions(asked, question)
    # Drop contexts, which may take most of the memory. Nothing below reads them.
    log = question.log.without("context", "features")
    question = question._replace(log=log)
    found = assess(
        log,
        question.targets,
        predictions=predictions,
        whole=asked.whole_slates,
        baseline=asked.baseline,
        level=asked.level,
        interval=asked.interval,
        floor=asked.floor,
        seed=asked.seed,
        overrule=asked.overrule,
    )
    assessment = in_units(found, question.scale)
    notes = question.notes
    if asked.out is not None:
        title = f"Evaluation of {_title(asked.logs)}"
        report.write_report(assessment, asked.out / "index.html", title, notes)
    if asked.json:
        text = as_json(_record(assessment, notes))
    else:
        text = _format_answer(assessment, asked, notes)
    return text if assessment.has_answers else Refusal(text)


def _title(logs: list[str]) -> str:
    """Return the name of the first log and the number of others."""
    more = f" and {len(logs) - 1} more" if len(logs) > 1 else ""
    return Path(logs[0]).name + more


def _format_answer(
    found: "Assessment", asked: argparse.Namespace, notes: list[str]
) -> str:
    """Format an evaluation as text: verdict, picture, tables, then the details."""
    from oddsmith.evaluation import report
    from oddsmith.evaluation.slate_report import slots_table
    from oddsmith.evaluation.verdict import verdict

    answer = verdict(found)
    parts = [
        "\n".join([*answer.sentences, *report.log_notes(found), *notes]),
        answer.picture,
    ]
    if found.differences:
        parts.append(str(report.differences_table(found)))
    if found.slots:
        parts.append(str(slots_table(found)))
    parts.append(str(report.answers_table(found)))
    parts.append(str(report.diagnostics_table(found)))
    parts.append("\n".join(report.summary(found)))
    parts.append("\n".join(report.refusals(found)))
    if asked.out:
        parts.append(f"report: {asked.out / 'index.html'}")
    return "\n\n".join(part for part in parts if part)


class _Question(NamedTuple):
    """The inputs of an evaluation: the log, the propensities of the targets by name,
    the schemas of a policy file, notes about states and rows, and the units of rewards.
    """

    log: Log
    targets: dict[str, Array]
    schema: Schema | None
    arm_schema: Schema | None
    notes: list[str]
    scale: RewardScale


def _question(asked: argparse.Namespace, *, is_scored: bool) -> _Question:
    """The log and the targets' odds; policy files come first, as they name the arms."""
    if len(set(asked.target)) < len(asked.target):
        raise InvalidInput(f"targets must differ; got {', '.join(asked.target)}")
    files = {}
    for name in asked.target:
        if name not in _WORDS and not name.startswith("arm:"):
            files[name] = _file(name)
    arms = _common_arms(files.values())
    states = states_of(asked, files) if asked.state else {}
    has_offers = any(file.arms is None for file in files.values())
    columns = [*_ODDS]
    if is_scored or "policy" in asked.target:
        columns += _SCORED
    if asked.model != "none" or files or asked.metrics is not None:
        columns += ["context", "features"]
    reading = replace(reader(asked, arms, offers=has_offers), only=tuple(columns))
    sources = [str(source) for source in reading.sources(asked.logs)]
    units = units_of(asked, files.values(), reading, sources)
    # Drop the ids. Only the reader needs them, to reject duplicate rows.
    whole = units.reader.read_log(sources).without("decision_id")
    log = whole
    if asked.slot is not None:
        log = _slot_rows(asked.slot, log)
    notes = [units.note]
    if units.note:
        notes.append(units.doubt(whole))
    if asked.where_offered:
        log, note = _offered_rows(asked, log)
        notes.append(note)
    if asked.where_drawn:
        log, note = _drawn_rows(log)
        notes.append(note)
    if is_scored or "policy" in asked.target:
        log, note = _compared_log(asked, log)
        notes.append(note)
    if arms is not None and log.offered is None and log.n_arms != len(arms):
        raise InvalidInput(
            f"{_title(asked.logs)} must have the policy's {len(arms)} arms; it has "
            f"{log.n_arms}"
        )
    targets = {
        name: _odds(name, log, files.get(name), states.get(name))
        for name in asked.target
    }
    with_rewards = [name for name, state in states.items() if state.learnt]
    if with_rewards:
        notes.append(_STATE_NOTE)
    for name, file in files.items():
        if name not in with_rewards:
            notes.append(_prior_note(file, targets[name], log))
    notes = [note for note in notes if note]
    first = next(iter(files.values()), None)
    schema = None if first is None else first.schema
    arm_schema = None if first is None else first.arm_schema
    return _Question(log, targets, schema, arm_schema, notes, units.scale)


def _common_arms(files: Iterable[PolicyFile]) -> Sequence[str] | None:
    """Return the arms of the policy files, which must be the same in all."""
    arm_lists = {file.arms for file in files if file.arms is not None}
    if len(arm_lists) > 1:
        raise InvalidInput(
            "policy files must have the same arms; got "
            f"{' and '.join(map(str, arm_lists))}"
        )
    return next(iter(arm_lists), None)


def _slot_rows(slot: int, log: Log) -> Log:
    """The rows of one slot of the log; 0 selects single decisions."""
    if log.slot is None:
        raise InvalidInput(f"slot must be one of the log's, which has none; got {slot}")
    slots = np.unique(log.slot).tolist()
    if slot not in slots:
        known = ", ".join(str(one) if one else "0 (alone)" for one in slots)
        raise InvalidInput(f"slot must be one of the log's, {known}; got {slot}")
    return log[np.flatnonzero(log.slot == slot)]


def _drawn_rows(log: Log) -> tuple[Log, str]:
    """The rows of --where-drawn, with a note about them."""
    from oddsmith.evaluation import where_drawn

    rows = where_drawn(log)
    if not len(rows):
        raise InvalidInput(
            f"where-drawn must leave some rows; in all {len(log):,} rows one arm had "
            "propensity 1"
        )
    note = (
        f"All results use {len(rows):,} of {len(log):,} rows, without rows in which "
        "one arm had propensity 1 although other arms were eligible."
    )
    return rows, note


def _compared_log(asked: argparse.Namespace, log: Log) -> tuple[Log, str]:
    """Return the rows before the end of an experiment, and a note about the others.

    Odds that follow from the share of the holdout need rows with policy and control.
    """
    from oddsmith.evaluation.holdouts import (
        compared_rows,
        excluded_rows_note,
        rows_before_end,
    )

    is_compared = rows_before_end(log)
    if "policy" in asked.target or asked.control == "incumbent":
        is_compared = compared_rows(log)
    if is_compared.all():
        return log, ""
    if not is_compared.any():
        raise InvalidInput(
            "column holdout: must be between 0 and 1 in some rows; no row compares the "
            "policy with a control"
        )
    return log[is_compared], excluded_rows_note(log, is_compared)


def _offered_rows(asked: argparse.Namespace, log: Log) -> tuple[Log, str]:
    """The rows that offered the arms of arm:NAME, with a note about them."""
    from oddsmith.evaluation import where_offered

    targets = [target for target in asked.target if target.startswith("arm:")]
    names = [target.removeprefix("arm:") for target in targets]
    if not names:
        raise InvalidInput("where-offered must go with a target arm:NAME; got none")
    rows = log
    for name in names:
        rows = where_offered(rows, name)
    arms = " and ".join(names)
    if not len(rows):
        raise InvalidInput(
            f"where-offered must leave some rows; none of {len(log):,} offered {arms}"
        )
    note = f"All results use the {len(rows):,} of {len(log):,} rows that offered"
    return rows, f"{note} {arms}."


def _file(name: str) -> PolicyFile:
    """Return the policy file of a target, or suggest a word if no file has its name."""
    if not Path(name).exists():
        meant = hint(name, _WORDS)
        if meant:
            raise InvalidInput(
                "target must be a policy file, uniform, first, policy or arm:NAME; got "
                f"{name!r}{meant}"
            )
    return read_policy(name)


def _prior_note(file: PolicyFile, odds: Array, log: Log) -> str:
    """Return a note that a policy has learnt nothing, and how to fit it, or "" for a
    policy that cannot learn."""
    from oddsmith.evaluation import uniform_target

    bank = file.policy.bank
    if bank is not None and len(bank.names) == 1 and not bank.learns:
        return ""
    worth = "its prior, before any reward"
    if np.allclose(odds, uniform_target(log), rtol=0, atol=1e-9):
        worth = "uniform play"
    return (
        f"{file.path} has learnt nothing: this is the value of {worth}. To evaluate "
        f"it after learning, run `oddsmith fit EARLIER_LOG --policy {file.path} --out "
        "state.npz`, then add --state state.npz here."
    )


def _odds(name: str, log: Log, file: PolicyFile | None, state: State | None) -> Array:
    from oddsmith.evaluation import (
        arm_target,
        control_target,
        first_target,
        policy_odds,
        policy_target,
        uniform_target,
    )
    from oddsmith.evaluation.holdouts import has_groups

    if file is not None:
        return policy_target(log, file.policy, state)
    if name == "policy":
        if has_groups(log):
            # A scorecard by unit compares groups of units.
            return control_target(log, "logged")
        return policy_odds(log)
    if name in _WORDS:
        return uniform_target(log) if name == "uniform" else first_target(log)
    return arm_target(log, name.removeprefix("arm:"))


def _predictions(asked: argparse.Namespace, question: _Question) -> Array | None:
    """Return predictions of a cross-fitted reward model. Return None for --model none,
    or for auto without enough data or scikit-learn."""
    check_choice("model", asked.model, _MODELS)
    if asked.model == "none":
        return None
    log = question.log
    if asked.model == "auto":
        n_rewards = (~np.isnan(log.reward)).sum()
        lacks_features = log.offered is not None and log.known_features == "drawn"
        if n_rewards < 10 or lacks_features:  # cross-fitting needs 2 rewards per fold
            return None
    from oddsmith.evaluation.reward_models import by_offers, cross_fit

    try:
        model = _model(trees=asked.model == "trees")
    except ImportError as error:
        if asked.model == "auto":
            return None
        raise MissingExtra(
            f"reward models need the extra oddsmith[models]; {error}"
        ) from error
    return cross_fit(
        log,
        model,
        seed=asked.seed,
        per_arm=asked.model != "trees" and not by_offers(log),
        schema=question.schema,
        arm_schema=question.arm_schema,
    )


def _model(*, trees: bool) -> "Regressor":
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model: Regressor = make_pipeline(StandardScaler(), Ridge(1.0))
    if trees:
        model = HistGradientBoostingRegressor(
            max_iter=50, max_leaf_nodes=15, random_state=0
        )
    return model


def _record(found: "Assessment", notes: list[str]) -> dict[str, object]:
    """An assessment as JSON."""
    from oddsmith.evaluation.report import log_notes
    from oddsmith.evaluation.verdict import verdict

    sentences = verdict(found)
    served: object = {"refused": found.served}
    if not isinstance(found.served, str):
        served = found.served._asdict()
    record: dict[str, object] = {
        "verdict": list(sentences.sentences),
        "estimator": sentences.estimator,
        "notes": [*log_notes(found), *notes],
        "rows": len(found.log),
        "kind": found.log.kind,
        "reward": {"low": found.scale.low, "high": found.scale.high},
        **_numbers(found),
        "baseline": found.baseline,
        "served": served,
    }
    if found.slots:
        slots: dict[str, object] = {}
        for slot, one in found.slots.items():
            slots[str(slot)] = _refusal(one) if isinstance(one, str) else _numbers(one)
        record["slots"] = slots
    if found.whole:
        record["whole_slates"] = {
            name: _answer(one, known=False) for name, one in found.whole.items()
        }
    return record


def _numbers(found: "Assessment") -> dict[str, object]:
    """The numbers of a log, or of one of its slots."""
    from oddsmith.evaluation.report import support_known

    known = support_known(found)
    diagnostics = {}
    for name, one in found.diagnostics.items():
        diagnostics[name] = _diagnostics(one, known=known)
    return {
        "logged": _answer(found.logged, known=True),
        "targets": _answers(found.answers, known=known),
        "diagnostics": diagnostics,
        "differences": _answers(found.differences, known=known),
    }


def _answer(one: "Answer", *, known: bool) -> dict[str, object]:
    if isinstance(one, str):
        return _refusal(one)
    record = one._asdict()
    record["diagnostics"] = _diagnostics(one.diagnostics, known=known)
    return record


def _refusal(why: str) -> dict[str, object]:
    return {"refused": ["log"], "why": why}


def _diagnostics(one: "Diagnostics", *, known: bool) -> dict[str, object]:
    """Return the diagnostics as a record. `missing` is null if the log does not state
    which arms the logging policy could draw."""
    record = one._asdict()
    if not known and one.missing == 0:
        record["missing"] = None
    return record


def _answers(by: "Answers", *, known: bool) -> dict[str, object]:
    return {
        name: {inner: _answer(one, known=known) for inner, one in ones.items()}
        for name, ones in by.items()
    }
