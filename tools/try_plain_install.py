"""Run every example, and a page and a router of one, with the installed deepval, as a
user without extras would.

Run it in an empty environment after `pip install .`; it works in a temporary folder.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = ("routing", "driving", "gate")
FURTHER = (
    "evaluate requests.csv -s router.csv --out result.json",
    "report result.json --out page.html",
)
FAILED_GATE = 3
"""Exit code of the example whose new version is worse."""


def deepval(words: str, folder: str, *, code: int = 0) -> str:
    """What a command prints; ends the program where its exit code is another one."""
    done = subprocess.run(
        [sys.executable, "-m", "deepval", *words.split()],
        cwd=folder,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    print(done.stdout)
    if done.returncode != code:
        sys.exit(f"deepval {words}: exit code {done.returncode}, not {code}.")
    return done.stdout


def main() -> None:
    """Run the commands, and fail if one of them does."""
    with tempfile.TemporaryDirectory() as folder:
        for example in EXAMPLES:
            for line in deepval(f"example {example}", folder).splitlines():
                if line.startswith("  deepval "):
                    code = FAILED_GATE if "--fail-if" in line else 0
                    deepval(line.removeprefix("  deepval "), folder, code=code)
        for words in FURTHER:
            deepval(words, folder)
        for name in ("result.json", "page.html", "deployed.json"):
            if not (Path(folder) / name).is_file():
                sys.exit(f"{name} is missing.")


if __name__ == "__main__":
    main()
