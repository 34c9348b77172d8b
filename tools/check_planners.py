"""Recorded runs of the published planners -> how well ours agree with them, by planner
and branch.

Run: python tools/check_planners.py REFERENCE SCENES [--json] [--every N]. REFERENCE is
a folder of recorded inputs and outputs (planners, planner_summary, pdm_proposals,
idm_leads, keyframes and objects as Parquet, routes.json, pdm_arrays.npz), SCENES a
folder with the ScenarioNet records of its scenes. Exit code 1 if they do not agree.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from deepval.basics.errors import InputError
from deepval.driving.datasets.logs.scenarionet_records import lane_map_of, read_record
from deepval.driving.geometry.vehicle import ZOE
from deepval.driving.planners.idm import Idm, IdmTrajectory
from deepval.driving.planners.observation import (
    BICYCLE,
    PEDESTRIAN,
    STATIC,
    VEHICLE,
    Agents,
    EgoState,
    Situation,
)
from deepval.driving.planners.pdm_closed import (
    PdmClosed,
    PdmTrajectory,
    Proposals,
    proposals_of,
)
from deepval.driving.planners.tracking import HEADING
from deepval.driving.world.lanes import LaneMap

KINDS = {
    "VEHICLE": VEHICLE,
    "PEDESTRIAN": PEDESTRIAN,
    "BICYCLE": BICYCLE,
    "BARRIER": STATIC,
    "TRAFFIC_CONE": STATIC,
}
SAME = 1e-6
SCORES_ALIKE = 0.99
Run = tuple[str, int, str]


class Rows(NamedTuple):
    """Columns of a table, and the rows of each (scene, keyframe, branch)."""

    column: dict[str, np.ndarray]
    rows: dict[Run, np.ndarray]

    def of(self, run: Run, *names: str) -> np.ndarray:
        """Columns of a run, one row each."""
        rows = self.rows.get(run, np.zeros(0, dtype=int))
        return np.stack([self.column[name][rows] for name in names], axis=-1)


def read_rows(
    path: Path, *, planner: str | None = None, order: str | None = None
) -> Rows:
    """A table of the reference, optionally of one planner and with the rows of each run
    sorted.
    """
    table = pq.read_table(path)
    column = {
        name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names
    }
    branch = column.get("branch", np.full(len(table), ""))
    keep = (
        np.ones(len(table), dtype=bool)
        if planner is None
        else column["planner"] == planner
    )
    places = (
        np.arange(len(table))
        if order is None
        else np.argsort(column[order], kind="stable")
    )
    rows = defaultdict(list)
    for row in places[keep[places]].tolist():
        rows[
            str(column["scene"][row]),
            int(column["keyframe_index"][row]),
            str(branch[row]),
        ].append(row)
    return Rows(column, {run: np.array(found) for run, found in rows.items()})


class State(NamedTuple):
    """One keyframe: the situation and what each branch observes."""

    scene: str
    keyframe: int
    situation: Situation
    branches: dict[str, Agents]


def lane_maps(folder: Path, scenes: list[str]) -> Iterator[tuple[str, LaneMap]]:
    """The map of each scene, read from the record whose file name ends with the
    scene's.
    """
    for scene in scenes:
        found = sorted(
            path for path in folder.rglob("*.pkl") if path.stem.endswith(scene)
        )
        if not found:
            raise InputError(
                f"{folder} must hold a record of {scene} (*{scene}.pkl); found none."
            )
        yield scene, lane_map_of(read_record(found[0]))


def agents_of(objects: Rows, scene: str, keyframe: int, branch: str) -> Agents:
    """The agents that a branch observes, in input order; branch synth has one box more
    than gt.
    """
    parts = ("gt", "synth") if branch == "synth" else (branch,)
    rows = np.concatenate(
        [
            objects.rows.get((scene, keyframe, part), np.zeros(0, dtype=int))
            for part in parts
        ]
    )
    column = {name: values[rows] for name, values in objects.column.items()}
    return Agents(
        id=column["id"].astype(str),
        kind=np.array([KINDS[kind] for kind in column["type"]], dtype=int),
        pose=np.stack([column[name] for name in ("x", "y", "heading")], axis=1).astype(
            float
        ),
        size_m=np.stack([column[name] for name in ("length", "width")], axis=1).astype(
            float
        ),
        velocity_mps=np.stack([column[name] for name in ("vx", "vy")], axis=1).astype(
            float
        ),
    )


def states(reference: Path, scenes: Path, *, every: int = 1) -> Iterator[State]:
    """All states of a reference, or every N-th state of each scene."""
    routes = json.loads((reference / "routes.json").read_text(encoding="utf-8"))
    ego, objects = (
        read_rows(reference / "keyframes.parquet"),
        read_rows(reference / "objects.parquet", order="n"),
    )
    summary = read_rows(reference / "planner_summary.parquet", planner="pdm")
    branches = defaultdict(list)
    for scene, keyframe, branch in summary.rows:
        branches[scene, keyframe].append(branch)
    for scene, lane_map in lane_maps(scenes, list(routes)):
        route = routes[scene]["route_roadblock_ids"]
        for keyframe in sorted(mine for where, mine in branches if where == scene)[
            ::every
        ]:
            (row,) = ego.of(
                (scene, keyframe, ""),
                "ego_x",
                "ego_y",
                "ego_heading",
                "ego_speed",
                "route_start",
            )
            start = min(int(row[4]), max(len(route) - 2, 0))
            situation = Situation(
                EgoState(row[:3], float(row[3]), ZOE), lane_map, tuple(route[start:])
            )
            seen = {
                branch: agents_of(objects, scene, keyframe, branch)
                for branch in branches[scene, keyframe]
            }
            yield State(scene, keyframe, situation, seen)


class Reference:
    """Outputs of the published planners, to compare ours with."""

    def __init__(self, folder: Path) -> None:
        self.plans = {
            name: read_rows(folder / "planners.parquet", planner=name, order="t_s")
            for name in ("idm", "pdm")
        }
        self.summary = read_rows(folder / "planner_summary.parquet", planner="pdm")
        self.proposals = read_rows(folder / "pdm_proposals.parquet", order="proposal")
        self.leads = read_rows(folder / "idm_leads.parquet", order="step")
        self.arrays = np.load(folder / "pdm_arrays.npz")

    def idm(self, run: Run, plan: IdmTrajectory) -> dict[str, Any]:
        """One run of IDM."""
        ids = self.leads.of(run, "lead_id")[:, 0].astype(str)
        leads = self.leads.of(run, "lead_rel_dist", "lead_v").astype(float)
        return {
            "position_m": self._position_m("idm", run, plan.times_s, plan.pose),
            "same_leads": tuple(ids.tolist()) == plan.lead_id,
            "lead": float(
                np.abs(leads - np.stack([plan.lead_m, plan.lead_mps], axis=1)).max()
            ),
        }

    def pdm(self, run: Run, plan: PdmTrajectory, judged: Proposals) -> dict[str, Any]:
        """One run of PDM-Closed."""
        (theirs,) = self.summary.of(run, "chosen", "emergency_brake", "score_margin")
        key = f"{run[0]}_{run[1]:02d}/sim"
        recorded = run[2] == "gt" and key in self.arrays
        return {
            "decided": bool(theirs[2] > SAME),
            "same_choice": int(theirs[0]) == plan.chosen,
            "position_m": self._position_m("pdm", run, plan.times_s, plan.pose),
            "score": float(
                np.abs(
                    self.proposals.of(run, "score")[:, 0].astype(float) - plan.score
                ).max()
            ),
            "brake_theirs": bool(theirs[1]),
            "brake_ours": plan.emergency_brake,
            "simulated": apart(judged.simulated, self.arrays[key])
            if recorded
            else None,
        }

    def _position_m(
        self, planner: str, run: Run, times_s: np.ndarray, pose: np.ndarray
    ) -> float:
        recorded = self.plans[planner].of(run, "t_s", "x", "y").astype(float)
        at = np.searchsorted(times_s, recorded[:, 0] - 1e-6)
        return float(np.hypot(*(pose[at, :2] - recorded[:, 1:]).T).max())


def apart(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Largest difference of simulated states, headings modulo a turn."""
    difference = ours - theirs
    difference[..., HEADING] = (difference[..., HEADING] + np.pi) % (2 * np.pi) - np.pi
    return float(np.abs(difference).max())


