"""A user's own code, named on the command line: allocators, estimators, systems, data
sets, and what goes wrong.
"""

import hashlib
import json
import pickle
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import external_worlds
from commands import call, refusal, run, run_process
from deepval.basics import plugins
from deepval.basics.errors import InputError, UnsuitableError
from deepval.deploy.allocators import RECIPES
from deepval.driving.cells.folder import read_cell
from deepval.driving.cells.sources import located, read_specification
from deepval.driving.datasets import DATASETS
from drives import TwoLogs

UNITS = ",".join(f"scene-{number:02}" for number in range(10))
SYSTEM = """
from dataclasses import dataclass
import numpy as np
from deepval.driving.systems import System

@dataclass(frozen=True)
class {name}(System):
    reach_m: float = 20.0
    weights = {{"late": 5.0, "needless": 1.0}}

    def near(self, objects):
        return np.bincount(objects.frame, weights=objects.near_m < self.reach_m, minlength=objects.frames) > 0

    def plan(self, perceived, scene, *, starts=None, previous=None):
        return self.near(perceived).astype(float)[:, None]

    def terms(self, plans, scene, truth, *, previous):
        there, braked = self.near(truth.objects), plans[:, 0] > 0
        return {{"late": (there & ~braked) * 1.0, "needless": (braked & ~there) * 1.0}}
"""  # noqa: E501


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugins")
    call("build", "--units", UNITS, "--out", folder)
    return folder / "braking-monocular"


@pytest.fixture(autouse=True)
def _own_process_state(tmp_path, monkeypatch):
    """Loaded code, recipes and the path are those of one command."""
    monkeypatch.chdir(tmp_path)
    before = set(plugins._LOADED)
    modules = set(sys.modules)  # NumPy, which a test names, is not to be loaded twice
    with mock.patch.dict(RECIPES), mock.patch.object(sys, "path", list(sys.path)):
        yield
    for name in set(plugins._LOADED) - before:
        del plugins._LOADED[name]
        if name not in modules:
            sys.modules.pop(name, None)


def write(name, text):
    Path(name).write_text(text)


def scores_of(path):
    lines = [line.split(",") for line in path.read_text().splitlines()]
    return {row[0]: float(row[lines[0].index("score")]) for row in lines[1:]}


def test_a_function_scores_is_timed_and_is_judged(cells, tmp_path):
    write("crowds.py", "def boxes(view):\n    return len(view.boxes)\n")
    call("score", cells, "crowds.py:boxes", "--units", "all")
    built, scored = read_cell(cells), scores_of(cells / "scores" / "boxes.csv")
    counts = {
        str(name): int((view.detections.frame == frame).sum())
        for view in built.views
        for frame, name in enumerate(view.scene.inputs)
    }
    assert scored == {name: counts[name] for name in built.table.input.tolist()}
    assert call("score", cells, "crowds:boxes", "--out", "again.csv").startswith(
        "again.csv: "
    )
    call(
        "profile", cells, "crowds.py:boxes", "--seconds", "0.01", "--out", "costs.toml"
    )
    assert "[allocators.boxes]" in (tmp_path / "costs.toml").read_text()
    assert "boxes needs no fit" in refusal("fit", cells, "-a", "crowds.py:boxes")


