"""Every source under both pairs of modes, by both planners and losses, made logs and
the real ones.
"""

import pytest
from test_external_build import PAIRS, SYSTEMS, built, cells, check_cell, check_cells

from external_worlds import WORLDS
from shared import shared_data


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
@pytest.mark.parametrize("name", WORLDS)
def test_every_source_goes_the_same_way(name, pair):
    folders, said = cells(name, pair)
    check_cells(folders, said, fits=name in ("waymo", "scenarionet", "commonroad"))
    for folder in folders.values():
        check_cell(folder, fits=name in ("waymo", "scenarionet", "commonroad"))


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
def test_the_real_argoverse_scenario_goes_the_same_way(pair, tmp_path):
    said = built("argoverse2", shared_data("argoverse2"), pair, tmp_path)
    check_cells(
        {system: tmp_path / f"{system}-tracks" for system in SYSTEMS}, said, fits=False
    )
