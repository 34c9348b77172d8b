"""`deepval evaluate`: a cell or a values file, and score files -> verdicts."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from deepval.cli import options, terminal
from deepval.errors import InputError

Format = Literal["console", "csv", "markdown", "latex", "json"]
KEPT = (
    "costs",
    "modes",
    "units",
    "missing",
    "column",
    "losses",
    "rewards",
    "sep",
    "decimal",
)
"""Options that other commands on the same files need too."""
MOST_ROWS = 200
"""A longer table is summarised on the console."""


def evaluate(
    values: options.Values,
    /,
    *,
    scores: options.ScoreFiles = (),
    subject: options.SubjectOptions = options.SUBJECT_DEFAULTS,
    budgets: options.ChargedBudgets = options.CHARGED_DEFAULTS,
    draws: options.DrawOptions = options.DRAWS_DEFAULTS,
    calibrate: options.Calibration = None,
    by: Annotated[tuple[str, ...], Parameter(group=options.TABLES)] = (),
    memory: Annotated[str | None, Parameter(group=options.SUBJECT)] = None,
    simultaneous: Annotated[bool, Parameter(group=options.INTERVALS)] = False,
    curve: Annotated[int, options.whole(0, 10_000, group=options.TABLES)] = 0,
    thresholds: Annotated[bool, Parameter(group=options.TABLES)] = False,
    apgr: Annotated[bool, Parameter(group=options.TABLES)] = False,
    terms: Annotated[Path | None, Parameter(group=options.SUBJECT)] = None,
    weight: Annotated[tuple[str, ...], Parameter(group=options.SUBJECT)] = (),
    form: Annotated[
        Format | None, Parameter(name="--format", group=options.OUTPUT)
    ] = None,
    json: options.Json = False,
    out: options.Out = None,
    whole: Annotated[bool, Parameter(name="--all", group=options.OUTPUT)] = False,
) -> None:
    """Judge allocators: gain, intervals, a verdict against random.

    nDG is the normalized decision gain: the share of the oracle's gain. Intervals
    resample units. For a cell, losses, terms, costs and scores come from its folder,
    and the test units are judged; all units if no scores were fitted.

    Example: deepval evaluate values.parquet -s mine.csv -s speed.csv --costs costs.toml
    --out result.json

    Args:
        by: Judge within groups too: COLUMN, or COLUMN:5,10 to cut numbers there.
            Repeatable.
        memory: Memory limit, such as 1.5GB; larger Parquet files are read in pieces. 0:
            always in pieces. Default: DEEPVAL_MEMORY, or most of the free memory.
        simultaneous: Add intervals that hold for all rows together.
        curve: Add budget curves with this many points.
        thresholds: Add score thresholds and escalation rates.
        apgr: Add APGR and call-performance thresholds (RouteLLM's).
        terms: Loss terms (.parquet, .csv) of the inputs, to store in the result.
            Default: the cell's.
        weight: NAME=NUMBER: weight of a loss term. Repeatable.
        form: Output format. Default: console.
        out: Also save the result as JSON.
        whole: Print every row; default: at most 200 rows of a table.
    """
    import deepval
    from deepval.files.writing import check_writable
    from deepval.judging.cases import (
        head_of,
        heads_of,
        judge,
        note_unknown_fits,
        with_note,
    )
    from deepval.judging.out_of_core import refuse
    from deepval.report import FORMS, console
    from deepval.tables.chunks import on_disk

    output_form = options.format_name(form, json=json, usual="console")
    terminal.hold_notes(hold=output_form == "console")
    if simultaneous and draws.number == 0:
        raise InputError(
            "--simultaneous adds intervals, which need draws: leave out --draws 0."
        )
    if out is not None:
        check_writable(out)

    files = options.named_files(scores)
    form_of_files = subject.form
    table_on_disk = on_disk(values, files, memory)
    if table_on_disk is not None and form_of_files.names(
        scores=False
    ) | form_of_files.names(scores=True):
        raise InputError(
            f"{values}: a table that is read in pieces must have our columns "
            f"({table_on_disk.why}): rename them in the file, or give more --memory."
        )

    note = None
    if table_on_disk is None:
        case = subject.case(values)
        scored = case.scores(files)
        calibration_units = None
        if calibrate is not None:
            calibration_units = case.units(options.unit_list(calibrate, case.roles))
        named = options.unit_list(subject.units, case.roles)
        chosen, note = case.judged_units(named, scored, calibration=calibration_units)
        if calibration_units is not None:
            note_unknown_fits(scored)
    else:
        case = head_of(table_on_disk, subject.costs)
        chosen = options.unit_list(subject.units)
        calibration_units = options.unit_list(calibrate)
        scored = heads_of(case, files)
        refuse(table_on_disk, {"--apgr": apgr})

    levels = budgets.charged(case, scored)
    settings: dict[str, Any] = {
        "draws": draws.number,
        "seed": draws.seed,
        "units": chosen,
        "calibration": calibration_units,
        "by": by,
        "missing": subject.missing,
        "missing_costs": case.missing_costs(
            scored, levels, requested=bool(budgets.budget)
        ),
        "simultaneous_intervals": simultaneous,
        "curve_points": curve,
        "thresholds": thresholds,
        "terms": terms or (None if case.cell is None else case.cell.terms),
        "weights": _weights(weight) or None,
        "watch": terminal.watch,
    }
    if table_on_disk is None:
        result = judge(case, scored, levels, command="evaluate", **settings)
    else:
        on_file = replace(table_on_disk, costs=case.table.costs)
        result = deepval.evaluate(
            on_file, files, levels, modes=options.name_list(subject.modes), **settings
        )
    result = with_note(result, note)
    if apgr:
        result = replace(result, recovery=result.apgr())

    if out is not None:
        provenance = replace(result.provenance, files=_named(values, files, subject))
        replace(result, provenance=provenance).save(out)
    if output_form == "console":
        terminal.print_notes(result.warnings)
        most = None if whole else MOST_ROWS
        terminal.write(console.render(result, **terminal.look(), most=most))
    else:
        terminal.write(FORMS[output_form](result))


def _named(
    values: Path, files: Mapping[str, Path], subject: options.SubjectOptions
) -> dict[str, str]:
    """The files as the command line named them, and the options that say how to read
    them, one per line.
    """
    named = {}
    for name, path in files.items():
        named[name] = str(path) if path.stem == name else f"{name}={path}"

    stated = []
    for option in KEPT:
        value = getattr(subject, option)
        if value == getattr(options.SUBJECT_DEFAULTS, option):
            continue
        words = value if isinstance(value, tuple) else (value,)
        stated += [f"--{option}={word}" for word in words]
    return named | {"options": "\n".join(stated), "values": str(values)}


def _weights(texts: tuple[str, ...]) -> dict[str, float]:
    """Weights of loss terms from NAME=NUMBER."""
    from deepval import checks

    weights_by_term = {}
    for text in texts:
        name, _, weight = text.rpartition("=")
        if not name:
            raise InputError(f"--weight must be NAME=NUMBER; found {text!r}.")
        weights_by_term[name] = checks.number_in(weight, "--weight NAME=NUMBER")
    return weights_by_term