def test_an_estimator_is_fitted_without_the_units_that_it_scores(cells, tmp_path):
    write(
        "fitted.py",
        "import numpy as np\n"
        "class Mean:\n"
        "    def fit(self, X, y, groups):\n"
        "        self.units = sorted(set(groups)); self.mean = y.mean(); assert "
        "X.shape[1] == 65; return self\n"
        "    def predict(self, X):\n"
        "        return np.full(len(X), self.mean)\n",
    )
    told = call("fit", cells, "-a", "fitted.py:Mean")
    assert "The estimator itself is not saved" in told
    assert not (cells / "allocators" / "Mean.json").exists()
    built, scored = read_cell(cells), scores_of(cells / "scores" / "Mean.csv")
    value = {
        str(i): v
        for i, v in zip(built.table.input, built.table.decision_values, strict=True)
    }
    unit = {
        str(i): built.table.unit_ids[u]
        for i, u in zip(built.table.input, built.table.unit, strict=True)
    }

    def mean(units):
        return np.mean([value[i] for i in value if unit[i] in units])

    for name, score in scored.items():
        fitted = (
            built.split.train
            if unit[name] in built.split.validation
            else built.split.fit
        )
        assert score == pytest.approx(mean(fitted))
    assert {unit[name] for name in scored} == {
        *built.split.validation,
        *built.split.test,
    }


def test_an_estimator_learns_from_the_users_own_table(cells):
    pytest.importorskip("sklearn")
    write(
        "models.py",
        "from sklearn.linear_model import LinearRegression\n"
        "line = LinearRegression()\n",
    )
    built = read_cell(cells)
    pairs = zip(built.table.input, built.table.decision_values.tolist(), strict=True)
    rows = [f"{name},{3 - value / 2!r}" for name, value in pairs]
    write("own.csv", "\n".join(["input,hint", *rows]) + "\n")
    call("fit", cells, "-a", "models.py:line", "--features", "own.csv")
    scored = scores_of(cells / "scores" / "line.csv")
    value = dict(
        zip(
            map(str, built.table.input),
            built.table.decision_values.tolist(),
            strict=True,
        )
    )
    assert scored == pytest.approx({name: value[name] for name in scored}, abs=1e-9)
    write("short.csv", "\n".join(["input,hint", *rows[1:]]) + "\n")
    assert "every input of the cell needs a row" in refusal(
        "fit", cells, "-a", "models.py:line", "--features", "short.csv"
    )
    write("answers.csv", "input,loss_full\na,1\n")
    assert "must not contain the answer" in refusal(
        "fit", cells, "-a", "models.py:line", "--features", "answers.csv"
    )
    assert "--features applies only" in refusal(
        "fit", cells, "-a", "gate-ridge", "--features", "own.csv"
    )


def test_gaps_classifiers_and_searches_over_groups(cells):
    pytest.importorskip("sklearn")
    write(
        "several.py",
        "from sklearn.impute import SimpleImputer\n"
        "from sklearn.linear_model import LogisticRegression, Ridge\n"
        "from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut\n"
        "from sklearn.pipeline import make_pipeline\n"
        "def gate():\n    return make_pipeline(SimpleImputer(), "
        "LogisticRegression(max_iter=10000))\n"
        "bare = LogisticRegression()\n"
        "search = make_pipeline(SimpleImputer(), GridSearchCV(Ridge(), {'alpha': [1, "
        "9]}, cv=LeaveOneGroupOut()))\n",
    )
    call("fit", cells, "-a", "several.py:gate")
    assert all(
        0 <= score <= 1 for score in scores_of(cells / "scores" / "gate.csv").values()
    )
    # a splitter of groups without groups would raise
    call("fit", cells, "-a", "several.py:search")
    sentence = refusal("fit", cells, "-a", "several.py:bare")
    assert "Input X contains NaN" in sentence
    assert "begin the pipeline with SimpleImputer()" in sentence
    assert "`deepval fit" in refusal("score", cells, "several.py:gate")


@pytest.mark.parametrize(
    ("method", "columns", "fits"),
    [
        ("predict", 1, True),
        ("predict", 2, False),
        ("predict_proba", 2, True),
        ("predict_proba", 3, False),
        ("decision_function", 2, False),
    ],
)
def test_an_estimator_has_one_output_per_row(cells, method, columns, fits):
    write(
        "outputs.py",
        "import numpy as np\nclass Several:\n    def fit(self, X, y):\n"
        f"        return self\n    def predict(self, X):\n        return X[:, 0]\n"
        f"    def {method}(self, X):\n"
        f"        return np.tile(np.arange({columns}.0), (len(X), 1))\n",
    )
    words = ("fit", cells, "-a", "outputs.py:Several")
    if fits:
        call(*words)
        scores = scores_of(cells / "scores" / "Several.csv").values()
        assert set(scores) == {columns - 1.0}
    else:
        assert f"{method} gives {columns}" in refusal(*words)


