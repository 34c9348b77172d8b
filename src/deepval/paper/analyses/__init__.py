"""One module per analysis: built cells -> rows of numbers that answer one question.

An analysis can be called: `deepval.paper.analyses.signs(cells)` is `deepval.paper.analyses.signs.rows(cells)`.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Analysis(ModuleType):
    """A module of an analysis, which gives its rows when it is called."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.rows(*args, **named)


class _Analyses(ModuleType):
    """This package: modules are loaded when asked for, and can be called however they were loaded."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and hasattr(value, "rows"):
            value.__class__ = _Analysis
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error


sys.modules[__name__].__class__ = _Analyses
