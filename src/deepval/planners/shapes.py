"""shapely, which only the planners need: loaded here and nowhere else in this room, or refused in a sentence."""

from typing import Any

from deepval.errors import InputError

try:
    import shapely as loaded
    from shapely import Geometry, LineString, Polygon, STRtree
except ModuleNotFoundError as missing:
    raise InputError("planners on lane maps need shapely: pip install 'deepval[planners]'.") from missing

shapely: Any = loaded
"""Functions of shapely; its own types know nothing of arrays of distances."""

__all__ = ["Geometry", "LineString", "Polygon", "STRtree", "shapely"]
