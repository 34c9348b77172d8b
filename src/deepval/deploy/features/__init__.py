"""Frames and views -> the inputs of an allocator: 65 cheap-side features of a frame, or
18 of its observed objects.

Frame and Past -> glance -> Glance -> cheap_features, or tracked_features if the mode
observes; the glance's `after` is the past of the next frame. For a unit: View -> Sight,
which holds the glances of its frames.
"""

from deepval.deploy.features.cheap import (
    FEATURE_NAMES,
    FEATURES,
    TRACKED_FEATURES,
    TRACKED_NAMES,
    Feature,
    cheap_features,
    tracked_features,
)
from deepval.deploy.features.glances import Glance, Sight, glance

__all__ = [
    "FEATURES",
    "FEATURE_NAMES",
    "TRACKED_FEATURES",
    "TRACKED_NAMES",
    "Feature",
    "Glance",
    "Sight",
    "cheap_features",
    "glance",
    "tracked_features",
]
