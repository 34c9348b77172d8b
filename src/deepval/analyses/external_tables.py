"""The rows of the external track -> tables for a terminal."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from deepval.analyses.external import AgreementRow, ExternalTrack, LossRow, ViabilityRow
from deepval.report.tables import Table, TableCell, number, percent

UNDEFINED = "undefined"


def external_tables(found: ExternalTrack) -> list[Table]:
    """One table for losses, one for agreement where planners can be compared, one for viability."""
    tables = [_losses(found.losses), _agreement(found.agreement), _viability(found.viability)]
    return [table for table in tables if table.sections]


def _losses(rows: Sequence[LossRow]) -> Table:
    cells = [next(group) for _, group in groupby(rows, key=lambda row: row.cell)]
    header = ("cell", "loss", "affected", "harmed", "harm ratio", "all-full / Oracle@20", "cheap loss")
    return Table("Published planners: what escalation does", header, _sections(rows, _loss_texts), _told(cells))


def _loss_texts(row: LossRow) -> tuple[str, ...]:
    harmed = UNDEFINED if row.harmed is None else percent(row.harmed, 1)
    ratio = UNDEFINED if row.harm_ratio is None else number(row.harm_ratio)
    shares = (row.all_full, row.oracle_20)
    gains = UNDEFINED if None in shares else " / ".join(percent(share) for share in shares)
    return row.cell, row.loss, f"{row.affected} of {row.inputs}", harmed, ratio, gains, number(row.cheap_loss, 2)


def _told(cells: Iterable[LossRow]) -> tuple[str, ...]:
    """What each cell is and which units it is judged on."""
    return tuple(
        f"{row.cell}: {row.planner} on {row.dataset}, {_modes(row)}, {row.geometry}; {row.judged_on} ({row.units})."
        for row in cells
    )


def _modes(row: LossRow) -> str:
    limits = ["" if limit is None else f" from {limit:g}" for limit in row.thresholds]
    return " -> ".join(f"{mode}{limit}" for mode, limit in zip(row.modes, limits, strict=True))


def _agreement(rows: Sequence[AgreementRow]) -> Table:
    header = ("cells", "loss", "affected", "both", "Spearman", "gamma", "ordered differently", "opposite signs")
    note = "Over the states on which both planners are affected; undefined where too few are ranked."
    return Table("Agreement of planners", header, _sections(rows, _agreement_texts), (note,))


def _agreement_texts(row: AgreementRow) -> tuple[str, ...]:
    figures = (row.spearman, row.gamma, row.ordered_differently)
    opposite = UNDEFINED if row.sign_disagreement is None else f"{row.opposite} of {row.both}"
    texts = [UNDEFINED if figure is None else number(figure, 2) for figure in figures]
    both = f"{row.affected[0]}, {row.affected[1]}"
    return f"{row.first}, {row.second}", row.loss, both, str(row.both), *texts, opposite


def _viability(rows: Sequence[ViabilityRow]) -> Table:
    header = ("cell", "loss", "mean loss", "constant velocity", "viable")
    note = "A mode is viable where planning on it loses less than straight on at the present speed."
    return Table("Viability", header, _sections(rows, _viability_texts), (note,))


def _viability_texts(row: ViabilityRow) -> tuple[str, ...]:
    means = ", ".join(f"{mode} {number(mean)}" for mode, mean in row.mean_loss.items())
    viable = ", ".join(mode for mode, better in row.viable.items() if better) or "no mode"
    return row.cell, row.loss, means, number(row.constant_velocity), viable


def _sections(rows: Sequence[Any], texts: Any) -> tuple[tuple[tuple[TableCell, ...], ...], ...]:
    """Rows of one cell, or pair of cells, together; its name stands in the first of them."""
    sections = []
    for _, group in groupby([texts(row) for row in rows], key=lambda row: row[0]):
        first, *others = group
        sections.append(tuple(tuple(map(TableCell, row)) for row in (first, *(("", *row[1:]) for row in others))))
    return tuple(sections)
