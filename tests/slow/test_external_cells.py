"""Every source under both pairs of modes, by both planners and losses, on made logs."""

import pytest
from test_external_build import PAIRS, cells, check_cell, check_cells

from external_worlds import WORLDS


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
@pytest.mark.parametrize("name", WORLDS)
def test_every_source_goes_the_same_way(name, pair):
    folders, said = cells(name, pair)
    check_cells(folders, said, fits=name == "scenarionet")
    for folder in folders.values():
        check_cell(folder, fits=name == "scenarionet")
