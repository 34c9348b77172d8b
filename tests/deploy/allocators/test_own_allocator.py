"""A new kind of allocator is one file and one row of RECIPES: it is fitted, saved,
loaded, scored, served, timed.
"""

import json
from dataclasses import asdict, dataclass, replace
from unittest import mock

import numpy as np
import pytest

from allocator_worlds import LADDER, failing_cell, ladder_cell, pair_cell
from commands import call
from deepval.basics.progress import unwatched
from deepval.cli import fit_allocators
from deepval.deploy.allocators import (
    RECIPES,
    FittedAllocator,
    Recipe,
    Training,
    read_allocator,
)
from deepval.deploy.allocators.router import Router
from deepval.deploy.fitting import (
    calibration_scores,
    fit_on,
    recipes_for,
    refit,
    scored_by_all,
)
from deepval.driving.views import frames_of
from view_worlds import glances_of


@dataclass(frozen=True, eq=False)
class Crowd(FittedAllocator):
    """How many more boxes there are than usual on the fit inputs where escalation
    pays.
    """

    usual: float
    training: Training
    name = "toy-crowd"
    uses = frozenset({"cheap boxes"})
    holds = "how many boxes are usual"

    def _of_frame(self, glance):
        return len(glance.boxes) - self.usual

    @classmethod
    def feature_sets(cls):
        return ("crowd",)

    def content(self):
        return {
            "name": self.name,
            "front": "crowd",
            "training": asdict(self.training),
            "usual": self.usual,
        }

    @classmethod
    def of(cls, content):
        return cls(float(content["usual"]), Training.of(content))


@dataclass(frozen=True)
class CrowdRecipe(Recipe):
    share: float = 1.0
    name = "toy-crowd"
    target = "value-binary"
    makes = Crowd

    def admits(self, target, *, classifies):
        return classifies and target.startswith("value")

    def like(self, settings):
        return CrowdRecipe(**settings)

    def fit(self, examples, training, *, watch=unwatched):
        boxes = np.array(
            [np.sum(view.detections.frame == place) for view, place in examples.frames]
        )
        usual = self.share * float(boxes[examples.labels == 1].mean())
        return Crowd(usual, replace(training, settings=asdict(self)))


@pytest.fixture(autouse=True)
def row():
    with mock.patch.dict(RECIPES, {"toy-crowd": CrowdRecipe()}):
        yield


def test_it_is_fitted_saved_and_loaded(tmp_path):
    path = tmp_path / "crowd.json"
    line = call("fit", pair_cell().folder, "--allocator", "toy-crowd", "--out", path)
    assert (
        line
        == f"{path}: toy-crowd for value-binary, fitted on 144 inputs of 6 units.\n"
    )
    read = read_allocator(path)
    assert type(read) is Crowd
    table = pair_cell().table.restrict(pair_cell().split.fit)
    boxes = {}
    for view in pair_cell().views:
        count = np.bincount(view.detections.frame, minlength=len(view))
        boxes |= dict(zip(view.scene.inputs.tolist(), count.tolist(), strict=True))
    pays = table.losses[:, 0] > table.losses[:, -1]
    assert read.usual == np.mean([boxes[name] for name in table.input[pays].tolist()])
    half = fit_on(pair_cell(), CrowdRecipe(0.5))
    assert half.usual == read.usual / 2
    assert refit(pair_cell(), half).to_json() == half.to_json()
    call("fit", pair_cell().folder, "--like", path, "--out", tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_it_scores_cells_and_frames(tmp_path):
    made = fit_on(pair_cell(), "toy-crowd")
    for cell in (pair_cell(), failing_cell()):
        for view in cell.views[:2]:
            whole = made.score(view)
            assert np.isnan(whole).tolist() == (~view.detections.run).tolist()
            assert (
                np.array(
                    [made.score_frame(seen) for seen in glances_of(view)]
                ).tobytes()
                == whole.tobytes()
            )
    made.save(tmp_path / "crowd.json")
    told = json.loads(
        call(
            "score",
            pair_cell().folder,
            tmp_path / "crowd.json",
            "--out",
            tmp_path / "s.csv",
            "--json",
        )
    )
    assert (told["allocator"], told["inputs"], told["coverage"]) == (
        "toy-crowd",
        72,
        1.0,
    )
    assert "toy-crowd" in recipes_for(ladder_cell())
    assert scored_by_all(pair_cell(), ["toy-crowd"])["toy-crowd"].coverage == 1.0


def test_it_serves_and_is_timed(tmp_path):
    path = tmp_path / "crowd.json"
    fit_on(ladder_cell(), "toy-crowd").save(path)
    scores = calibration_scores(ladder_cell(), path, units="validation")
    view = ladder_cell().views[4]
    router = Router.calibrated(path, scores, 0.3, mode=view.mode)
    assert router.modes == LADDER
    found = [(router.decide(frame), router.score) for frame in frames_of(view)]
    assert [score for _, score in found] == read_allocator(path).score(view).tolist()
    assert {mode for mode, _ in found} <= {LADDER[0], LADDER[-1]}
    name, stages, frames = fit_allocators.stages_of(str(path), ladder_cell().folder)
    assert (name, list(stages)) == ("crowd", ["score"])
    assert stages["score"](frames[:5]) == [
        stages["score"](frame) for frame in frames[:5]
    ]
