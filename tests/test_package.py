"""The package as others meet it: light to import, typed, and whole when installed from a wheel."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEAVY = (
    "pyarrow",
    "sklearn",
    "scipy",
    "matplotlib",
    "torch",
    "onnxruntime",
    "pandas",
    "polars",
    "rich",
    "typer",
    "jaxtyping",
)


def run(*command: object, **options) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_import_loads_nothing_heavy():
    loaded = run(sys.executable, "-c", "import deepval, sys, json; print(json.dumps(sorted(sys.modules)))")
    assert not set(HEAVY) & set(json.loads(loaded))


def test_the_test_above_can_fail():
    loaded = run(sys.executable, "-c", "import deepval, pyarrow, sys, json; print(json.dumps(sorted(sys.modules)))")
    assert set(HEAVY) & set(json.loads(loaded)) == {"pyarrow"}


def test_import_costs_at_most_a_tenth_of_a_second_more_than_numpy():
    clock = "import time; import numpy; t = time.process_time(); import deepval; print(time.process_time() - t)"
    # The least of several runs: the machine may be busy, the package may not be slow.
    assert min(float(run(sys.executable, "-c", clock)) for _ in range(5)) < 0.1


def test_a_wheel_installs_into_an_empty_environment(tmp_path):
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("deepval-*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    options = {"cwd": tmp_path, "env": clean}
    install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    run(*install, "--require-hashes", "-r", ROOT / "requirements" / "core.lock", **options)
    run(*install, "--no-index", "--no-deps", wheel, **options)
    run(python, "-m", "pip", "check", **options)
    where = run(python, "-c", "import deepval; print(deepval.__file__)", **options)
    assert str(tmp_path / "env") in where
    assert (Path(where.strip()).parent / "py.typed").is_file()
    out = run(tmp_path / "env" / "bin" / "deepval", "demo", "--out", "demo", "--scenes", "8", "--json", **options)
    rows = json.loads(out)["braking-monocular"]["free"]["rows"]
    assert {row["allocator"] for row in rows} >= {"random", "all-full", "oracle", "ego-speed"}


def test_no_module_is_undescribed():
    for path in sorted((ROOT / "src" / "deepval").rglob("*.py")):
        first = path.read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith('"""'), path.name


def test_every_public_name_is_there_and_documented():
    import deepval

    assert dir(deepval) == sorted(deepval.__all__)
    lazy = {name for names in deepval._HOME.values() for name in names}
    assert lazy | {"__version__"} == set(deepval.__all__)
    for name in lazy:
        assert getattr(deepval, name).__doc__
