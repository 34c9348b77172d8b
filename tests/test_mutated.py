"""Saved results and frames with one place changed are refused in a sentence, or shown: a sample of tests/slow."""

import json

from deepval.results import Result
from mutated_files import result_content, show_frames, show_quickly, show_result, try_mutations
from pages import write_cells


def test_results(tmp_path):
    content = result_content()
    (tmp_path / "r.json").write_text(json.dumps(content), encoding="utf-8")
    show_result(tmp_path / "r.json")
    assert try_mutations(content, show_quickly, tmp_path / "r.json", times=8, seed=0) > 2


def test_frames(tmp_path):
    (kept,) = write_cells(tmp_path, ("braking",))
    content = json.loads((kept.parent / "frames.json").read_text(encoding="utf-8"))
    content["frames"] = content["frames"][:2]
    refused = try_mutations(content, show_frames(Result.load(kept)), tmp_path / "f.json", times=8, seed=0)
    assert refused > 1
