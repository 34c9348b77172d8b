"""Options of every command: honoured or refused in a sentence before anything is
written, never ignored.
"""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import deepval
from commands import call, refusal
from deepval.basics.errors import InputError
from deepval.driving.cells import sources
from deepval.driving.cells.folder import read_cell
from deepval.driving.cells.spec import specs

UNITS = ("--units", "scene-00,scene-01,scene-02,scene-03")
ROWS = [("a", i, 2.0 + i % 3, 1.0 + i % 2) for i in range(6)] + [
    ("b", 6 + i, 3.0, 2.0 + i % 2) for i in range(6)
]


def build(*words: object) -> Path:
    """The folder of the one cell that is built."""
    out = Path(str(words[-1]))
    call("build", *UNITS, *words[:-1], "--out", out)
    return out / "braking-monocular"


@pytest.fixture
def files(tmp_path, monkeypatch) -> Path:
    """A folder to stand in, with values, scores of two allocators, and costs."""
    monkeypatch.chdir(tmp_path)
    Path("values.csv").write_text(
        "unit,input,loss_s,loss_l\n"
        + "".join(f"{u},{i},{s},{b}\n" for u, i, s, b in ROWS)
    )
    for name in "xy":
        Path(f"{name}.csv").write_text(
            "input,score\n" + "".join(f"{i},{(i * 7) % 5}\n" for _, i, _, _ in ROWS)
        )
    Path("costs.toml").write_text(
        "[modes.s]\nms = 1\n[modes.l]\nms = 2\n[allocators.x]\nms = 0\n"
        "[allocators.y]\nms = 0\n"
    )
    Path("file").write_text("")
    return tmp_path


def tree() -> set[str]:
    return {str(path) for path in Path().rglob("*")}


JUDGED = [
    (
        ("--format", "nope"),
        'Invalid value "nope" for --format. Choose from: "text", "csv"',
    ),
    (("--format", "mrkdown"), '"mrkdown" for --format'),
]
SHARED = [
    (("--seed", "-1"), "--seed must be 0 or more; found -1"),
    (
        ("--skipping",),
        (
            "--skipping applies only to latency, energy and money budgets; none was "
            "requested: give --costs"
        ),
    ),
    (
        ("--skipping", "--costs", "costs.toml", "--budget", "selection"),
        "--skipping applies only to latency",
    ),
]


@pytest.mark.parametrize(("words", "sentence"), [*JUDGED, *SHARED])
def test_evaluate(files, capsys, words, sentence):
    before = tree()
    with pytest.raises(InputError) as told:
        call("evaluate", "values.csv", "-s", "x.csv", "--out", "result.json", *words)
    assert sentence in str(told.value)
    assert tree() == before
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"), [*SHARED, (("--fail-if", "wors"), 'Did you mean "worse"?')]
)
def test_compare(files, words, sentence):
    with pytest.raises(InputError) as told:
        call("compare", "values.csv", "x.csv", "y.csv", *words)
    assert sentence in str(told.value)


FOLDERS = [
    ("build",),
    ("demo",),
    ("example",),
    ("leaderboard", ".", "--cells", "."),
    ("detect", ".", "-w", "x.onnx", "--size", "64"),
]


@pytest.mark.parametrize("words", FOLDERS)
def test_a_folder_that_cannot_be_written_is_seen_before_the_work(files, words):
    for out in ("file", "file/deeper"):
        with pytest.raises(
            InputError,
            match=f"{out}: must be a folder that can be written; file is a file",
        ):
            call(*words, "--out", out)


BUILT = [
    (("--threshold", "yolov8s-32=0.9"), "'yolov8s-32=0.9'"),
    (("--threshold", "RRC=0.9"), "--threshold"),
    (("--threshold", "0.2", "--threshold", "0.3"), "--threshold"),
    (("--threshold", "nan"), "--threshold"),
    (("--threshold", "yolov8s-320=inf"), "--threshold"),
    (("--scores-are", "yolov8s-320=raw"), "--scores-are"),
    (("--root", "."), "--root"),
    (("--class", "car"), "--class"),
    (("--class", "Pedestrain"), "'Pedestrain'"),
    (
        ("--mode", "yolov8s-320", "--mode", "yolov8s-640", "--mode", "yolov8s-320"),
        "Modes need different",
    ),
    (("--seed", "-1"), "--seed"),
]


