"""Logs of one's own: long and wide, in every form; what a column is taken for; what
stays out.
"""

import csv
import hashlib
import json
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deepval
from commands import call, refusal, run
from deepval.basics.errors import InputError
from deepval.judge.tables import columns
from deepval.judge.tables.logs.importing import import_router_log

pytestmark = pytest.mark.filterwarnings("ignore::deepval.InputWarning")

SECRET = "Tell nobody: the key lies under the mat"
START = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()


def long_log(**more):
    """Two models on three requests of two tenants: small is right, wrong, right, and
    large right, right, wrong.
    """
    log = pd.DataFrame(
        {
            "request_id": ["0017", "0017", "0018", "0018", "0019", "0019"],
            "tenant": ["a", "a", "a", "a", "b", "b"],
            "timestamp": [f"2026-03-01T12:0{i // 2}:0{i % 2}Z" for i in range(6)],
            "model": ["small", "large"] * 3,
            "correct": [1, 1, 0, 1, 1, 0],
            "cost_usd": [0.001, 0.01, 0.002, 0.02, 0.003, 0.03],
            "prompt": [SECRET] * 6,
            "latency_ms": [30, 40, 50, 60, 70, 80],
        }
    )
    return log.assign(**more)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def imported(log, *words):
    """The values file that the command writes of a frame."""
    log.to_csv("log.csv", index=False)
    call("import", "log.csv", "-o", "values.csv", *words)
    return deepval.read_values("values.csv")


def is_the_log(table):
    assert list(table.input) == ["0017", "0018", "0019"]
    assert list(table.unit_ids[table.unit]) == ["a", "a", "b"]
    assert table.order is not None
    assert table.order.tolist() == [START, START + 60, START + 120]
    assert table.modes == ("small", "large")
    assert (-table.losses).tolist() == [[1, 1], [0, 1], [1, 0]]
    np.testing.assert_allclose(
        table.input_costs["usd"], [[0.001, 0.01], [0.002, 0.02], [0.003, 0.03]]
    )


def test_a_long_log_and_a_score_come_to_an_answer_in_two_commands():
    long_log().to_csv("log.csv", index=False)
    pd.DataFrame({"input": ["0017", "0018", "0019"], "score": [0.1, 0.9, 0.2]}).to_csv(
        "mine.csv", index=False
    )
    printed = call("import", "log.csv", "-o", "values.parquet")
    for line in (
        "request_id: id",
        "tenant: unit",
        "timestamp: order",
        "model: model",
        "correct: reward",
        "cost_usd: price",
        "latency_ms: ignored",
        "prompt_chars: ignored",
        "modes: small, large, by mean price",
    ):
        assert f"\n{line}" in f"\n{printed}"
    is_the_log(deepval.read_values("values.parquet"))
    content = json.loads(
        call("evaluate", "values.parquet", "-s", "mine.csv", "--draws", "0", "--json")
    )
    assert any(row["allocator"] == "mine" for row in content["rows"])


FORMS = {
    "lines": lambda log: log.to_json("log.jsonl", orient="records", lines=True),
    "list": lambda log: log.to_json("log.json", orient="records"),
    "Parquet": lambda log: log.to_parquet("log.parquet"),
    "semicolons": lambda log: log.to_csv("log.csv", index=False, sep=";", decimal=","),
    "tabs": lambda log: log.to_csv("log.tsv", index=False, sep="\t"),
}
FILES = ("log.jsonl", "log.json", "log.parquet", "log.csv", "log.tsv")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_table(form, folder):
    FORMS[form](long_log())
    (file,) = [name for name in FILES if (folder / name).exists()]
    call("import", file, "-o", "values.csv")
    is_the_log(deepval.read_values("values.csv"))


def test_without_arrow_a_table_is_the_same(monkeypatch):
    def no_arrow(*_):
        raise ImportError

    monkeypatch.setattr(columns, "_read_by_arrow", no_arrow)
    is_the_log(imported(long_log()))
    long_log().to_csv("log.csv", index=False, sep=";", decimal=",")
    call("import", "log.csv", "-o", "values.csv")
    is_the_log(deepval.read_values("values.csv"))


def test_scores_may_name_their_ids_as_the_log_does_and_answers_use_its_nouns():
    long_log().to_csv("log.csv", index=False)
    ids = ["0017", "0018", "0019"]
    scores = pd.DataFrame({"request_id": ids, "score": [0.1, 0.9, 0.2]})
    scores.to_csv("mine.csv", index=False)
    call("import", "log.csv", "-o", "values.parquet")
    table = deepval.read_values("values.parquet")
    assert table.nouns == ("request", "tenant")
    printed = call("evaluate", "values.parquet", "-s", "mine.csv", "--draws", 20)
    assert "3 requests of 2 tenants" in printed