def test_own_code_that_ends_the_program_is_an_error(cells, tmp_path):
    text = SYSTEM.format(name="Leaving")
    there = "        there, braked"
    write("leaving.py", text.replace(there, f"        exit(0)\n{there}"))
    for workers in (1, 2):
        words = ("--system", "leaving.py:Leaving", "--out", "out", "--workers", workers)
        done = run("build", "--units", UNITS, *words)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("deepval: leaving.py, line ")
        assert "SystemExit" in done.err
        assert not (tmp_path / "out").exists()


def test_analyses_take_own_estimators(cells):
    write(
        "mean.py",
        "import numpy as np\nclass Mean:\n    def fit(self, X, y):\n"
        "        self.mean = y.mean(); return self\n"
        "    def predict(self, X):\n        return np.full(len(X), self.mean)\n",
    )
    table = call(
        "analyse", "out-of-fold", cells, "-a", "mean.py:Mean", "--alpha", "0.2"
    )
    assert "Mean" in table
    write("also.py", Path("mean.py").read_text())
    assert "mean.py:Mean and also.py:Mean" in refusal(
        "analyse", "out-of-fold", cells, "-a", "mean.py:Mean", "-a", "also.py:Mean"
    )


def test_a_recipe_is_read_again_by_the_same_word_only(cells):
    write(
        "recipes.py",
        "from deepval.deploy.allocators import RowRecipe\n"
        "from deepval.deploy.allocators.models import Ridge\n"
        "mine = RowRecipe('own-ridge', 'cheap', 'value', Ridge(penalties=5))\n"
        "taken = RowRecipe('gate-ridge', 'cheap', 'value', Ridge())\n",
    )
    assert "own-ridge is not fitted" in refusal("score", cells, "recipes.py:mine")
    call("fit", cells, "-a", "recipes.py:mine", "-a", "gate-ridge", "--workers", "2")
    call("score", cells, "recipes.py:mine", "--out", "one.csv")
    assert "deepval has an allocator 'gate-ridge'" in refusal(
        "fit", cells, "-a", "recipes.py:taken"
    )
    del RECIPES["own-ridge"]
    assert "'own-ridge'" in refusal("score", cells, "own-ridge")


@pytest.mark.parametrize(
    ("word", "place"),
    [
        ("odd.py:scor", "odd.py: must define 'scor'"),
        ("odd.py", "'odd.py'"),
        ("absent.py:score", "absent.py"),
        ("absent:score", "absent"),
        ("odd.py:fails", "odd.py, line 5"),
        ("odd.py:none", "none: "),
        ("odd.py:two", "odd.py:two"),
        ("odd.py:Thing", "odd.py:Thing"),
        ("odd.py:Needs", "odd.py:Needs"),
        ("broken.py:score", "broken.py, line 2"),
        ("lacking.py:score", "lacking.py, line 1"),
        ("ends.py:score", "ends.py: must define 'score'"),
        ("json.py:score", "json.py"),
        ("my-file.py:score", "a Python name"),
        ("odd.py:huge", "huge: "),
        ("odd.py:Huge", "own: "),
        ("odd.py:leaves", "odd.py, line 17"),
        ("sys:path", "sys: must be a module of Python code"),
        ("math:sqrt", "math: must be a module of Python code"),
        ("operator:neg", "neg fails with TypeError"),
        ("numpy:where", "where fails with ValueError"),
    ],
)
def test_errors_of_own_code_name_its_place(cells, word, place):
    write(
        "odd.py",
        "def score(view):\n    return 1\n\ndef fails(view):\n    return 1 / 0\n\n"
        "def none(view):\n    return None\n"
        "def two(a, b):\n    return 1\nclass Thing:\n    pass\n"
        "class Needs:\n    def __init__(self, size):\n        pass\n"
        "def leaves(view):\n    raise SystemExit(0)\n"
        "def huge(view):\n    return 10**400\n"
        "from deepval.deploy.allocators import Allocator\n"
        "class Huge(Allocator):\n    name, uses = 'own', frozenset()\n"
        "    def _of_frame(self, glance):\n        return 10**400\n",
    )
    write("broken.py", "x = 1\ndef score(view:\n")
    write("lacking.py", "import not_there\n")
    write("ends.py", "import sys\nsys.exit()\n")
    write("json.py", "def score(view):\n    return 1\n")
    write("my-file.py", "def score(view):\n    return 1\n")
    done = run("score", cells, word)
    assert (done.code, done.out) == (2, "")
    assert place in done.err
    assert done.err.count("\n") == 1


