"""The synthetic world lies in the paper's regime, and says so beside the paper's
figures.
"""

import runpy
import warnings

import pytest

from deepval.basics.errors import InputWarning
from deepval.driving.cells import build, sources
from project import ROOT

TOOL = runpy.run_path(str(ROOT / "studies" / "synthetic_regime.py"))


def tables(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        world = sources.synthetic(seed=seed)
        cells = build.cells(
            world,
            geometries=("monocular", "oracle"),
            systems=("braking", "receding-horizon"),
        )
        return {(c.spec.system, c.spec.geometry): c.table for c in cells}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.slow
def test_the_default_world_lies_in_the_papers_regime(seed):
    found = {cell: TOOL["regime"](table) for cell, table in tables(seed).items()}
    deployed, oracle = found["braking", "monocular"], found["braking", "oracle"]
    assert 0.03 <= deployed.affected <= 0.25
    assert 0.25 <= deployed.harmed <= 0.55
    assert oracle.harmed < deployed.harmed
    assert oracle.harm_ratio < deployed.harm_ratio
    horizon, known = (
        found["receding-horizon", "monocular"],
        found["receding-horizon", "oracle"],
    )
    assert known.harmed < horizon.harmed
    assert known.harm_ratio < horizon.harm_ratio
    for one in found.values():
        assert one.all_full < one.oracle_20
        assert 0 < one.top_unit < 1
