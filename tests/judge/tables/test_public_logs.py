"""Logs in the formats of public router benchmarks: what comes out of each is what was
put in.
"""

import json
import warnings

import numpy as np
import pytest

import deepval
from deepval.basics.errors import InputError, InputWarning
from deepval.cli import options
from deepval.judge.tables.logs.importing import import_router_log
from deepval.judge.tables.logs.writing import (
    attribute_scores,
    write_scores,
    write_values,
)
from project import ROOT

AS_JSON = options.Printing("json")
PROMPTS = ("p1", "p2", "p3", "p4")
SETS = ("math", "math", "law", "law")
QUALITY = {"big": (1.0, 1.0, 0.0, 1.0), "small": (0.0, 1.0, 0.5, 1.0)}
COST = {"big": (0.02, 0.03, 0.01, 0.04), "small": (0.001, 0.002, 0.001, 0.003)}
LOSSES = [[1.0, 0.0], [0.0, 0.0], [0.5, 1.0], [0.0, 0.0]]
"""1 - quality of small and of big, prompt by prompt."""


def routerbench():
    wide = {
        "sample_id": list(PROMPTS),
        "prompt": ["a", "ab", "abc", "abcd"],
        "eval_name": list(SETS),
    }
    for model in QUALITY:
        wide |= {model: list(QUALITY[model]), f"{model}|model_response": ["?"] * 4}
        wide |= {f"{model}|total_cost": list(COST[model])}
    return wide


def long_rows():
    for model in QUALITY:
        for i, name in enumerate(PROMPTS):
            yield model, i, name, QUALITY[model][i], COST[model][i]


def routerarena():
    return [
        {
            "global index": f"{SETS[i]}_{i}",
            "prompt": "x" * (i + 1),
            "prediction": model,
            "generated_result": {"success": True},
            "cost": cost,
            "accuracy": score,
            "for_optimality": model == "big",
        }
        for model, i, _, score, cost in long_rows()
    ]


def same(table, *, priced=True):
    order = np.argsort([str(name)[-1] for name in table.input])
    np.testing.assert_allclose(table.losses[order], LOSSES)
    assert table.modes == ("small", "big")
    assert list(table.unit_ids) == ["law", "math"]
    assert list(table.unit_ids[table.unit[order]]) == list(SETS)
    if priced:
        np.testing.assert_allclose(
            table.input_costs["usd"][order].T, [COST["small"], COST["big"]]
        )
    else:
        assert not table.input_costs


def test_wide_tables_as_of_routerbench(tmp_path):
    table = import_router_log(routerbench())
    same(table)
    assert list(table.input) == list(PROMPTS)
    assert table.attributes["prompt_length"].tolist() == [1, 2, 3, 4]
    for name in ("log.csv", "log.parquet"):
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.parquet

        content = pa.table(routerbench())
        path = tmp_path / name
        pa.csv.write_csv(content, path) if name.endswith(
            "csv"
        ) else pa.parquet.write_table(content, path)
        same(import_router_log(path))
    with pytest.raises(InputError, match="the full mode"):
        import_router_log(routerbench(), models=["big", "small"])


def test_right_and_wrong_as_of_routellm(tmp_path):
    path = tmp_path / "mmlu_law.csv"
    path.write_text(
        'prompt,mixtral,gpt-4\n"Is it?\nA. yes",True,True\n"And this?",False,True\n'
    )
    with pytest.warns(InputWarning, match="has no groups"):
        table = import_router_log(path, models=["mixtral", "gpt-4"])
    assert table.losses.tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert list(table.unit_ids) == ["0", "1"]
    assert not table.input_costs
    with pytest.warns(
        InputWarning,
        match=r"no groups|has no costs, so models are ordered by rising mean quality",
    ):
        assert import_router_log(path).modes == ("mixtral", "gpt-4")


