"""What deepval does without its optional libraries, and on a system that is not a POSIX
one.
"""

import ast
import json
import os
import re
import sys
import tomllib
import venv
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from commands import PYTHON, SCRIPT, Done, run_process
from deepval.basics.errors import EXTRAS, InputError, InputWarning, install_command
from deepval.judge.tables import columns
from project import ROOT

POSIX_MODULES = (
    "fcntl",
    "resource",
    "termios",
    "tty",
    "pty",
    "pwd",
    "grp",
    "syslog",
    "readline",
    "_posixshmem",
)
POSIX_NAMES = (
    *(
        "fork",
        "preadv",
        "pread",
        "sysconf",
        "killpg",
        "getuid",
        "geteuid",
        "sched_getaffinity",
        "getloadavg",
        "uname",
    ),
    *("O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY"),
)
"""What `os` has on Linux and lacks on Windows, of all that the package might use."""
BLOCK = """
import sys
class Blocker:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
"""
JUDGING = (
    (
        "evaluate values.csv -s mine.csv --alpha 0.2 --by weather --costs "
        "costs.toml --out result.json"
    ),
    "evaluate values.csv -s mine.csv -s old.csv --format csv",
    "report result.json --out page.html",
    "threshold values.csv -s mine.csv --alpha 0.2 --out router.json",
    "compare values.csv mine.csv old.csv --fail-if worse --json",
    "evaluate values.csv --diagnose --json",
)
COSTS = (
    "[modes.cheap]\nms = 10.0\n[modes.full]\nms = 40.0\n[allocators.mine]\nms = 0.5\n"
)


def write_tables(folder: Path) -> None:
    """The files of a person with losses and two scores."""
    rng = np.random.default_rng(0)
    lines, mine, old = (
        ["unit,input,loss_cheap,loss_full,weather"],
        ["input,score"],
        ["input,score"],
    )
    for i in range(200):
        value = float(rng.normal(0.5, 1))
        lines.append(
            f"u{i // 10},{i},{2.0},{2.0 - value!r},{'rain' if i % 3 else 'sun'}"
        )
        mine.append(f"{i},{value + rng.normal(0, 0.5)!r}")
        old.append(f"{i},{value + rng.normal(0, 3)!r}")
    texts = {
        "values.csv": lines,
        "mine.csv": mine,
        "old.csv": old,
        "costs.toml": [COSTS],
    }
    for name, text in texts.items():
        (folder / name).write_text("\n".join(text) + "\n", encoding="utf-8")


def run_without(
    blocked: tuple[str, ...],
    folder: Path,
    *words: str,
    program: tuple[str, ...] = SCRIPT,
) -> Done:
    """Run a command in an environment in which some packages cannot be imported."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(
        BLOCK.format(blocked=set(blocked)), encoding="utf-8"
    )
    path = os.pathsep.join(
        filter(None, (str(site), str(ROOT / "src"), os.environ.get("PYTHONPATH")))
    )
    return run_process(
        *words,
        program=program,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "80"},
    )


def test_judging_csv_files_needs_no_extra_and_gives_the_same_files(tmp_path):
    outcomes = []
    for name, blocked in (("with", ()), ("without", tuple(EXTRAS))):
        folder = tmp_path / name / "work"
        folder.mkdir(parents=True)
        write_tables(folder)
        done = [run_without(blocked, folder, *command.split()) for command in JUDGING]
        assert [item.code for item in done] == [0] * len(JUDGING), [
            item.err for item in done
        ]
        files = {
            path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()
        }
        outcomes.append(([item.out for item in done], files))
    assert outcomes[0][0] == outcomes[1][0]
    assert (
        outcomes[0][1].keys()
        == outcomes[1][1].keys()
        >= {"result.json", "page.html", "router.json"}
    )
    assert [
        name
        for name, content in outcomes[0][1].items()
        if content != outcomes[1][1][name]
    ] == []


@pytest.mark.parametrize(
    ("command", "library", "extra"),
    [
        ("report result.json --out page.html --figures figures", "matplotlib", "plot"),
    ],
)
def test_a_missing_extra_is_one_sentence_with_its_command(
    command, library, extra, tmp_path, monkeypatch
):
    # the command to install an extra depends on the current folder
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    assert run_without((), tmp_path, *JUDGING[0].split()).code == 0
    for name in ("values.parquet", "scores.parquet"):
        (tmp_path / name).write_bytes(b"PAR1")
    before = {path.name for path in tmp_path.iterdir()}
    done = run_without(tuple(EXTRAS), tmp_path, *command.split())
    assert done.code == 2
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("deepval: ")
    assert (
        f" needs {library}, which is not installed: {install_command(extra)}." in line
    )
    assert {path.name for path in tmp_path.iterdir()} == before, "nothing half-written"


def test_arrays_and_data_frames_need_no_extra(tmp_path):
    code = """
