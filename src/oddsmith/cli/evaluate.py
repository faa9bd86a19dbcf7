"""`oddsmith evaluate`: what policies that did not decide would have been worth, from a
log."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from oddsmith.cli.parser import Commands
from oddsmith.cli.scorecard import (
    SCORE_COLUMNS,
    add_scoring,
    asks_for_scorecard,
    score,
)
from oddsmith.cli.units import add_units, learnt_units, units_of
from oddsmith.cli.words import Refused, add_reading, as_json, checked_seed, reader
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
    """The states by the names of their policy files; a state without a name is that of
    the only file."""
    states: dict[str, State] = {}
    for text in asked.state:
        name, path = _named(text, files)
        if name in states:
            raise InvalidInput(
                f"state must be one for each policy file; got two for {name}"
            )
        states[name], meta = saving.read(Path(path), files[name].policy)
        saving.check_units(meta, learnt_units(asked, files[name]), path, name)
    return states


def _named(text: str, files: Mapping[str, PolicyFile]) -> tuple[str, str]:
    """The policy file that a state is for, and the state's own file."""
    for name in files:
        if text.startswith(f"{name}="):
            return name, text.removeprefix(f"{name}=")
    if len(files) != 1:
        several = (
            f", or say whose it is: --state {next(iter(files))}={text}" if files else ""
        )
        raise InvalidInput(
            f"state must go with exactly one policy file as target; got {len(files)} "
            f"of them{several}"
        )
    return next(iter(files)), text


if TYPE_CHECKING:
    from oddsmith.evaluation.assessment import Answer, Answers, Assessment
    from oddsmith.evaluation.diagnostics import Diagnostics
    from oddsmith.evaluation.reward_models import Regressor


_MODELS = ("auto", "linear", "trees", "none")
_INTERVALS = (
    "beta (default), normal, bootstrap, bernstein, anytime (a value that may drift) or "
    "anytime_constant (a value that does not move)"
)
_LOGS = (
    "the log: Parquet, CSV, JSON lines, dsjson or Open Bandit; several files, or "
    "folders of them, are one log"
)
_TARGETS = (
    "a policy file, uniform, first (the arm that the caller offered first), arm:NAME, "
    "or policy (the policy beside a holdout, by the log); repeatable"
)
_DRAWN = (
    "leave out rows in which one arm had all odds though others were eligible "
    "(incumbents, fallbacks)"
)
_SLOT = "use only this slot of slates, from 1 on; 0: only decisions that stand alone"
_FLOOR = (
    "the least odds of the logger; bernstein and anytime may need it, and all "
    "intervals are narrower where the log has the odds of drawn arms alone"
)
_STATE = (
    "a policy's state, from `oddsmith fit` or Agent.save; of several policy files, "
    "auto.toml=state.npz"
)
_WORDS = ("uniform", "first", "policy")
_ODDS = ("propensity", "propensities", "eligible", "slate", "slot", "decision_id")
"""The columns that estimators read beside arm and reward."""
_STATE_NOTE = (
    "The state must not have learnt from this log: its value would be too good to be "
    "true."
)


def add_commands(commands: Commands) -> None:
    """Add the command to a parser."""
    one = commands.add_parser(
        "evaluate", help="what other policies would have been worth, from a log"
    )
    one.add_argument("logs", nargs="+", metavar="LOG", help=_LOGS)
    one.add_argument("--target", action="append", required=True, help=_TARGETS)
    one.add_argument(
        "--where-offered",
        action="store_true",
        help="use only rows that offered the arms of arm:NAME",
    )
    one.add_argument("--where-drawn", action="store_true", help=_DRAWN)
    one.add_argument("--slot", type=int, metavar="N", help=_SLOT)
    one.add_argument(
        "--whole-slates",
        action="store_true",
        help="also the value where a target fills whole slates",
    )
    one.add_argument(
        "--state", action="append", default=[], metavar="[POLICY=]FILE", help=_STATE
    )
    one.add_argument(
        "--baseline",
        default="logged",
        help="the target to compare with (default: logged, the logger)",
    )
    one.add_argument(
        "--model",
        default="auto",
        help="reward model: linear, trees, none (default: linear if possible)",
    )
    one.add_argument("--interval", default="beta", help=_INTERVALS)
    one.add_argument(
        "--level",
        type=float,
        default=0.95,
        help="confidence level of the intervals (default 0.95)",
    )
    one.add_argument(
        "--floor",
        type=float,
        help=_FLOOR,
    )
    one.add_argument(
        "--overrule",
        nargs="+",
        action="extend",
        default=[],
        metavar="RULE",
        help="rules to overrule",
    )
    one.add_argument(
        "--seed", type=int, default=0, help="of folds and bootstrap (default 0)"
    )
    one.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for a report with figures"
    )
    add_scoring(one)
    add_reading(one)
    add_units(one)
    one.add_argument("--json", action="store_true", help="print JSON for programs")
    one.set_defaults(run=_evaluate)


