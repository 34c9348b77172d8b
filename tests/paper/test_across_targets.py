"""One score on several targets: the cross-target table, self-reference gaps,
disagreement, partial coverage.
"""

import json
from types import SimpleNamespace

import pytest

from commands import run
from deepval.driving.cells.build import cells
from deepval.driving.cells.folder import read_cell, write
from deepval.driving.cells.spec import Material, ModeSpec
from deepval.driving.systems.learned import learned_planners
from deepval.judge.concordance import sign_disagreement
from deepval.judge.tables.keys import positions
from deepval.paper.analyses import out_of_fold, transfer
from deepval.paper.analyses.targets import across_targets
from deepval.paper.analysis import analysis
from driving import Lidar
from learned_worlds import AHEAD, FRAMES, Roads, fan, small_weights
from tidy_rows import flat_means, flat_rows, study_cells
from train_planner import masks_bytes, npz_bytes

MODES = tuple(
    ModeSpec(f"lidar-{reach:g}", Lidar(reach).definition, reader=Lidar(reach))
    for reach in (5.0, 500.0)
)
NAMES = ("braking", "planner-ade-unverified", "planner-self-ade-unverified")


TABLES = ("rows", "gaps", "disagreements")


def whole(content):
    """The record of three tables, its rows with their fields as attributes."""
    tables = {
        name: tuple(SimpleNamespace(**row) for row in content[name]) for name in TABLES
    }
    return SimpleNamespace(**content | tables)


