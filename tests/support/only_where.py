"""What some systems cannot do: tests of it are left out there, and say so."""

import sys

import pytest

names_are_bytes = pytest.mark.skipif(
    sys.platform == "darwin", reason="macOS takes no file name that is not UTF-8"
)
memory_is_bounded = pytest.mark.skipif(
    sys.platform == "darwin", reason="macOS does not bound the memory of a process"
)
