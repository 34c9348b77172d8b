"""A built cell and its costs -> the track's cell that it is, or in which points it is another.

A cell is official iff its specification equals that of a track's cell and its costs are the track's: data set, hashes
of its files, modes with the hashes of their detections, thresholds, classes and kind of scores, geometry, persistence,
the system with its constants. A name proves nothing. Cells of a track that publishes no hashes are never official.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from deepval.cells.spec import CellSpec, unlike
from deepval.protocol.tracks import TrackCell, read_tracks


class Likeness(NamedTuple):
    """The track's cell that a built one is called after, and in which points it is another."""

    cell: TrackCell
    differences: tuple[str, ...]


def likeness(spec: CellSpec, costs: Mapping[str, Any] | None) -> Likeness | None:
    """The track's cell that a built one is, or else the namesake it comes nearest to; None where it has none.

    Args:
        spec: What the built cell says of itself.
        costs: The content of its costs file, None where it has none.
    """
    namesakes = [cell for track in read_tracks() for cell in track.cells if cell.spec.name == spec.name]
    told = [Likeness(cell, differences(cell, spec, costs)) for cell in namesakes]
    return min(told, key=lambda item: len(item.differences), default=None)


def differences(cell: TrackCell, spec: CellSpec, costs: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Every point in which a built cell is not a track's, one phrase each."""
    if not cell.published:
        return (f"track {cell.track} publishes no hashes of its files, so that no cell can be shown to be its own",)
    loss = unlike({"loss": cell.definition["loss"]}, {"loss": None})
    return (*cell.spec.differences(spec), *loss, *unlike({"costs": cell.costs}, {"costs": costs}))
