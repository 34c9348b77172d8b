"""The rows of one score on several targets -> tables, and the curves of its figure."""

from deepval.analyses.targets import Targets
from deepval.report.tables import MISSING, Table, TableCell, number, percent


def target_tables(found: Targets, alpha: float) -> list[Table]:
    """Scores by target, where targets disagree and, where there are some, self-reference gaps."""
    tables = [_on_targets(found, alpha), _disagreements(found)]
    return tables + ([_gaps(found, alpha)] if found.gaps else [])


def curves(found: Targets) -> dict[str, dict[str, list[tuple[float, float]]]]:
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
