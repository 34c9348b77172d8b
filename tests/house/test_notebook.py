"""The notebook of the docs, executed from top to bottom as its reader would, and what
it shows.
"""

import json
import os
import re
import sys
from pathlib import Path

import pytest

import deepval
from commands import run_process
from project import ROOT

NOTEBOOK = ROOT / "docs" / "two-arrays-to-threshold.ipynb"
TOOL = ROOT / "tools" / "run_notebook.py"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The folder that it ran in, and its cells with their outputs."""
    folder, home = tmp_path_factory.mktemp("notebook"), tmp_path_factory.mktemp("home")
    path = os.pathsep.join(
        filter(
            None,
            (str(Path(deepval.__file__).parent.parent), os.environ.get("PYTHONPATH")),
        )
    )
    places = {
        name: str(home)
        for name in (
            "IPYTHONDIR",
            "JUPYTER_CONFIG_DIR",
            "JUPYTER_DATA_DIR",
            "JUPYTER_RUNTIME_DIR",
        )
    }
    environment = os.environ | {"PYTHONPATH": path} | places
    done = run_process(TOOL, folder, program=(sys.executable,), env=environment)
    assert done.code == 0, done.err[-3000:]
    return folder, json.loads(done.out)["cells"]


def outputs_of(cells):
    """What the cells show, one after the other."""
    return [
        output
        for cell in cells
        if cell["cell_type"] == "code"
        for output in cell["outputs"]
    ]


def test_the_stored_outputs_are_those_of_a_run(executed):
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert "pip install '.[plot]' pandas" in "".join(cells[0]["source"])
    stored, run = (
        [
            [
                "".join(output.get("text", "")),
                # Pixels depend on the machine.
                *(
                    re.sub("<img [^>]*>", "", "".join(data))
                    for data in output.get("data", {}).values()
                ),
            ]
            for output in outputs_of(part)
            if "image/png" not in output.get("data", {})
        ]
        for part in (cells, executed[1])
    )
    assert len(stored) == 7
    assert stored == run


def test_it_goes_from_two_arrays_to_a_deployed_threshold(executed):
    folder, cells = executed
    outputs = outputs_of(cells)
    shown = [output["data"] for output in outputs if "data" in output]
    pages = ["".join(data["text/html"]) for data in shown if "text/html" in data]
    assert "<caption>Losses of 3,000 inputs in 60 units</caption>" in pages[0]
    assert "Run mine at 20 %: " in pages[1]
    assert 'src="data:image/png;base64,' in pages[1]
    assert sum("image/png" in data for data in shown) == 1
    assert "('better', 'unresolved')" in ["".join(data["text/plain"]) for data in shown]
    said = "".join(
        "".join(output["text"])
        for output in outputs
        if output["output_type"] == "stream"
    )
    assert "escalate above 0.513: 20.0 % of the inputs, [17.8, 22.3] %" in said
    assert "frozen threshold: 24.6 % escalated, 12.1 % of the loss removed" in said
    assert "causal cap: " in said
    assert json.loads((folder / "router.json").read_text(encoding="utf-8"))[
        "modes"
    ] == ["cheap", "full"]
    assert (folder / "page.html").is_file()
