"""Slates in a report: the meaning of the values, and a table of the slots."""

import numpy as np

from oddsmith.evaluation.assessment import LOGGED, Answer, Assessment, has_value
from oddsmith.evaluation.slates import slates_of
from oddsmith.evaluation.verdict import ORDER, reasons, verdict
from oddsmith.files.reports.page import Table

__all__ = ["slate_notes", "slots_table"]

_ESTIMAND = (
    "In a slot the target draws from what the logging policy left there, and the "
    "logging policy draws "
    "all others: what one slot earns, not what the target would earn in all of them at "
    "once."
)


def slate_notes(found: Assessment) -> list[str]:
    """Return sentences that explain over which slots and slates the values are
    averaged, and the value of whole slates. Return an empty list for logs without
    slates."""
    slates = slates_of(found.log)
    if slates is None:
        return []
    in_slates = np.asarray(found.log.slot) > 0
    sizes = np.bincount(slates.number[in_slates])
    sizes = sizes[sizes > 0]  # sizes of slates, without decisions outside of slates
    least = int(sizes.min())
    most = int(sizes.max())
    slots = f"{least} to {most} slots"
    if least == most:
        slots = f"{most} slots"
    plural = "s" * (len(sizes) > 1)
    units = f"the slots of {len(sizes):,} slate{plural} of {slots}"
    total = ""
    weighting = "each slate counted once"
    if slates.alone:
        alone = (
            f"{slates.alone:,} decision{'s' * (slates.alone > 1)} that "
            f"stand{'s' * (slates.alone == 1)} alone"
        )
        units = f"{alone} and {units}"
        weighting = "each decision and each slate counted once"
    elif least == most:
        total = f"; together they earn {most} times as much"
    notes = [f"Values are means over {units}, {weighting}{total}.", _ESTIMAND]
    for slot, assessment in found.slots.items():
        if isinstance(assessment, str):
            notes.append(f"Slot {slot} has no answer: {assessment}.")
    for name, one in found.whole.items():
        notes.append(_whole(name, one))
    return notes


def _whole(name: str, one: Answer) -> str:
    if isinstance(one, str):
        return f"Whole slates of {name}: no answer; {one}."
    if one.refused:
        rule = one.refused[0]
        why = f"{reasons(one)[rule]} (rule {rule})"
        return (
            f"Whole slates of {name}: no answer, for weights of slots multiply; {why}."
        )
    percent = 100 * one.level
    kind = f"{percent:.4g} % {one.interval} interval, {one.name}"
    span = f"[{one.low:z.4f}, {one.high:z.4f}]"
    return (
        f"Whole slates that {name} fills alone earn {one.value:z.4f} per slot, {span} "
        f"({kind})."
    )


def slots_table(found: Assessment) -> Table:
    """Return a table with a row per slot and target: the value and its difference from
    the baseline."""
    estimator = verdict(found).estimator or ORDER[-1]
    rows = []
    for slot, own in found.slots.items():
        if isinstance(own, str):
            continue
        label = "0 (alone)"
        if slot:
            label = str(slot)
        differences = own.differences.get(estimator, {})
        answers: dict[str, Answer] = {LOGGED: own.logged}
        for name, by_estimator in own.answers.items():
            answers[name] = by_estimator.get(estimator, "")
        for name, one in answers.items():
            more = differences.get(name, "")
            cells = (*_cells(one), *_cells(more))
            rows.append((label, name, *cells))
    headers = (
        "slot",
        "target",
        "value",
        "low",
        "high",
        f"more than {found.baseline}",
        "low",
        "high",
    )
    caption = (
        "The value of each slot, drawn by the target from what the logging policy left "
        "there "
        f"({estimator})"
    )
    return Table(headers, tuple(rows), caption)


def _cells(one: Answer) -> tuple[str, str, str]:
    if isinstance(one, str):
        return "", "", ""
    if not has_value(one):
        return f"refused: {', '.join(one.refused)}", "", ""
    return f"{one.value:z.4f}", f"{one.low:z.4f}", f"{one.high:z.4f}"
