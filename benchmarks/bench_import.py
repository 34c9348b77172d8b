"""What `import deepval` costs beside `import numpy`, and what it must not load.

Run: python benchmarks/bench_import.py. Medians over fresh processes, taken in turn;
seconds of CPU.
"""

import json
import statistics
import subprocess
import sys

from figures import Figure, finish

RUNS = 15
HEAVY = (
    "pyarrow",
    "sklearn",
    "scipy",
    "matplotlib",
    "torch",
    "onnxruntime",
    "rich",
    "cyclopts",
    "pandas",
    "jaxtyping",
)


def fresh(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def import_s(module: str) -> float:
    return float(
        fresh(
            f"import time; t = time.process_time(); import {module}; "
            "print(time.process_time() - t)"
        )
    )


def main(*, tiny: bool = False) -> list[Figure]:
    number = 1 if tiny else RUNS
    runs = [(import_s("numpy"), import_s("deepval")) for _ in range(number)]
    numpy_s, deepval_s = (
        statistics.median(column) for column in zip(*runs, strict=True)
    )
    more_s = statistics.median(ours - theirs for theirs, ours in runs)
    loaded = json.loads(
        fresh("import sys, json, deepval; print(json.dumps(sorted(sys.modules)))")
    )
    heavy = [name for name in HEAVY if name in loaded]
    print(
        f"import numpy {numpy_s:.3f} s, import deepval {deepval_s:.3f} s: "
        f"{more_s:.3f} s more (medians of {number})"
    )
    print(f"heavy modules loaded: {', '.join(heavy) or 'none'} of {', '.join(HEAVY)}")
    return [
        Figure(
            "import deepval",
            f"{more_s:.3f} s more than numpy",
            f"import numpy {numpy_s:.3f} s",
            "<= 0.1 s more",
            more_s <= 0.1,
        ),
        Figure(
            "import deepval",
            f"{len(heavy)} heavy modules",
            f"{len(HEAVY)} looked for",
            "none",
            not heavy,
        ),
    ]


if __name__ == "__main__":
    finish(main())