def test_a_system_of_ones_own_is_built_by_workers_and_anew_after_a_change(tmp_path):
    write("alarm.py", SYSTEM.format(name="Alarm"))
    words = ("build", "--units", UNITS, "--system", "alarm.py:Alarm", "--out", "cells")
    first = call(*words)
    assert first.startswith("cells/alarm-Alarm-monocular: ")
    assert "unchanged" in call(*words)
    write("alarm.py", SYSTEM.format(name="Alarm").replace('"late": 5.0', '"late": 7.0'))
    assert "unchanged" not in call(*words)
    manifest = (
        tmp_path / "cells" / "alarm-Alarm-monocular" / "manifest.json"
    ).read_bytes()
    call(*words[:-1], "workers", "--workers", "2")
    assert (
        tmp_path / "workers" / "alarm-Alarm-monocular" / "manifest.json"
    ).read_bytes() == manifest
    assert "deepval has a system 'braking'" in _refused_system("braking")


def _refused_system(name):
    write("clash.py", SYSTEM.format(name="Own") + f"    name = {name!r}\n")
    return refusal(
        "build", "--units", UNITS, "--system", "clash.py:Own", "--out", "clash"
    )


PLANNER = """
from dataclasses import dataclass
import numpy as np
from deepval.driving.planners.observation import Planner, Trajectory

@dataclass(frozen=True)
class Coast(Planner):
    reach_m: float = 15.0

    def plan(self, situation, agents):
        ego, times_s = situation.ego, np.arange(9) * 0.5
        free = np.hypot(*(agents.pose[:, :2] - ego.pose[:2]).T) > self.reach_m
        speed_mps = np.full(9, ego.speed_mps if free.all() else 0.0)
        ahead = np.array([np.cos(ego.pose[2]), np.sin(ego.pose[2]), 0.0])
        pose = ego.pose + (times_s * speed_mps)[:, None] * ahead
        return Trajectory(times_s, pose, speed_mps)
"""


def logged(tmp_path, *systems, out="cells"):
    """The words that build cells of logged drives."""
    if not Path("logs").exists():
        external_worlds.scenarionet(Path("logs"))
    named = [word for name in systems for word in ("--system", name)]
    modes = ("--mode", "yolov8s-320=profile-320", "--mode", "yolov8s-640=profile-640")
    data = ("--dataset", "scenarionet", "--root", "logs", "--geometry", "tracks")
    return ("build", *data, *modes, *named, "--out", out)


