"""Numbers stay: every command and analysis gives the figures that tests/golden has.

What each golden contains, and how it is renewed: tools/renew_golden.py.
"""

import os
import platform
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import renew_golden
from golden_worlds import GOLDEN, WORLDS
from shared import DEFAULT

SHARED = Path(os.environ.get("DEEPVAL_SHARED", DEFAULT))


def marks(world):
    found = [pytest.mark.long]
    if world.needs:
        found.append(pytest.mark.shared)
    if world.slow:
        found.append(pytest.mark.slow)
    return found


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=marks(world)) for name, world in WORLDS.items()]
)
def test_the_figures_of_a_world_are_what_they_were(name, tmp_path):
    if not renew_golden.available(WORLDS[name], SHARED):
        pytest.skip(f"shared data are absent: {', '.join(WORLDS[name].needs)}")
    made_with = renew_golden.read_made_with()
    if (made_with["machine"], made_with["numpy"]) != (
        platform.machine(),
        version("numpy"),
    ):
        pytest.skip(
            f"last digits depend on the machine and NumPy; made with {made_with}"
        )
    outcomes = renew_golden.run_world(name, SHARED, tmp_path)
    lines = list(renew_golden.differences(renew_golden.stored_outcomes(name), outcomes))
    renew = f"If that is meant: python tools/renew_golden.py --renew {name}"
    assert not lines, "\n".join([*lines[:50], f"{len(lines)} differences. {renew}"])


def test_the_goldens_take_less_than_ten_megabytes():
    assert sum(path.stat().st_size for path in GOLDEN.glob("*.json.gz")) < 10_000_000


def test_every_world_has_goldens():
    assert all(renew_golden.stored_outcomes(name) for name in WORLDS)


def outcome(**row):
    return {"evaluate": {"demo: one": {"rows": [{"allocator": "mine", **row}]}}}


def test_a_difference_names_file_case_row_field_and_both_values():
    lines = list(renew_golden.differences(outcome(gain=0.5), outcome(gain=0.75)))
    where = "evaluate, demo: one, rows row 0 (mine), gain"
    assert lines == [f"{where}: was 0.5 and is 0.75"]


@pytest.mark.parametrize(
    ("before", "after", "number"),
    [
        ({"gain": 0.5}, {"gain": 0.5 + 1e-10}, 0),
        ({"gain": 1e6}, {"gain": 1e6 + 1e-4}, 0),
        ({"gain": 0.5}, {"gain": 0.5 + 1e-8}, 1),
        ({"gain": 0.5}, {"gain": None}, 1),
        ({"gain": 1}, {"gain": True}, 1),
        ({"gain": 0.5}, {}, 1),
        ({}, {"gain": 0.5}, 1),
        ({"verdict": "better"}, {"verdict": "worse"}, 1),
    ],
)
def test_what_differs_beyond_rounding_is_named(before, after, number):
    lines = list(renew_golden.differences(outcome(**before), outcome(**after)))
    assert len(lines) == number


def test_a_lost_row_and_a_lost_case_are_named():
    (line,) = renew_golden.differences(
        outcome(), {"evaluate": {"demo: one": {"rows": []}}}
    )
    assert line.endswith("had 1 rows and has 0")
    (line,) = renew_golden.differences(outcome(), {})
    assert line == "evaluate, demo: one: is missing"


def test_digests_see_the_seventh_digit_and_not_the_tenth():
    def digest(gain):
        content = renew_golden._digested([{"gain": gain}] * 30)
        return content["digests"]["gain"]

    assert digest(0.123456789) == digest(0.1234567891)
    assert digest(0.1234567) != digest(0.1234577)


def test_digits_of_torch_are_left_out_and_gross_changes_are_not(tmp_path):
    def digest(*pkl):
        path = tmp_path / "evidence.parquet"
        pq.write_table(pa.table({"cheap_PKL": pkl}), path)
        return renew_golden._column_digests(path)

    assert digest(0.1234567, 0.5) == digest(0.1234568, 0.5)
    assert digest(0.1234567, 0.5) != digest(0.2234567, 0.5)
    assert digest(0.5, 0.5) != digest(0.5, None)
