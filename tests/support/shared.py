"""Where the shared real data lie: beside the project, or where DEEPVAL_SHARED says."""

import os
from pathlib import Path

import pytest

DEFAULT = Path(__file__).resolve().parents[3] / "shared"


def shared_data(*parts: str) -> Path:
    """A path in the shared data folder; the test is skipped, with a message, where it
    is absent.
    """
    root = Path(os.environ.get("DEEPVAL_SHARED", DEFAULT)) / "data"
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip(
            f"shared data are absent: no {'/'.join(parts)} in {root}; set "
            "DEEPVAL_SHARED to their folder"
        )
    return path
