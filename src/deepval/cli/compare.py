"""`deepval compare`: two allocators on the same tables -> paired differences."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from cyclopts import Parameter

from deepval.basics.errors import InputError
from deepval.cli import options, terminal

if TYPE_CHECKING:
    from deepval.judge.cases import EvaluationData
    from deepval.judge.pairs import Named
    from deepval.judge.report.gate import Gate
    from deepval.judge.report.tables.comparison import AnyComparison
    from deepval.judge.results import Result, Row
    from deepval.judge.tables.scores import Scores

FAILED_GATE = 3
"""Exit code of `--fail-if` if the gate fails; 2 is bad input."""
Statistic = Literal["gain", "benefit", "harm", "area"]
GateName = Literal["worse", "not-better"]
Format = Literal["text", "markdown", "json"]


def compare(
    names: Annotated[
        tuple[str, ...], Parameter(metavar="TABLE... CANDIDATE BASELINE")
    ] = (),
    /,
    *,
    subject: options.SubjectOptions = options.SUBJECT_DEFAULTS,
    budgets: options.ChargedBudgets = options.CHARGED_DEFAULTS,
    draws: options.DrawOptions = options.DRAWS_DEFAULTS,
    calibrate: options.Calibration = None,
    of: Annotated[Statistic, Parameter(group=options.SUBJECT)] = "gain",
    fail_if: Annotated[GateName | None, Parameter(group=options.OUTPUT)] = None,
    form: Annotated[Format, Parameter(name="--format", group=options.OUTPUT)] = "text",
) -> int:
    """Differences are paired within every draw of units. Over several cells the mean is
    compared, with equal weights; cells with the same units share their draws. Causal
    policies are calibrated on the validation units of a cell unless --calibrate names
    others.

    Example: deepval compare values.parquet new.csv old.csv --alpha 0.2 --fail-if worse

    Args:
        names: Cell folders or values files (several: the mean over them is compared),
            then the scores of the candidate and of the baseline: FILE, NAME=FILE, or a
            name in the cell's folder scores. NAME@POLICY compares under a causal
            policy: frozen-threshold, causal-cap, adaptive-threshold, token-bucket.
        of: What to compare: gain, its parts benefit and harm, or area (between the
            whole gain curves).
        fail_if: Exit with 3 if the candidate is 'worse' or 'not-better' anywhere, or
            cannot pay for itself.
        form: Output format.
    """
    from deepval.judge.cases import note
    from deepval.judge.pairs import parse_name
    from deepval.judge.report.gate import Gate
    from deepval.judge.report.tables import units_judged

    if len(names) < 3:
        raise InputError(
            "compare needs a table, a candidate and a baseline: deepval compare TABLE "
            "CANDIDATE BASELINE."
        )
    *tables, candidate, baseline = names
    sides = [parse_name(text) for text in (candidate, baseline)]
    if sides[0] == sides[1]:
        raise InputError(
            f"Candidate and baseline must differ; {candidate!r} is given twice."
        )

    cases = _cases(tables, subject)
    judged = _judge(cases, sides, subject, budgets, draws, calibrate)
    results = {name: item.result for name, item in judged.items()}
    one, other = (
        side._replace(allocator=_name_of(side.allocator)).text for side in sides
    )
    rows = _rows(results, one, other, of=of)
    for name, item in judged.items():
        note(cases[name].cell, by="compare", units=item.units, scores=item.scores)

    gate = None if fail_if is None else Gate(fail_if, rows)
    provenance = {"provenance": {name: case.provenance for name, case in cases.items()}}
    both = [
        row
        for result in results.values()
        for row in result.rows
        if row.allocator in (one, other)
    ]
    units = units_judged(*results.values())
    _print(form, rows, gate, provenance, both, units)

    if gate is None or not gate.failures:
        return 0
    terminal.say(f"deepval: {gate.sentence}", err=True)
    return FAILED_GATE


def _print(
    form: str,
    rows: "Sequence[AnyComparison]",
    gate: "Gate | None",
    provenance: dict[str, Any],
    judged: "Sequence[Row]",
    units: str,
) -> None:
    """Print comparisons over these units, with notes on `judged` rows not worth it;
    Markdown begins with the gate.
    """
    from deepval.judge.report.forms import escape_markdown, table_markdown
    from deepval.judge.report.tables import with_units
    from deepval.judge.report.tables.comparison import area_table, comparison_table
    from deepval.judge.results import Area

    records = [dict(row) | provenance for row in rows]
    areas = [row for row in rows if isinstance(row, Area)]
    if form == "json":
        terminal.print_json(records[0] if areas else records)
        return
    if areas:
        table = area_table(areas[0])
    else:
        pairs = [row for row in rows if not isinstance(row, Area)]
        table = comparison_table(pairs, judged)
    table = with_units(table, units)
    if form == "text":
        terminal.print_tables([table])
        return
    parts = [table_markdown(table)]
    if gate is not None:
        outcome = "failed" if gate.failures else "passed"
        parts.insert(0, escape_markdown(f"Gate {outcome}: {gate.sentence}"))
    terminal.write("\n\n".join(parts) + "\n")


class _Judged(NamedTuple):
    """The result on one table, and the units and scores behind it."""

    result: "Result"
    units: list[str] | None
    scores: "Mapping[str, Scores]"


def _judge(
    cases: "Mapping[str, EvaluationData]",
    sides: "Sequence[Named]",
    subject: options.SubjectOptions,
    budgets: options.ChargedBudgets,
    draws: options.DrawOptions,
    calibrate: str | None,
) -> dict[str, _Judged]:
    """Both sides judged on every table; tables with the same units share their
    draws.
    """
    from deepval.judge.cases import judge, note_unknown_fits
    from deepval.judge.draws import seeds_by_units

    causal = any(side.policy for side in sides)
    scores = {name: case.scores(_files(sides)) for name, case in cases.items()}
    calibration_units = {
        name: case.units(
            options.unit_list(calibrate, case.roles),
            usual="validation" if causal else None,
        )
        for name, case in cases.items()
    }
    units: dict[str, list[str] | None] = {}
    for name, case in cases.items():
        listed = options.unit_list(subject.units, case.roles)
        units[name], _ = case.judged_units(
            listed, scores[name], calibration=calibration_units[name]
        )
    all_units = {
        name: case.table.unit_ids if (own := units[name]) is None else own
        for name, case in cases.items()
    }
    seeds = seeds_by_units(all_units, draws.seed)
    judged = {}
    for name, case in cases.items():
        if calibration_units[name] is not None:
            note_unknown_fits(scores[name])
        # Not in the ledger yet: a comparison that is refused is no look at test units.
        result = judge(
            case,
            scores[name],
            budgets.of(case, scores[name], every=True),
            command=None,
            draws=draws.number,
            seed=seeds[name],
            units=units[name],
            calibration=calibration_units[name],
            missing=subject.missing,
            watch=terminal.watch,
        )
        judged[name] = _Judged(result, units[name], scores[name])
    return judged


def _rows(
    results: "Mapping[str, Result]", one: str, other: str, *, of: Statistic
) -> "Sequence[AnyComparison]":
    """Differences on the one table, or of the means over several; the area between gain
    curves is of one table.
    """
    from deepval.judge import pairs
    from deepval.judge.pooled import compare_over

    if len(results) == 1:
        (result,) = results.values()
        if of == "area":
            return [result.area(one, other)]
        return pairs.compare(result, one, other, of=of)
    if of == "area":
        raise InputError(f"--of area compares on one table; found {len(results)}.")
    return compare_over(results, one, other, of=of)


def _cases(
    paths: Sequence[str], subject: options.SubjectOptions
) -> "dict[str, EvaluationData]":
    """The cells or values files to compare on, by path."""
    cases = {str(path): subject.case(path) for path in map(Path, paths)}
    if len(cases) < len(paths):
        raise InputError("Tables must differ; one is given twice.")
    return cases


def _files(sides: "Iterable[Named]") -> dict[str, Path]:
    """Score files of the two sides, which may be one file under two policies."""
    return options.named_files(dict.fromkeys(side.allocator for side in sides))


def _name_of(text: str) -> str:
    (name,) = options.named_files([text])
    return name
