"""What an allocator may look at: 65 cheap-side features, for the frames of a unit at once or for one as it arrives.

A unit: View -> look -> Sight -> cheap_features. One frame: Frame and Past -> glance -> Glance -> frame_features; the
glance's `after` is the past of the next frame. Both give the same bits.
"""

from deepval.features.cheap import cheap_features
from deepval.features.glances import Glance, glance
from deepval.features.sights import Sight, look
from deepval.features.single import frame_features
from deepval.features.table import FEATURE_NAMES, FEATURES, Feature

__all__ = [
    "FEATURES",
    "FEATURE_NAMES",
    "Feature",
    "Glance",
    "Sight",
    "cheap_features",
    "frame_features",
    "glance",
    "look",
]