def _evaluate(asked: argparse.Namespace) -> str | Refused:
    from oddsmith.evaluation import report
    from oddsmith.evaluation.assessment import assess, in_units
    from oddsmith.files.reports.style import check_drawing

    if asked.out is not None and asked.out.exists() and not asked.out.is_dir():
        raise InvalidInput(
            f"out must be a folder; got {str(asked.out)!r}, which is a file"
        )
    if asked.out is not None:
        check_drawing()  # before the work, not after it
    checked_seed(asked.seed)
    if asks_for_scorecard(asked) and asked.out is not None:
        raise InvalidInput("out must not be given with --control or --metrics")
    question = _read(asked)
    if asks_for_scorecard(asked):
        log = question.log
        return score(asked, log, question.targets, question.scale, question.notes)
    settings = {
        name: getattr(asked, name)
        for name in ("baseline", "level", "interval", "floor", "seed", "overrule")
    }
    settings["whole"] = asked.whole_slates
    predictions = _predictions(asked, question)
    # what is left to do reads no contexts, which may be most of the memory
    log = question.log.without("context", "features")
    question = question._replace(log=log)
    found = assess(log, question.targets, predictions=predictions, **settings)
    assessment = in_units(found, question.scale)
    if asked.out is not None:
        report.write_report(
            assessment,
            asked.out / "index.html",
            f"Evaluation of {_title(asked.logs)}",
            question.notes,
        )
    text = (
        as_json(_record(assessment, question.notes))
        if asked.json
        else _told(assessment, asked, question.notes)
    )
    return text if assessment.has_answers else Refused(text)


def _title(logs: list[str]) -> str:
    """The name of the first log, and how many others there are."""
    name = Path(logs[0]).name
    return name if len(logs) == 1 else f"{name} and {len(logs) - 1} more"


def _told(found: "Assessment", asked: argparse.Namespace, notes: list[str]) -> str:
    """For people: verdict, picture, tables, then the details."""
    from oddsmith.evaluation import report
    from oddsmith.evaluation.notes import log_notes, slots_table
    from oddsmith.evaluation.verdict import verdict

    answer = verdict(found)
    parts = ["\n".join([*answer.sentences, *log_notes(found), *notes]), answer.picture]
    parts += [str(report.differences_table(found))] if found.differences else []
    parts += [str(slots_table(found))] if found.slots else []
    parts += [str(report.answers_table(found)), str(report.diagnostics_table(found))]
    parts += ["\n".join(report.summary(found)), "\n".join(report.refusals(found))]
    parts += [f"report: {asked.out / 'index.html'}"] if asked.out else []
    return "\n\n".join(part for part in parts if part)


class _Question(NamedTuple):
    """A log, the odds of the targets by name, the schemas of a policy file, what to say
    of states and rows, and the units of rewards.
    """

    log: Log
    targets: dict[str, Array]
    schema: Schema | None
    arm_schema: Schema | None
    notes: list[str]
    scale: RewardScale