@pytest.mark.parametrize(("words", "sentence"), BUILT)
def test_build_on_the_synthetic_world(files, words, sentence):
    before = tree()
    with pytest.raises(InputError) as told:
        build(*words, "out")
    assert sentence in str(told.value)
    assert tree() == before


def test_thresholds_and_classes_of_the_synthetic_world_are_honoured(files):
    plain = read_cell(build("plain"))
    same = read_cell(
        build("--threshold", "0.25", "--threshold", "yolov8s-320=0.25", "same")
    )
    other = read_cell(build("--threshold", "yolov8s-320=0.6", "other"))
    cars = read_cell(build("--class", "Car", "cars"))
    assert same.id == plain.id
    assert len({plain.table.digest, other.table.digest, cars.table.digest}) == 3
    limits = {
        name: mode["threshold"] for name, mode in other.definition["modes"].items()
    }
    assert limits == {"yolov8s-320": 0.6, "yolov8s-640": 0.25}
    assert other.views[0].mode.threshold == 0.6
    assert [mode["classes"] for mode in cars.definition["modes"].values()] == [
        ["Car"],
        ["Car"],
    ]


SET = [
    (("--set", "hard_mps2"), "--set"),
    (("--set", "hard_mps2=fast"), "--set"),
    (("--set", "hard_mps2=inf"), "--set"),
    (("--set", "hard_mps2=5", "--set", "hard_mps2=6"), "--set"),
    (
        ("--set", "corridor_m=1", "--set", "corridor_half_width_m=2"),
        "corridor_half_width_m",
    ),
    (("--system", "receding-horizon", "--set", "offsets=4.5"), "The constant offsets"),
    (("--system", "receding-horizon", "--set", "offsets=0"), "needs accelerations and"),
    (("--system", "receding-horizon", "--set", "step_s=0"), "step_s"),
    (("--system", "receding-horizon", "--set", "hardest_mps2=1"), "hardest_mps2"),
    (("--set", "hard_mps2=-1"), "hard_mps2"),
    (
        ("--system", "receding-horizon", "--set", "corridor_half_width_m=1"),
        "A constant must",
    ),
    (("--set", "hard=5"), "brake_from_mps2"),
]


@pytest.mark.parametrize(("words", "sentence"), SET)
def test_constants_that_cannot_be_set(files, words, sentence):
    before = tree()
    with pytest.raises(InputError) as told:
        build(*words, "out")
    assert sentence in str(told.value)
    assert tree() == before


@pytest.mark.parametrize(
    ("system", "changes", "told"),
    [
        ("braking", {"corridor_half_width_m": 1.5}, {"required": {"corridor_m": 1.5}}),
        (
            "braking",
            {"hard_mps2": 5.123456789, "change_weight": 0.0},
            {"hard_mps2": 5.123456789, "change_weight": 0.0},
        ),
        ("lateral", {"corridor_half_width_m": 1.5}, {"half_width_m": 1.5}),
        (
            "receding-horizon",
            {"offsets": 3, "hardest_mps2": -6},
            {"offsets": 3, "hardest_mps2": -6.0},
        ),
    ],
)
def test_a_constant_that_is_set_is_of_the_cell_and_of_its_command(
    files, system, changes, told
):
    words = [
        word
        for name, value in changes.items()
        for word in ("--set", f"{name}={value!r}")
    ]
    call("build", *UNITS, "--system", system, "--out", "plain")
    call("build", *UNITS, "--system", system, *words, "--out", "set")
    plain, changed = (
        read_cell(Path(out) / f"{system}-monocular") for out in ("plain", "set")
    )
    assert changed.id != plain.id
    usual, now = (cell.definition["system"]["constants"] for cell in (plain, changed))
    held = {
        name: usual[name] | value if isinstance(value, dict) else value
        for name, value in told.items()
    }
    assert now == usual | held
    assert type(now.get("offsets", 0)) is int
    (cell,) = specs(
        sources.synthetic(units=UNITS[1].split(",")), systems=[system], changes=changes
    )
    assert cell.id == changed.id
    for place, spec in enumerate((cell, changed.spec)):
        command = shlex.split(spec.command(root="", files={}, out=f"again-{place}"))
        assert command.count("--set") == len(changes)
        call(*command[1:])
        assert (
            read_cell(Path(f"again-{place}") / f"{system}-monocular").id == changed.id
        )


