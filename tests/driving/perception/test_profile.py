"""Detection profiles: the file, the laws of simulation, and how well the shipped one
tells what was measured.
"""

import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from deepval.basics.errors import InputError
from deepval.driving.datasets.synthetic import SceneParts, WorldSettings, visible
from deepval.driving.perception.profile import (
    Conditions,
    Noise,
    expected_logit,
    logit,
    read_profile,
)
from deepval.driving.perception.simulation import (
    OBJECT,
    PHANTOM,
    blend,
    detections_at,
    disturbance,
    draw,
    loading,
)
from detector_profile.check import goodness, goodness_lines
from detector_profile.fit import (
    fit_profile,
    fit_scores,
    streets,
    write_profile,
)
from detector_profile.outcomes import Specimen, all_outcomes
from driving import scene, truth
from project import ROOT
from shared import shared_data

PROFILE = read_profile()


@pytest.fixture(scope="module")
def drives():
    parts = [
        SceneParts(place, seed=5, settings=WorldSettings(scenes=10))
        for place in range(10)
    ]
    return [(part.scene(), visible(part.truth())) for part in parts]


def simulate(profile, drive, *, truth, size, rng, conditions=None):
    """What the detector reports of one draw at one size."""
    return detections_at(
        draw(profile, drive, truth=truth, rng=rng, conditions=conditions), size
    )


def detection_probability(profile, height_px, *, threshold=0.25, **about):
    """Chance that a latent score, normal about its mean, lies above that of the
    threshold.
    """
    scores = profile.scores
    least = logit(max(threshold, scores.floor), top=scores.top)
    return norm.sf(least, expected_logit(profile, height_px, **about), scores.spread)


def kind(height_px, *, cls="Car", occlusion=0, range_m=20.0):
    height_px = np.atleast_1d(np.asarray(height_px, dtype=float))
    count = len(height_px)
    return {
        "height_px": height_px,
        "cls": np.full(count, cls, dtype="<U14"),
        "occlusion": np.full(count, occlusion),
        "range_m": np.full(count, range_m),
    }


def car(frames, *, box=(600.0, 170.0, 640.0, 200.0), cls="Car", occlusion=0):
    rows = [
        (frame, cls, 0, occlusion, box, (20, 24, -1, 1), 0.0) for frame in range(frames)
    ]
    return truth(rows, frames)


def only(*, phantoms=0.0, doubles=-60.0):
    return replace(
        PROFILE,
        phantoms=replace(PROFILE.phantoms, per_frame=phantoms),
        doubles=replace(PROFILE.doubles, vehicle_logit=doubles, person_logit=doubles),
    )


def test_a_profile_is_read_back_as_written(tmp_path):
    path = tmp_path / "profile.toml"
    write_profile(PROFILE, path, head="two\nlines")
    assert read_profile(path) == PROFILE
    assert path.read_text().startswith("# two\n# lines\n")
    assert path.stat().st_size < 8000


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("spread =", "width =", "scores may have .*; found 'width'"),
        ("[scores]", "[scores", "must be a TOML file; "),
        ("height_px = [4.0, 7.0,", "height_px = [7.0, 4.0,", "heights must increase"),
        (
            "Car = { Car = 1.0 }",
            "Car = { Car = 0.5 }",
            "reported classes of Car must sum to 1",
        ),
        ("drifting = 0.", "drifting = 7.", "shares of a noise"),
    ],
)
def test_a_broken_profile_is_told(tmp_path, old, new, words):
    path = tmp_path / "profile.toml"
    write_profile(PROFILE, path, head="")
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new, 1))
    with pytest.raises(InputError, match=words.replace("[", r"\[")):
        read_profile(path)
    with pytest.raises(InputError, match="must be a TOML file that can be read"):
        read_profile(tmp_path / "absent.toml")


def test_the_mean_passes_through_the_knots_and_goes_on_below_the_first():
    scores = PROFILE.scores
    at_knots = expected_logit(PROFILE, **kind(scores.height_px))
    np.testing.assert_allclose(at_knots, scores.height_logit, rtol=1e-9)
    steps = np.log([scores.height_px[0] / 2, scores.height_px[0], scores.height_px[1]])
    below = expected_logit(PROFILE, **kind(scores.height_px[0] / 2))[0]
    slope = (scores.height_logit[1] - scores.height_logit[0]) / (steps[2] - steps[1])
    assert below == pytest.approx(scores.height_logit[0] - slope * np.log(2), rel=1e-9)


