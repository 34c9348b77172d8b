"""`report` reads the judgement that `evaluate` stored in a cell's folder, if nothing
changed; the page is the same.
"""

import pytest

from commands import call
from deepval.cli import report_page
from deepval.cli.evaluate import PREFIX
from small_cells import build_cells

# few units
pytestmark = pytest.mark.filterwarnings("ignore::deepval.errors.InputWarning")


@pytest.fixture
def cell(tmp_path):
    folder = build_cells(tmp_path, systems=("braking",)) / "braking-monocular"
    call("score", folder, "ego-speed", "--units", "all")
    return folder


@pytest.fixture
def judgements(monkeypatch) -> list[str]:
    """One entry per judgement that `report` computes."""
    computed: list[str] = []
    compute = report_page.judge

    def judge(*arguments, **options):
        computed.append(options["command"])
        return compute(*arguments, **options)

    monkeypatch.setattr(report_page, "judge", judge)
    return computed


def page(cell, tmp_path) -> bytes:
    out = tmp_path / "page.html"
    call("report", cell, "--out", out)
    return out.read_bytes()


def looks(cell) -> int:
    return len((cell / "opened.jsonl").read_text().splitlines())


def test_one_judgement_for_evaluate_and_report(cell, tmp_path, judgements):
    new = page(cell, tmp_path)
    assert judgements == ["report"]
    call("evaluate", cell)
    before = looks(cell)
    assert page(cell, tmp_path) == new
    assert judgements == ["report"]
    assert looks(cell) == before + 1


def test_other_scores_options_or_a_damaged_file_are_judged_anew(
    cell, tmp_path, judgements
):
    call("evaluate", cell, "--alpha", "0.2")
    assert not list(cell.glob(f"{PREFIX}*"))
    call("evaluate", cell)
    (stored,) = cell.glob(f"{PREFIX}*")
    stored.write_bytes(stored.read_bytes()[:-100])
    page(cell, tmp_path)
    assert judgements == ["report"]
    call("score", cell, "criticality", "--units", "all")
    call("evaluate", cell)
    (newer,) = cell.glob(f"{PREFIX}*")
    assert newer != stored
    (cell / "scores" / "criticality.csv").unlink()
    page(cell, tmp_path)
    assert judgements == ["report", "report"]
