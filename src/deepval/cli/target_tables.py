"""`deepval analyse targets`: cells of several targets -> tables and a figure of what scores are worth to each."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import typer

from deepval.analyses.targets import ALPHAS, SCORES, Targets, across_targets
from deepval.cells.folder import BuiltCell
from deepval.cli import options
from deepval.files import check_writable
from deepval.report.console import render_tables
from deepval.report.figures import write_figure
from deepval.report.figures.targets import across
from deepval.report.tables import MISSING, Table, TableCell, number, percent


def told_targets(
    cells: Mapping[str, BuiltCell], scores: list[str] | None, *, alpha: float, figure: Path | None, json: bool
) -> None:
    """Print the analysis, and draw it where a file for the figure is given."""
    if figure is not None:
        check_writable(figure)
    alphas = sorted({*ALPHAS, alpha})
    short = _short_names(cells)
    found = across_targets(
        {short[name]: cell for name, cell in cells.items()}, scores or SCORES, alphas=alphas, watch=options.watch
    )
    if figure is not None:
        write_figure(figure, lambda: across(_curves(found)))
    if json:
        typer.echo(options.as_json(asdict(found)), nl=False)
        return
    tables = [_on_targets(found, alpha), _disagreements(found)]
    tables += [_gaps(found, alpha)] if found.gaps else []
    typer.echo(render_tables(tables, width=options.width()), nl=False)


def _short_names(cells: Mapping[str, BuiltCell]) -> dict[str, str]:
    """The names of folders where they differ, else their paths."""
    names = {name: cell.folder.name for name, cell in cells.items()}
    return names if len(set(names.values())) == len(names) else {name: name for name in names}


def _curves(found: Targets) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """The nDG by target, score and budget, where it is defined."""
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in found.rows:
        if row.ndg is not None and row.score != "oracle":
            curves.setdefault(row.target, {}).setdefault(row.score, []).append((row.alpha, row.ndg))
    return curves


def _on_targets(found: Targets, alpha: float) -> Table:
    rows = [row for row in found.rows if row.alpha == alpha]
    blocks = []
    for target in dict.fromkeys(row.target for row in rows):
        lines = [
            (target, row.score, row.kind, f"{row.inputs:,}", percent(row.coverage, 1), number(row.ndg),
             _span(row.ndg_lo, row.ndg_hi))
            for row in rows if row.target == target
        ]  # fmt: skip
        blocks.append(tuple(tuple(map(TableCell, line)) for line in lines))
    header = ("target", "score", "kind", "inputs", "covered", "nDG", "95 %")
    notes = (f"At {percent(alpha, 0)}, all units. inputs: those that the target judges.", *_absent(found))
    return Table("One score, several targets", header, tuple(blocks), notes)


def _absent(found: Targets) -> tuple[str, ...]:
    return tuple(f"{score} is left out: {why}" for score, why in found.absent.items())


def _disagreements(found: Targets) -> Table:
    lines = tuple(
        tuple(
            map(
                TableCell,
                (
                    *(pair.first, pair.second, f"{pair.inputs:,}"),
                    *(percent(pair.coverage_first, 1), percent(pair.coverage_second, 1)),
                    *(str(pair.affected_first), str(pair.affected_second), str(pair.both), str(pair.opposite)),
                    *(MISSING if pair.share is None else percent(pair.share, 1), number(pair.rank)),
                ),
            )
        )
        for pair in found.disagreements
    )
    header = (
        *("target", "other", "in common", "of target", "of other", "affected", "by other", "both", "opposite"),
        *("share", "rank"),
    )
    return Table("Where targets disagree", header, (lines,), ("share: opposite signs where both are affected.",))


def _gaps(found: Targets, alpha: float) -> Table:
    lines = tuple(
        tuple(
            map(
                TableCell,
                (
                    *(gap.score, gap.logged, gap.itself, f"{gap.inputs:,}", number(gap.ndg_logged)),
                    *(number(gap.ndg_itself), number(gap.gap), _span(gap.gap_lo, gap.gap_hi)),
                ),
            )
        )
        for gap in found.gaps
        if gap.alpha == alpha
    )
    header = ("score", "logged", "itself", "inputs", "nDG logged", "nDG itself", "gap", "95 %")
    return Table(f"Self-reference gap at {percent(alpha, 0)}", header, (lines,))


def _span(low: float | None, high: float | None) -> str:
    return MISSING if low is None or high is None else f"[{number(low)}, {number(high)}]"