def test_two_own_systems_have_a_cell_each(tmp_path):
    driving = (
        PLANNER + "from deepval.driving.systems import Driving\n"
        "bold, shy = Driving(Coast(5.0)), Driving(Coast(25.0))\n"
    )
    write("mine.py", driving)
    built = json.loads(
        call(
            *logged(tmp_path, "mine.py:bold", "mine.py:shy", "mine.py:Coast"), "--json"
        )
    )
    names = ["mine-bold-tracks", "mine-shy-tracks", "mine-Coast-tracks"]
    assert [item["folder"] for item in built] == [f"cells/{name}" for name in names]
    stored = [read_cell(tmp_path / "cells" / name) for name in names]
    assert [cell.id for cell in stored] == [item["id"] for item in built]
    reaches = [cell.spec.constants["planner"]["reach_m"] for cell in stored]
    assert reaches == [5.0, 25.0, 15.0]
    # losses of planners are geometric: differences by rounding are none, as in memory
    assert [cell.table.tolerance for cell in stored] == [1e-9] * 3


def test_systems_of_one_name_are_refused_before_anything_is_written(tmp_path):
    same = SYSTEM.format(name="One") + '    name = "alarm"\n'
    write("same.py", same + "class Two(One): pass\n")
    words = ("build", "--units", UNITS, "--out", "cells", "--system")
    sentence = refusal(*words, "same.py:One", "--system", "same.py:Two")
    assert "'alarm'" in sentence
    assert "same.py:One, same.py:Two" in sentence
    assert "'braking'" in refusal(*words, "braking", "--system", "braking")
    assert "Geometries" in refusal(
        *words, "braking", "--geometry", "monocular", "--geometry", "monocular"
    )
    assert "letters" in refusal(*words, _named("../../away"))
    assert not (tmp_path / "cells").exists()


def _named(name):
    write("away.py", SYSTEM.format(name="Away") + f"    name = {name!r}\n")
    return "away.py:Away"


