"""The README's commands, one after the other as they stand, from a clean folder: install and activate lines too."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from kitti_files import write_kitti

ROOT = Path(__file__).parent.parent
CHECKOUT = ("src", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "pyproject.toml")
"""What a checkout needs to be installed from."""


def script() -> str:
    """The blocks of the README as one script: commands as they stand, Python at its place, after that before."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert {language for language, _ in blocks} == {"bash", "python"}
    lines, session = ["set -e"], ""
    for (language, content), following in zip(blocks, [*(block[0] for block in blocks[1:]), ""], strict=True):
        session += content if language == "python" else ""
        if language == "bash":
            lines.append(content)
        elif following != "python":  # what was said before is said again: a session of its own
            lines.append(f"python - <<'END'\n{session}END\n")
    return "\n".join(lines)


@pytest.mark.skipif(os.name != "posix", reason="the README's shell is a POSIX one")
def test_the_readme_runs_as_it_stands_from_a_clean_folder(tmp_path):
    for name in CHECKOUT:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    write_kitti(tmp_path)
    (tmp_path / "small.parquet").rename(tmp_path / "CIWT.parquet")
    (tmp_path / "large.parquet").rename(tmp_path / "RRC.parquet")
    packages = sysconfig.get_paths()["purelib"]
    # What deepval depends on comes from the environment of the tests; deepval itself is what `pip install .` installs.
    offline = {"PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PYTHONPATH": packages}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "VIRTUAL_ENV"))}
    place = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    done = subprocess.run(
        ["bash", "-c", script() + "\nwhich deepval; python -c 'import deepval; print(deepval.__file__)'"],
        cwd=tmp_path,
        env=kept | offline | {"PATH": place},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    command, module = done.stdout.splitlines()[-2:]
    assert command == str(tmp_path / ".venv" / "bin" / "deepval")
    assert module.startswith(str(tmp_path / ".venv"))
    made = ("gain.png", "three.png", "page.html", "router.json", "kitti.html", "kitti-router.json", "own.html")
    for file in (*made, "own-router.json", "report.html"):
        assert (tmp_path / file).is_file(), file
    assert list((tmp_path / "figures").glob("*.pdf"))
    assert done.stdout.count("against random: ") >= 4
