"""Libraries of the extra `torch`, imported on first use."""

from typing import Any

from deepval.errors import library


def torch_library() -> Any:
    """PyTorch."""
    return library("torch", purpose="The learned planner", extra="torch")


def opencv_library() -> Any:
    """OpenCV."""
    return library("cv2", purpose="The learned planner", extra="torch")