def test_another_file_of_the_same_name_replaces_no_cell(tmp_path):
    units = ",".join(f"scene-0{number}" for number in range(4))
    for folder, reach in (("a", "20.0"), ("b", "30.0")):
        Path(folder).mkdir()
        write(f"{folder}/mine.py", SYSTEM.format(name="S").replace("20.0", reach))
    build = ("build", "--units", units, "--out", "cells", "--system")
    call(*build, "a/mine.py:S")
    files = [path for path in Path("cells").rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    told = refusal(*build, "b/mine.py:S")
    assert "a/mine.py:S" in told
    assert "b/mine.py:S" in told
    assert {path: path.read_bytes() for path in files} == before
    # the same file may change, and may be named in another way
    write("a/mine.py", SYSTEM.format(name="S").replace("20.0", "25.0"))
    assert "inputs affected" in call(*build, f"{tmp_path}/a/mine.py:S")


def test_a_fitted_file_states_the_own_code_that_its_recipe_is_of(cells, tmp_path):
    recipe = (
        "from deepval.deploy.allocators import RowRecipe\n"
        "from deepval.deploy.allocators.models import Ridge\n"
        "gate = RowRecipe('gate-mine', 'cheap', 'value', Ridge({}))\n"
    )
    for folder, strength in (("a", "1.0"), ("b", "2.0")):
        Path(folder).mkdir()
        write(f"{folder}/gates.py", recipe.format(strength))
    call("fit", cells, "-a", "a/gates.py:gate", "--out", "gate.json")
    training = json.loads(Path("gate.json").read_text())["training"]
    digest = hashlib.sha256(Path("a/gates.py").read_bytes()).hexdigest()
    assert training["code"] == {"word": "a/gates.py:gate", "sha256": digest}
    before = Path("gate.json").read_bytes()
    told = refusal("fit", cells, "-a", "b/gates.py:gate", "--out", "gate.json")
    assert "a/gates.py:gate" in told
    assert Path("gate.json").read_bytes() == before
    call("fit", cells, "-a", "gate-ridge", "--out", "ours.json")
    assert "code" not in json.loads(Path("ours.json").read_text())["training"]


def test_modes_with_another_name_are_read_again(tmp_path):
    call(*logged(tmp_path, "idm-safety"))
    cell = read_cell(tmp_path / "cells" / "idm-safety-tracks")
    assert located(cell).id == cell.id


def test_a_cell_s_own_code_is_loaded_only_when_the_user_confirms_it(tmp_path):
    write("alarm.py", SYSTEM.format(name="Alarm"))
    call("build", "--units", UNITS, "--system", "alarm.py:Alarm", "--out", "cells")
    folder = tmp_path / "cells" / "alarm-Alarm-monocular"
    manifest = json.loads((folder / "manifest.json").read_text())
    digest = hashlib.sha256(Path("alarm.py").read_bytes()).hexdigest()
    assert manifest["code"] == {"system": {"word": "alarm.py:Alarm", "sha256": digest}}
    cell = read_cell(folder)
    forget("alarm")
    spec = located(cell)
    assert spec.source is not None
    with pytest.raises(UnsuitableError, match=r"--code alarm.py:Alarm"):
        _ = spec.acting
    assert "alarm" not in sys.modules
    acting = located(cell, code=["alarm.py:Alarm"]).acting
    assert (type(acting).__name__, acting.reach_m) == ("Alarm", 20.0)
    write("alarm.py", SYSTEM.format(name="Alarm") + "# changed\n")
    with pytest.raises(InputError, match="has changed"):
        located(cell, code=["alarm.py:Alarm"])


def test_constants_of_own_code_are_those_of_the_cell(tmp_path):
    write("alarm.py", SYSTEM.format(name="Alarm"))
    words = ("--system", "alarm.py:Alarm", "--set", "reach_m=30", "--out", "cells")
    call("build", "--units", UNITS, *words)
    cell = read_cell(tmp_path / "cells" / "alarm-Alarm-monocular")
    assert located(cell, code=["alarm:Alarm"]).acting.reach_m == 30.0


def test_an_analysis_plans_again_with_own_code(tmp_path):
    write("alarm.py", SYSTEM.format(name="Alarm"))
    call("build", "--units", UNITS, "--system", "alarm.py:Alarm", "--out", "cells")
    words = ("analyse", "mechanism", "cells/alarm-Alarm-monocular")
    forget("alarm")
    assert "--code alarm.py:Alarm" in refusal(*words)
    assert "alarm" not in sys.modules
    assert "Alarm" in call(*words, "--code", "alarm.py:Alarm")
    assert "found 'other.py:Alarm'" in refusal(*words, "--code", "other.py:Alarm")


def test_a_crafted_cell_loads_nothing(tmp_path):
    write("alarm.py", SYSTEM.format(name="Alarm"))
    call("build", "--units", UNITS, "--system", "alarm.py:Alarm", "--out", "cells")
    folder = tmp_path / "cells" / "alarm-Alarm-monocular"
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    write("trap.py", "from pathlib import Path\nPath('sprung').touch()\nx = 1\n")
    for word in ("trap.py:x", "trap:x", "pickle:loads", 7):
        code = {"word": word, "sha256": "0" * 64}
        path.write_text(json.dumps({**manifest, "code": {"system": code}}))
        refusal("analyse", "mechanism", folder)
        for command in (("evaluate", folder), ("analyse", "observations", folder)):
            run(*command)
    assert not Path("sprung").exists()
    assert "trap" not in sys.modules


def test_a_specification_names_own_code_that_the_user_confirms(tmp_path):
    write("alarm.py", SYSTEM.format(name="Alarm"))
    units = [f"scene-{number:02}" for number in range(10)]
    write(
        "spec.toml",
        'dataset = "synthetic"\ngeometry = "monocular"\nsystem = "alarm.py:Alarm"\n'
        f"units = {units}\n",
    )
    assert "--code alarm.py:Alarm" in refusal("analyse", "mechanism", "spec.toml")
    assert "alarm" not in sys.modules
    table = call("analyse", "mechanism", "spec.toml", "--code", "alarm.py:Alarm")
    assert "Alarm" in table


def forget(name):
    """Unload a module of own code, as if another command began."""
    del plugins._LOADED[name]
    del sys.modules[name]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (("def terms", "def term"), "odd.py:Odd: must define terms"),
        (("[:, None]", "[1:, None]"), "a plan for each of 40 frames; found 39"),
        (("* 1.0}", "* 1.0 + np.zeros((2, 1))}"), "'needless' must be a number for"),
    ],
)
def test_an_unfinished_system_is_refused_in_one_sentence(tmp_path, wrong, named):
    write("odd.py", SYSTEM.format(name="Odd").replace(*wrong))
    assert named in refusal("build", "--system", "odd.py:Odd", "--out", "cells")
    assert not (tmp_path / "cells").exists()


