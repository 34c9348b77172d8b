"""The table of licences holds every locked dependency, and no licence that would bind
those who use the package.
"""

import importlib.util
import re
import sys

import pytest

from project import ROOT

SPEC = importlib.util.spec_from_file_location(
    "licences", ROOT / "tools" / "licences.py"
)
assert SPEC is not None
assert SPEC.loader is not None
licences = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(licences)


def test_a_lock_file_is_read():
    text = (
        "a-b==1.2.3 \\\n    --hash=sha256:00\nc==4 ; sys_platform == 'win32' \\\n"
        "    --hash=sha256:11\n"
    )
    assert licences.locked(text) == [
        ("a-b", "1.2.3", ""),
        ("c", "4", "sys_platform == 'win32'"),
    ]


def test_every_core_dependency_tells_its_licence():
    path = ROOT / "requirements" / "core.lock"
    found = licences.licences([path])
    assert (
        len(found)
        == len(
            re.findall(
                r"^[A-Za-z0-9._-]+==", path.read_text(encoding="utf-8"), re.MULTILINE
            )
        )
        > 10
    )
    here = [item for item in found if item.installed is not None]
    assert {"numpy", "pyarrow", "scikit-learn"} <= {item.name for item in here}
    assert [item.name for item in here if item.licence is None] == []
    assert [
        item.name
        for item in here
        if re.search(r"\b(A?GPL|Affero)\b", item.licence or "")
    ] == []


def test_the_command_prints_a_row_each(monkeypatch, capsys):
    path = ROOT / "requirements" / "core.lock"
    monkeypatch.setattr(sys, "argv", ["licences.py", str(path)])
    licences.main()
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 2 + len(licences.licences([path]))
    assert any(line.startswith("| numpy | ") and "BSD" in line for line in shown)


@pytest.mark.parametrize("lock", licences.LOCKS)
def test_locks_pin_with_hashes_and_hold_no_addresses(lock):
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert "://" not in text
    assert "--index" not in text
    assert text.count("--hash=sha256:") >= len(licences.locked(text))
