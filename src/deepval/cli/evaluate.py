"""`deepval evaluate`: a cell or a values file, and score files -> verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from deepval.basics.errors import InputError
from deepval.cli import options, terminal

if TYPE_CHECKING:
    from deepval.judge.allowances import Budget
    from deepval.judge.cases import EvaluationData
    from deepval.judge.diagnosis import Diagnosis
    from deepval.judge.results import Result
    from deepval.judge.tables.scores import Scores

KEPT = ("costs", "modes", "units", "missing")
"""Options that other commands on the same files need too."""


def evaluate(
    values: options.Values,
    /,
    *,
    scores: options.ScoreFiles = (),
    subject: options.SubjectOptions = options.SUBJECT_DEFAULTS,
    budgets: options.ChargedBudgets = options.CHARGED_DEFAULTS,
    draws: options.DrawOptions = options.DRAWS_DEFAULTS,
    own: Annotated[tuple[str, ...], Parameter(group=options.SUBJECT)] = (),
    keep: Annotated[str | None, Parameter(group=options.BUDGETS)] = None,
    at_least: Annotated[str | None, Parameter(group=options.BUDGETS)] = None,
    table_by: options.TableBy = (),
    calibrate: options.Calibration = None,
    by: Annotated[tuple[str, ...], Parameter(group=options.TABLES)] = (),
    apgr: Annotated[bool, Parameter(group=options.TABLES)] = False,
    diagnose: Annotated[bool, Parameter(group=options.TABLES)] = False,
    form: Annotated[
        options.Format, Parameter(name="--format", group=options.OUTPUT)
    ] = "text",
    out: options.Out = None,
    whole: Annotated[bool, Parameter(name="--all", group=options.OUTPUT)] = False,
    highlight: Annotated[str | None, Parameter(group=options.OUTPUT)] = None,
) -> None:
    """An allocator is worth running if it gains more than the best choice that spends
    as much without looking at the inputs. Without scores: whether the dearer mode
    helps, and where. Intervals resample units. For a cell, losses, terms, costs and
    scores come from its folder, and the test units are judged; all units if no scores
    were fitted.

    Example: deepval evaluate values.parquet -s mine.csv -s speed.csv --costs costs.toml
    --out result.json

    Args:
        own: Your own allocators: only these are recommended, others are compared.
            Repeatable. Default: all.
        keep: Name the cheapest option that is shown to keep this share of the dearest
            mode's quality, such as 99%; of losses, of what it gains.
        at_least: The same for a quality per input, such as 0.83, or for that of a mode:
            MODE or MODE-1pt (a point is 0.01).
        by: Judge within groups too: COLUMN, or COLUMN:5,10 to cut numbers there.
            Repeatable.
        apgr: Add APGR and call-performance thresholds (RouteLLM's).
        diagnose: Add what the data can show: does the budget bind, do ties or single
            units decide, how many units are enough.
        form: Output format.
        out: Also save the result as JSON, with the curves of its picture.
        whole: Print every table; default: the answer and what it rests on.
        highlight: Allocator whose row comes first, instead of the recommended one.
    """
    import deepval
    from deepval.judge.cases import (
        head_of,
        heads_of,
        judge,
        note_unknown_fits,
        with_note,
    )
    from deepval.judge.report.answers import check_highlight
    from deepval.judge.tables.chunks import on_disk

    terminal.hold_notes(hold=form == "text")
    if diagnose and form not in ("text", "json"):
        raise InputError(
            "--diagnose is printed on the console or as JSON: leave out --format."
        )
    if out is not None:
        from deepval.basics.files.writing import check_writable

        check_writable(out)

    files = options.score_files(scores)
    table_on_disk = on_disk(values, files, None)

    note = None
    if table_on_disk is None:
        case = subject.case(values)
        scored = case.scores(files, needed=False)
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
        from deepval.judge.out_of_core import refuse

        refuse(table_on_disk, {"--apgr": apgr, "--diagnose": diagnose})

    levels = budgets.of(case, scored)
    settings: dict[str, Any] = {
        "draws": draws.number,
        "seed": draws.seed,
        "units": chosen,
        "calibration": calibration_units,
        "by": by,
        "own": own,
        "table_by": table_by,
        "keep": keep,
        "at_least": at_least,
        "missing": subject.missing,
        "missing_costs": case.missing_costs(
            scored, levels, requested=bool(budgets.budget)
        ),
        "terms": None if case.cell is None else case.cell.terms,
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
    diagnosis = None
    if diagnose:
        diagnosis = _diagnosis(case, scored, levels, settings)

    check_highlight([result], highlight)
    named_files = _named(values, files, subject)
    provenance = replace(result.provenance, files=named_files)
    named_result = replace(result, provenance=provenance)
    if out is not None:
        # The page of a saved result then has the same picture as that of a fresh one.
        named_result.with_picture().save(out)
    if form == "text":
        _print_text(named_result, diagnosis, whole=whole, highlight=highlight)
    else:
        _print(form, result, diagnosis)


def _print(form: str, result: "Result", diagnosis: "Diagnosis | None") -> None:
    """The result for a program or a document."""
    from deepval.basics.files.canonical import plain

    if diagnosis is not None:
        content = result.to_dict() | {"diagnosis": plain(dict(diagnosis))}
        terminal.print_json(content)
    elif form == "json":
        terminal.write(result.to_json())
    else:
        from deepval.judge.report.forms import FORMS

        terminal.write(FORMS[form](result))


def _print_text(
    result: "Result",
    diagnosis: "Diagnosis | None",
    *,
    whole: bool,
    highlight: str | None,
) -> None:
    """The answer, or all tables; then what the data can show."""
    from deepval.judge.report.answers import Typed, render_answer

    look = terminal.look()
    if whole:
        terminal.print_notes(result.warnings)
        from deepval.judge.report import console

        terminal.write(console.render(result, **look))
    else:
        typed = Typed.of(result)
        text = render_answer(result, **look, typed=typed, highlight=highlight)
        terminal.write(text)
        # Only the tables have the notes, too.
        terminal.print_notes()
    if diagnosis is not None:
        from deepval.judge.report.tables.diagnosis import (
            diagnosis_sentence,
            diagnosis_tables,
        )

        terminal.say(diagnosis_sentence(diagnosis))
        terminal.print_tables(list(diagnosis_tables(diagnosis)))


def _diagnosis(
    case: "EvaluationData",
    scored: "Mapping[str, Scores]",
    levels: "Sequence[Budget]",
    settings: Mapping[str, Any],
) -> "Diagnosis":
    """What the data can show, over the same units."""
    from deepval.judge import diagnosis

    shared = ("units", "draws", "seed", "missing", "missing_costs", "watch")
    return diagnosis.diagnose(
        case.table,
        scored,
        levels,
        **{name: settings[name] for name in shared},
    )


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
    if subject.cheap_always_runs:
        stated.append("--cheap-always-runs")
    return named | {"options": "\n".join(stated), "values": str(values)}
