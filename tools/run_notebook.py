"""Run docs/two-arrays-to-threshold.ipynb from top to bottom and store what it shows.

python tools/run_notebook.py [FOLDER] # the folder that it runs in; default: one of \
    its own
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

TARGET = (
    Path(__file__).resolve().parent.parent / "docs" / "two-arrays-to-threshold.ipynb"
)


def execute(folder: Path) -> dict[str, Any]:
    """The notebook with the outputs of a run in a folder, as JSON."""
    notebook = nbformat.read(TARGET, as_version=4)
    NotebookClient(
        notebook,
        timeout=None,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    content = json.loads(nbformat.writes(notebook))
    for cell in content["cells"]:
        cell["metadata"] = {}  # times of the run
    content["metadata"]["language_info"] = {"name": "python"}
    return content


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(execute(Path(sys.argv[1]))))
    else:
        with tempfile.TemporaryDirectory() as name:
            TARGET.write_text(
                json.dumps(execute(Path(name)), indent=1, ensure_ascii=False) + "\n",
                encoding="utf-8",
            )
