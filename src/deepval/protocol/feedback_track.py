"""Logs of decisions and allocators of the feedback track -> whether they fit the cells,
and their decisions at a rate.

A log has no losses to hide from its reader, but it must name the full outputs that it
learned from. So the order of its rows, its escalations and their digests are compared
with the cell here; nothing in it is executed.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from deepval.allocators.feedback import output_digest, with_feedback
from deepval.arrays import Bool
from deepval.cells import on_policy
from deepval.cells.on_policy import CAP, OnPolicy, refuse_fitted
from deepval.errors import InputError
from deepval.judging.policies import CausalCap, FrozenThreshold
from deepval.judging.stream_rows import Acceptance, Decider
from deepval.protocol.submission_files import output_number
from deepval.protocol.submissions import Checked, Submission
from deepval.protocol.tracks import TrackedCell
from deepval.tables.keys import positions
from deepval.tables.scores import Scores, on_part
from deepval.tables.values import ValueTable

ALPHA = 0.2
"""The share of the feedback track, enforced by the causal cap."""


def with_feedback_checked(
    checked: Checked, cells: Mapping[str, TrackedCell]
) -> Checked:
    """The submission, refused if its logs or its allocator do not fit the cells."""
    item = checked.submission
    try:
        for name, log in () if item is None else item.logs.items():
            _check_log(log, cells[name])
        if item is not None and item.allocator is not None:
            for cell in cells.values():
                refuse_fitted(
                    cell.built,
                    item.allocator,
                    [*cell.split.validation, *cell.split.test],
                )
                OnPolicy(cell.built, with_feedback(item.allocator), cell.scored)
    except InputError as error:
        return Checked(checked.folder, None, (str(error),))
    return checked


def _check_log(log: Scores, cell: TrackedCell) -> None:
    """Raise where a log escalates beyond the cap, or names another output than that of
    the escalated frame.
    """
    table = cell.scored
    beyond = table.input[(log.values > 0) & ~_within_cap(log, table, ALPHA)]
    if len(beyond):
        raise InputError(
            f"{log.name}: at most floor(1 + {ALPHA} t) of a unit's first t inputs may "
            f"be escalated; {beyond[0]} is beyond."
        )
    for view, outputs in zip(cell.built.views, cell.built.outputs, strict=True):
        for frame, row in enumerate(positions(view.scene.inputs, table.input).tolist()):
            number = log.values[row] if row >= 0 else 0.0
            if number and number != output_number(
                output_digest(outputs.full.at(frame))
            ):
                raise InputError(
                    f"{log.name}: the digest of {table.input[row]} must be that of "
                    "its full output in the cell; it is of another."
                )


def _within_cap(
    log: Scores, table: ValueTable, rate: float
) -> Bool[np.ndarray, "input"]:
    """Which escalations of a log of the table's inputs are within the cap at a rate."""
    cap = CausalCap(FrozenThreshold(0.5, 1.0), rate)
    return cap.decide((log.values > 0).astype(float), table.unit, table.time_rank) > 0


def decider(item: Submission, cell: TrackedCell) -> Decider:
    """A submission to the feedback track on a cell's test units: as logged, or by
    replay of its allocator.
    """
    table = cell.scored.restrict(cell.split.test)
    if item.allocator is None:
        log = on_part(table, item.logs[cell.name], cell.scored, "error")
        return Decider(item.card.key, partial(_logged, log, table))
    allocator = with_feedback(item.allocator)
    validation = OnPolicy(
        cell.built, allocator, cell.scored.restrict(cell.split.validation)
    )
    return on_policy.decider(
        item.card.key, OnPolicy(cell.built, allocator, table), validation
    )


def _logged(log: Scores, table: ValueTable, rate: float) -> Iterator[Acceptance]:
    """The decisions of a log, if they keep the rate that the budget leaves."""
    escalated = log.values > 0
    if np.array_equal(_within_cap(log, table, rate), escalated):
        yield Acceptance(CAP, None, escalated.astype(float), None)