def test_weak_and_strong_in_groups_as_of_routellm():
    log = {
        "dataset": ["mmlu"] * 3,
        "group": ["law", "law", "math"],
        "prompt_chars": [9, 8, 7],
        "strong_b": [True, False, True],
        "weak_a": [False, True, True],
    }
    table = import_router_log(log)
    assert table.modes == ("weak_a", "strong_b")  # by their names, not by their order
    assert table.losses.tolist() == [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    assert list(table.unit_ids[table.unit]) == ["law", "law", "math"]
    assert {name: column.tolist() for name, column in table.attributes.items()} == {
        "prompt_length": [9, 8, 7]
    }


def test_models_without_prices_as_of_routerdc():
    log = {
        "dataset": ["x", "x", "y", "y"],
        "i": [0, 1, 0, 1],
        "question_chars": [5, 6, 7, 8],
        "tokens": [2, 3, 4, 5],
        "good": [1.0, 1.0, 0.0, 1.0],
        "bad": [0.0, 0.0, 1.0, 0.0],
        "fair": [0.5, 0.5, 0.5, 0.5],
    }
    with pytest.warns(InputWarning, match="has no costs"):
        table = import_router_log(log)
    assert table.modes == ("bad", "fair", "good")
    assert list(table.input) == ["x/0", "x/1", "y/0", "y/1"]
    assert list(table.unit_ids) == ["x", "y"]
    # counts are no quality from 0 to 1
    assert sorted(table.attributes) == ["prompt_length", "tokens"]
    assert import_router_log(log, models=["good", "bad"]).modes == ("good", "bad")


def frugalml(folder, name="apis_faces.parquet"):
    """A log of three APIs on four pictures, and a list of their prices beside it."""
    import pyarrow as pa
    import pyarrow.parquet

    log = {"true": [3, 1, 2, 2]}
    correct = {"free": (1, 0, 0, 1), "mid": (1, 1, 0, 0), "dear": (0, 1, 1, 1)}
    for model, confidence in (("dear", 0.9), ("free", 0.25), ("mid", 0.5)):
        log |= {
            f"conf|{model}": [confidence, 0.5, 0.75, 1.0],
            f"pred|{model}": [3, 3, 3, 3],
        }
        log |= {f"correct|{model}": list(correct[model])}
    pa.parquet.write_table(pa.table(log), folder / name)
    prices = "dataset,model,cost_per_10k,cost_unit\n"
    prices += "".join(
        f"FACES,{m},{c},x\nother_faces,{m},{3 * c},x\n"
        for m, c in (("free", 1), ("mid", 5), ("dear", 20))
    )
    (folder / "prices.csv").write_text(prices)
    return folder / name


@pytest.mark.filterwarnings("ignore:.*has no groups of inputs")
def test_prediction_apis_with_confidence_and_a_list_of_prices_as_of_frugalml(tmp_path):
    path = frugalml(tmp_path)
    table = import_router_log(path)
    assert table.modes == ("free", "mid", "dear")
    assert table.losses.T.tolist() == [[0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 0]]
    np.testing.assert_allclose(table.input_costs["usd"], [[1e-4, 5e-4, 20e-4]] * 4)
    assert len(table.unit_ids) == 4
    # The confidence of the cheap model alone; neither the answer nor another model's
    # confidence.
    assert {name: column.tolist() for name, column in table.attributes.items()} == {
        "confidence": [0.25, 0.5, 0.75, 1.0]
    }
    assert attribute_scores(table)["low_confidence"].tolist() == [0.75, 0.5, 0.25, 0.0]
    pair = import_router_log(path, models=["mid", "dear"])
    assert pair.attributes["confidence"].tolist() == [0.5, 0.5, 0.75, 1.0]
    np.testing.assert_allclose(pair.input_costs["usd"][0], [5e-4, 20e-4])
    named = import_router_log(path, dataset="other_faces")
    np.testing.assert_allclose(named.input_costs["usd"][0], [3e-4, 15e-4, 60e-4])
    # the longest name that fits
    longer = import_router_log(frugalml(tmp_path, "apis_other-faces.parquet"))
    np.testing.assert_allclose(longer.input_costs["usd"][0], [3e-4, 15e-4, 60e-4])


@pytest.mark.filterwarnings("ignore:.*has no groups of inputs", "ignore:.*has no costs")
def test_lists_of_prices_that_do_not_fit_are_refused(tmp_path):
    path = frugalml(tmp_path, "apis_dogs.parquet")
    with pytest.raises(InputError, match="'dear'"):
        import_router_log(path)
    with pytest.raises(InputError, match=r"on data set 'dogs'"):
        import_router_log(path, dataset="dogs")
    (tmp_path / "more.csv").write_text((tmp_path / "prices.csv").read_text())
    with pytest.raises(InputError, match="one list of"):
        import_router_log(path)
    assert import_router_log(
        path, prices=tmp_path / "more.csv", dataset="FACES"
    ).input_costs
    (tmp_path / "more.csv").unlink()
    (tmp_path / "prices.csv").write_text("dataset,model,cost_per_10k\nFACES,others,1\n")
    assert not import_router_log(path).input_costs  # the list is about other models
    with pytest.raises(InputError, match=r"one list of prices is needed; found none"):
        import_router_log(path, dataset="FACES")
    with pytest.raises(InputError, match="has its own"):
        import_router_log(routerbench(), prices=tmp_path / "prices.csv")


def test_planners_in_logs_as_of_navsim(tmp_path):
    log = {
        "token": ["a", "b", "c"],
        "log_name": ["l1", "l1", "l2"],
        "start_time": [20.0, 10.0, 5.0],
        "slow|score": [0.5, 1.0, 0.0],
        "slow|comfort": [1.0, 1.0, 1.0],
        "fast|score": [0.25, 0.0, 0.5],
        "fast|comfort": [0.0, 0.0, 0.0],
        "ego_speed_mps": [3.0, 2.0, 1.0],
    }
    with pytest.warns(InputWarning, match=r"has no costs"):
        table = import_router_log(log)
    assert table.modes == ("fast", "slow")
    assert table.losses.tolist() == [[0.75, 0.5], [1.0, 0.0], [0.5, 1.0]]
    assert list(table.input) == ["a", "b", "c"]
    assert list(table.unit_ids[table.unit]) == ["l1", "l1", "l2"]
    assert table.order is not None
    assert table.order.tolist() == [20.0, 10.0, 5.0]
    assert list(table.attributes) == ["ego_speed_mps"]
    (path,) = write_scores(table, tmp_path / "scores")
    assert path.name == "ego_speed_mps.parquet"
    # one input: a, the fastest
    result = deepval.evaluate(table, {"speed": path}, 0.4, draws=0)
    assert result.row("speed").gain == 0.75 - 0.5


@pytest.mark.filterwarnings("ignore::deepval.InputWarning")
def test_scores_of_planners_as_navsim_writes_them(tmp_path):
    """A CSV per planner, with a mean in its last row and a state that failed."""
    for planner, scores in (("slow", (1.0, 0.5, 0.0)), ("fast", (0.25, 0.5, 1.0))):
        rows = [",token,valid,no_at_fault_collisions,score"]
        rows += [f"{i},state{i},{i < 2},1.0,{score}" for i, score in enumerate(scores)]
        rows += ["3,average,True,1.0,0.5"]
        (tmp_path / f"{planner}.csv").write_text("\n".join(rows) + "\n")
    table = import_router_log([tmp_path / "slow.csv", tmp_path / "fast.csv"])
    assert table.modes == ("fast", "slow")
    assert list(table.input) == ["state0", "state1"]
    assert table.losses.tolist() == [[0.75, 0.0], [0.5, 0.5]]
    with pytest.raises(InputError, match="two or more models"):
        import_router_log(tmp_path / "slow.csv")


def test_prompts_without_a_price_are_left_out():
    log = routerbench()
    log["big|total_cost"][1] = None
    with pytest.warns(InputWarning, match="of 4 inputs"):
        table = import_router_log(log)
    assert list(table.input) == ["p1", "p3", "p4"]
    assert table.input_costs["usd"].shape == (3, 2)


def test_long_tables_as_of_routerarena(tmp_path):
    path = tmp_path / "predictions.json"
    path.write_text(json.dumps(routerarena()))
    same(import_router_log(path))
    lines = tmp_path / "predictions.jsonl"
    lines.write_text("\n".join(json.dumps(row) for row in routerarena()))
    same(import_router_log(lines))


def test_long_tables_and_folders_as_of_llmrouterbench(tmp_path):
    records = [
        {
            "dataset_id": SETS[i],
            "split": "test",
            "model_name": model,
            "record_index": i,
            "prompt": "?",
            "prediction": "4",
            "score": score,
            "cost": cost,
        }
        for model, i, _, score, cost in long_rows()
    ]
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    same(import_router_log(path))
    for record in records:
        folder = (
            tmp_path / "bench" / record["dataset_id"] / "test" / record["model_name"]
        )
        folder.mkdir(parents=True, exist_ok=True)
        mine = [
            r
            for r in records
            if (r["dataset_id"], r["model_name"])
            == (record["dataset_id"], record["model_name"])
        ]
        told = [
            {
                "index": r["record_index"],
                "prompt": "?",
                "prediction": "4",
                "score": r["score"],
                "cost": r["cost"],
                "raw_output": {"a": 1},
            }
            for r in mine
        ]
        (folder / "20260101.json").write_text(
            json.dumps({"performance": 0.1, "records": []})
        )
        (folder / "20260202.json").write_text(
            json.dumps({"performance": 0.5, "records": told})
        )
    same(import_router_log(tmp_path / "bench"))


def test_what_is_written_is_read_again(tmp_path):
    table = import_router_log(routerbench())
    for name in ("values.parquet", "values.csv"):
        write_values(table, tmp_path / name)
        again = deepval.read_values(tmp_path / name)
        assert again.digest == table.digest
        assert (
            again.attributes["prompt_length"].tolist()
            == table.attributes["prompt_length"].tolist()
        )
    with pytest.raises(InputError, match=r"must end in .csv or .parquet"):
        write_values(table, tmp_path / "values.xlsx")


def test_prompts_without_an_answer_are_left_out_and_counted():
    rows = [
        row
        for row in routerarena()
        if (row["prediction"], row["global index"]) != ("big", "law_3")
    ]
    columns = {
        name: [row[name] for row in rows]
        for name in ("global index", "prediction", "accuracy", "cost")
    }
    with pytest.warns(InputWarning, match="of 4 inputs"):
        table = import_router_log(columns)
    assert len(table) == 3


WRONG = {
    "pickle": ("routerbench.pkl", b"\x80", "a pickle can"),
    "no json": ("log.json", b"{", "must be a JSON file"),
    "no records": ("log.json", b'{"a": 1}', "found a."),
    "no objects": ("log.json", b"[1]", "a list of records"),
    "twice": (
        "log.csv",
        b"model_name,record_index,dataset_id,score\na,1,x,1\na,1,x,0\n",
        "'x/1'",
    ),
    "costs of one": (
        "log.csv",
        b"model_name,record_index,dataset_id,score,cost\na,1,x,1,1\nb,1,x,0,\na,1,y,1,1\nb,1,y,0,\n",
        "'b'",
    ),
    "one model": (
        "log.csv",
        b"model_name,record_index,dataset_id,score,cost\na,1,x,1,1\na,1,y,1,1\n",
        "two or more models are",
    ),
    "one column of losses": ("log.csv", b"unit,input,loss_a\nu,1,0\n", "models"),
    "above 1": (
        "log.csv",
        b"model_name,record_index,dataset_id,score,cost\na,1,x,7,1\nb,1,x,9,2\n",
        "found 9: give best=",
    ),
    "no quality": ("log.csv", b"eval_name,sample_id,a|total_cost\nx,1,2\n", "'a'"),
    "none whole": (
        "log.csv",
        b"model_name,record_index,dataset_id,score,cost\na,1,x,1,1\nb,2,x,0,2\n",
        "one model ran on each input",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_logs_that_cannot_be_are_refused(tmp_path, case):
    warnings.filterwarnings("ignore", ".*has no groups of inputs")
    name, content, told = WRONG[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        import_router_log(path)
    assert told in str(caught.value)


def test_models_that_are_not_there_and_best_are_refused():
    with pytest.raises(
        InputError, match=r"models must be among big, small; found 'tiny'"
    ):
        import_router_log(routerbench(), models=["tiny", "big"])
    with pytest.raises(
        InputError, match=r"no quality can exceed the best, 0.5; found 1"
    ):
        import_router_log(routerbench(), best=0.5)
    assert import_router_log(routerbench(), best=10).losses.min() == 9.0


def test_the_command_writes_a_values_file(tmp_path, capsys):
    from deepval.cli.routers import import_log

    log = tmp_path / "predictions.json"
    log.write_text(json.dumps(routerarena()))
    import_log((log,), out=tmp_path / "values.csv")
    assert "4 inputs in 2 units, models cheap first" in capsys.readouterr().out
    same(deepval.read_values(tmp_path / "values.csv"))
    import_log((log,), out=tmp_path / "values.csv", printing=AS_JSON)
    facts = json.loads(capsys.readouterr().out)
    table = deepval.read_values(tmp_path / "values.csv")
    assert (facts["inputs"], facts["units"]) == (4, 2)
    assert [model["mode"] for model in facts["models"]] == list(table.modes)
    assert [model["mean_loss"] for model in facts["models"]] == table.losses.mean(
        axis=0
    ).tolist()


def test_the_command_writes_scores_beside_the_values(tmp_path, capsys):
    from deepval.cli.routers import import_log

    log = tmp_path / "predictions.json"
    log.write_text(json.dumps(routerarena()))
    import_log(
        (log,),
        out=tmp_path / "values.csv",
        scores_out=tmp_path / "scores",
        printing=AS_JSON,
    )
    (written,) = json.loads(capsys.readouterr().out)["scores"]
    result = deepval.evaluate(
        tmp_path / "values.csv", {"length": written}, 0.25, draws=0
    )
    assert result.row("length").gain == 0.0  # law_3, the longest: both are right
    with pytest.raises(InputError, match=r"must be a folder that can be written"):
        import_log((log,), out=tmp_path / "more.csv", scores_out=log)
    assert not (tmp_path / "more.csv").exists()


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore::deepval.InputWarning")
def test_every_shared_table_of_models_is_read():
    from shared import shared_data

    files = sorted(shared_data("routing").glob("*.parquet")) + sorted(
        shared_data("navsim").glob("*.parquet")
    )
    tables = {file.stem: import_router_log(file) for file in files}
    assert sum(map(len, tables.values())) > 320_000
    for name, table in tables.items():
        assert len(table.modes) >= 2, name
        assert attribute_scores(table), name
        assert bool(table.input_costs) == name.startswith(
            ("frugalml", "routerbench")
        ), name
        assert (len(table.unit_ids) < len(table)) == (not table.input_costs), name


@pytest.mark.shared
def test_the_page_on_results_tells_of_the_published_log_what_the_tool_finds():
    import sys

    from shared import shared_data

    root = ROOT
    sys.path.insert(0, str(root / "tools"))
    from published_log import figures

    found = figures(shared_data("bgt_ada", "target_distributions.csv"))
    told = (
        (root / "docs" / "results.md")
        .read_text()
        .partition("## A published routing log")[2]
    )
    assert f"{found['affected']:,} of 3,105" in told
    assert (
        f"{100 * found['harm rate']:.1f} % of them "
        f"worse (harm ratio {found['harm ratio']:.3f})"
    ) in told
    for name, line in (
        ("oracle", "oracle, here (mean ΔAP)"),
        ("random", "random, here"),
    ):
        cells = " | ".join(
            f"{gain:.4f}" for gain in [*found["gain"][name], found["all-full"]]
        )
        assert f"| {line} | {cells} |" in told
    for name, line in (
        ("MORIC+", "target MORIC⁺"),
        ("OffloadBin", "target OffloadBin"),
    ):
        pairs = zip(found["gain"][name], found["ndg"][name], strict=True)
        cells = " | ".join(f"{gain:.4f} ({ndg:.2f})" for gain, ndg in pairs)
        assert f"| {line} as a score, here (nDG) | {cells} | |" in told
    for name, word in (("MORIC+", "MORIC⁺"), ("OffloadBin", "OffloadBin")):
        apgr, low, high = found["apgr"][name]
        assert f"{word} {apgr:.2f} [{low:.2f}, {high:.2f}]" in told
