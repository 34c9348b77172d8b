"""`deepval table`: a table of the paper, with the figures of cells at hand."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from deepval.basics.files.writing import check_writable, write_atomically
from deepval.cli import options, terminal
from deepval.cli.official import EVERY_CORE, EveryCore, check_data
from deepval.cli.terminal import say
from deepval.deploy.allocators import RECIPES, check_recipes
from deepval.deploy.board.cell_builds import WORK
from deepval.deploy.board.tracks import NAMES
from deepval.judge.report import forms
from deepval.judge.report.console import render_tables
from deepval.judge.report.text_tables import Table
from deepval.judge.tables.costs import read_costs
from deepval.paper.published_figures import records_of
from deepval.paper.run import run
from deepval.paper.study import BOARD
from deepval.paper.tables import (
    HARDWARE,
    analyses_of,
    hardware_table,
    paper_tables,
    table_records,
)

SUFFIXES = {".md": "markdown", ".csv": "csv", ".tex": "latex", ".json": "json"}


def table(
    name: str,
    cells: tuple[Path, ...] = (),
    /,
    *,
    beside: bool = False,
    own: tuple[str, ...] = (),
    data: options.DataFolder = None,
    work: options.WorkFolder = WORK,
    costs: str | None = None,
    workers: EveryCore = EVERY_CORE,
    form: Annotated[
        options.Format | None, Parameter(name="--format", group=options.OUTPUT)
    ] = None,
    out: options.Out = None,
) -> None:
    """Its rows and columns are those of the paper, in the paper's order; rows of other
    cells follow. What `deepval reproduce` stored in the work folder is read, and only
    what is missing is computed.

    Example: deepval table ceiling kitti-public --data data

    Args:
        name: ceiling, sign, refgeom, heldout-main, heldout, routers, diag-heldout,
            target, calib, power, overhead, external, mech, signagree, robust, losssens,
            or hardware.
        cells: Tracks, cell folders, folders of such, or specifications. Default: all
            tracks.
        beside: Show the interval of each figure and the paper's value beside it, and
            all rows of the paper.
        own: FILE.py:NAME of your own recipe or estimator, in a column behind the
            paper's. Repeatable.
        costs: Costs for cells without costs: a .toml file or a profile.
        form: Output format. Default: by the name of --out, or text.
        out: File to write instead of printing.
    """
    analyses = analyses_of(name)
    check_data(data)
    for path in (work, *(() if out is None else (out,))):
        check_writable(path, folder=path == work)
    if costs is not None:
        read_costs(costs)
    suffix = "" if out is None else out.suffix
    chosen = form or SUFFIXES.get(suffix, "text")
    own_names = check_recipes(own)
    if name == HARDWARE:
        _write(_text([hardware_table(costs or BOARD)], chosen, out), out)
        return
    # Own code is loaded in this process alone.
    if own_names:
        workers = EveryCore(workers=1)
    with workers.start() as map_units, terminal.step_bar() as step:
        done = run(
            list(cells or map(Path, NAMES)),
            work=work,
            data=data,
            costs=costs or BOARD,
            recipes=(*RECIPES, *own_names) if own_names else None,
            analyses=analyses,
            map_units=map_units,
            watch=terminal.watch,
            step=step,
        )
    tables = paper_tables(name, done, records_of(done), beside=beside, own=own_names)
    for note in done.notes:
        say(f"note: {note}", err=True)
    _write(_text(tables, chosen, out), out)


def _write(text: str, out: Path | None) -> None:
    if out is None:
        terminal.write(text)
    else:
        write_atomically(out, text)
        terminal.write(f"Written to {out}\n")


def _text(tables: list[Table], form: str, out: Path | None) -> str:
    if form in ("csv", "json"):
        records = table_records(tables)
        if form == "csv":
            return forms.records_csv(records)
        return terminal.as_json(records)
    if form == "markdown":
        return "\n\n".join(map(forms.table_markdown, tables)) + "\n"
    if form == "latex":
        return "\n\n".join(map(forms.table_latex, tables)) + "\n"
    if out is not None:
        return render_tables(tables, width=terminal.ENDLESS)
    return render_tables(tables, **terminal.look())
