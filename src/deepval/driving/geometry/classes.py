"""The benchmark's object classes: height, length and width priors, and the class of
each name in other sources.

Capitalized names are KITTI's and those of data sets in its style; nuScenes' ten classes
keep their spelling and have priors of their own.
"""

import numpy as np

from deepval.basics.arrays import Float, Shaped
from deepval.basics.errors import InputError

SIZE_M: dict[str, tuple[float, float, float]] = {
    "Car": (1.53, 4.6, 1.94),
    "Van": (2.1, 5.1, 1.83),
    "Truck": (3.3, 10.0, 2.89),
    "Bus": (3.2, 11.2, 2.91),
    "Pedestrian": (1.75, 0.8, 0.67),
    "Person_sitting": (1.3, 0.8, 0.59),
    "Cyclist": (1.73, 1.8, 0.66),
    "Tram": (3.5, 16.0, 2.79),
    "Misc": (1.9, 3.0, 2.03),
}
CLASSES: tuple[str, ...] = tuple(SIZE_M)
"""The nine classes of features and of data sets in KITTI's style."""
SIZE_M |= {
    "Traffic_cone": (1.06, 0.4, 0.44),
    "Barrier": (0.98, 0.5, 2.07),
    "Static": (1.0, 0.7, 0.7),
    "car": (1.72, 4.6, 1.94),
    "truck": (2.73, 6.7, 2.29),
    "bus": (3.47, 11.2, 2.91),
    "trailer": (3.82, 12.0, 2.33),
    "construction_vehicle": (3.13, 6.4, 2.53),
    "pedestrian": (1.76, 0.73, 0.67),
    "motorcycle": (1.44, 2.1, 0.6),
    "bicycle": (1.27, 1.7, 0.65),
    "traffic_cone": (1.06, 0.4, 0.44),
    "barrier": (0.98, 0.5, 2.07),
}
"""Height, length and width of each class.

Widths are medians of labelled objects. Widths of Van, Truck, Person_sitting, Cyclist,
Tram and Misc are from the labels of KITTI's 21 tracking sequences, the others from
nuScenes' v1.0-mini keyframes, whose cars and pedestrians have the lengths here.
"""
HEIGHT_M, LENGTH_M, WIDTH_M = (
    {name: size_m[axis] for name, size_m in SIZE_M.items()} for axis in range(3)
)

SUPER_CLASS: dict[str, str] = {
    **dict.fromkeys(("Car", "Van", "Truck", "Bus", "Tram", "Misc"), "vehicle"),
    **dict.fromkeys(("Pedestrian", "Person_sitting"), "person"),
    "Cyclist": "cyclist",
    **dict.fromkeys(("Traffic_cone", "Barrier", "Static"), "static"),
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
IN_NUSCENES: dict[str, str] = {name: name for name in NUSCENES_CLASSES} | {
    "person": "pedestrian"
}
"""Classes of detections on nuScenes: its own ten, and COCO's name for one of them."""
KITTI_CLASSES: dict[str, str] = {name: name for name in CLASSES} | {
    "Person": "Person_sitting"
}
KNOWN_CLASSES: dict[str, str] = {name: name for name in CLASSES} | COCO_CLASSES


def lookup(
    cls: Shaped[np.ndarray, "obj"], table: dict[str, float]
) -> Float[np.ndarray, "obj"]:
    """A class's number from `table`, for each object."""
    names, index = np.unique(cls, return_inverse=True)
    unknown = [str(name) for name in names if str(name) not in table]
    if unknown:
        raise InputError(
            f"classes must be among {', '.join(table)}; found {', '.join(unknown)}: "
            "give a class map."
        )
    return np.array([table[str(name)] for name in names], dtype=float)[index]


def super_class(cls: Shaped[np.ndarray, "obj"]) -> Shaped[np.ndarray, "obj"]:
    """vehicle, person, cyclist or static, for each object."""
    names, index = np.unique(cls, return_inverse=True)
    groups = [SUPER_CLASS.get(str(name), str(name)) for name in names]
    return np.array(groups, dtype=str)[index] if groups else np.zeros(0, dtype="<U7")
