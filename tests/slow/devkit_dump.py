"""Run in the devkit's own environment: tables -> what the devkit says of every
keyframe, as JSON on standard output.
"""

import json
import sys
from pathlib import Path

import numpy as np
from nuscenes.eval.detection.utils import category_to_detection_name
from nuscenes.nuscenes import NuScenes
from pyquaternion import Quaternion

root = Path(sys.argv[1])
nusc = NuScenes(sys.argv[2], str(root), verbose=False)
told = {}
for sample in nusc.sample:
    sweep = nusc.get("sample_data", sample["data"]["LIDAR_TOP"])
    pose = nusc.get("ego_pose", sweep["ego_pose_token"])
    boxes = []
    for token in sample["anns"]:
        row = nusc.get("sample_annotation", token)
        name = category_to_detection_name(row["category_name"])
        if name is None or row["num_lidar_pts"] + row["num_radar_pts"] == 0:
            continue
        box = nusc.get_box(token)
        box.velocity = nusc.box_velocity(token)
        box.translate(-np.array(pose["translation"]))
        box.rotate(Quaternion(pose["rotation"]).inverse)
        # half way up
        corners = (
            box.corners()[:2, [2, 3, 7, 6]] + box.corners()[:2, [1, 0, 4, 5]]
        ).T / 2
        boxes.append(
            {
                "name": name,
                "corners": corners.tolist(),
                "velocity": box.velocity[:2].tolist(),
            }
        )
    told[sample["token"]] = boxes
json.dump(told, sys.stdout)
