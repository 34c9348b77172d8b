"""ScenarioNet records: lanes as the published planners' reference has them; faults told in a sentence."""

import gzip
import json

import numpy as np
import pytest

from deepval.datasets.logs.scenarionet import lane_map_of, read_record
from shared import shared_data

SCENES = ("0103", "0553", "0757", "0916", "1077", "1100")


def record_file(scene):
    (path,) = shared_data("scenarionet_nuscenes_mini").rglob(f"sd_*scene-{scene}.pkl")
    return path


@pytest.mark.shared
@pytest.mark.parametrize("scene", SCENES)
def test_lanes_are_those_of_the_reference(scene):
    from shapely import Polygon

    record = read_record(record_file(scene))
    lanes = lane_map_of(record).lanes
    with gzip.open(shared_data("planner_reference", "map_lanes.json.gz")) as file:
        reference = json.load(file)[f"scene-{scene}"]
    assert len(reference) > 30
    for key, told in reference.items():
        lane = lanes[key]
        assert lane.connector == told["connector"]
        assert [after for after in lane.successors if after in lanes] == told["successors"]
        assert np.abs(lane.centreline_m - told["centreline"]).max() < 1e-6
        if not lane.connector:
            mine, theirs = Polygon(lane.polygon_m).buffer(0), Polygon(told["polygon"], told["holes"])
            assert mine.symmetric_difference(theirs).area < 1e-3
    assert list(lanes) == [key for key, one in record["map_features"].items() if one["type"].startswith("LANE")]