def _read(asked: argparse.Namespace) -> _Question:
    """The log and the targets' odds; policy files come first, as they name the arms."""
    if len(set(asked.target)) < len(asked.target):
        raise InvalidInput(f"targets must differ; got {', '.join(asked.target)}")
    files = {
        name: _file(name)
        for name in asked.target
        if name not in _WORDS and not name.startswith("arm:")
    }
    arm_lists = {file.arms for file in files.values() if file.arms is not None}
    if len(arm_lists) > 1:
        raise InvalidInput(
            "policy files must be about the same arms; got "
            f"{' and '.join(map(str, arm_lists))}"
        )
    states = states_of(asked, files)
    arms = next(iter(arm_lists), None)
    called = any(file.arms is None for file in files.values())
    reading = reader(asked, arms, offers=called)
    columns = [*_ODDS]
    if asks_for_scorecard(asked) or "policy" in asked.target:
        columns += SCORE_COLUMNS
    if asked.model != "none" or files or asked.metrics is not None:
        columns += ["context", "features"]
    reading = replace(reading, only=tuple(columns))
    sources = [str(source) for source in reading.sources(asked.logs)]
    units = units_of(asked, files.values(), reading, sources)
    # ids are for the reader, which refuses those that come again
    whole = units.reader.read_log(sources).without("decision_id")
    log, restricted = _restricted(asked, _of_slot(asked.slot, whole))
    if arms is not None and log.offered is None and log.n_arms != len(arms):
        raise InvalidInput(
            f"{_title(asked.logs)} must be about the policy's {len(arms)} arms; it has "
            f"{log.n_arms}"
        )
    targets = {
        name: _odds(name, log, files.get(name), states.get(name))
        for name in asked.target
    }
    taught = [name for name, state in states.items() if state.learnt]
    notes = [_STATE_NOTE] if taught else []
    for name, file in files.items():
        notes += [
            note
            for note in [_untaught(file, targets[name], log)]
            if note and name not in taught
        ]
    schemas = next(
        ((file.schema, file.arm_schema) for file in files.values()), (None, None)
    )
    said = [note for note in (units.note, units.doubt(whole)) if note]
    return _Question(log, targets, *schemas, [*said, *restricted, *notes], units.scale)


def _of_slot(slot: int | None, log: Log) -> Log:
    """The log, or the rows of one of its slots; 0 are decisions that stand alone."""
    if slot is None:
        return log
    there = [] if log.slot is None else np.unique(log.slot).tolist()
    if log.slot is None or slot not in there:
        known = (
            ", ".join(str(one) if one else "0 (alone)" for one in there)
            or "which has none"
        )
        raise InvalidInput(f"slot must be one of the log's, {known}; got {slot}")
    return log[np.flatnonzero(log.slot == slot)]


def _restricted(asked: argparse.Namespace, log: Log) -> tuple[Log, list[str]]:
    """The rows that are asked for, and sentences that say which they are."""
    from oddsmith.evaluation import where_drawn

    log, notes = _offering(asked, log)
    if not asked.where_drawn:
        return log, notes
    kept = where_drawn(log)
    if not len(kept):
        raise InvalidInput(
            f"where-drawn must leave some rows; in all {len(log):,} one arm had all "
            "odds"
        )
    which = "without those in which one arm had all odds though others were eligible"
    return kept, [
        *notes,
        f"All of this is about {len(kept):,} of {len(log):,} rows, {which}.",
    ]


def _offering(asked: argparse.Namespace, log: Log) -> tuple[Log, list[str]]:
    """The log, or with --where-offered its rows that offered the arms of arm:NAME, and
    a sentence that says so."""
    from oddsmith.evaluation import where_offered

    names = [
        name.removeprefix("arm:") for name in asked.target if name.startswith("arm:")
    ]
    if not asked.where_offered:
        return log, []
    if not names:
        raise InvalidInput("where-offered must go with a target arm:NAME; got none")
    kept = log
    for name in names:
        kept = where_offered(kept, name)
    if not len(kept):
        raise InvalidInput(
            f"where-offered must leave some rows; none of {len(log):,} offered "
            f"{' and '.join(names)}"
        )
    return kept, [
        f"All of this is about the {len(kept):,} of {len(log):,} rows that offered "
        f"{' and '.join(names)}."
    ]


def _file(name: str) -> PolicyFile:
    """The policy file of a target; a word that is no file may be a misspelt one."""
    if not Path(name).exists() and (meant := hint(name, _WORDS)):
        raise InvalidInput(
            "target must be a policy file, uniform, first, policy or arm:NAME; got "
            f"{name!r}{meant}"
        )
    return read_policy(name)


