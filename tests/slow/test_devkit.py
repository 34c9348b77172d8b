"""Our reader of nuScenes tables against the devkit's, which has an environment of its
own (`make .venv/devkit`).
"""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from deepval.basics.errors import InputWarning
from deepval.driving.datasets.nuscenes import NuScenes
from shared import shared_data

PYTHON = Path(sys.prefix) / "devkit" / "bin" / "python"


@pytest.mark.slow
@pytest.mark.shared
def test_every_annotation_of_mini_lies_where_the_devkit_has_it():
    if not PYTHON.exists():
        pytest.skip(
            "the nuScenes devkit is not installed in its own environment: "
            "run `make .venv/devkit`"
        )
    root = shared_data("nuscenes")
    script = Path(__file__).with_name("devkit_dump.py")
    told = json.loads(
        subprocess.run(
            [PYTHON, script, root, "v1.0-mini"], check=True, capture_output=True
        ).stdout
    )
    mini, compared = NuScenes(root), 0
    for unit in mini.unit_ids():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            scene, truth = mini.read_unit(unit)
        for frame, token in enumerate(scene.frame_ids.tolist()):
            here, boxes = truth.objects.at(frame), told[token]
            assert here.cls.tolist() == [box["name"] for box in boxes]
            if boxes:
                theirs = np.array([box["corners"] for box in boxes])
                assert np.abs(here.middle_m - theirs.mean(axis=1)).max() < 1e-9
                away = np.linalg.norm(
                    here.corners_m[:, :, None] - theirs[:, None], axis=-1
                )
                # theirs lean with the ego's roll and pitch, ours stand upright
                assert away.min(axis=2).max() < 0.02
                velocity = np.array([box["velocity"] for box in boxes], float)
                np.testing.assert_allclose(here.velocity_mps, velocity, atol=1e-4)
            compared += len(boxes)
    assert compared > 15_000
