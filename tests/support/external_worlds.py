"""Folders of made logs in the schema of each source, several units each: the same
drives to build cells from.
"""

import pickle
from pathlib import Path
from unittest import mock

from test_scenarionet import made_record

import nuplan_files

UNITS = 3
STEPS = 46
"""Ten steps a second: two states have 4 s ahead."""


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


WORLDS = {
    "nuplan": nuplan,
    "scenarionet": scenarionet,
}
