"""shapely, which only the planners need: loaded here and nowhere else in this room, or refused in a sentence."""

from deepval.errors import InputError

try:
    import shapely
except ModuleNotFoundError as missing:
    raise InputError("planners on lane maps need shapely: pip install 'deepval[planners]'.") from missing

__all__ = ["shapely"]
