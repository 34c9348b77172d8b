"""A cell <-> its folder, from which evaluations, fits and reports start.

values.parquet has losses per input and mode with columns to slice by; terms.parquet
actions and loss terms per mode, from which other loss weights recombine; frames.json
drawn frames; view/ the data that an allocator may use; outputs/ objects of the full
mode and of the reference, which it may not; evidence.parquet the data that only labels
and diagnostics may use; split.json the frozen split; costs.toml costs, where there are
some; manifest.json the definition, the SHA-256 of every input and output file, and the
id, which is computed from them. Files are written whole and the manifest last, so a
folder without one is not a cell. The same inputs give the same bytes.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics.errors import InputError
from deepval.basics.files import reading
from deepval.basics.files.canonical import (
    MANIFEST,
    TOP,
    Manifest,
    digest_of,
    json_text,
    plain,
    read_manifest,
    sha256,
)
from deepval.basics.files.reading import check_form
from deepval.basics.files.writing import lock, write_atomically
from deepval.basics.plugins import Code
from deepval.driving.cells.build import Cell
from deepval.driving.cells.explorer import frames_file
from deepval.driving.cells.spec import CellSpec
from deepval.driving.cells.view_files import output_files, read_outputs, read_views
from deepval.driving.evidence import Evidence
from deepval.driving.systems import SYSTEMS, System
from deepval.driving.systems.outcomes import Outcomes
from deepval.driving.views import View
from deepval.driving.world.objects import Outputs
from deepval.judge.cases import JudgedCell
from deepval.judge.tables.columns import Columns, cell_columns, parquet_bytes
from deepval.judge.tables.costs import Costs, check_modes, costs_bytes
from deepval.judge.tables.keys import positions
from deepval.judge.tables.split import Split, read_split
from deepval.judge.tables.terms import weight_columns
from deepval.judge.tables.values import ValueTable, read_values
from deepval.version import __version__


def write(
    cell: Cell, folder: Path | str, *, costs: Path | None = None, pictures: bool = False
) -> Path:
    """Write a cell's folder and return the path of its manifest; the same cell, if
    complete, is left unchanged.
    """
    folder = Path(folder)
    if costs is not None:
        check_modes(costs, cell.table.modes)
    definition = {
        "deepval": __version__,
        "id": cell.id,
        "definition": cell.spec.definition,
    }
    if cell.spec.code:
        definition["code"] = plain(cell.spec.code)
    if "system" in cell.spec.code:
        definition["tolerance"] = cell.table.tolerance
    files = {
        "values.parquet": _values_file(cell.table),
        "terms.parquet": _terms_file(cell.outcomes),
        "frames.json": frames_file(cell.spec, cell.shown),
        "evidence.parquet": parquet_bytes({"input": cell.table.input, **cell.evidence}),
        "split.json": cell.spec.roles.to_json().encode(),
        **cell.view_files,
        **output_files([part.outputs for part in cell.parts]),
    }
    if pictures:
        files |= cell.shared.picture_files
    if costs is not None:
        files["costs.toml"] = costs_bytes(costs)
    content = definition | {
        "files": {name: sha256(data) for name, data in files.items()}
    }
    text = json_text(content, sort_keys=True, ensure_ascii=True)
    with lock(
        folder,
        f"{folder}: another process is building a cell there; wait for it, or give "
        "another folder.",
    ):
        _replace(folder, files, text)
    return folder / MANIFEST


def _replace(folder: Path, files: Mapping[str, bytes], text: str) -> None:
    """Replace the cell in a folder: files of the old cell that the new one does not
    have are removed, other files stay.

    The old manifest stays until the new one is written, so every reader refuses a
    mixture of both cells.
    """
    try:
        old = read_manifest(folder)
        if reading.content(folder / MANIFEST) == text.encode():
            old.check()
            return
    except InputError:
        old = None
    for name, data in files.items():
        write_atomically(folder / name, data, make_folder=True)
    for name in [] if old is None else old.files:
        if name not in files and (
            name in TOP or (name.startswith(("view/", "outputs/")) and ".." not in name)
        ):
            # a file that cannot be removed is harmless: the new manifest does not name
            # it
            with suppress(OSError):
                (folder / name).unlink()
                (folder / name).parent.rmdir()
    write_atomically(folder / MANIFEST, text)


@dataclass(frozen=True)
class BuiltCell(JudgedCell):
    """A cell read back from its folder; files are loaded at first use.

    Attributes:
        manifest: Definition and file hashes; a file that differs from its hash is
            refused.
        digest: SHA-256 of its files.
        computed: What later steps compute from its files once, by name (`sights_of` in
            `fitting`); it belongs to this object and is not part of the cell.
    """

    manifest: Manifest
    digest: str = field(repr=False)
    computed: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"BuiltCell({str(self.folder)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process reads the cell from its folder once, and refuses it if it
        differs from this one.
        """
        return _cell_again, (self.folder.absolute(), self.digest)

    @property
    def folder(self) -> Path:
        """Folder of the cell."""
        return self.manifest.folder

    @property
    def id(self) -> str:
        """The cell's id."""
        return self.manifest.id

    @property
    def provenance(self) -> dict[str, str | None]:
        """What every result on the cell states: its id, and the SHA-256 of its
        split.
        """
        return {"cell": self.id, "split": self.split.digest}

    @property
    def definition(self) -> Mapping[str, Any]:
        """Everything that the cell depends on."""
        return self.manifest.definition

    @cached_property
    def spec(self) -> CellSpec:
        """The cell's specification."""
        spec = CellSpec.from_definition(self.definition, self.table.modes)
        if not self.code:
            return spec
        # a name that a user's own system has is not looked up among deepval's
        rule = None if "system" in self.code else spec.rule
        return replace(spec, code=self.code, rule=rule)

    @cached_property
    def code(self) -> Mapping[str, Code]:
        """The user's own code behind the cell, by what it is: recorded, not loaded."""
        return check_form(
            dict[str, Code], self.manifest.code, f"the code of {self.folder}"
        )

    @cached_property
    def table(self) -> ValueTable:
        """The losses, with costs where the cell has some."""
        table = read_values(
            cell_columns(self.manifest, "values.parquet"), costs=self._costs
        )
        table = replace(table, nouns=("frame", self._unit_noun))
        return replace(table, tolerance=self._tolerance)

    @property
    def _tolerance(self) -> float:
        """Decision values up to this size count as no change."""
        if self.manifest.tolerance is not None:
            return self.manifest.tolerance
        # No error here for a manifest without a system: `spec` refuses it with a full
        # message.
        system = self.definition.get("system")
        name = str(system.get("name")) if isinstance(system, Mapping) else ""
        return SYSTEMS[name].tolerance if name in SYSTEMS else System.tolerance

    @property
    def _unit_noun(self) -> str:
        """What a reader calls a unit of the data set."""
        dataset = self.definition.get("dataset")
        name = dataset.get("name") if isinstance(dataset, Mapping) else None
        return "drive" if name == "kitti" else "scene"

    @cached_property
    def terms(self) -> Columns:
        """Actions and loss terms behind the losses."""
        return cell_columns(self.manifest, "terms.parquet")

    @cached_property
    def _costs(self) -> Costs | None:
        name = "costs.toml"
        return (
            Costs.of_file(self.manifest.content(name), str(self.folder / name))
            if name in self.manifest.files
            else None
        )

    @property
    def listed(self) -> ValueTable:
        """The table with every unit of the split in its list, so that all cells of a
        data set share their draws.
        """
        return self.table.with_units(self.split.units)

    @cached_property
    def split(self) -> Split:
        """The frozen split of its units."""
        return read_split(
            self.folder / "split.json", self.manifest.content("split.json")
        )

    @cached_property
    def views(self) -> tuple[View, ...]:
        """The data that an allocator may use, unit by unit."""
        return read_views(self.manifest)

    @cached_property
    def outputs(self) -> tuple[Outputs, ...]:
        """The objects of the most expensive mode and of the reference, unit by unit as
        in `views`.
        """
        return read_outputs(self.manifest, [len(view) for view in self.views])

    @cached_property
    def evidence(self) -> Evidence:
        """The data that only labels and diagnostics may use."""
        columns = cell_columns(self.manifest, "evidence.parquet")
        columns.require("input")
        rows = positions(self.table.input, columns.ids("input"))
        if (rows < 0).any():
            raise InputError(
                f"{columns.source}: must have a "
                f"row for every input; {self.table.input[rows < 0][0]} has none."
            )
        numbers = columns.of_types(
            numbers=[name for name in columns.data if name != "input"]
        )
        return Evidence(
            self.table, columns={name: column[rows] for name, column in numbers.items()}
        )