def test_a_failing_system_names_its_line_and_leaves_nothing(tmp_path):
    write(
        "failing.py",
        SYSTEM.format(name="Failing").replace("objects.near_m", "objects.far"),
    )
    for workers in (1, 2):
        done = run(
            "build",
            "--units",
            UNITS,
            "--system",
            "failing.py:Failing",
            "--out",
            "out",
            "--workers",
            workers,
        )
        assert (done.code, done.err.split(":")[1]) == (2, " failing.py, line 12")
        assert not (tmp_path / "out").exists()


def test_a_data_set_of_ones_own(tmp_path):
    write(
        "lanes.py",
        "from dataclasses import dataclass\n"
        "from deepval.driving.datasets import Dataset\n"
        "from deepval.driving.datasets.synthetic import Synthetic\n"
        "@dataclass(frozen=True)\nclass Lanes(Dataset):\n    root: object = None\n"
        "    name = 'lanes'\n"
        "    def files(self, unit):\n        return {}\n"
        "    def unit_ids(self):\n        return Synthetic().unit_ids()[:4]\n"
        "    def read_unit(self, unit):\n        return Synthetic().read_unit(unit)\n",
    )
    words = (
        "build",
        "--mode",
        "none",
        "--mode",
        "reference",
        "--geometry",
        "oracle",
        "--out",
        "cells",
        "--dataset",
    )
    call(*words, "lanes.py:Lanes")
    cell = read_cell(tmp_path / "cells" / "braking-oracle")
    assert cell.id.startswith("lanes-none-reference-oracle-braking-")
    assert cell.code["dataset"].word == "lanes.py:Lanes"
    with pytest.raises(UnsuitableError, match=r"--code lanes.py:Lanes"):
        located(cell)
    assert located(cell, code=["lanes.py:Lanes"]).id == cell.id
    table = call("analyse", "mechanism", cell.folder, "--code", "lanes.py:Lanes")
    assert "braking-oracle" in table
    assert "must be a data set" in refusal(*words, "lanes.py:dataclass")
    assert "needs two or more --mode" in refusal(
        "build", "--dataset", "lanes.py:Lanes", "--out", "cells"
    )


def test_an_installed_package_adds_names(tmp_path, cells):
    site = tmp_path / "site"
    facts = site / "strangers-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: strangers\nVersion: 1.0\n"
    )
    (facts / "entry_points.txt").write_text(
        "[deepval.allocators]\nstranger = strangers:score\n[deepval.systems]\n"
        "strange = strangers:Strange\n"
    )
    (site / "strangers.py").write_text(
        SYSTEM.format(name="Strange") + "\ndef score(view):\n    return 1.5\n"
    )
    sys.path.append(str(site))
    call("score", cells, "stranger", "--out", "scores.csv")
    assert set(scores_of(tmp_path / "scores.csv").values()) == {1.5}
    assert call(
        "build", "--units", UNITS, "--system", "strange", "--out", "cells"
    ).startswith("cells/strange-monocular")
    assert "did you mean 'strange'?" in refusal(
        "build", "--units", UNITS, "--system", "strangee", "--out", "cells"
    )


