"""Folders of small cells of the synthetic world, and what analyses take of them."""

from pathlib import Path

from deepval.driving.cells import folder, sources
from deepval.driving.cells.build import built
from deepval.driving.cells.folder import BuiltCell, read_cell
from deepval.driving.cells.spec import specs
from worlds import quietly

UNITS = ("scene-00", "scene-01", "scene-02", "scene-03")
SYSTEMS = ("braking", "receding-horizon")


def small_specs(*, systems=SYSTEMS, geometries=("monocular",), units=UNITS):
    """What the cells are, with the data set at hand."""
    return specs(sources.synthetic(units=units), systems=systems, geometries=geometries)


def build_cells(out: Path, **options) -> Path:
    """The folder, with the cells built in it."""
    for cell in quietly(lambda: list(built(small_specs(**options)))):
        folder.write(cell, out / f"{cell.spec.system}-{cell.spec.geometry}")
    return out


def read_cells(*folders: Path) -> dict[str, BuiltCell]:
    """The cells in folders, by name."""
    return {path.name: read_cell(path) for path in folders}
