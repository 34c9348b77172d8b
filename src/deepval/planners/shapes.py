"""shapely, imported here for the planners; importing this module without shapely raises InputError."""

from typing import Any

from deepval.errors import InputError, extra_requirements

try:
    import shapely as loaded
    from shapely import Geometry, LineString, Polygon, STRtree
except ModuleNotFoundError as missing:
    raise InputError(
        f"Planners on lane maps need shapely, which is not installed: pip install {extra_requirements('planners')}."
    ) from missing

shapely: Any = loaded
"""The shapely functions, untyped: its stubs do not cover arrays of geometries."""

__all__ = ["Geometry", "LineString", "Polygon", "STRtree", "shapely"]
