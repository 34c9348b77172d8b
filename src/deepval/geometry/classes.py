"""The benchmark's object classes: height and length priors, and the names other sources give them."""

import numpy as np

from deepval.arrays import Float, Shaped
from deepval.errors import InputError

HEIGHT_M: dict[str, float] = {
    "Car": 1.53,
    "Van": 2.1,
    "Truck": 3.3,
    "Bus": 3.2,
    "Pedestrian": 1.75,
    "Person_sitting": 1.3,
    "Cyclist": 1.73,
    "Tram": 3.5,
    "Misc": 1.9,
}
LENGTH_M: dict[str, float] = {
    "Car": 4.6,
    "Van": 5.1,
    "Truck": 10.0,
    "Bus": 11.2,
    "Pedestrian": 0.8,
    "Person_sitting": 0.8,
    "Cyclist": 1.8,
    "Tram": 16.0,
    "Misc": 3.0,
}
CLASSES: tuple[str, ...] = tuple(HEIGHT_M)
"""The nine that features count and that data in KITTI's manner have."""
HEIGHT_M |= {"Traffic_cone": 1.06, "Barrier": 0.98, "Static": 1.0}
LENGTH_M |= {"Traffic_cone": 0.4, "Barrier": 0.5, "Static": 0.7}

SUPER_CLASS: dict[str, str] = {
    "Car": "vehicle",
    "Van": "vehicle",
    "Truck": "vehicle",
    "Bus": "vehicle",
    "Tram": "vehicle",
    "Misc": "vehicle",
    "Pedestrian": "person",
    "Person_sitting": "person",
    "Cyclist": "cyclist",
    "Traffic_cone": "static",
    "Barrier": "static",
    "Static": "static",
}

COCO_CLASSES: dict[str, str] = {
    "car": "Car",
    "truck": "Truck",
    "bus": "Bus",
    "train": "Tram",
    "person": "Pedestrian",
    "bicycle": "Cyclist",
    "motorcycle": "Cyclist",
}
NUSCENES_CLASSES: dict[str, str] = {
    "car": "Car",
    "truck": "Truck",
    "trailer": "Truck",
    "bus": "Bus",
    "construction_vehicle": "Misc",
    "pedestrian": "Pedestrian",
    "bicycle": "Cyclist",
    "motorcycle": "Cyclist",
    "traffic_cone": "Traffic_cone",
    "barrier": "Barrier",
}
KITTI_CLASSES: dict[str, str] = {name: name for name in CLASSES} | {"Person": "Person_sitting"}
KNOWN_CLASSES: dict[str, str] = {name: name for name in CLASSES} | COCO_CLASSES


def looked_up(cls: Shaped[np.ndarray, "obj"], table: dict[str, float]) -> Float[np.ndarray, "obj"]:
    """A class's number from `table`, for each object."""
    names, index = np.unique(cls, return_inverse=True)
    unknown = [str(name) for name in names if str(name) not in table]
    if unknown:
        raise InputError(f"classes must be among {', '.join(table)}; found {', '.join(unknown)}: give a class map.")
    return np.array([table[str(name)] for name in names], dtype=float)[index]


def super_class(cls: Shaped[np.ndarray, "obj"]) -> Shaped[np.ndarray, "obj"]:
    """vehicle, person, cyclist or static, for each object."""
    names, index = np.unique(cls, return_inverse=True)
    found = [SUPER_CLASS.get(str(name), str(name)) for name in names]
    return np.array(found, dtype=str)[index] if found else np.zeros(0, dtype="<U7")