def test_report(files):
    call(
        "evaluate", "values.csv", "-s", "x.csv", "--draws", "20", "--out", "result.json"
    )
    before = tree()
    for words, sentence in [
        (("--image-root", "."), "--image-root"),
        (("--images", "--figures", "figures"), "--images"),
        (("--figures", "figures", "--out", "nowhere/page.html"), "must be a"),
        (("--figures", "file", "--out", "page.html"), "must be a"),
        (
            ("--figures", "figures", "--out", "page.html", "--frames", "x.csv"),
            "must be frames",
        ),
    ]:
        with pytest.raises(InputError) as told:
            call("report", "result.json", *words)
        assert sentence in str(told.value)
        assert tree() == before


def contents() -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in sorted(Path().rglob("*"))
        if path.is_file()
    }


REPLACING = [
    "evaluate values.csv -s x.csv --out values.csv",
    "evaluate values.csv -s x.csv y.csv --out y.csv",
    "evaluate values.csv -s x.csv --costs costs.toml --out costs.toml",
    "evaluate tables -s x.csv --out tables/a.parquet",
    "evaluate cell --out cell/values.parquet",
    "evaluate cell -s ego-speed --out cell/scores/ego-speed.csv",
    "fit cell --like gate.json --out gate.json",
    "score cell gate.json --out gate.json",
    "analyse signs cell --out cell/frames.json",
    "analyse budgets cell --costs costs.toml --figure costs.toml",
    "reproduce report.json --work folder --out .",
]


@pytest.mark.parametrize("line", REPLACING)
def test_no_output_replaces_an_input(files, line):
    """Under whatever name: refused in one sentence before anything is read."""
    for folder in ("folder", "tables", "cell/scores"):
        Path(folder).mkdir(parents=True)
    listed = ("values.parquet", "frames.json", "split.json", "costs.toml")
    beside = ("manifest.json", "opened.jsonl", "scores/ego-speed.csv")
    for name in (
        *(f"cell/{name}" for name in (*listed, *beside)),
        "tables/a.parquet",
        "units.txt",
    ):
        Path(name).write_text("a file")
    for name in (
        "result.json",
        "frames.json",
        "gate.json",
        "leaderboard.json",
        "report.json",
        "manifest.json",
    ):
        Path(name).write_text("{}")
    Path("link.csv").symlink_to("values.csv")
    before = contents()
    with pytest.raises(
        InputError,
        match=(
            r"^--(out|figure) must not replace a file that the command "
            r"reads; .* write to"
        ),
    ):
        call(*shlex.split(line))
    assert contents() == before


# few units, to be quick
@pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
def test_results_beside_their_inputs_are_written_again(files):
    """What a command wrote before is no input of it, though it lies in the same
    folder.
    """
    cell = build("cells")
    call("score", cell, "ego-speed")
    for _ in range(2):
        call("score", cell, "ego-speed", "--out", cell / "scores" / "ego-speed.csv")
        call("evaluate", cell, "--draws", 20, "--out", cell / "result.json")
        call("analyse", "signs", cell, "--out", cell / "signs.json")
        call("fit", cell, "-a", "gate-ridge", "--out", cell / "gate.json")
    assert (
        json.loads((cell / "result.json").read_text())["schema"] == "deepval/result/1"
    )


WRONG = [
    ({"keep": 2}, ("--keep", "2"), "keep must", "--keep must"),
    ({"at_least": "x"}, ("--at-least", "x"), "at_least must", "--at-least must"),
    ({"own": "z"}, ("--own", "z"), "own must", "--own must"),
    ({"by": "no"}, ("--by", "no"), "by needs", "--by needs"),
    ({"table_by": "no"}, ("--table-by", "no"), "table_by needs", "--table-by needs"),
    (
        {"budgets": deepval.Latency(0.2)},
        ("--budget", "latency"),
        "costs='costs.toml'",
        "--costs costs.toml",
    ),
]


