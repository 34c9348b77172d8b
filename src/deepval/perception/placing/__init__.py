"""Placing: a mode's detections -> objects in the ego frame. One method per file, one row per method in PLACINGS."""

from deepval.perception.placing.monocular import Monocular, Placing
from deepval.perception.placing.reference_geometry import OracleGeometry
from deepval.perception.placing.track_placing import Cuboids, Tracks

PLACINGS: dict[str, Placing] = {
    "monocular": Monocular(),
    "oracle": OracleGeometry(),
    "cuboids": Cuboids(),
    "tracks": Tracks(),
    "tracks-no-fp": Tracks(false_positives=False),
    "tracks-iou-05": Tracks(least_iou=0.5),
}

__all__ = ["PLACINGS", "Cuboids", "Monocular", "OracleGeometry", "Placing", "Tracks"]