def read_cell(folder: Path | str) -> BuiltCell:
    """The cell in a folder; all files must be there, unchanged since `deepval build`
    wrote them.
    """
    manifest = read_manifest(Path(folder))
    manifest.check()
    return BuiltCell(manifest, digest_of(manifest.files))


@lru_cache(maxsize=1)
def _cell_again(folder: Path, digest: str) -> BuiltCell:
    cell = read_cell(folder)
    if cell.digest != digest:
        raise InputError(
            f"{folder}: the cell must stay as it is while it is worked on; it was "
            "built anew: run again."
        )
    return cell


def _values_file(table: ValueTable) -> bytes:
    columns: dict[str, Any] = {"unit": table.unit_ids[table.unit], "input": table.input}
    if table.order is not None:
        columns["order"] = table.order.astype(np.int64)
    columns |= {
        f"loss_{mode}": table.losses[:, m] for m, mode in enumerate(table.modes)
    }
    return parquet_bytes(columns | dict(table.attributes))


def _terms_file(outcomes: Outcomes) -> bytes:
    columns: dict[str, Any] = {"input": outcomes.input}
    for m, mode in enumerate(outcomes.modes):
        columns |= {
            f"{name}_{mode}": column[:, m] for name, column in outcomes.columns.items()
        }
        columns |= {
            f"term_{name}_{mode}": term[:, m] for name, term in outcomes.terms.items()
        }
    free = [
        name
        for name in outcomes.terms
        if {name, f"{name}_weight"} & outcomes.system.loss_fields
    ]
    return parquet_bytes(
        columns | weight_columns(outcomes.system.weights, free, len(outcomes.input))
    )
