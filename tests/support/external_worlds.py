"""Folders of made logs in the schema of each source, several units each: the same
drives to build cells from.
"""

import pickle
from pathlib import Path
from unittest import mock

from test_scenarionet import made_record

import argoverse_files
import commonroad_files
import nuplan_files
import waymo_files

UNITS = 3
STEPS = 46
"""Ten steps a second: two states have 4 s ahead."""


def waymo(root: Path) -> Path:
    """Scenarios that differ in where the other car is parked; the light is red in the
    first only.
    """
    for number in range(UNITS):
        message = waymo_files.scenario() | {"scenarioId": f"w{number}"}
        for state in message["tracks"][0]["states"]:
            state |= {"centerX": 38.0 + number, "velocityX": 0.0}
        if number:
            del message["dynamicMapStates"]
        for part in (message, *message["tracks"]):
            part |= {
                key: part[key][:STEPS]
                for key in ("timestampsSeconds", "dynamicMapStates", "states")
                if key in part
            }
        waymo_files.write(root, message, f"w{number}")
    return root


def nuplan(root: Path) -> Path:
    """One log of one scenario: 24 states."""
    with mock.patch.object(nuplan_files, "SCENES", (130,)):
        return nuplan_files.write_folder(root)


def nuplan_logs(root: Path) -> Path:
    """Three logs without cameras, the last of two scenarios; they differ in name, so
    that profiles draw differently.
    """
    nuplan(root)
    first = next(root.rglob("*.db"))
    for number, scenes in enumerate(((130,), (130, 130)), start=1):
        with mock.patch.object(nuplan_files, "SCENES", scenes):
            nuplan_files.write_log(
                first.with_name(f"{first.stem}{number}.db"), camera=False
            )
    return root


def scenarionet(root: Path) -> Path:
    """Records that differ in how far ahead the bus drives."""
    root.mkdir(parents=True)
    for number in range(UNITS):
        record = made_record(steps=STEPS) | {"id": f"made-{number}"}
        record["tracks"]["bus"]["state"]["position"][:, 0] -= 3.0 * number
        (root / f"sd_other_v1_made-{number}.pkl").write_bytes(
            pickle.dumps(record, protocol=4)
        )
    return root


def argoverse2(root: Path) -> Path:
    """One scenario: a car stands ahead, a pedestrian crosses."""
    argoverse_files.write_scenario(root, steps=STEPS)
    return root


def commonroad(root: Path) -> Path:
    """Scenarios that differ in where the other car is parked."""
    for number in range(UNITS):
        content = commonroad_files.parts(steps=STEPS)
        content["obstacles"] = content["obstacles"].replace(
            "<x>50</x>", f"<x>{50 + number}</x>"
        )
        commonroad_files.write(root, commonroad_files.document(content), f"c{number}")
    return root


WORLDS = {
    "commonroad": commonroad,
    "waymo": waymo,
    "nuplan": nuplan,
    "scenarionet": scenarionet,
    "argoverse2": argoverse2,
}
