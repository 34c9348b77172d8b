"""The command `deepval`: files in, verdicts out. Bad input is one sentence on stderr and exit code 2."""

import sys
from typing import Any

from deepval.version import __version__


def main() -> None:
    """Run the command; its version needs nothing else to be loaded."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"deepval {__version__}\n")
        return
    from deepval.cli.commands import run

    run()


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("app", "COMMANDS"):
        return getattr(import_module("deepval.cli.commands"), name)
    raise AttributeError(f"module 'deepval.cli' has no attribute {name!r}")