def test_a_log_without_units_has_inputs_that_are_units_and_no_note_at_each_command():
    long_log().drop(columns="tenant").to_csv("log.csv", index=False)
    with pytest.warns(deepval.InputWarning, match="--unit"):
        call("import", "log.csv", "-o", "values.parquet")
    judged = run("evaluate", "values.parquet", "--draws", 20, notes=True)
    assert "frames" not in judged.err
    assert "new requests" in judged.out


def test_columns_of_other_names_are_named():
    names = {
        "request_id": "Anfrage",
        "tenant": "Kunde",
        "timestamp": "wann",
        "model": "Modell",
        "correct": "Urteil",
        "cost_usd": "Preis",
    }
    words = ("--id", "Anfrage", "--unit", "Kunde", "--order", "wann", "--model")
    words += ("Modell", "--right", "Urteil", "--cost", "Preis")
    is_the_log(imported(long_log().rename(columns=names), *words))
    assert "'Urteill'; did you mean 'Urteil'" in refusal(
        "import", "log.csv", "-o", "v.csv", "--right", "Urteill"
    )


WIDE = pd.DataFrame(
    {
        "request_id": ["0017", "0018", "0019"],
        "tenant": ["a", "a", "b"],
        "order": [START, START + 60, START + 120],
        "large": [1, 1, 0],
        "small": [1, 0, 1],
        "doubt": [0.5, 1.0, 0.25],
    }
)
PRICES = {"small": [0.001, 0.002, 0.003], "large": [0.01, 0.02, 0.03]}


@pytest.mark.parametrize("form", ["{}_cost", "cost_{}", "{}|total_cost"])
def test_a_column_beside_a_model_is_its_price_and_a_further_number_no_model(form):
    log = WIDE.assign(**{form.format(mode): PRICES[mode] for mode in PRICES})
    is_the_log(imported(log))
    printed = call("import", "log.csv", "-o", "values.csv")
    assert "doubt: ignored: a number" in printed


def test_right_and_wrong_alone_are_models_and_modes_name_others():
    table = imported(WIDE.assign(small=[1, 1, 1]))
    assert table.modes == ("large", "small")  # by mean quality
    table = imported(WIDE, "--modes", "doubt,large")
    assert (-table.losses).tolist() == [[0.5, 1], [1, 1], [0.25, 0]]
    table = imported(WIDE, "--loss", "doubt,small")
    assert not table.is_reward
    assert sorted(table.modes) == ["doubt", "small"]
    doubtful = WIDE.assign(small=[0.5, 0.25, 1], large=[0.5, 1, 0.75])
    doubtful.to_csv("log.csv", index=False)
    assert "--modes" in refusal("import", "log.csv", "-o", "v.csv")


@pytest.mark.parametrize(
    "names",
    [
        {"small": "loss_small", "large": "loss_large"},
        {"small": "small_loss", "large": "large_loss"},
        {"small": "correct|small", "large": "correct|large"},
    ],
)
def test_a_word_before_or_after_the_model_says_what_it_holds(names):
    table = imported(WIDE.rename(columns=names), "--modes", "small,large")
    assert table.modes == ("small", "large")
    right = WIDE[["small", "large"]].to_numpy(dtype=float)
    is_loss = "loss" in names["small"]
    assert table.is_reward != is_loss
    assert table.losses.tolist() == (right if is_loss else -right).tolist()


@pytest.mark.parametrize(
    "right",
    [
        ["true", "true", "false", "true", "true", "false"],
        ["correct", "Correct", "wrong", "right", "yes", "no"],
        ["100 %", "100%", "0 %", "100 %", "100 %", "0.0 %"],
    ],
)
def test_right_and_wrong_in_words_and_percentages(right):
    is_the_log(imported(long_log(correct=right)))