@pytest.mark.parametrize(("arguments", "words", "in_python", "typed"), WRONG)
def test_a_refusal_names_what_its_reader_writes(
    files, arguments, words, in_python, typed
):
    assert typed in refusal("evaluate", "values.csv", "-s", "x.csv", *words)
    # Python names arguments also after a command has ended.
    with pytest.raises(InputError) as caught:
        deepval.evaluate("values.csv", {"x": "x.csv"}, **arguments)
    assert in_python in str(caught.value)
    assert "--" not in str(caught.value)


def test_a_score_that_lacks_many_units_lists_three_of_them(files):
    table = deepval.ValueTable.from_columns(
        unit=[f"u{i // 2:03}" for i in range(400)],
        input=np.arange(400),
        losses={"s": np.ones(400), "l": np.zeros(400)},
    )
    some = {"input": np.arange(200), "score": np.ones(200)}
    with pytest.raises(InputError) as caught:
        deepval.evaluate(table, {"mine": some})
    sentence = str(caught.value)
    assert "u000, u001, u002 and 97 more" in sentence
    assert "u003" not in sentence


def test_a_folder_of_scores_is_each_file_in_it(files):
    Path("all").mkdir()
    for name in "xy":
        Path(f"{name}.csv").rename(f"all/{name}.csv")
    both = call("evaluate", "values.csv", "-s", "all", "--json", "--draws", 20)
    named = call(
        *("evaluate", "values.csv", "-s", "all/x.csv", "-s", "all/y.csv"),
        *("--json", "--draws", 20),
    )
    assert json.loads(both)["rows"] == json.loads(named)["rows"]
    Path("all/z.parquet").write_text("")
    assert "name the files" in refusal("evaluate", "values.csv", "-s", "all")
    Path("none").mkdir()
    assert "has none" in refusal("evaluate", "values.csv", "-s", "none")


def test_a_page_answers_the_floor_as_the_console_does(files):
    floor = ("--keep", "90%")
    call("evaluate", "values.csv", "-s", "x.csv", *floor, "-o", "result.json")
    call("report", "values.csv", "-s", "x.csv", *floor, "-o", "page.html")
    sentence = json.loads(Path("result.json").read_text())["keep"]["sentence"]
    assert json.dumps(sentence, ensure_ascii=False)[1:-1] in Path(
        "page.html"
    ).read_text("utf-8")
    assert "saved result" in refusal("report", "result.json", *floor)


def test_a_threshold_says_that_its_interval_is_of_one_score_alone(files):
    rng = np.random.default_rng(2)
    right = rng.random((60, 2)) < [0.4, 0.8]
    rows = [f"u{i // 3},{i},{a:d},{b:d}\n" for i, (a, b) in enumerate(right)]
    Path("right.csv").write_text("unit,input,reward_s,reward_l\n" + "".join(rows))
    for name in "xy":
        score = right[:, 1] - right[:, 0] * 1.0 + rng.normal(0, 1, 60)
        lines = "".join(f"{i},{s}\n" for i, s in enumerate(score))
        Path(f"{name}.csv").write_text("input,score\n" + lines)

    words = ("right.csv", "-s", "x.csv", "--alpha", 0.2)
    one = json.loads(call("evaluate", *words, "--json"))["answers"][0]
    pair = json.loads(call("evaluate", *words, "-s", "y.csv", "--json"))["answers"][0]
    assert pair["lead_hi"] - pair["lead_lo"] > one["lead_hi"] - one["lead_lo"]
    with pytest.warns(deepval.InputWarning, match="fitted on"):
        printed = call("threshold", *words, "--force")
    assert one["sentence"] in printed
    assert "this score alone" in printed


def test_an_energy_budget_counts_the_first_rails_that_every_mode_has(files):
    # One mode has no energy of the module, so the GPU's counts.
    figures = "[modes.s]\nmj = 1.0\nmj_gpu = 2.0\nmj_all = 3.0\n"
    figures += "[modes.l]\nmj_gpu = 7.0\nmj_all = 9.0\n"
    figures += "[allocators.x]\nmj_gpu = 0.5\nmj_all = 0.6\n"
    Path("rails.toml").write_text(figures)
    words = ("values.csv", "-s", "x.csv", "--costs", "rails.toml", "--draws", "20")
    told = json.loads(call("evaluate", *words, "--budget", "energy", "--json"))
    assert {row["convention"] for row in told["rows"]} == {"mj_gpu"}
