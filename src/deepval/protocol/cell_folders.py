"""Folders made by `deepval build` -> cells to judge submissions on: losses, split, costs and their track."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from deepval.cells.folder import BuiltCell, read_cell
from deepval.cells.splits import Split, split
from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import digest_of, toml_content
from deepval.protocol.official import Likeness, likeness
from deepval.protocol.tracks import TrackCell
from deepval.tables.values import ValueTable

COSTS = "costs.toml"
LOCAL = "local"
"""The track of cells that no track file describes, and the profile of costs without a name."""


@dataclass(frozen=True, eq=False)
class TrackedCell:
    """A cell on disk as the protocol sees it.

    Attributes:
        name: Its folder's name: what a submission's score file is called.
        built: The cell itself.
        profile: Name of its cost profile, None where costs are unknown.
        likeness: The track's cell that it is called after and how it differs from it, None where no track has one.
    """

    name: str
    built: BuiltCell = field(repr=False)
    profile: str | None
    likeness: Likeness | None = field(repr=False)

    @property
    def id(self) -> str:
        """Its id, which rests on the hashes of everything that went in."""
        return self.built.id

    @property
    def digest(self) -> str:
        """SHA-256 of its files."""
        return self.built.digest

    @property
    def table(self) -> ValueTable:
        """Losses of all units, with costs where known."""
        return self.built.table

    @property
    def split(self) -> Split:
        """Training, validation and test units."""
        return self.built.split

    @property
    def official(self) -> TrackCell | None:
        """The track's cell that it is, None where it is none."""
        return None if self.likeness is None or self.likeness.differences else self.likeness.cell

    @property
    def track(self) -> str:
        """Name of its track."""
        return LOCAL if self.official is None else self.official.track

    @cached_property
    def scored(self) -> ValueTable:
        """The inputs that a submission must score: those of validation and test units."""
        return self.built.listed.restrict([*self.split.validation, *self.split.test])


def read_cells(folder: Path | str) -> dict[str, TrackedCell]:
    """Every cell in a folder of cell folders, or of folders of them (then named outer-inner), sorted by name."""
    folder = Path(folder)
    if not reading.is_folder(folder):
        raise InputError(f"{folder}: must be a folder of cells made by `deepval build`; there is no such folder.")
    manifests = [*reading.matching(folder, "*/manifest.json"), *reading.matching(folder, "*/*/manifest.json")]
    found: dict[str, TrackedCell] = {}
    for manifest in sorted(manifests):
        name = "-".join(manifest.parent.relative_to(folder).parts)
        if name in found:
            raise InputError(f"{folder}: cells need different names; two are called {name!r}. Rename a folder.")
        found[name] = _tracked(manifest.parent, name)
    if not found:
        raise InputError(f"{folder}: must hold folders made by `deepval build`; no manifest.json lies in any.")
    return dict(sorted(found.items()))


def _tracked(folder: Path, name: str) -> TrackedCell:
    built = read_cell(folder)
    told = toml_content(built.manifest.content(COSTS), folder / COSTS) if COSTS in built.manifest.files else None
    profile = None if told is None else told.get("profile", LOCAL)
    if not isinstance(profile, str | None):
        raise InputError(f"{folder / COSTS}: 'profile' must be a name; found {profile!r}.")
    like = likeness(built.spec, told)
    if like is not None and not like.differences:
        like = Likeness(like.cell, tuple(_altered(built)))
    return TrackedCell(name, built, profile, like)


def _altered(built: BuiltCell) -> Iterator[str]:
    """Where a manifest or a split does not follow from what the cell says that it rests on."""
    if not built.id.endswith(digest_of(built.definition)[:12]):
        yield "its id must be the hash of its definition; found another"
    if built.split != split(built.split.dataset, built.definition["dataset"]["units"]):
        yield "its split must be the frozen one; found another"