def test_no_file_causes_code_to_be_loaded(cells, tmp_path):
    write("trap.py", "raise SystemExit('loaded')\ndef score(view):\n    return 1\n")
    write(
        "spec.toml",
        'dataset = "trap.py:Data"\ngeometry = "monocular"\nsystem = "trap.py:System"\n',
    )
    cell = tmp_path / "cell"
    done = run_process("-r", cells, cell, program=("cp",))
    assert done.code == 0
    (cell / "allocators").mkdir(exist_ok=True)
    write(
        cell / "allocators" / "trap.json",
        json.dumps({"format": "deepval allocator", "front": "trap.py:score"}),
    )
    write(cell / "allocators" / "pickled.json", pickle.dumps({"a": 1}, 0).decode())
    for words in (
        ("score", cell, "trap"),
        ("score", cell, "pickled"),
        ("fit", cell, "--like", cell / "allocators" / "trap.json"),
    ):
        assert run(*words).code == 2
    with pytest.raises(InputError, match=r"give --code trap\.py:Data"):
        read_specification(tmp_path / "spec.toml")
    assert "trap" not in sys.modules


def test_an_analysis_leaves_out_the_cells_on_which_it_cannot_work(tmp_path):
    write("alarm.py", SYSTEM.format(name="Alarm"))
    systems = ("--system", "alarm.py:Alarm", "--system", "braking")
    call("build", "--units", UNITS, *systems, "--out", "cells")
    forget("alarm")
    alarm, braking = "cells/alarm-Alarm-monocular", "cells/braking-monocular"
    alone = call("analyse", "viability", braking, "--json")
    done = run("analyse", "viability", alarm, braking, "--json", notes=True)
    assert (done.code, done.out) == (0, alone)
    assert done.err.count("alarm-Alarm-monocular") == 1
    assert "give --code alarm.py:Alarm" in done.err
    assert "alarm" not in sys.modules


def test_a_reproduction_runs_own_code_that_the_user_names(tmp_path):
    write("alarm.py", SYSTEM.format(name="Alarm"))
    call("build", "--units", UNITS, "--system", "alarm.py:Alarm", "--out", "cells")
    forget("alarm")
    words = ("reproduce", "cells", "--work", "work", "--analysis", "mechanism")

    def outcome(*more):
        content = json.loads(call(*words, "--workers", 1, "--json", *more))
        refused = [line for by_set in content["refused"].values() for line in by_set]
        return len(content["analyses"]["mechanism"]["synthetic"]), refused

    rows, refused = outcome()
    assert (rows, len(refused)) == (0, 1)
    assert "alarm" not in sys.modules
    assert outcome("--code", "alarm.py:Alarm") == (3, [])
    assert "found 'other.py:Alarm'" in refusal(*words, "--code", "other.py:Alarm")
    forget("alarm")
    in_workers = run_process(*words, "--code", "alarm.py:Alarm", "--json")
    assert '"refused": {}' in in_workers.out


COAST = """
from dataclasses import dataclass
import numpy as np
from deepval.driving.planners.observation import Planner, Trajectory

@dataclass(frozen=True)
class Coast(Planner):
    def plan(self, situation, agents):
        times_s = np.arange(9) * 0.5
        pose = situation.ego.pose + times_s[:, None] * np.array([5.0, 0.0, 0.0])
        return Trajectory(times_s, pose, np.full(9, 5.0))

not_a_planner = 7
"""


def test_a_planner_of_one_s_own_drives(monkeypatch):
    monkeypatch.setitem(DATASETS, "two-logs", TwoLogs)
    write("coast.py", COAST)
    words = ("drive", "--dataset", "two-logs", "--root", ".", "--seconds", 2)
    rows = json.loads(call(*words, "--planner", "coast.py:Coast", "--json"))
    assert [row["way_m"] for row in rows] == [pytest.approx(10.0)] * 2
    assert "must be a planner" in refusal(*words, "--planner", "coast.py:not_a_planner")
    assert "must define 'Coats'" in refusal(*words, "--planner", "coast.py:Coats")