def compared(
    reference: Path, scenes: Path, *, every: int = 1
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The differences of each run, by planner and branch."""
    published = Reference(reference)
    idm, pdm = Idm(), PdmClosed()
    found: dict[str, dict[str, list[dict[str, Any]]]] = {
        "idm": defaultdict(list),
        "pdm": defaultdict(list),
    }
    for state in states(reference, scenes, every=every):
        observations = list(state.branches.values())
        judged = proposals_of(pdm, state.situation, observations)
        plans = zip(
            idm.plans(state.situation, observations),
            judged,
            state.branches,
            strict=True,
        )
        for followed, proposed, branch in plans:
            run = (state.scene, state.keyframe, branch)
            assert isinstance(followed, IdmTrajectory)
            found["idm"][branch].append(published.idm(run, followed))
            found["pdm"][branch].append(
                published.pdm(run, pdm.choose(state.situation.ego, proposed), proposed)
            )
    return found


def summed_up(
    found: dict[str, dict[str, list[dict[str, Any]]]],
) -> dict[str, dict[str, dict[str, Any]]]:
    """The table: how many runs of each planner and branch agree, and by how much the
    others differ.
    """
    return {
        "idm": {branch: idm_row(runs) for branch, runs in sorted(found["idm"].items())},
        "pdm": {branch: pdm_row(runs) for branch, runs in sorted(found["pdm"].items())},
    }


def idm_row(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """One branch of IDM."""
    return {
        "runs": len(runs),
        **differences("position_m", runs),
        "same_leads": sum(run["same_leads"] for run in runs),
        **differences("lead", runs),
        "holds": all(run["position_m"] < SAME for run in runs),
    }


def pdm_row(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """One branch of PDM-Closed."""
    decided = [run for run in runs if run["decided"]]
    alike = sum(run["score"] < SAME for run in runs) / len(runs)
    brakes_same = sum(run["brake_theirs"] == run["brake_ours"] for run in runs)
    row = {
        "runs": len(runs),
        "decided": len(decided),
        "same_choice": sum(run["same_choice"] for run in decided),
        "same_choice_in_ties": sum(
            run["same_choice"] for run in runs if not run["decided"]
        ),
        **differences("position_m", decided),
        "scores_alike": alike,
        **differences("score", runs),
        "brakes_theirs": sum(run["brake_theirs"] for run in runs),
        "brakes_ours": sum(run["brake_ours"] for run in runs),
        "brakes_same": brakes_same,
        **differences(
            "simulated", [run for run in runs if run["simulated"] is not None]
        ),
    }
    row["holds"] = bool(
        row["same_choice"] == row["decided"]
        and all(run["position_m"] < SAME for run in decided)
        and alike >= SCORES_ALIKE
        and brakes_same == len(runs)
        and all(run["simulated"] < SAME for run in runs if run["simulated"] is not None)
    )
    return row


def differences(name: str, runs: list[dict[str, Any]]) -> dict[str, float | None]:
    """Largest and median difference; None if nothing was compared."""
    values = [run[name] for run in runs]
    return {
        f"{name}_largest": max(values) if values else None,
        f"{name}_median": float(np.median(values)) if values else None,
    }


def lines(table: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    """The table as text, one block for each planner."""
    written = []
    for planner, branches in table.items():
        names = list(next(iter(branches.values())))
        cells = [["branch", *names]]
        cells += [
            [branch, *(cell(row[name]) for name in names)]
            for branch, row in branches.items()
        ]
        widths = [
            max(len(row[place]) for row in cells) for place in range(len(cells[0]))
        ]
        written += [planner.upper()]
        written += [
            "  ".join(
                text.rjust(width) for text, width in zip(row, widths, strict=True)
            )
            for row in cells
        ]
        written += [""]
    return written


def cell(value: Any) -> str:
    """A value as the table shows it."""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        return f"{value:.3g}"
    return "-" if value is None else str(value)


def main() -> None:
    """Compare and print; the exit code is 0 if everything agrees."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reference", type=Path)
    parser.add_argument("scenes", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--every", type=int, default=1, help="use only every N-th state of each scene"
    )
    given = parser.parse_args()
    table = summed_up(compared(given.reference, given.scenes, every=given.every))
    print(json.dumps(table, indent=2) if given.json else "\n".join(lines(table)))
    if not all(
        row["holds"] for branches in table.values() for row in branches.values()
    ):
        sys.exit(1)


if __name__ == "__main__":
    main()