def whole_of(*arguments, **settings):
    return whole(across_targets(*arguments, **settings))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Cells of the braking controller and of the planner, judged by the log and by
    itself, with cuboids.
    """
    place = tmp_path_factory.mktemp("cells")
    (place / "w.npz").write_bytes(npz_bytes(small_weights().arrays))
    (place / "m.npz").write_bytes(masks_bytes(fan()))
    rules = learned_planners(
        ["planner-ade", "planner-self-ade"],
        weights=place / "w.npz",
        masks=place / "m.npz",
    )
    data = Roads()
    for cell in cells(
        Material(data, MODES, data.unit_ids()),
        geometries=["cuboids"],
        systems=["braking", *rules],
    ):
        write(cell, place / cell.spec.system)
    return [place / name for name in NAMES]


@pytest.fixture(scope="module")
def built(folders):
    return {folder.name: read_cell(folder) for folder in folders}


@pytest.fixture(scope="module")
def found(built):
    return whole_of(built, draws=50)


def test_every_score_is_judged_on_every_target(found, built):
    rows = {(row.score, row.target, row.alpha): row for row in found.rows}
    for target in built:
        oracle = rows["oracle", target, 0.2]
        assert oracle.inputs == len(built[target].table)
        assert oracle.ndg in (None, 1.0)
        assert {
            "random",
            "reference-criticality",
            "gain-PKL",
            "gain-TIP",
            "oracle",
        } <= {row.score for row in found.rows if row.target == target}
    assert set(found.absent) == {"uncertainty"}, (
        "the made-up lidar gives no probabilities"
    )
    assert rows["gain-PKL", NAMES[0], 0.2].kind == "diagnostic"
    # The scores of the cell that judges most frames are taken, so that every target's
    # inputs have one.
    assert all(row.coverage == 1 for row in found.rows)


def test_a_report_shows_the_tables_at_the_default_level(found):
    declared = analysis("targets")
    tables = {name: [vars(row) for row in getattr(found, name)] for name in TABLES}
    record = vars(found) | tables
    usual = declared.report_tables([record])
    assert usual == declared.report_tables([record], alpha=0.2)


def test_scores_of_a_consumer_that_judges_fewer_frames_cover_a_part_of_another(built):
    part = whole_of({name: built[name] for name in NAMES[:2]}, ["gain-PKL"], draws=0)
    rows = {(row.score, row.target): row for row in part.rows if row.alpha == 0.2}
    assert rows["gain-PKL", NAMES[1]].coverage == 1
    assert rows["gain-PKL", NAMES[0]].coverage == pytest.approx(
        (FRAMES - AHEAD) / FRAMES
    )
    (pair,) = part.disagreements
    assert (pair.coverage_first, pair.coverage_second) == (
        pytest.approx((FRAMES - AHEAD) / FRAMES),
        1.0,
    )
    assert part.gaps == (), (
        "without the cell of the planner itself there is nothing to compare with"
    )


def test_targets_disagree_where_their_signs_do(found, built):
    pair = next(p for p in found.disagreements if (p.first, p.second) == NAMES[1:])
    logged, itself = built[NAMES[1]].table, built[NAMES[2]].table
    other = itself.decision_values[positions(logged.input, itself.input)]
    share = sign_disagreement(logged.decision_values, other)
    assert (pair.opposite, pair.both, pair.inputs) == (
        share.count,
        share.of,
        len(logged),
    )


@pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
def test_a_transfer_tells_which_share_of_frames_both_consumers_judge(built):
    two = {name: built[name] for name in NAMES[:2]}
    rows = {
        (row.source, row.target): row
        for row in flat_rows(
            transfer.TRANSFER,
            study_cells(two),
            recipes=["gate-ridge"],
            alphas=[0.2],
            draws=0,
        )
    }
    assert rows[NAMES[1], NAMES[0]].common == pytest.approx((FRAMES - AHEAD) / FRAMES)
    assert rows[NAMES[0], NAMES[1]].common == rows[NAMES[0], NAMES[0]].common == 1


@pytest.mark.slow
def test_the_command_prints_tables_and_draws_a_figure(folders, tmp_path):
    done = run("analyse", "targets", *folders, "--figure", tmp_path / "eta.pdf")
    assert done.code == 0, done.err
    for words in (
        "One score, several targets",
        "Where targets disagree",
        "Self-reference gap at 20%",
        "gain-TIP",
    ):
        assert words in done.out
    assert "uncertainty is left out: the cheap mode has no scores" in " ".join(
        done.out.split()
    )
    once = (tmp_path / "eta.pdf").read_bytes()
    assert once.startswith(b"%PDF")
    told = run(
        "analyse", "targets", *folders, "--json", "--figure", tmp_path / "again.pdf"
    )
    assert {row["score"] for row in json.loads(told.out)["rows"]} >= {
        "random",
        "gain-PKL",
        "oracle",
    }
    assert (tmp_path / "again.pdf").read_bytes() == once


@pytest.mark.filterwarnings("ignore:The last mode:deepval.basics.errors.InputWarning")
def test_the_gate_is_fitted_out_of_fold_on_every_target(built):
    two = {name: built[name] for name in list(built)[:2]}
    judged = {
        (row.target, row.alpha): row.ndg
        for row in whole_of(two, [], alphas=[0.2], draws=0).rows
        if row.score == "gate-gbm, out of fold"
    }
    alone = {
        (row.cell, row.alpha): row.ndg
        for row in flat_rows(
            out_of_fold.OUT_OF_FOLD,
            study_cells(two),
            allocators=["gate-gbm"],
            alphas=[0.2],
            draws=0,
        )
        if row.allocator == "gate-gbm" and row.cell in two
    }
    assert judged
    assert judged == alone


def test_transfers_are_counted_over_all_budgets_and_wins_at_one():
    def row(source, target, alpha, regret, verdict, coverage=1.0):
        return {
            "source": source,
            "target": target,
            "alpha": alpha,
            "coverage": coverage,
            "regret": regret,
            "verdict": verdict,
        }

    rows = [
        row("a", "a", 0.2, 0.0, "better"),
        row("b", "a", 0.2, -0.3, "better"),
        row("b", "a", 0.5, 0.1, "better"),
        row("a", "b", 0.2, -0.1, "unresolved", 0.8),
        row("b", "b", 0.2, 0.0, "worse"),
    ]
    every, covered = flat_means(transfer.TRANSFER, rows)
    assert (every.transfers, every.regret, every.others, every.others_better) == (
        3,
        -0.1,
        2,
        1,
    )
    assert (every.own, every.own_better) == (2, 1)
    assert (
        covered.transfers,
        covered.regret,
        covered.others,
        covered.others_better,
    ) == (2, pytest.approx(-0.1), 1, 1)