def test_scores_and_latent_scores_are_inverse():
    latent = np.linspace(-4, 4, 9)
    np.testing.assert_allclose(
        logit(0.95 / (1 + np.exp(-latent)), top=0.95), latent, rtol=1e-9
    )


def test_resolutions_share_noise_as_their_distance_says():
    scale = 0.8
    for one, other in ((320, 640), (320, 384), (512, 640)):
        shared = loading(one, scale) @ loading(other, scale)
        # Between knots resolutions share a little more than the law says.
        assert shared == pytest.approx(np.exp(-np.log(other / one) / scale), abs=0.06)
    for size in (100, 200, 448, 2000):
        assert np.linalg.norm(loading(size, scale)) == pytest.approx(1.0, rel=1e-9)


def test_noise_has_unit_variance_and_forgets_as_told():
    noise = Noise(of_object=0.3, drifting=0.5, memory_s=0.4, size_scale=0.8)
    tracks, frames = 800, 5
    rows = [
        (frame, "Car", track, 0, (0, 0, 50, 50), (9, 12, -1, 1), 0.0)
        for frame in range(frames)
        for track in range(tracks)
    ]
    rng = np.random.default_rng(3)
    things = draw(only(), scene(frames), truth=truth(rows, frames), rng=rng).things
    things = type(things)(*(column[things.kind == OBJECT] for column in things))
    found = disturbance(things, noise, fields=4, dt_s=0.1, rng=rng)
    low, high = (
        blend(noise, found, size=size, rng=rng).reshape(frames, -1)
        for size in (320, 640)
    )

    def product(a, b):
        return float(np.mean(a * b))

    assert product(low, low) == pytest.approx(1.0, abs=0.05)
    assert product(low, high) == pytest.approx(
        0.3 + 0.5 * np.exp(-np.log(2) / 0.8), abs=0.05
    )
    for lag in (1, 3):
        assert product(low[lag:], low[:-lag]) == pytest.approx(
            0.3 + 0.5 * np.exp(-lag * 0.1 / 0.4), abs=0.05
        )


def test_simulated_recall_is_the_detection_probability():
    tracks = 4000
    rows = [
        (0, "Car", track, 1, (600, 170, 640, 200), (20, 24, -1, 1), 0.0)
        for track in range(tracks)
    ]
    for size in (320, 640):
        drawn = draw(
            only(), scene(1), truth=truth(rows, 1), rng=np.random.default_rng(0)
        )
        found = detections_at(drawn, size)
        expected = detection_probability(PROFILE, **kind(30 * size / 1242, occlusion=1))
        assert (found.score >= 0.25).sum() / tracks == pytest.approx(
            expected[0], abs=0.03
        )