import numpy as np, pandas, polars, deepval
rng = np.random.default_rng(0)
value = rng.normal(0, 1, 200)
data = {"unit": [f"u{i // 10}" for i in range(200)], "input": list(range(200))}
data |= {"loss_a": np.ones(200), "loss_b": 1 - value}
found = [deepval.evaluate(table, {"mine": kind({"input": range(200), "score": value})}, 0.2, draws=20).to_json()
         for kind in (dict, pandas.DataFrame, polars.DataFrame) for table in (kind(data),)]
assert len(set(found)) == 1, found
result = deepval.evaluate(data, {"mine": value}, 0.2, draws=20)
result.report("page.html"), result.threshold("mine"), str(result), result._repr_html_()
for use in (result.plot, result.to_arrow):
    try: use()
    except deepval.InputError as error: print(error)
"""  # noqa: E501
    done = run_without(tuple(EXTRAS), tmp_path, code, program=PYTHON)
    assert done.code == 0, done.err
    assert [line.partition(" needs ")[0] for line in done.out.splitlines()] == [
        "A figure",
        "A Parquet file, a cell or an Arrow table",
    ]


def library_calls() -> set[tuple[str, str]]:
    """Package and extra of every call of `library` in the sources that names its
    module.
    """
    calls = set()
    for path in (ROOT / "src" / "deepval").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "library"
            ):
                first = node.args[0]
                if isinstance(first, ast.Constant):
                    package = str(first.value).partition(".")[0]
                    named = {
                        k.arg: k.value.value
                        for k in node.keywords
                        if isinstance(k.value, ast.Constant)
                    }
                    calls.add(
                        (
                            package,
                            str(named.get("extra", EXTRAS.get(package, ("",))[0])),
                        )
                    )
    return calls


def packages_of(extra: str, extras: dict[str, list[str]]) -> set[str]:
    """Names of the packages of an extra, with those of the extras that it refers to."""
    names = set()
    for line in extras[extra]:
        inner = re.fullmatch(r"deepval\[(.*)\]", line)
        if inner:
            names |= set().union(
                *(packages_of(name, extras) for name in inner[1].split(","))
            )
        else:
            names.add(re.match(r"[\w-]+", line)[0])
    return names


def test_every_library_is_in_the_extra_that_its_sentence_names():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]["optional-dependencies"]
    assert set(extras) == {
        "parquet",
        "plot",
        "fit",
        "vision",
        "planners",
        "torch",
        "all",
    }
    names = {
        "sklearn": "scikit-learn",
        "PIL": "pillow",
        "cv2": "opencv-python-headless",
    }
    # the user's own data frames
    own = {("pandas", ""), ("polars", "")}
    assert library_calls() >= own
    pairs = {
        (package, extra) for package, (extra, _) in EXTRAS.items()
    } | library_calls() - own
    assert len(pairs) > len(EXTRAS)
    assert [
        pair
        for pair in pairs
        if names.get(pair[0], pair[0]) not in packages_of(pair[1], extras)
    ] == []
    assert packages_of("all", extras) == set().union(
        *(packages_of(extra, extras) for extra in extras)
    )


class Installed:
    """Metadata of an installed package, as far as `install_command` looks at it."""

    def __init__(self, origin=None, installer="pip\n"):
        self.texts = {
            "direct_url.json": origin and json.dumps(origin),
            "INSTALLER": installer,
        }

    def read_text(self, name):
        return self.texts[name]


@pytest.mark.parametrize(
    ("origin", "installer", "command"),
    [
        (None, "pip\n", "pip install 'deepval[plot]'"),
        (None, "uv", "uv pip install 'deepval[plot]'"),
        (
            {"url": "file:///a%20b/c", "dir_info": {}},
            "pip\n",
            "pip install '/a b/c[plot]'",
        ),
        (
            {"url": "file:///x.whl", "archive_info": {}},
            "pip\n",
            "pip install 'deepval[plot] @ file:///x.whl'",
        ),
    ],
)
def test_the_command_suits_the_way_of_installation(
    origin, installer, command, monkeypatch
):
    monkeypatch.setattr(
        metadata, "distribution", lambda _: Installed(origin, installer)
    )
    assert install_command("plot") == command


TABLES = {
    "plain": "unit,input,loss_a,loss_b\nu,1,1,0.5\nu,2,2,1e-3\n",
    "quoted": (
        'unit,input,loss_a,loss_b,text\r\n"u, 1","a""b",1,2,"two\nlines"\r\n'
        "v,b,3,4,x\r\n"
    ),
    "mark of order": "\ufeffunit,input,loss_a\nu,1,1\n",
    "nulls": "unit,input,loss_a,loss_b,text\nu,1,,2\n".replace("2\n", "2,\n")
    + "u,2,null,3,x\n",
    "whole numbers with nulls": "unit,input,order\nu,1,1\nu,2,\n",
    "empty lines": "unit,input,loss_a\n\nu,1,1\n\n\nu,2,2\n",
    "truth": "unit,input,night\nu,1,true\nu,2,False\n",
    "truth with nulls": "unit,input,night\nu,1,true\nu,2,\n",
    "not finite": "unit,input,loss_a\nu,1,nan\nu,2,inf\nu,3,-inf\n",
    "large": "unit,input,loss_a\nu,1,9223372036854775807\nu,2,9223372036854775808\n",
    "underscores": "unit,input,loss_a\nu,1,1_000\n",
    "spaces": "unit,input,loss_a\nu,1, 2\nu,2,3 \n",
    "long": f"unit,input,loss_a,text\nu,1,1,{'x' * 200_000}\n",
    "letters": "unit,input,ä\nu,ü,ß\n",
    "no rows": "unit,input,loss_a\n",
    "zeros in front": "unit,input,loss_a\n007,08,09\n",
    "uneven": "unit,input,loss_a\nu,1\n",
    "too long": "unit,input,loss_a\nu,1,2,3\n",
    "not closed": 'unit,input,loss_a\n"u,1,2\nu,2,3\n',
    "equal names": "unit,input,input\nu,1,2\n",
    "semicolons": "unit;input;loss_a\nu;1;2,5\n",
    "no end": "unit,input,loss_a\nu,1,2",
    "no lines": "\n\n",
    "other encoding": "unit,input,loss_a\nu,\xe9,2\n".encode("latin-1"),
}


def columns_or_sentence(path: Path) -> object:
    """The columns of a file in plain data, or the sentence about it, and the note."""
    try:
        with (
            pytest.warns(InputWarning)
            if path.stem == "no end"
            else pytest.MonkeyPatch.context()
        ):
            table = columns.read(path)
    except InputError as error:
        return str(error)
    kinds = {
        name: "text" if c.dtype.kind in "OUT" or not len(c) else c.dtype.kind
        for name, c in table.data.items()
    }
    return [
        (name, kinds[name], repr(column.tolist()))
        for name, column in table.data.items()
    ]


@pytest.mark.parametrize("name", TABLES)
def test_csv_files_are_the_same_columns_with_and_without_arrow(
    name, tmp_path, monkeypatch
):
    path = tmp_path / f"{name}.csv"
    content = TABLES[name]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with_arrow = columns_or_sentence(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert columns_or_sentence(path) == with_arrow


def test_every_module_is_imported_where_posix_is_not(tmp_path):
    code = f"""
