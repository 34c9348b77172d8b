"""`deepval evaluate`: a cell or a values file, and score files -> verdicts."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import deepval
from deepval import checks
from deepval.cli import options, terminal
from deepval.cli.commands import option
from deepval.errors import InputError
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

DEFAULTS = options.SubjectOptions()
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
    *,
    scores: options.ScoreFiles = None,
    subject: options.SubjectOptions,
    budgets: options.ChargedBudgets,
    draws: options.DrawOptions,
    calibrate: options.Calibration = None,
    by: Annotated[
        list[str] | None,
        option(
            "--by",
            "Judge within groups too: COLUMN, or COLUMN:5,10 "
            "to cut numbers there. Repeatable.",
            panel=options.MORE,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        option(
            "--memory",
            "Memory limit, such as 1.5GB; larger Parquet files are read in pieces. 0: "
            "always in pieces. Default: DEEPVAL_MEMORY, or most of the free memory.",
            panel=options.SUBJECT,
        ),
    ] = None,
    simultaneous: Annotated[
        bool,
        option(
            "--simultaneous",
            "Add intervals that hold for all rows together.",
            panel=options.INTERVALS,
        ),
    ] = False,
    curve: Annotated[
        int,
        option(
            "--curve",
            "Add budget curves with this many points.",
            within=(0, 10_000),
            panel=options.MORE,
        ),
    ] = 0,
    thresholds: Annotated[
        bool,
        option(
            "--thresholds",
            "Add score thresholds and escalation rates.",
            panel=options.MORE,
        ),
    ] = False,
    apgr: Annotated[
        bool,
        option(
            "--apgr",
            "Add APGR and call-performance thresholds (RouteLLM's).",
            panel=options.MORE,
        ),
    ] = False,
    terms: Annotated[
        Path | None,
        option(
            "--terms",
            "Loss terms (.parquet, .csv) of the inputs, to store in the result. "
            "Default: the cell's.",
            panel=options.SUBJECT,
        ),
    ] = None,
    weight: Annotated[
        list[str] | None,
        option(
            "--weight",
            "NAME=NUMBER: weight of a loss term. Repeatable.",
            panel=options.SUBJECT,
        ),
    ] = None,
    form: Annotated[
        str | None,
        option(
            "--format",
            f"Output format: {', '.join(FORMS)}. Default: console.",
            words=FORMS,
            panel=options.OUTPUT,
        ),
    ] = None,
    json: options.Json = False,
    out: Annotated[
        Path | None,
        option(
            "--out", "Also save the result as JSON.", short="-o", panel=options.OUTPUT
        ),
    ] = None,
    whole: Annotated[
        bool,
        option(
            "--all",
            f"Print every row; default: at most {MOST_ROWS} rows of a table.",
            panel=options.OUTPUT,
        ),
    ] = False,
) -> None:
    """Judge allocators: gain, intervals, a verdict against random.

    nDG is the normalized decision gain: the share of the oracle's gain. Intervals
    resample units. For a cell, losses, terms, costs and scores come from its folder,
    and the test units are judged; all units if no scores were fitted.

    Example: deepval evaluate values.parquet -s mine.csv -s speed.csv --costs costs.toml
    --out result.json
    """
    output_form = options.format_name(
        form, json=json, allowed=tuple(FORMS), usual="console"
    )
    terminal.hold_notes(hold=output_form == "console")
    if simultaneous and draws.number == 0:
        raise InputError(
            "--simultaneous adds intervals, which need draws: leave out --draws 0."
        )
    if out:
        check_writable(out)
    files = options.named_files(scores)
    table_on_disk = on_disk(values, files, memory)
    if table_on_disk is not None and subject.form.names(
        scores=False
    ) | subject.form.names(scores=True):
        raise InputError(
            f"{values}: a table that is read in pieces must have our columns "
            f"({table_on_disk.why}): rename them in the file, or give more --memory."
        )
    case = (
        subject.case(values)
        if table_on_disk is None
        else head_of(table_on_disk, subject.costs)
    )
    note = None
    if table_on_disk is None:
        scored = case.scores(files)
        calibration_units = (
            None
            if calibrate is None
            else case.units(options.unit_list(calibrate, case.roles))
        )
        named = options.unit_list(subject.units, case.roles)
        chosen, note = case.judged_units(named, scored, calibration=calibration_units)
        if calibration_units is not None:
            note_unknown_fits(scored)
    else:
        chosen, calibration_units = (
            options.unit_list(subject.units),
            options.unit_list(calibrate),
        )
        scored = heads_of(case, files)
        refuse(table_on_disk, {"--apgr": apgr})
    levels = budgets.of(case, scored)
    settings: dict[str, Any] = {
        "draws": draws.number,
        "seed": draws.seed,
        "units": chosen,
        "calibration": calibration_units,
        "by": by or (),
        "missing": subject.missing_rule,
        "missing_costs": case.missing_costs(
            scored, levels, requested=bool(budgets.budget)
        ),
        "simultaneous_intervals": simultaneous,
        "curve_points": curve,
        "thresholds": thresholds,
        "terms": terms or (None if case.cell is None else case.cell.terms),
        "weights": _weights(weight) if weight else None,
        "watch": terminal.watch,
    }
    if table_on_disk is None:
        result = judge(
            case,
            scored,
            levels,
            command="evaluate",
            **settings,
        )
    else:
        on_file = replace(table_on_disk, costs=case.table.costs)
        result = deepval.evaluate(
            on_file, files, levels, modes=options.name_list(subject.modes), **settings
        )
    result = with_note(result, note)
    result = replace(result, recovery=result.apgr()) if apgr else result
    if out:
        replace(
            result,
            provenance=replace(result.provenance, files=_named(values, files, subject)),
        ).save(out)
    if output_form == "console":
        terminal.print_notes(result.warnings)
        text = console.render(
            result, **terminal.look(), most=None if whole else MOST_ROWS
        )
    else:
        text = FORMS[output_form](result)
    typer.echo(text, nl=False)


def _named(
    values: Path, files: Mapping[str, Path], subject: options.SubjectOptions
) -> dict[str, str]:
    """The files as the command line named them, and the options that say how to read
    them, one per line.
    """
    scores = {
        name: str(path) if path.stem == name else f"{name}={path}"
        for name, path in files.items()
    }
    own = {
        name: getattr(subject, name)
        for name in KEPT
        if getattr(subject, name) != getattr(DEFAULTS, name)
    }
    words = [
        f"--{name}={word}"
        for name, value in own.items()
        for word in (value if isinstance(value, list) else [value])
    ]
    return scores | {"options": "\n".join(words), "values": str(values)}


def _weights(texts: list[str]) -> dict[str, float]:
    """Weights of loss terms from NAME=NUMBER."""
    weights_by_term = {}
    for text in texts:
        name, _, weight = text.rpartition("=")
        if not name:
            raise InputError(f"--weight must be NAME=NUMBER; found {text!r}.")
        weights_by_term[name] = checks.number_in(weight, "--weight NAME=NUMBER")
    return weights_by_term
