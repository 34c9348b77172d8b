"""The package as others meet it: light to import, typed, and whole when installed from
a wheel.
"""

import ast
import json
import os
import re
import sys
import tomllib
import venv
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from commands import run_process
from project import ROOT

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
    "cyclopts",
    "jaxtyping",
)


def run(*command: object, **options) -> str:
    done = run_process(program=list(map(str, command)), **options)
    assert done.code == 0, done.out + done.err
    return done.out


def test_import_loads_nothing_heavy():
    loaded = run(
        sys.executable,
        "-c",
        "import deepval, sys, json; print(json.dumps(sorted(sys.modules)))",
    )
    assert not set(HEAVY) & set(json.loads(loaded))


# it installs every dependency anew; the README's own test installs the package
@pytest.mark.slow
def test_a_wheel_installs_into_an_empty_environment(tmp_path):
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        tmp_path,
        ROOT,
    )
    (wheel,) = tmp_path.glob("deepval-*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    options = {"cwd": tmp_path, "env": clean}
    install = (
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
    )
    run(
        *install,
        "--require-hashes",
        "-r",
        ROOT / "requirements" / "core.lock",
        **options,
    )
    run(*install, "--no-index", "--no-deps", wheel, **options)
    run(python, "-m", "pip", "check", **options)
    where = run(python, "-c", "import deepval; print(deepval.__file__)", **options)
    assert str(tmp_path / "env") in where
    assert (Path(where.strip()).parent / "py.typed").is_file()
    out = run(
        tmp_path / "env" / "bin" / "deepval",
        "demo",
        "--out",
        "demo",
        "--scenes",
        "8",
        "--json",
        **options,
    )
    rows = json.loads(out)["braking-monocular"]["free"]["rows"]
    assert {row["allocator"] for row in rows} >= {
        "random",
        "all-full",
        "oracle",
        "ego-speed",
    }


def distributions(requirements: list[str]) -> set[str]:
    return {
        re.match(r"[\w.-]+", requirement)[0].lower() for requirement in requirements
    }


def imported() -> set[str]:
    """Names of packages of others that any module of deepval imports, at its head or
    where it needs them.
    """
    found = set()
    for path in (ROOT / "src" / "deepval").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"deepval"}


def test_what_is_imported_is_declared_and_locked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    extras = set().union(*map(distributions, project["optional-dependencies"].values()))
    core = distributions(project["dependencies"])
    # jaxtyping is imported only where somebody else has loaded it (basics/arrays).
    installed = packages_distributions()
    needed = {installed[name][0].lower() for name in imported() - {"jaxtyping"}}
    assert needed - core - extras == set()
    assert core - needed == set()
    lock = (ROOT / "requirements" / "core.lock").read_text(encoding="utf-8")
    assert core <= set(re.findall(r"^([\w.-]+)==", lock, flags=re.MULTILINE))


def test_every_public_name_is_there_and_documented():
    import deepval

    assert dir(deepval) == sorted(deepval.__all__)
    lazy = {name for names in deepval._HOME.values() for name in names}
    assert lazy | {"__version__"} == set(deepval.__all__)
    for name in lazy:
        assert getattr(deepval, name).__doc__
