"""Analyses of variants: what they show of a cell as it was built is what the cell
itself shows; 25 pairs are 25.
"""

import pytest

from deepval.driving.cells.sources import located
from deepval.paper.analyses import operating_points, persistence, sensitivity, signs
from small_cells import build_cells, read_cells
from tidy_rows import flat_rows, study_cells

# few units, to be quick
pytestmark = pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
HARM = (
    "affected",
    "harmed",
    "harm_rate",
    "harm_ratio",
    "harm_ratio_lo",
    "harm_ratio_hi",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = build_cells(tmp_path_factory.mktemp("cells"), systems=("braking",))
    cells = read_cells(folder / "braking-monocular")
    (own,) = flat_rows(signs.SIGNS, study_cells(cells), draws="exact")
    return cells, {name: located(cell) for name, cell in cells.items()}, own


def harm(row):
    return [getattr(row, name) for name in HARM]


def test_weights_of_the_cell_itself_give_its_own_harm(world):
    cells, specs, own = world
    rows = flat_rows(
        sensitivity.SENSITIVITY, study_cells(cells, located=specs), draws="exact"
    )
    mine = [row for row in rows if row.own]
    assert {row.constant for row in mine} == {row.constant for row in rows}
    for row in mine:
        assert harm(row) == pytest.approx(harm(own))
    assert any(harm(row) != harm(own) for row in rows if not row.own)


def test_without_the_filter_a_cell_is_as_it_was_built(world):
    cells, specs, own = world
    without, filtered = flat_rows(
        persistence.PERSISTENCE, study_cells(cells, located=specs), draws="exact"
    )
    assert (without.persistence, filtered.persistence) == (False, True)
    assert harm(without) == pytest.approx(harm(own))
    assert 0 < filtered.dropped < filtered.detections


def test_the_shared_threshold_is_the_cell_as_it_was_built_and_there_are_25_pairs(world):
    cells, specs, own = world
    rows = flat_rows(
        operating_points.OPERATING_POINTS,
        study_cells(cells, located=specs),
        with_tuned=False,
        draws="exact",
    )
    schemes = [row.scheme for row in rows]
    assert schemes.count("pair") == 25
    for row in rows:
        if row.scheme in ("as built", "S0"):
            assert harm(row) == pytest.approx(harm(own))
