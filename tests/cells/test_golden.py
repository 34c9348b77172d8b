"""Every file of the synthetic and the public KITTI cells, and one result, is byte for byte what it was."""

import json
import platform
import runpy

import numpy as np
import pytest

from project import ROOT
from shared import shared_data

GOLDEN = runpy.run_path(str(ROOT / "tools" / "renew_golden.py"))

OFTEN = ((), (pytest.mark.slow,), (pytest.mark.slow,))
"""The first pair is built in every run of the tests, the others in the slow one."""


def kept(name):
    return json.loads((ROOT / "tests" / "golden" / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "name",
    [
        "synthetic",
        *(
            pytest.param(name, marks=[pytest.mark.shared, *often])
            for name, often in zip(GOLDEN["PAIRS"], OFTEN, strict=True)
        ),
    ],
)
def test_every_file_is_what_it_was(name, tmp_path):
    before = kept(name)
    for what, here in (("machine", platform.machine()), ("numpy", np.__version__)):
        if before["made_with"][what] != here:
            pytest.skip(
                f"the golden is of {what} {before['made_with'][what]}, this is {here}: last digits depend on it"
            )
    shared = shared_data("kitti_tracking").parents[1] if name in GOLDEN["PAIRS"] else ROOT
    now = GOLDEN["golden"](name, shared, tmp_path)
    found = GOLDEN["differences"](before, now)
    renew = f"If that is meant, say so in the commit and run: python tools/renew_golden.py {name}"
    assert not found, "\n".join([*found, f"(kept: {before['made_with']}, now: {now['made_with']})", renew])


def test_the_goldens_are_of_the_four_synthetic_and_the_twelve_public_cells():
    ids = [folder["id"] for name in GOLDEN["NAMES"] for folder in kept(name)["folders"].values() if folder["id"]]
    assert len(set(ids)) == len(ids) == 4 + 12


def one_file(sha256, parts, *, made_with="1"):
    files = {"values.parquet": {"sha256": sha256, "parts": parts}}
    return {"made_with": {"pyarrow": made_with}, "folders": {"cell": {"id": "cell-1", "files": files}}}


def test_a_difference_names_cell_file_and_column():
    before = one_file("a", {"unit": "1", "loss_full": "2"})
    differences = GOLDEN["differences"]
    assert differences(before, one_file("a", {"unit": "1", "loss_full": "2"})) == []
    assert differences(before, one_file("b", {"unit": "1", "loss_full": "3"})) == [
        "cell/values.parquet: differs in loss_full"
    ]
    assert differences(before, one_file("b", {"unit": "1", "loss_full": "2"})) == [
        "cell/values.parquet: other bytes, the same contents"
    ]
    assert differences(before, {**before, "folders": {}}) == [
        "cell: its id was cell-1 and is None",
        "cell/values.parquet: is no longer there",
    ]


def test_under_other_versions_contents_are_compared_instead_of_bytes():
    before, differences = one_file("a", {"unit": "1"}), GOLDEN["differences"]
    assert differences(before, one_file("b", {"unit": "1"}, made_with="2")) == []
    assert differences(before, one_file("b", {"unit": "2"}, made_with="2")) != []
