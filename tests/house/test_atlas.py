"""The tool behind docs/atlas.md on small tables, and the page's own lines on shared
data.
"""

import runpy
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deepval
from project import ROOT
from shared import shared_data

TOOL = runpy.run_path(str(ROOT / "studies" / "make_atlas.py"))
PAGE = "".join(
    f"<!-- table {name} -->\n<!-- end -->\n" for name in ("counts", "pairs", "choices")
)


def write_tables(folder):
    """A priced table of three models with confidences, an unpriced one of three
    planners, and one of another kind.
    """
    rng = np.random.default_rng(0)
    (folder / "routing").mkdir(parents=True)
    hard = rng.random(60) < 0.5
    apis = {
        "conf|free": np.where(hard, 0.2, 0.9) + rng.random(60) / 20,
        "correct|free": (~hard).astype(int),
    }
    apis |= {"correct|good": np.ones(60, dtype=int), "correct|bad": hard.astype(int)}
    pq.write_table(pa.table(apis), folder / "routing" / "apis_faces.parquet")
    prices = "".join(
        f"faces,{model},{price}\n"
        for model, price in (("free", 1), ("bad", 5), ("good", 20))
    )
    (folder / "routing" / "prices.csv").write_text(
        "dataset,model,cost_per_10k\n" + prices
    )
    planners = {
        "token": [f"t{i}" for i in range(40)],
        "log_name": [f"log{i % 8}" for i in range(40)],
    }
    planners |= {
        f"{name}|score": rng.random(40) / 2 + level
        for name, level in (("a", 0), ("b", 0.25), ("c", 0.5))
    }
    pq.write_table(
        pa.table(planners | {"ego_speed_mps": rng.random(40)}),
        folder / "states.parquet",
    )
    pq.write_table(pa.table({"name": ["x", "y"]}), folder / "other.parquet")


def test_the_tool_renews_the_page_from_any_tables(tmp_path, monkeypatch, capsys):
    write_tables(tmp_path / "data")
    docs = tmp_path / "docs"
    (docs / "generated").mkdir(parents=True)
    for name in TOOL["PAGES"]:
        (docs / name).write_text(f"before\n{PAGE}after\n")
    monkeypatch.setattr(
        sys, "argv", ["make_atlas.py", str(tmp_path / "data"), str(docs)]
    )
    TOOL["main"]()
    printed = capsys.readouterr().out
    assert "Left out: " in printed
    assert "other.parquet" in printed
    # free with bad and good; a-b, a-c, b-c
    assert "5 pairs, 1 tables with a choice" in printed
    assert "|**apis_faces**" not in (docs / "atlas.md").read_text()
    page = (docs / "generated" / "atlas.md").read_text()
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    assert "|**apis_faces**: free → ...; 60, rows; low_confidence|" in page
    assert "|**states**: 40, 8 units; ego_speed_mps|" in page
    good = next(line for line in page.splitlines() if line.startswith("|good|"))
    assert "|0|0.00|–|" in good  # the good model is never worse, so there is no AUC
    assert good.endswith(" yes|")
    for name in ("atlas-harm.png", "atlas-routers.png"):
        assert (docs / "pictures" / name).read_bytes().startswith(b"\x89PNG")


def test_auc_is_the_share_of_pairs_in_the_right_order():
    table = deepval.ValueTable.from_columns(
        unit=["u", "u", "v", "v", "v"],
        losses={"c": [1, 1, 0, 0, 0], "f": [0, 0, 1, 1, 0]},
    )
    # Helped: scores 3 and 1; harmed: 1 and 0. Of four pairs three are in order and one
    # is a tie.
    value, low, high = TOOL["auc"](table, np.array([3.0, 1.0, 1.0, 0.0, 9.0]), 50)
    assert value == (3 + 0.5) / 4
    assert low <= value <= high


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore::deepval.InputWarning")
def test_the_page_has_the_figures_of_the_tool():
    page = (ROOT / "docs" / "generated" / "atlas.md").read_text(encoding="utf-8")
    name = "frugalml_DIGIT"
    table = deepval.import_router_log(shared_data("routing", f"{name}.parquet"))
    pairs = list(TOOL["pairs"](name, table))
    lines = TOOL["pair_table"](pairs).splitlines()[2:]
    assert len(lines) == len(table.modes)  # one heading, one line per pair
    assert "\n".join(lines) in page
    assert TOOL["choice_table"]([TOOL["choice"](name, table)]).splitlines()[2] in page