def _untaught(file: PolicyFile, odds: Array, log: Log) -> str:
    """What the odds of a policy without a reward are worth, and how to get one; "" for
    one that cannot learn."""
    from oddsmith.evaluation import uniform_target

    bank = file.policy.bank
    if bank is not None and len(bank.names) == 1 and not bank.learns:
        return ""
    uniform = np.allclose(odds, uniform_target(log), rtol=0, atol=1e-9)
    worth = "uniform play" if uniform else "its prior, before any reward"
    return (
        f"{file.path} has learnt nothing: this is the value of {worth}. To evaluate it "
        f"after learning, `oddsmith fit EARLIER_LOG --policy {file.path} --out "
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

    if file is not None:
        return policy_target(log, file.policy, state)
    if name == "policy":
        if log.group is not None:
            # by unit, a scorecard compares groups
            return control_target(log, "logged")
        return policy_odds(log)
    if name in _WORDS:
        return uniform_target(log) if name == "uniform" else first_target(log)
    return arm_target(log, name.removeprefix("arm:"))


def _predictions(asked: argparse.Namespace, question: _Question) -> Array | None:
    """A cross-fitted reward model's, where one is wanted and scikit-learn is there."""
    check_choice("model", asked.model, _MODELS)
    if asked.model == "none":
        return None
    log = question.log
    few = (~np.isnan(log.reward)).sum() < 10  # 2 for each fold
    if asked.model == "auto" and (
        few or (log.offered is not None and log.known_features == "drawn")
    ):
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
    per_arm = asked.model != "trees" and not by_offers(log)
    schema, arm_schema = question.schema, question.arm_schema
    return cross_fit(
        log,
        model,
        seed=asked.seed,
        per_arm=per_arm,
        schema=schema,
        arm_schema=arm_schema,
    )


def _model(*, trees: bool) -> "Regressor":
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    grown = HistGradientBoostingRegressor(
        max_iter=50, max_leaf_nodes=15, random_state=0
    )
    model: Regressor = grown if trees else make_pipeline(StandardScaler(), Ridge(1.0))
    return model


def _record(found: "Assessment", notes: list[str]) -> dict[str, object]:
    """An assessment as JSON."""
    from oddsmith.evaluation.notes import log_notes
    from oddsmith.evaluation.verdict import verdict

    sentences = verdict(found)
    record: dict[str, object] = {
        "verdict": list(sentences.sentences),
        "estimator": sentences.estimator,
        "notes": [*log_notes(found), *notes],
        "rows": len(found.log),
        "kind": found.log.kind,
        "reward": {"low": found.scale.low, "high": found.scale.high},
        **_numbers(found),
        "baseline": found.baseline,
        "served": {"refused": found.served}
        if isinstance(found.served, str)
        else found.served._asdict(),
    }
    if found.slots:
        refused = {
            slot: {"refused": ["log"], "why": one}
            for slot, one in found.slots.items()
            if isinstance(one, str)
        }
        slots = {
            slot: _numbers(one)
            for slot, one in found.slots.items()
            if not isinstance(one, str)
        }
        record["slots"] = {str(slot): (slots | refused)[slot] for slot in found.slots}
    if found.whole:
        record["whole_slates"] = {
            name: _answer(one, known=False) for name, one in found.whole.items()
        }
    return record


def _numbers(found: "Assessment") -> dict[str, object]:
    """The numbers of a log, or of one of its slots."""
    from oddsmith.evaluation.notes import support_known

    known = support_known(found)
    return {
        "logged": _answer(found.logged, known=True),
        "targets": _answers(found.answers, known=known),
        "diagnostics": {
            name: _diagnostics(one, known=known)
            for name, one in found.diagnostics.items()
        },
        "differences": _answers(found.differences, known=known),
    }


def _answer(one: "Answer", *, known: bool) -> dict[str, object]:
    if isinstance(one, str):
        return {"refused": ["log"], "why": one}
    beside = _diagnostics(one.diagnostics, known=known)
    return {**one._asdict(), "diagnostics": beside}


def _diagnostics(one: "Diagnostics", *, known: bool) -> dict[str, object]:
    """The diagnostics; `missing` is null where the log does not say which arms the
    logger could draw."""
    record = one._asdict()
    if not known and one.missing == 0:
        record["missing"] = None
    return record


def _answers(by: "Answers", *, known: bool) -> dict[str, object]:
    return {
        name: {inner: _answer(one, known=known) for inner, one in ones.items()}
        for name, ones in by.items()
    }
