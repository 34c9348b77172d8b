"""The version of this package, apart so that any module can read it."""

__version__ = "0.1.0"
