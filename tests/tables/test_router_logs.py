"""Logs in the formats of public router benchmarks: what comes out of each is what was put in."""

import json

import numpy as np
import pytest

import deepval
from deepval.errors import InputError, InputWarning
from deepval.tables.router_logs import import_router_log, write_values
from project import ROOT

PROMPTS = ("p1", "p2", "p3", "p4")
SETS = ("math", "math", "law", "law")
QUALITY = {"big": (1.0, 1.0, 0.0, 1.0), "small": (0.0, 1.0, 0.5, 1.0)}
COST = {"big": (0.02, 0.03, 0.01, 0.04), "small": (0.001, 0.002, 0.001, 0.003)}
LOSSES = [[1.0, 0.0], [0.0, 0.0], [0.5, 1.0], [0.0, 0.0]]
"""1 - quality of small and of big, prompt by prompt."""


def routerbench():
    wide = {"sample_id": list(PROMPTS), "prompt": ["a", "ab", "abc", "abcd"], "eval_name": list(SETS)}
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
            "global index": f"{SETS[i]}_{i}", "prompt": "x" * (i + 1), "prediction": model,
            "generated_result": {"success": True}, "cost": cost, "accuracy": score, "for_optimality": model == "big",
        }
        for model, i, _, score, cost in long_rows()
    ]  # fmt: skip


def same(table, *, priced=True):
    order = np.argsort([str(name)[-1] for name in table.input])
    np.testing.assert_allclose(table.losses[order], LOSSES)
    assert table.modes == ("small", "big")
    assert list(table.unit_ids) == ["law", "math"]
    assert list(table.unit_ids[table.unit[order]]) == list(SETS)
    if priced:
        np.testing.assert_allclose(table.input_costs["usd"][order].T, [COST["small"], COST["big"]])
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
        pa.csv.write_csv(content, path) if name.endswith("csv") else pa.parquet.write_table(content, path)
        same(import_router_log(path))
    with pytest.raises(InputError, match=r"the full mode must cost more than the cheap one on average"):
        import_router_log(routerbench(), models=["big", "small"])


def test_right_and_wrong_as_of_routellm(tmp_path):
    path = tmp_path / "mmlu_law.csv"
    path.write_text('prompt,mixtral,gpt-4\n"Is it?\nA. yes",True,True\n"And this?",False,True\n')
    table = import_router_log(path, models=["mixtral", "gpt-4"])
    assert table.losses.tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert list(table.unit_ids) == ["mmlu_law"]
    assert not table.input_costs
    with pytest.raises(InputError, match=r"a router log has a column per model beside '<model>\|total_cost', or rows"):
        import_router_log(path)


def test_long_tables_as_of_routerarena(tmp_path):
    path = tmp_path / "predictions.json"
    path.write_text(json.dumps(routerarena()))
    same(import_router_log(path))
    lines = tmp_path / "predictions.jsonl"
    lines.write_text("\n".join(json.dumps(row) for row in routerarena()))
    same(import_router_log(lines))


def test_long_tables_and_folders_as_of_llmrouterbench(tmp_path):
    records = [
        {"dataset_id": SETS[i], "split": "test", "model_name": model, "record_index": i, "prompt": "?",
         "prediction": "4", "score": score, "cost": cost}
        for model, i, _, score, cost in long_rows()
    ]  # fmt: skip
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    same(import_router_log(path))
    for record in records:
        folder = tmp_path / "bench" / record["dataset_id"] / "test" / record["model_name"]
        folder.mkdir(parents=True, exist_ok=True)
        mine = [
            r for r in records if (r["dataset_id"], r["model_name"]) == (record["dataset_id"], record["model_name"])
        ]
        told = [{"index": r["record_index"], "prompt": "?", "prediction": "4", "score": r["score"], "cost": r["cost"],
                 "raw_output": {"a": 1}} for r in mine]  # fmt: skip
        (folder / "20260101.json").write_text(json.dumps({"performance": 0.1, "records": []}))
        (folder / "20260202.json").write_text(json.dumps({"performance": 0.5, "records": told}))
    same(import_router_log(tmp_path / "bench"))


def test_what_is_written_is_read_again(tmp_path):
    table = import_router_log(routerbench())
    for name in ("values.parquet", "values.csv"):
        write_values(table, tmp_path / name)
        again = deepval.read_values(tmp_path / name)
        assert again.digest == table.digest
        assert again.attributes["prompt_length"].tolist() == table.attributes["prompt_length"].tolist()
    with pytest.raises(InputError, match=r"must end in .csv or .parquet"):
        write_values(table, tmp_path / "values.xlsx")


