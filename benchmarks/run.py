"""Runs every benchmark of this folder and prints one table; exit code 1 where a target
is missed or one crashes.

Run: python benchmarks/run.py [--tiny] [part of a name ...]. A benchmark is a file
bench_*.py whose main(tiny=...) returns figures, each with its target. With --tiny every
benchmark runs at a size of seconds, to see that it runs: what it computes is checked,
its times and sizes are printed and not judged.
"""

import importlib
import sys
import traceback
from pathlib import Path

from figures import Figure, table


def figures_of(name: str, *, tiny: bool) -> list[Figure]:
    """The figures of one benchmark; a missed one where it crashes or returns none."""
    try:
        figures = importlib.import_module(name).main(tiny=tiny)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (the others still run, and this one counts as missed)
        traceback.print_exc()
        lines = f"{type(error).__name__}: {error}".splitlines()
        return [Figure(name, "crashed", "-", lines[0][:100], met=False)]
    if not figures:
        return [Figure(name, "no figure", "-", "at least one figure", met=False)]
    return [figure._replace(met=None) for figure in figures] if tiny else list(figures)


def main() -> None:
    tiny, parts = (
        "--tiny" in sys.argv[1:],
        [word for word in sys.argv[1:] if word != "--tiny"],
    )
    names = [path.stem for path in sorted(Path(__file__).parent.glob("bench_*.py"))]
    chosen = [
        name for name in names if not parts or any(part in name for part in parts)
    ]
    if not chosen:
        raise SystemExit(
            f"No benchmark has {' or '.join(parts)} in "
            f"its name: there are {', '.join(names)}."
        )
    figures = []
    for name in chosen:
        print(f"== {name}", flush=True)
        figures += figures_of(name, tiny=tiny)
        print(flush=True)
    print(table(figures))
    if any(figure.met is False for figure in figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
