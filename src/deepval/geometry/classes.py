"""The benchmark's object classes: height, length and width priors, and the class of each name in other sources.

Capitalized names are KITTI's and those of data sets in its style; nuScenes' ten classes keep their spelling and have
priors of their own.
"""

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
"""The nine classes of features and of data sets in KITTI's style."""
HEIGHT_M |= {"Traffic_cone": 1.06, "Barrier": 0.98, "Static": 1.0}
LENGTH_M |= {"Traffic_cone": 0.4, "Barrier": 0.5, "Static": 0.7}
HEIGHT_M |= {
    "car": 1.72,
    "truck": 2.73,
    "bus": 3.47,
    "trailer": 3.82,
    "construction_vehicle": 3.13,
    "pedestrian": 1.76,
    "motorcycle": 1.44,
    "bicycle": 1.27,
    "traffic_cone": 1.06,
    "barrier": 0.98,
}
LENGTH_M |= {
    "car": 4.6,
    "truck": 6.7,
    "bus": 11.2,
    "trailer": 12.0,
    "construction_vehicle": 6.4,
    "pedestrian": 0.73,
    "motorcycle": 2.1,
    "bicycle": 1.7,
    "traffic_cone": 0.4,
    "barrier": 0.5,
}

WIDTH_M: dict[str, float] = {
    "Car": 1.94,
    "Van": 1.83,
    "Truck": 2.89,
    "Bus": 2.91,
    "Pedestrian": 0.67,
    "Person_sitting": 0.59,
    "Cyclist": 0.66,
    "Tram": 2.79,
    "Misc": 2.03,
    "Traffic_cone": 0.44,
    "Barrier": 2.07,
    "Static": 0.7,
    "car": 1.94,
    "truck": 2.29,
    "bus": 2.91,
    "trailer": 2.33,
    "construction_vehicle": 2.53,
    "pedestrian": 0.67,
    "motorcycle": 0.6,
    "bicycle": 0.65,
    "traffic_cone": 0.44,
    "barrier": 2.07,
}
"""Median widths of labelled objects.

Widths of Van, Truck, Person_sitting, Cyclist, Tram and Misc are from the labels of KITTI's 21 tracking sequences, the
others from nuScenes' v1.0-mini keyframes, whose cars and pedestrians have the lengths above.
"""

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
SUPER_CLASS |= {name: SUPER_CLASS[like] for name, like in NUSCENES_CLASSES.items()}
IN_NUSCENES: dict[str, str] = {name: name for name in NUSCENES_CLASSES} | {"person": "pedestrian"}
"""Classes of detections on nuScenes: its own ten, and COCO's name for one of them."""
KITTI_CLASSES: dict[str, str] = {name: name for name in CLASSES} | {"Person": "Person_sitting"}
KNOWN_CLASSES: dict[str, str] = {name: name for name in CLASSES} | COCO_CLASSES


def lookup(cls: Shaped[np.ndarray, "obj"], table: dict[str, float]) -> Float[np.ndarray, "obj"]:
    """A class's number from `table`, for each object."""
    names, index = np.unique(cls, return_inverse=True)
    unknown = [str(name) for name in names if str(name) not in table]
    if unknown:
        raise InputError(f"classes must be among {', '.join(table)}; found {', '.join(unknown)}: give a class map.")
    return np.array([table[str(name)] for name in names], dtype=float)[index]


def super_class(cls: Shaped[np.ndarray, "obj"]) -> Shaped[np.ndarray, "obj"]:
    """vehicle, person, cyclist or static, for each object."""
    names, index = np.unique(cls, return_inverse=True)
    groups = [SUPER_CLASS.get(str(name), str(name)) for name in names]
    return np.array(groups, dtype=str)[index] if groups else np.zeros(0, dtype="<U7")
