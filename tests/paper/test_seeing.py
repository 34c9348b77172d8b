"""Rows that cells of a run look at: those of the cell itself, made once for cells that
show the same.
"""

import numpy as np
import pytest

from deepval.deploy.allocators.feature_sets import FEATURE_SETS
from deepval.deploy.fitting import sights_of
from deepval.driving.cells.folder import read_cell
from deepval.paper.stored_files import stored_rows_cell
from small_cells import build_cells

BOXED = ("cheap", "cheap+memory", "detection-list")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two cells that differ in the controller alone."""
    out = build_cells(tmp_path_factory.mktemp("seeing"), units=("scene-00", "scene-01"))
    return out / "braking-monocular", out / "receding-horizon-monocular"


def test_rows_are_those_of_the_cell_and_are_made_once_for_both(folders, tmp_path):
    plain, (one, other) = (
        read_cell(folders[0]),
        (stored_rows_cell(folder, tmp_path) for folder in folders),
    )
    for name in BOXED:
        for found, again, sight in zip(
            sights_of(one), sights_of(other), sights_of(plain), strict=True
        ):
            expected = FEATURE_SETS[name].rows(sight)
            for rows in (
                FEATURE_SETS[name].rows(found),
                FEATURE_SETS[name].rows(again),
            ):
                assert np.array_equal(rows, expected, equal_nan=True)
                assert not rows.flags.writeable
    assert len(list((tmp_path / "kept" / "rows").iterdir())) == len(BOXED)
    # nothing was looked at again
    assert not any("glances" in vars(sight) for sight in sights_of(other))


def test_rows_that_were_damaged_are_made_anew(folders, tmp_path):
    first = [
        FEATURE_SETS["cheap"].rows(sight)
        for sight in sights_of(stored_rows_cell(folders[0], tmp_path))
    ]
    (file,) = (tmp_path / "kept").rglob("rows.npz")
    file.write_bytes(b"no rows")
    again = [
        FEATURE_SETS["cheap"].rows(sight)
        for sight in sights_of(stored_rows_cell(folders[0], tmp_path))
    ]
    assert all(
        np.array_equal(*both, equal_nan=True) for both in zip(first, again, strict=True)
    )
    assert file.read_bytes() != b"no rows"
