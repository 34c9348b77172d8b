"""Judge a small CSV file with the installed deepval, as a user without extras would.

Run it in an empty environment after `pip install .`; it works in a temporary folder and
needs NumPy alone.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

COMMANDS = (
    "evaluate values.csv -s mine.csv --alpha 0.2 --out result.json",
    "report result.json --out page.html",
    "threshold values.csv -s mine.csv --alpha 0.2 --out router.json",
    "compare values.csv mine.csv old.csv --fail-if worse",
)


def main() -> None:
    """Write the files, run the commands, and fail if one of them does."""
    rng = np.random.default_rng(0)
    value = rng.normal(0.5, 1, 400)
    tables = {
        "values.csv": ["unit,input,loss_cheap,loss_full"],
        "mine.csv": ["input,score"],
        "old.csv": ["input,score"],
    }
    for i, v in enumerate(value.tolist()):
        tables["values.csv"].append(f"{i // 10},{i},2.0,{2.0 - v}")
        tables["mine.csv"].append(f"{i},{v + rng.normal(0, 0.5)}")
        tables["old.csv"].append(f"{i},{v + rng.normal(0, 3)}")
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in tables.items():
            (Path(folder) / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        for command in COMMANDS:
            subprocess.run(
                [sys.executable, "-m", "deepval", *command.split()],
                cwd=folder,
                check=True,
            )
        for name in ("result.json", "page.html", "router.json"):
            if not (Path(folder) / name).is_file():
                sys.exit(f"{name} is missing.")


if __name__ == "__main__":
    main()
