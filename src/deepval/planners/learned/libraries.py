"""Libraries of the extra `torch`, loaded where they are used; a sentence says what to install where one is missing."""

from importlib import import_module
from typing import Any

from deepval.errors import InputError


def torch_library() -> Any:
    """PyTorch."""
    return _library("torch")


def opencv_library() -> Any:
    """OpenCV."""
    return _library("cv2")


def _library(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(
            f"the learned planner needs {module}, which is not installed: pip install 'deepval[torch]'."
        ) from error