def test_prompts_without_an_answer_are_left_out_and_counted():
    rows = [row for row in routerarena() if (row["prediction"], row["global index"]) != ("big", "law_3")]
    columns = {name: [row[name] for row in rows] for name in ("global index", "prediction", "accuracy", "cost")}
    with pytest.warns(InputWarning, match=r"1 of 4 prompts lack a score of some model of small, big"):
        table = import_router_log(columns)
    assert len(table) == 3


WRONG = {
    "pickle": ("routerbench.pkl", b"\x80", "a pickle can run code, so none is read"),
    "no json": ("log.json", b"{", "must be a JSON file"),
    "no records": ("log.json", b'{"a": 1}', "must be a list of records, or have one as 'records'"),
    "twice": (
        "log.csv", b"model_name,index,dataset,score\na,1,x,1\na,1,x,0\n",
        "a prompt has one row per model; 'x/1' and 'a' are there twice (row 2)",
    ),
    "no costs": ("log.csv", b"model_name,index,dataset,score\na,1,x,1\nb,1,x,0\n", "models are ordered by their cost"),
    "above 1": ("log.csv", b"model_name,index,dataset,score,cost\na,1,x,7,1\nb,1,x,9,2\n", "found 9: give best="),
    "no quality": ("log.csv", b"sample_id,a|total_cost\n1,2\n", "a column 'a' of its quality is needed"),
    "none whole": ("log.csv", b"model,index,dataset,score,cost\na,1,x,1,1\nb,2,x,0,2\n", "some prompt must have an"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_logs_that_cannot_be_are_refused(tmp_path, case):
    name, content, told = WRONG[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        import_router_log(path)
    assert told in str(caught.value)


def test_models_that_are_not_there_and_best_are_refused():
    with pytest.raises(InputError, match=r"models must be among big, small; found 'tiny'"):
        import_router_log(routerbench(), models=["tiny", "big"])
    with pytest.raises(InputError, match=r"no quality can exceed the best, 0.5; found 1"):
        import_router_log(routerbench(), best=0.5)
    assert import_router_log(routerbench(), best=10).losses.min() == 9.0


def test_the_command_writes_a_values_file(tmp_path, capsys):
    from deepval.cli.routers import import_log

    log = tmp_path / "predictions.json"
    log.write_text(json.dumps(routerarena()))
    import_log(log, out=tmp_path / "values.csv")
    assert "4 prompts in 2 units, models cheap first" in capsys.readouterr().out
    same(deepval.read_values(tmp_path / "values.csv"))
    import_log(log, out=tmp_path / "values.csv", json=True)
    facts = json.loads(capsys.readouterr().out)
    table = deepval.read_values(tmp_path / "values.csv")
    assert (facts["inputs"], facts["units"]) == (4, 2)
    assert [model["mode"] for model in facts["models"]] == list(table.modes)
    assert [model["mean_loss"] for model in facts["models"]] == table.losses.mean(axis=0).tolist()


@pytest.mark.shared
def test_the_page_on_results_tells_of_the_published_log_what_the_tool_finds():
    import sys

    from shared import shared_data

    root = ROOT
    sys.path.insert(0, str(root / "tools"))
    from published_log import figures

    found = figures(shared_data("bgt_ada", "target_distributions.csv"))
    told = (root / "docs" / "results.md").read_text().partition("## A published routing log")[2]
    assert f"{found['affected']:,} of 3,105" in told
    assert f"{100 * found['harm rate']:.1f} % of them worse (harm ratio {found['harm ratio']:.3f})" in told
    for name, line in (("oracle", "oracle, here (mean ΔAP)"), ("random", "random, here")):
        cells = " | ".join(f"{gain:.4f}" for gain in [*found["gain"][name], found["all-full"]])
        assert f"| {line} | {cells} |" in told
    for name, line in (("MORIC+", "target MORIC⁺"), ("OffloadBin", "target OffloadBin")):
        pairs = zip(found["gain"][name], found["ndg"][name], strict=True)
        cells = " | ".join(f"{gain:.4f} ({ndg:.2f})" for gain, ndg in pairs)
        assert f"| {line} as a score, here (nDG) | {cells} | |" in told
    for name, word in (("MORIC+", "MORIC⁺"), ("OffloadBin", "OffloadBin")):
        apgr, low, high = found["apgr"][name]
        assert f"{word} {apgr:.2f} [{low:.2f}, {high:.2f}]" in told