def test_one_draw_serves_all_modes_in_any_order(drives):
    drive, reference = drives[0]
    drawn = draw(PROFILE, drive, truth=reference, rng=np.random.default_rng(7))
    forth = [detections_at(drawn, size) for size in (320, 448, 640)]
    back = [detections_at(drawn, size) for size in (640, 448, 320)][::-1]
    alone = [
        simulate(
            PROFILE, drive, truth=reference, size=size, rng=np.random.default_rng(7)
        )
        for size in (320, 448, 640)
    ]
    for one, other, third in zip(forth, back, alone, strict=True):
        for name in ("frame", "cls", "score", "box_px"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
            np.testing.assert_array_equal(getattr(one, name), getattr(third, name))
    assert not np.array_equal(forth[0].score, forth[2].score)


def test_an_empty_street_shows_phantoms_only_where_there_are_any():
    empty, drive = truth([], 40), scene(40, speed_mps=5.0)
    none = simulate(only(), drive, truth=empty, size=640, rng=np.random.default_rng(0))
    some = simulate(
        only(phantoms=20.0), drive, truth=empty, size=640, rng=np.random.default_rng(0)
    )
    assert len(none) == 0
    assert len(some) > 40
    single = simulate(
        only(phantoms=20.0),
        scene(1),
        truth=truth([], 1),
        size=640,
        rng=np.random.default_rng(0),
    )
    assert len(single.run) == 1


def test_phantoms_stand_still_and_grow_as_the_vehicle_comes_nearer():
    drive = scene(30, speed_mps=12.0)
    drawn = draw(
        only(phantoms=15.0), drive, truth=truth([], 30), rng=np.random.default_rng(2)
    )
    things = drawn.things
    assert (things.kind == PHANTOM).all()
    for who in np.unique(things.identity)[:20]:
        mine = things.identity == who
        size_px = (things.box_px[:, 3] - things.box_px[:, 1])[mine]
        np.testing.assert_allclose(
            size_px * np.maximum(things.range_m[mine], 0.5),
            size_px[0] * things.range_m[mine][0],
        )
        np.testing.assert_allclose(
            np.diff(things.range_m[mine]), -1.2 * np.diff(things.frame[mine])
        )


def test_conditions_shift_hide_and_multiply():
    reference, drive = car(200), scene(200)
    counts = {}
    for name, conditions in {
        "plain": Conditions(),
        "dark": Conditions(shift=-2.0),
        "fog": Conditions(haze_per_m=0.1),
        "busy": Conditions(phantoms=5.0),
    }.items():
        profile = only(phantoms=2.0 if name == "busy" else 0.0)
        counts[name] = len(
            simulate(
                profile,
                drive,
                truth=reference,
                size=640,
                rng=np.random.default_rng(4),
                conditions=conditions,
            )
        )
    assert counts["dark"] < counts["plain"]
    assert counts["fog"] < counts["plain"]
    assert counts["busy"] > counts["plain"]


def test_a_fit_finds_the_profile_that_made_the_outcomes(drives):
    samples = []
    for place, (drive, reference) in enumerate(drives):
        for size in (320, 512, 640):
            rng = np.random.default_rng(place)
            found = simulate(only(), drive, truth=reference, size=size, rng=rng)
            samples.append(Specimen(size, drive, reference, found))
    rows, _ = all_outcomes(samples)
    fitted = replace(PROFILE, scores=fit_scores(rows)[0])
    heights = kind([8.0, 12.0, 20.0, 40.0])
    told = detection_probability(fitted, **heights)
    # Matching loses some small boxes, and a fit on 10 scenes knows few tracks.
    np.testing.assert_allclose(
        told, detection_probability(PROFILE, **heights), atol=0.2
    )


@pytest.fixture(scope="module")
def samples():
    root = shared_data("kitti_tracking").parent
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from fit_profile import read_samples
    finally:
        sys.path.pop(0)
    return read_samples(root)


@pytest.mark.shared
@pytest.mark.slow
def test_the_command_in_its_head_makes_the_shipped_profile(samples, tmp_path):
    fitted = fit_profile(samples, name=PROFILE.name, fitted_on=PROFILE.fitted_on)
    path = tmp_path / "again.toml"
    write_profile(fitted, path, head="again")
    again = read_profile(path)
    np.testing.assert_allclose(
        again.scores.height_logit, PROFILE.scores.height_logit, atol=0.02
    )
    assert again.scores.spread == pytest.approx(PROFILE.scores.spread, abs=0.01)
    assert again.scores.noise.drifting == pytest.approx(
        PROFILE.scores.noise.drifting, abs=0.03
    )
    np.testing.assert_allclose(
        again.boxes.vehicle.relative, PROFILE.boxes.vehicle.relative, rtol=0.1
    )
    assert again.phantoms.per_frame == pytest.approx(
        PROFILE.phantoms.per_frame, rel=0.15
    )
    assert again.confusion == PROFILE.confusion


@pytest.mark.shared
def test_the_shipped_profile_tells_what_was_measured(samples):
    """Recall within 0.16 where it rests on 150 objects, false positives within a factor
    of 1.6.
    """
    figures = {
        f.name: f
        for f in goodness(PROFILE, samples, draws=6, seed=1, streets=streets(samples))
    }
    for name, figure in figures.items():
        if name.startswith("recall vehicle") and figure.rests_on >= 150:
            assert figure.simulated == pytest.approx(figure.measured, abs=0.16), figure
        if name.startswith("false positives"):
            assert 1 / 1.6 < figure.simulated / figure.measured < 1.6, figure
        if (
            name.startswith(("seen at", "objects seen again"))
            and figure.rests_on >= 100
        ):
            assert figure.simulated == pytest.approx(figure.measured, abs=0.08), figure
        if name.startswith("boxes that persist") and figure.rests_on >= 100:
            assert figure.simulated == pytest.approx(figure.measured, abs=0.15), figure
    recall = [
        figures[f"recall vehicle at {size}"].simulated for size in (320, 384, 512, 640)
    ]
    assert recall == sorted(recall)
    lines = goodness_lines(list(figures.values()))
    assert len(lines) == 1 + len(figures)
