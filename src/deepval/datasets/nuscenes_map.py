"""A nuScenes map expansion (JSON) -> LaneMap: lanes with outlines and centrelines, connectors, dividers, crossings.

Facts of the format: layers refer to nodes by token; the centreline of a lane or connector is a chain of arcs and
straight pieces (`arcline_path_3`), each of three segments, left, right or straight, of one radius.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError
from deepval.files.canonical import read_json
from deepval.world.lanes import LONGEST_M, Lane, LaneMap, Outline

STEP_M = 1.0
CLOSEST_M = 1e-3
"""Points of a centreline that are closer to the one before are left out."""
BENDS = {"L": 1.0, "R": -1.0, "S": 0.0}


def read_expansion(path: Path) -> LaneMap:
    """The lane map in a file of the map expansion."""
    content = read_json(path, "a nuScenes map expansion")
    try:
        return lane_map_of(content)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: must be a nuScenes map expansion (version 1.3, JSON); it is not ({error!r}): get the file again."
        ) from error


def lane_map_of(content: Mapping[str, Any]) -> LaneMap:
    """The lane map of an expansion's content; roadblocks are single lanes, as the expansion groups none."""
    shapes = _Shapes(content)
    leads, arcs = content["connectivity"], content["arcline_path_3"]
    lanes = {}
    for layer in ("lane", "lane_connector"):
        for row in content[layer]:
            token = row["token"]
            if token not in arcs:
                continue
            after = leads.get(token, {}).get("outgoing", ())
            if not all(isinstance(lane, str) for lane in (token, *after)):
                raise ValueError(f"tokens of lanes must be texts; those of {token!r} and after it are not")
            polygon = shapes.outline(row["polygon_token"]) if row.get("polygon_token") else np.zeros((0, 2))
            lanes[token] = Lane(
                id=token,
                centreline_m=centreline_m(arcs[token]),
                roadblock=f"rb_{token}",
                polygon_m=polygon,
                successors=tuple(after),
                connector=layer == "lane_connector",
            )
    return LaneMap(
        lanes=lanes,
        drivable_m=shapes.outlines(content.get("carpark_area", ())),
        crosswalks_m=shapes.outlines(content.get("ped_crossing", ())),
        road_segments_m=shapes.outlines(content.get("road_segment", ())),
        dividers_m={kind: shapes.lines(content.get(f"{kind}_divider", ())) for kind in ("road", "lane")},
    )


def centreline_m(path: Sequence[Mapping[str, Any]]) -> Float[np.ndarray, "point 2"]:
    """Points at most a metre apart on a chain of pieces, with the end of each piece."""
    points = [np.asarray(path[0]["start_pose"][:2], float)[None]]
    for piece in path:
        pose = np.asarray(piece["start_pose"], float)
        for bend, length_m in zip(piece["shape"], piece["segment_length"], strict=True):
            if not 0 <= length_m <= LONGEST_M:
                raise ValueError(f"a piece of a centreline may be {LONGEST_M:g} m long; found {length_m!r}")
            curvature = BENDS[bend] / piece["radius"]
            steps = max(int(np.ceil(length_m / STEP_M)), 1)
            along = _along(pose, curvature, np.linspace(0.0, length_m, steps + 1)[1:])
            points.append(along[:, :2])
            pose = along[-1]
    line = np.concatenate(points)
    apart = np.hypot(*np.diff(line, axis=0).T)
    return line[np.concatenate([[True], apart >= CLOSEST_M])]


def _along(
    pose: Float[np.ndarray, "3"], curvature: float, way_m: Float[np.ndarray, "point"]
) -> Float[np.ndarray, "point 3"]:
    """Poses after so much way on an arc; straight where the curvature is 0."""
    x, y, heading = pose
    turned = heading + curvature * way_m
    if curvature:
        moved = (np.sin(turned) - np.sin(heading)) / curvature, (np.cos(heading) - np.cos(turned)) / curvature
    else:
        moved = way_m * np.cos(heading), way_m * np.sin(heading)
    return np.stack([x + moved[0], y + moved[1], turned], axis=-1)


class _Shapes:
    """Nodes, lines and polygons by token."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.nodes = {row["token"]: (float(row["x"]), float(row["y"])) for row in content["node"]}
        self.polygons = {row["token"]: row["exterior_node_tokens"] for row in content["polygon"]}
        self.line_nodes = {row["token"]: row["node_tokens"] for row in content["line"]}

    def _points(self, tokens: Sequence[str]) -> Outline:
        return np.array([self.nodes[token] for token in tokens], float).reshape(-1, 2)

    def outline(self, token: str) -> Outline:
        """The exterior of a polygon."""
        return self._points(self.polygons[token])

    def outlines(self, rows: Sequence[Mapping[str, Any]]) -> tuple[Outline, ...]:
        """The exteriors of a layer's polygons."""
        return tuple(self.outline(row["polygon_token"]) for row in rows)

    def lines(self, rows: Sequence[Mapping[str, Any]]) -> tuple[Outline, ...]:
        """The lines of a layer; empty ones are left out."""
        found = [self._points(self.line_nodes[row["line_token"]]) for row in rows]
        return tuple(line for line in found if len(line))