@pytest.mark.parametrize(
    "scale", [1, 1_000, 1_000_000, 1_000_000_000], ids=["s", "ms", "µs", "ns"]
)
def test_times_since_1970(scale):
    times = [int(START + 60 * (i // 2) + i % 2) * scale for i in range(6)]
    is_the_log(imported(long_log(timestamp=times)))


def test_times_that_are_none_are_refused():
    long_log(timestamp=["soon"] * 6).to_csv("log.csv", index=False)
    assert "'soon'" in refusal("import", "log.csv", "-o", "v.csv")


def twice():
    """The log with a later run of small on 0018, which is right."""
    again = long_log().iloc[[2]].assign(correct=1, timestamp="2026-03-01T13:00:00Z")
    return pd.concat([again, long_log()])  # newest first, as services list runs


def test_repeated_runs_are_refused_unless_it_is_said_which_counts():
    twice().to_csv("log.csv", index=False)
    sentence = refusal("import", "log.csv", "-o", "v.csv")
    assert "'small' ran more than once on '0018'" in sentence
    assert "--repeat first" in sentence
    table = imported(twice(), "--repeat", "first").losses
    assert (-table[:, 0]).tolist() == [0, 1, 1]  # the earliest, not the first row
    table = imported(twice(), "--repeat", "mean").losses
    assert (-table[:, 0]).tolist() == [0.5, 1, 1]


def test_trials_have_columns_and_no_command_judges_them_yet():
    twice().to_csv("log.csv", index=False)
    call("import", "log.csv", "-o", "values.csv", "--repeat", "trial")
    written = pd.read_csv("values.csv", dtype={"input": str}).set_index("input")
    assert written.loc["0018", ["reward_small@1", "reward_small@2"]].tolist() == [0, 1]
    assert np.isnan(written.loc["0017", "reward_large@2"])
    assert "reward_small" not in written
    for command in ("evaluate", "report", "threshold"):
        assert "--repeat first or --repeat mean" in refusal(command, "values.csv")


def test_groups_and_scores_stay_beside_the_values(folder):
    log = long_log(task=["x", "x", "y", "y", "y", "y"], doubt=[1, 1, 2, 2, 3, 3])
    words = ("--score", "doubt", "--score", "prompt_length", "--scores-out", "scores")
    table = imported(log, *words)
    assert sorted(table.attributes) == ["doubt", "prompt_length", "task"]
    assert table.attributes["task"].tolist() == ["x", "y", "y"]
    written = pd.read_parquet(folder / "scores" / "doubt.parquet")
    assert written.to_dict("list") == {
        "input": ["0017", "0018", "0019"],
        "score": [1.0, 2.0, 3.0],
    }
    lengths = pd.read_parquet(folder / "scores" / "prompt_length.parquet")
    assert lengths["score"].tolist() == [len(SECRET)] * 3


@pytest.mark.parametrize(
    ("more", "words", "sentence"),
    [
        ({"tenant": list("abbbbb")}, (), "'tenant' must hold one value"),
        ({"doubt": range(6)}, ("--score", "doubt"), "'doubt' must hold one value"),
        ({"correct": ["maybe"] * 6}, (), "'maybe'"),
        ({"model": ["small"] * 6, "request_id": list("abcdef")}, (), "two or more"),
        ({"request_id": list("abcdef")}, (), "one model ran on each input"),
        ({}, ("--modes", "small,huge"), "'huge'"),
        ({}, ("--right", "correct", "--loss", "latency_ms"), "found more"),
        ({"cost_usd": [-1, 2] * 3}, (), "not negative"),
    ],
)
def test_logs_that_do_not_fit_are_refused_in_one_sentence(
    more, words, sentence, folder
):
    long_log(**more).to_csv("log.csv", index=False)
    assert sentence in refusal("import", "log.csv", "-o", "v.csv", *words)
    assert not (folder / "v.csv").exists()


ODD = {
    "empty.csv": b"",
    "header.csv": b"request_id,model,correct\n",
    "latin.csv": b"request_id,model,correct\n\xe9,a,1\n\xe9,b,1\n",
    "cut.jsonl": b'{"id": 1, "model": "a", "correct": 1}\n{"id',
    "deep.json": b"[" * 200 + b"]" * 200,
    "names.csv": b"id,id,model,correct\n1,1,a,1\n",
    "numbers.json": b"[1, 2]",
    "none.json": b"[]",
    "huge.json": (
        b'[{"id": 1, "model": "a", "correct": 0.5},'
        b' {"id": 1, "model": "b", "correct": 1%s}]' % (b"0" * 400)
    ),
    "log.xlsx": b"PK",
    "log.pkl": b"\x80",
}


@pytest.mark.parametrize("name", ODD)
def test_odd_files_are_refused_in_one_sentence(name, folder):
    (folder / name).write_bytes(ODD[name])
    done = run("import", name, "-o", "v.csv")
    assert (done.code, done.err.count("\n"), name in done.err) == (2, 1, True)
    assert not (folder / "v.csv").exists()


def test_no_text_of_prompts_or_answers_is_written_anywhere(folder):
    texts = {
        name: [SECRET] * 6
        for name in ("prompt", "response", "messages", "Answer", "output", "notes")
    }
    log = long_log(**texts)
    FORMS["lines"](log)
    log.to_csv("log.csv", index=False)
    for file in ("log.csv", "log.jsonl"):
        for more in ((), ("--score", "prompt_length"), ("--hash-ids",)):
            done = run("import", file, "-o", "v.csv", "--scores-out", "s", *more)
            assert (done.code, SECRET in done.out + done.err) == (0, False)
    written = [*folder.glob("v.*"), *folder.glob("s/*")]
    assert len(written) == 2
    for path in written:
        assert SECRET.encode() not in path.read_bytes()
    # prompts serve as ids only as digests
    prompts = log.assign(prompt=[f"{SECRET} {i // 2}" for i in range(6)])
    prompts.drop(columns="request_id").to_csv("log.csv", index=False)
    call("import", "log.csv", "-o", "v.csv")
    assert SECRET not in (folder / "v.csv").read_text()
    assert len(deepval.read_values("v.csv")) == 3


def test_digests_of_ids_are_the_same_in_values_and_scores(folder):
    log = long_log(doubt=[1, 1, 2, 2, 3, 3])
    pd.DataFrame({"request_id": ["0019", "0018", "0017"], "score": [1, 2, 3]}).to_csv(
        "router.csv", index=False
    )
    words = ("--hash-ids", "--score", "doubt", "--score", "router.csv")
    table = imported(log, *words, "--scores-out", "scores")
    assert list(table.input) == [
        hashlib.sha256(name.encode()).hexdigest()[:16]
        for name in ("0017", "0018", "0019")
    ]
    assert all(len(name) == 16 for name in table.unit_ids)
    for name, expected in (("doubt", [1, 2, 3]), ("router", [3, 2, 1])):
        scores = pd.read_parquet(folder / "scores" / f"{name}.parquet")
        assert scores["input"].tolist() == list(table.input)
        assert scores["score"].tolist() == expected


def test_a_log_that_is_judged_says_how_to_import_it():
    long_log().to_csv("log.csv", index=False)
    for command in ("evaluate", "report", "threshold"):
        sentence = refusal(command, "log.csv")
        assert (
            "deepval import log.csv --id request_id --model model --reward correct "
            "--cost cost_usd --unit tenant --order timestamp -o values.parquet"
        ) in sentence
        assert run(command, "log.csv").code == 2


def test_quality_in_a_second_file():
    log = long_log().drop(columns="correct")
    log.to_csv("log.csv", index=False)
    words = ("import", "log.csv", "-o", "values.csv")
    assert "--quality FILE" in refusal(*words)
    by_model = long_log()[["request_id", "model", "correct"]]
    by_model.rename(columns={"request_id": "id"}).to_csv("quality.csv", index=False)
    call(*words, "--quality", "quality.csv")
    is_the_log(deepval.read_values("values.csv"))
    by_model.assign(request_id="x").drop_duplicates(["request_id", "model"]).to_csv(
        "quality.csv", index=False
    )
    assert "none of the ids" in refusal(*words, "--quality", "quality.csv")


def test_python_reads_what_the_command_reads():
    long_log().to_csv("log.csv", index=False)
    is_the_log(import_router_log("log.csv"))
    is_the_log(import_router_log(long_log(), id="request_id", right="correct"))
    with pytest.raises(InputError, match="'rihgt'; did you mean 'right'"):
        import_router_log("log.csv", rihgt="correct")


cells = st.tuples(
    st.lists(st.floats(-100, 100), min_size=2, max_size=2),
    st.lists(st.floats(0.001, 1), min_size=2, max_size=2),
)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rows=st.lists(cells, min_size=1, max_size=8))
def test_long_wide_and_lines_are_the_same_values(rows, folder):
    """What is written in any form is read to the last digit."""
    ids = [f"{i:04d}" for i in range(len(rows))]
    wide, long = [], []
    for name, (reward, cost) in zip(ids, rows, strict=True):
        dear = cost[0] + cost[1]
        wide.append([name, f"u{name[-1]}", *reward, cost[0], dear])
        long.append([name, f"u{name[-1]}", "a", reward[0], cost[0]])
        long.append([name, f"u{name[-1]}", "b", reward[1], dear])
    headers = {
        "wide.csv": ["id", "unit", "reward_a", "reward_b", "cost_a", "cost_b"],
        "long.csv": ["id", "unit", "model", "reward", "cost"],
    }
    for file, content in (("wide.csv", wide), ("long.csv", long)):
        with (folder / file).open("w", newline="") as handle:
            writer = csv.writer(handle)
            writer.writerow(headers[file])
            writer.writerows(
                [
                    [repr(c) if isinstance(c, float) else c for c in row]
                    for row in content
                ]
            )
    lines = [dict(zip(headers["long.csv"], row, strict=True)) for row in long]
    (folder / "long.jsonl").write_text("\n".join(map(json.dumps, lines)))
    tables = [
        import_router_log(file) for file in ("wide.csv", "long.csv", "long.jsonl")
    ]
    assert len({table.digest for table in tables}) == 1
    expected = [reward for reward, _ in rows]
    assert (0.0 - tables[0].losses).tolist() == (np.array(expected) + 0.0).tolist()
