"""Saved results and frames with one place changed are refused in a sentence, or shown: a sample of tests/slow."""

import json

import pytest

from deepval.errors import InputError
from deepval.results import Result
from mutated_files import result_content, show_frames, show_quickly, show_result, try_mutations
from pages import write_cells


def test_results(tmp_path):
    content = result_content()
    (tmp_path / "r.json").write_text(json.dumps(content), encoding="utf-8")
    show_result(tmp_path / "r.json")
    assert try_mutations(content, show_quickly, tmp_path / "r.json", times=8, seed=0) > 2


def named(content, key):
    """Every record with such a key, at any depth."""
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return [content] * (key in content if isinstance(content, dict) else False) + [
        found for part in parts for found in named(part, key)
    ]


def test_every_convention_is_one_that_there_is(tmp_path):
    content = result_content()
    records = named(content, "convention")
    assert {id(record) for row in content["ladder"] for record in row["spent"]} <= {id(record) for record in records}
    for record in records:
        kept, record["convention"] = record["convention"], "miles"
        (tmp_path / "r.json").write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(InputError, match=r"convention must be one of .*; found 'miles'"):
            Result.load(tmp_path / "r.json")
        record["convention"] = kept


def test_frames(tmp_path):
    (kept,) = write_cells(tmp_path, ("braking",))
    content = json.loads((kept.parent / "frames.json").read_text(encoding="utf-8"))
    content["frames"] = content["frames"][:2]
    refused = try_mutations(content, show_frames(Result.load(kept)), tmp_path / "f.json", times=8, seed=0)
    assert refused > 1
