"""The blocks of the README and docs/start.md in a clean folder and a fresh environment,
with only what they install.
"""

import os
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from commands import run_process
from doc_blocks import blocks_of, commands_of
from external_worlds import scenarionet
from kitti_files import write_kitti
from project import ROOT
from wheelhouse import write_wheelhouse

PAGES = ("README.md", "docs/start.md")
CHECKOUT = (
    "src",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CITATION.cff",
    "pyproject.toml",
)
"""What a checkout needs to be installed from."""
OUTPUTS = (
    "answer.png",
    "three.png",
    "result.json",
    "page.html",
    "router.json",
    "kitti.html",
    "kitti-router.json",
    "own.html",
    "own-router.json",
    "report.html",
    "costs.toml",
)
LAST = """
eval "$(deepval build --help | sed -n '/Example: /,/^$/p' | tr '\\n' ' ' | sed 's/.*Example: //')"
which deepval
python -c 'import deepval; print(deepval.__file__)'
"""  # noqa: E501
"""After the blocks of the pages: the example of `deepval build --help`, on the same
files, and what was installed.
"""


def script() -> str:
    """The blocks of both pages as one script, the installation first; a Python block
    runs after all before it.
    """
    blocks = [
        block
        for page in PAGES
        for block in blocks_of(ROOT / page)
        if block[0] != "text"
    ]
    blocks = [
        ("bash", typed(text)) if language == "console" else (language, text)
        for language, text in blocks
    ]
    assert {language for language, _ in blocks} == {"bash", "python"}
    install = next(block for block in blocks if block[0] == "bash")
    assert "pip install ." in install[1]
    blocks = [install, *(block for block in blocks if block is not install)]
    lines, session = ["set -e"], ""
    for (language, content), following in zip(
        blocks, [*(block[0] for block in blocks[1:]), ""], strict=True
    ):
        session += content if language == "python" else ""
        if language == "bash":
            lines.append(content)
        elif following != "python":
            lines.append(f"python - <<'END'\n{session}END\n")
    return "\n".join(lines)


def typed(console: str) -> str:
    """The commands of a block that shows what they print; one that is refused there
    must be refused here.
    """
    lines = []
    for command, _, is_refused in commands_of(console):
        lines.append(f"! {command}" if is_refused else command)
    return "\n".join(lines)


def write_inputs(folder: Path) -> None:
    """A checkout, and small files under the names of the pages' data."""
    for name in CHECKOUT:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    write_kitti(folder)
    (folder / "large.parquet").rename(folder / "RRC.parquet")
    detections = pq.read_table(folder / "small.parquet")
    # a tracker's scores, as in the published file, are no probabilities
    raw = pc.multiply(detections["score"], 38.0)
    column = detections.schema.get_field_index("score")
    pq.write_table(
        detections.set_column(column, "score", pa.chunked_array(raw)),
        folder / "CIWT.parquet",
    )
    scenarionet(folder / "logs")


@pytest.mark.skipif(os.name != "posix", reason="the shell of the pages is a POSIX one")
def test_the_first_pages_run_as_they_stand_in_a_fresh_environment(tmp_path):
    folder = tmp_path / "checkout"
    folder.mkdir()
    write_inputs(folder)
    wheels = write_wheelhouse(tmp_path / "house")
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PIP_", "VIRTUAL_ENV", "PYTHON"))
    }
    path = os.pathsep.join([str(Path(sys.base_prefix) / "bin"), "/usr/bin", "/bin"])
    environment = inherited | {
        "PATH": path,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "COLUMNS": "80",
    }
    done = run_process(
        script() + LAST, program=("bash", "-c"), cwd=folder, env=environment
    )
    assert done.code == 0, done.out[-3000:] + done.err[-3000:]
    command, module = done.out.splitlines()[-2:]
    assert command == str(folder / ".venv" / "bin" / "deepval")
    assert module.startswith(str(folder / ".venv"))
    for name in OUTPUTS:
        assert (folder / name).is_file(), name
    assert list((folder / "figures").glob("*.pdf"))
    assert done.out.count("Run mine at 20 %: ") >= 4