import importlib, os, pkgutil, subprocess, multiprocessing.connection, tempfile, sys, numpy, rich.console
for name in {POSIX_MODULES!r}: sys.modules[name] = None
for name in {POSIX_NAMES!r}: delattr(os, name) if hasattr(os, name) else None
import deepval
names = [m.name for m in pkgutil.walk_packages(deepval.__path__, "deepval.")]
for name in names:
    if not name.startswith("deepval.driving.planners.neural.network"): importlib.import_module(name)
print(len(names))
from deepval.judge.tables.joins import Spill
from deepval.basics.files.bounded import Reader
sys.platform = "win32"
for use in (lambda: Spill(float), lambda: Reader("x")._start()):
    try: use()
    except deepval.InputError as error: print(error)
sys.platform = "linux"
from deepval import cli
for words in {[command.split() for command in JUDGING]!r}:
    sys.argv = ["deepval", *words]
    cli.main()
"""  # noqa: E501
    write_tables(tmp_path)
    done = run_process(code, program=PYTHON, cwd=tmp_path)
    assert done.code == 0, done.err
    number, *sentences = done.out.splitlines()[:3]
    assert int(number) > 200
    assert [sentence.split(" on ")[0] for sentence in sentences] == [
        "Tables are read piece by piece",
        "Submissions and pickles are read",
    ]
    assert (tmp_path / "page.html").is_file()
    assert (tmp_path / "router.json").is_file()


@pytest.mark.slow  # it installs the package from an index
def test_a_plain_install_judges_csv_files(tmp_path):
    pip = (
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
    )
    assert run_process(str(ROOT), program=pip).code == 0
    (wheel,) = tmp_path.glob("deepval-*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    program = str(tmp_path / "env" / "bin" / "python")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = run_process(
        "install",
        "--quiet",
        str(wheel),
        program=(program, "-m", "pip"),
        cwd=tmp_path,
        env=clean,
    )
    assert done.code == 0, done.err
    done = run_process(
        "list",
        "--format",
        "json",
        program=(program, "-m", "pip"),
        cwd=tmp_path,
        env=clean,
    )
    names = {package["name"].lower() for package in json.loads(done.out)}
    assert {"numpy", "cyclopts", "rich", "deepval"} <= names
    assert not names & {
        "pyarrow",
        "scikit-learn",
        "scipy",
        "matplotlib",
        "pillow",
        "threadpoolctl",
    }
    write_tables(tmp_path)
    for command in JUDGING:
        done = run_process(
            *command.split(),
            program=(program, "-m", "deepval"),
            cwd=tmp_path,
            env=clean,
        )
        assert done.code == 0, done.err
    done = run_process(
        "report",
        "result.json",
        "--figures",
        "f",
        program=(program, "-m", "deepval"),
        cwd=tmp_path,
    )
    assert done.code == 2
    assert f"pip install 'deepval[plot] @ {wheel.as_uri()}'." in done.err
