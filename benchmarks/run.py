"""Runs every benchmark of this folder and prints one table; exit code 1 where a target is missed.

Run: python benchmarks/run.py [part of a name ...]. A benchmark is a file bench_*.py with main(); it may return
figures for the table, or leave its own words above it and stop with a message where it misses its target.
"""

import importlib
import sys
import time
from pathlib import Path

from figures import Figure, report


def figures_of(name: str) -> list[Figure]:
    """Run one benchmark; what it does not say in figures is whether it stopped, and its CPU seconds."""
    start = time.process_time()
    message = None
    try:
        found = importlib.import_module(name).main()
    except SystemExit as stop:
        found, message = None, stop.code
    if isinstance(found, list):
        return found
    seconds = f"{time.process_time() - start:.1f} s CPU in all"
    return [Figure(name, seconds, "its own words above", str(message or "its own"), not message)]


def main() -> None:
    wanted = sys.argv[1:]
    names = [path.stem for path in sorted(Path(__file__).parent.glob("bench_*.py"))]
    figures = []
    for name in names:
        if not wanted or any(part in name for part in wanted):
            print(f"== {name}")
            sys.argv = [f"{name}.py"]
            figures += figures_of(name)
            print(flush=True)
    print(report(figures))
    if not all(figure.met for figure in figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
