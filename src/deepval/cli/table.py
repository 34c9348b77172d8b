"""`deepval table`: a table of the paper, with the figures of cells at hand."""

from pathlib import Path

from deepval.basics.files.writing import check_writable
from deepval.cli import options, terminal
from deepval.cli.analyse import Shown
from deepval.cli.official import EVERY_CORE, EveryCore, check_data
from deepval.cli.terminal import say
from deepval.deploy.allocators import RECIPES, check_recipes
from deepval.deploy.board.cell_builds import WORK
from deepval.deploy.board.tracks import NAMES
from deepval.judge.report import forms
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

SHOWN = Shown()


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
    output: Shown = SHOWN,
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
    """
    analyses = analyses_of(name)
    check_data(data)
    check_writable(work, folder=True)
    if costs is not None:
        read_costs(costs)
    own_names = check_recipes(own)
    if name == HARDWARE:
        _put(output, [hardware_table(costs or BOARD)])
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
    _put(output, tables)


def _put(output: Shown, tables: list[Table]) -> None:
    """Print or write tables; CSV and JSON have a record for each row."""
    if output.chosen == "csv":
        output.put(forms.records_csv(table_records(tables)))
    elif output.chosen == "json":
        output.put(terminal.as_json(table_records(tables)))
    else:
        output.put(output.text_of(tables))
