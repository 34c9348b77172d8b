"""What an allocator may look at: 65 cheap-side features of a frame as it arrives.

Frame and Past -> glance -> Glance -> cheap_features; the glance's `after` is the past of the next frame. A unit is a
View -> Sight, which holds the glances of its frames.
"""

from deepval.features.cheap import cheap_features
from deepval.features.glances import Glance, glance
from deepval.features.sights import Sight
from deepval.features.table import FEATURE_NAMES, FEATURES, Feature

__all__ = [
    "FEATURES",
    "FEATURE_NAMES",
    "Feature",
    "Glance",
    "Sight",
    "cheap_features",
    "glance",
]
