"""The learned planner: what it sees, its network and files, its plans, PKL and TIP."""

import io
import json
import pickle
import re
import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest
import shapely
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deepval.basics.errors import InputError, InputWarning
from deepval.driving.datasets.logs.scenarionet import ScenarioNet
from deepval.driving.datasets.nuscenes import NuScenes
from deepval.driving.planners.neural.network import state_shapes
from deepval.driving.planners.neural.plan_metrics import (
    AHEAD_S,
    STEPS,
    Masks,
    PlanGrid,
    displacements_m,
    path_cells,
    path_m,
    pkl,
    tip,
    tip_of_utilities,
)
from deepval.driving.planners.neural.planner import (
    Forward,
    PlannerFile,
    load_planner,
    masks_of,
    network_with,
    planner_files,
    weights_of,
)
from deepval.driving.planners.neural.rasters import (
    RoadDrawing,
    box_raster,
    meets_square,
    road_drawing,
    road_raster,
    scene_rasters,
)
from deepval.driving.systems.learned import has_future, logged_path_m
from deepval.driving.world.lanes import LaneMap
from deepval.driving.world.truth import Future
from learned_worlds import fan, small_weights, straight_map
from project import ROOT
from shared import shared_data
from train_planner import masks_bytes, npz_bytes

SMALL = PlanGrid(64)
ORIGIN = np.zeros(3)
SEEDS = st.integers(0, 2**32 - 1)
CHECK = ROOT / "tools" / "check_planning_metrics.py"


def file(name: str, data: bytes) -> PlannerFile:
    return PlannerFile(Path(name), data)


def torch_bytes(content) -> bytes:
    out = io.BytesIO()
    torch.save(content, out)
    return out.getvalue()


def tensors(width=2):
    return {
        name: torch.from_numpy(np.array(held))
        for name, held in small_weights(width).arrays.items()
    }


# What it sees


def test_the_published_grid_and_its_origin():
    grid = PlanGrid()
    assert grid.cells == int(77 / 0.3)
    assert grid.cell_m == 0.3
    assert (
        grid.cell_of(np.zeros(2)).tolist()
        == [round(17 / 0.3), round(38.5 / 0.3)]
        == [57, 128]
    )
    np.testing.assert_allclose(
        grid.metres(np.array([57, 128])), [57 * 0.3 - 17, 128 * 0.3 - 38.5]
    )
    with pytest.raises(InputError, match="multiple of 64 cells a side; found 100"):
        PlanGrid(100)


def test_a_box_is_filled_where_it_stands():
    # 1.2 m cells; the box reaches from 9.4 to 14.2 m ahead, cells 22 to 26, and 1.2 m
    # to either side of y = -0.1.
    corners = np.array([[[14.2, 1.1], [14.2, -1.3], [9.4, -1.3], [9.4, 1.1]]])
    drawn = box_raster(corners, grid=SMALL)
    wanted = np.zeros((64, 64), dtype=bool)
    wanted[22:27, 31:34] = True
    np.testing.assert_array_equal(drawn, wanted)
    assert not box_raster(corners + np.array([0.0, 80.0]), grid=SMALL).any()
    assert not box_raster(np.zeros((0, 4, 2)), grid=SMALL).any()
    with pytest.raises(InputError, match="finite corners"):
        box_raster(np.full((1, 4, 2), np.nan), grid=SMALL)


def test_a_road_is_drawn_in_the_vehicle_s_frame():
    straight = road_raster(road_drawing(straight_map()), ORIGIN, grid=SMALL)
    turned = road_raster(
        road_drawing(straight_map(0.8)), np.array([0.0, 0.0, 0.8]), grid=SMALL
    )
    np.testing.assert_array_equal(straight, turned)
    assert [int(layer.any(axis=0).sum()) for layer in straight] == [8, 1, 1], (
        "road from -2 to 6 m, one line of each kind"
    )
    assert straight[0].all(axis=0).sum() == 8


@given(SEEDS)
def test_what_meets_the_square_is_what_geometry_says(seed):
    rng = np.random.default_rng(seed)
    hull = shapely.convex_hull(
        shapely.MultiPoint(
            rng.uniform(-200, 200, 2) + rng.normal(0, rng.uniform(1, 150), (6, 2))
        )
    )
    outline = np.array(hull.exterior.coords)[:-1]
    centre = rng.uniform(-50, 50, 2)
    square = shapely.box(*(centre - 70), *(centre + 70))
    assert meets_square(outline, centre) == square.intersects(hull)


def test_a_map_says_what_its_dividers_divide():
    with pytest.raises(InputError, match="must be of road or lane; found 'kerb'"):
        LaneMap({}, dividers_m={"kerb": ()})
    with pytest.raises(InputError, match="must be finite"):
        RoadDrawing(lanes_m=(np.array([[0.0, np.nan]]),))


# The network


def expected_names():
    """The published names, from the description of the network."""
    norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    yield "trunk.conv1.weight"
    yield from (f"trunk.bn1.{part}" for part in norm)
    for layer in range(1, 5):
        for block in range(2):
            for place in (1, 2):
                yield f"trunk.layer{layer}.{block}.conv{place}.weight"
                yield from (
                    f"trunk.layer{layer}.{block}.bn{place}.{part}" for part in norm
                )
            if layer > 1 and block == 0:
                yield f"trunk.layer{layer}.0.downsample.0.weight"
                yield from (
                    f"trunk.layer{layer}.0.downsample.1.{part}" for part in norm
                )
    yield from ("trunk.fc.weight", "trunk.fc.bias", "downscale.0.weight")
    for place in range(4):
        yield f"upscale{place}.0.weight"
        yield from (f"upscale{place}.1.{part}" for part in norm)
    yield from ("final.weight", "final.bias")


def test_the_state_has_the_published_names_and_shapes():
    shapes = state_shapes()
    assert list(shapes) == list(expected_names())
    assert len(shapes) == 149
    trained = [
        shape
        for name, shape in shapes.items()
        if not re.search(r"running|num_batches", name)
    ]
    assert sum(int(np.prod(shape)) for shape in trained) == 18_851_768
    assert shapes["trunk.conv1.weight"] == (64, 5, 7, 7)
    assert shapes["upscale2.0.weight"] == (256, 256 + 128, 3, 3)
    assert shapes["upscale3.0.weight"] == (128, 256 + 64, 3, 3)
    assert (shapes["final.weight"], shapes["final.bias"]) == ((16, 128, 1, 1), (16,))


def test_logits_of_cells_are_those_of_their_blocks():
    network = network_with(small_weights())
    rasters = torch.from_numpy(
        (np.random.default_rng(0).random((2, 5, 64, 64)) < 0.3).astype(np.float32)
    )
    with torch.inference_mode():
        cells, blocks = network(rasters).numpy(), network.blocks(rasters).numpy()
    assert cells.shape == (2, STEPS, 64, 64)
    np.testing.assert_array_equal(cells, blocks.repeat(4, axis=2).repeat(4, axis=3))


def test_equal_rasters_are_run_once_and_company_changes_nothing():
    rasters = np.random.default_rng(0).random((3, 5, 64, 64)) < 0.3
    forward = Forward(network_with(small_weights()), stored=2)
    first = [forward.blocks(raster) for raster in (*rasters[:2], *rasters[:2])]
    assert forward.runs == 2
    np.testing.assert_array_equal(first[:2], first[2:])
    forward.blocks(rasters[2])
    again = Forward(network_with(small_weights())).blocks(rasters[1])
    np.testing.assert_array_equal(again, first[1])
    for raster in rasters[:2]:
        forward.blocks(raster)
    assert forward.runs == 2 + 1 + 2, (
        "the oldest was forgotten for the third, and the next for the first"
    )


# Its files


def test_weights_are_the_same_from_either_kind_of_file():
    held = small_weights()
    for given_file in (
        file("w.npz", npz_bytes(held.arrays)),
        file("planner.pt", torch_bytes(tensors())),
    ):
        read = weights_of(given_file)
        assert read.width == 2
        assert list(read.arrays) == list(held.arrays)
        for name in held.arrays:
            np.testing.assert_array_equal(read.arrays[name], held.arrays[name])
    assert npz_bytes(held.arrays) == npz_bytes(held.arrays)


class Evil:
    """Pickled code that a reader must not run."""

    def __reduce__(self):
        return (print, ("read",))


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "w.pt",
            lambda: torch_bytes({**tensors(), "x": Evil()}),
            "tensors by name and nothing else; the file asks for",
        ),
        (
            "w.pt",
            lambda: pickle.dumps(Evil()),
            "tensors by name and nothing else; the file asks for",
        ),
        (
            "w.pt",
            lambda: torch_bytes({**tensors(), "step": 3}),
            "nothing else; found 'step' that is not a tensor",
        ),
        ("w.pt", lambda: torch_bytes([torch.zeros(1)]), "nothing else; found list"),
        (
            "w.pt",
            lambda: torch_bytes({"state": tensors()}),
            "nothing else; found 'state' that is not a tensor",
        ),
        ("w.pt", lambda: b"no weights", "must be"),
        ("w.npz", lambda: b"no weights", "must be plain arrays in an .npz file"),
        (
            "w.pt",
            lambda: torch_bytes(
                {k: v for k, v in tensors().items() if k != "final.bias"}
            ),
            "must hold 149 tensors; 1 are missing, the first 'final.bias'",
        ),
        (
            "w.pt",
            lambda: torch_bytes({**tensors(), "more": torch.zeros(1)}),
            "hold 'more', which the network does not have",
        ),
        (
            "w.pt",
            lambda: torch_bytes(
                {**tensors(), "final.weight": torch.zeros(16, 5, 1, 1)}
            ),
            "final.weight must have the shape 16 x 4 x 1 x 1; found 16 x 5 x 1 x 1",
        ),
        (
            "w.pt",
            lambda: torch_bytes(
                {**tensors(), "final.bias": torch.full((16,), float("nan"))}
            ),
            "final.bias must hold finite numbers",
        ),
        (
            "w.npz",
            lambda: npz_bytes({**small_weights().arrays, "manifest": np.array("{")}),
            "must be weights with a manifest in JSON",
        ),
    ],
)
def test_weights_that_are_not_the_network_s_are_refused_in_a_sentence(
    name, content, sentence, capsys
):
    with pytest.raises(InputError, match=re.escape(sentence)):
        weights_of(file(name, content()))
    assert capsys.readouterr().out == "", "no pickled code is run"


def test_arrays_that_hold_objects_are_refused():
    out = io.BytesIO()
    np.savez(out, **{"final.bias": np.array([Evil()], dtype=object)})
    with pytest.raises(InputError, match="must be plain arrays"):
        weights_of(file("w.npz", out.getvalue()))


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        (
            "m.npz",
            npz_bytes({"masks": np.ones((16, 100, 100))}),
            "16 x 256 x 256 as published; found 16 x 100 x 100",
        ),
        ("m.npz", npz_bytes({"masks": np.ones((12, 64, 64))}), "found 12 x 64 x 64"),
        ("m.npz", npz_bytes({"masks": np.ones((16, 64, 128))}), "found 16 x 64 x 128"),
        (
            "m.npz",
            npz_bytes({"masks": np.zeros((16, 64, 64))}),
            "must leave a cell at every step; step 0 has none",
        ),
        (
            "m.npz",
            npz_bytes({"other": np.ones((16, 64, 64))}),
            "with the array `masks`",
        ),
        ("m.json", b"[[1, 2], [1]]", "rows of equal length"),
        ("m.json", b"[0.5, 1]", "must hold 0 and 1 only; found 0.5"),
        ("m.json", b'{"masks": 1}', "must be a JSON list of lists"),
        ("m.json", b"[1", "must be masks in a JSON list or an .npz file"),
        ("m.npz", b"[1", "must be an .npz file"),
    ],
)
def test_masks_of_another_form_are_refused_in_a_sentence(name, data, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        masks_of(file(name, data))


def test_files_that_change_while_they_are_used_are_refused(tmp_path):
    weights, masks = tmp_path / "w.npz", tmp_path / "m.npz"
    weights.write_bytes(npz_bytes(small_weights().arrays))
    masks.write_bytes(masks_bytes(fan()))
    found = planner_files(weights, masks)
    weights.write_bytes(npz_bytes(small_weights(seed=1).arrays))
    with pytest.raises(InputError, match="must stay as it is while it is used"):
        load_planner(found)


# Its plans


def test_a_plan_takes_the_first_of_the_largest_cells_within_the_mask():
    masks = narrow()
    logits = np.zeros((STEPS, 4, 3))
    logits[1, 2, 1] = logits[1, 3, 0] = 5.0
    logits[2, 1, 2] = 1.0
    found = path_cells(logits.reshape(-1), masks)
    assert found[:3].tolist() == [[14, 31], [16, 32], [15, 33]]
    np.testing.assert_allclose(
        path_m(logits.reshape(-1), masks)[1], [16 * 1.2 - 17, 32 * 1.2 - 38.5]
    )


def test_logits_of_blocks_become_those_of_the_cells_within():
    masks = fan()
    blocks = np.random.default_rng(0).normal(size=(STEPS, 16, 16))
    whole = blocks.repeat(4, axis=1).repeat(4, axis=2)
    np.testing.assert_array_equal(masks.within(blocks), whole[masks.cells])
    assert [
        len(part) for part in masks.per_step(masks.within(blocks))
    ] == masks.cells.sum(axis=(1, 2)).tolist()


def test_displacements_are_taken_where_the_vehicle_was_between_logged_times():
    pose = np.zeros((2, 8, 3))
    pose[..., 0] = 2.0 * np.arange(1, 9)  # 4 m/s
    pose[0, 7, 0] = 20.0
    valid = np.ones((2, 8), dtype=bool)
    valid[1, 7] = False
    future = Future(0.5 * np.arange(1, 9), pose, valid)
    assert has_future(future).tolist() == [True, False]
    logged = logged_path_m(future)
    np.testing.assert_allclose(logged[1, :, 0], 4.0 * AHEAD_S)
    np.testing.assert_allclose(logged[0, -2:, 0], [(14 + 20) / 2, 20])
    off = displacements_m(logged + np.array([3.0, 4.0]), logged)
    np.testing.assert_allclose(off, 5.0)
    short = Future(0.5 * np.arange(1, 8), pose[:, :7], valid[:, :7])
    assert not has_future(short).any()
    finer = Future(
        0.1 * np.arange(1, 61), np.zeros((1, 60, 3)), np.arange(60)[None] < 40
    )
    assert has_future(finer).all(), "what lies beyond four seconds is not needed"


# PKL and TIP


def narrow():
    """Masks of a few cells."""
    cells = np.zeros((STEPS, 64, 64), dtype=bool)
    cells[:, 14:18, 31:34] = True
    return Masks(cells)


def logits_of(seed, masks):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 3, (2, masks.index.shape[1]))


@given(SEEDS)
@settings(max_examples=25)
def test_pkl_is_a_divergence(seed):
    masks = narrow()
    told, seen = logits_of(seed, masks)
    p, q = 1 / (1 + np.exp(-told)), 1 / (1 + np.exp(-seen))
    slow = (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).sum()
    assert pkl(told, seen) == pytest.approx(slow, rel=1e-9)
    assert pkl(told, seen) > 0
    assert pkl(told, told) == 0
    assert pkl(told, seen, precision=np.float32) == pytest.approx(
        float(pkl(told, seen)), rel=1e-4
    )
    np.testing.assert_array_equal(
        pkl(np.stack([told, seen]), np.stack([seen, told])),
        [pkl(told, seen), pkl(seen, told)],
    )


@given(SEEDS)
@settings(max_examples=15)
def test_tip_sums_the_four_terms_over_the_first_three_seconds(seed):
    masks = narrow()
    told, seen = logits_of(seed, masks)
    slow = []
    for p, q in zip(masks.per_step(told), masks.per_step(seen), strict=True):
        p, q = np.exp(p) / np.exp(p).sum(), np.exp(q) / np.exp(q).sum()
        slow.append(tip_of_utilities(p, q))
    assert tip(told, seen, masks) == pytest.approx(sum(slow[:12]))
    assert tip(told, seen, masks, steps=16) == pytest.approx(sum(slow))
    assert tip(told, told, masks) == 0
    assert -2 * 12 <= tip(told, seen, masks) <= 0
    assert tip(told, told, masks, utility="logarithm") == 0


UTILITIES = st.lists(
    st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=1, max_size=15
)


@given(UTILITIES, st.integers(-3, 3), st.integers(-3, 3))
def test_laws_of_tip(pairs, p_shift, q_shift):
    p, q = np.array(pairs, dtype=float).T
    found = tip_of_utilities(p, q)
    assert found <= 0
    raised = q - p
    best = int(np.argmax(p))
    assert found == raised[best] - raised.max(), (
        "zero iff no candidate is raised more than the best"
    )
    assert tip_of_utilities(p, p + 3) == 0
    assert tip_of_utilities(p + p_shift, q + q_shift) == found, (
        "only differences of utilities count"
    )
    assert tip_of_utilities(2 * p, 2 * q) == 2 * found
    np.testing.assert_array_equal(
        tip_of_utilities(np.stack([p, p]), np.stack([q, p])), [found, 0.0]
    )
    if int(np.argmax(q)) != best and q.max() > q[best]:
        assert found < 0, "an error that changes the choice is never harmless"


# The reference


def checked(frames):
    tool = runpy.run_path(str(CHECK))
    return tool["comparisons"](shared_data("planner_reference"), frames)


@pytest.mark.shared
def test_rasters_equal_the_published_ones_pixel_for_pixel():
    import gzip

    tool, folder = runpy.run_path(str(CHECK)), shared_data("planner_reference")
    packed = np.load(folder / "rasters.npz")
    frames = json.loads(
        gzip.decompress((folder / "rasters_inputs.json.gz").read_bytes())
    )["frames"]
    assert len(frames) == 15
    for place, frame in enumerate(frames):
        for name, raster in tool["frame_rasters"](frame).items():
            np.testing.assert_array_equal(
                raster, np.unpackbits(packed[name][place]).reshape(5, 256, 256)
            )


@pytest.mark.shared
@pytest.mark.slow
def test_rasters_of_records_equal_the_published_ones_through_the_whole_chain():
    packed, grid = np.load(shared_data("planner_reference") / "rasters.npz"), PlanGrid()
    wanted = np.unpackbits(packed["gt"], axis=1).reshape(-1, 5, 256, 256)
    records = ScenarioNet(shared_data("scenarionet_nuscenes_mini"))
    compared = 0
    for unit in records.unit_ids():
        places = np.flatnonzero(
            [
                str(name).endswith(unit) or unit.endswith(str(name))
                for name in packed["scene"]
            ]
        )
        scene, truth = records.read_unit(unit)
        for place in places:
            frame = int(packed["keyframe_index"][place])
            (raster,) = scene_rasters(
                scene.part(slice(frame, frame + 1)), truth.objects.at(frame), grid
            )
            np.testing.assert_array_equal(raster, wanted[place])
            compared += 1
    assert compared == 15


@pytest.mark.shared
def test_a_keyframe_of_the_tables_shows_the_published_road():
    packed = np.load(shared_data("planner_reference") / "rasters.npz")
    data = NuScenes(
        shared_data("nuscenes"), maps=shared_data("scenarionet_nuscenes_mini")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        scene, truth = data.read_unit("scene-0103")
    frame = int(packed["keyframe_index"][0])
    (raster,) = scene_rasters(
        scene.part(slice(frame, frame + 1)), truth.objects.at(frame), PlanGrid()
    )
    wanted = np.unpackbits(packed["gt"][0]).reshape(5, 256, 256).astype(bool)
    np.testing.assert_array_equal(raster[[0, 1, 2, 4]], wanted[[0, 1, 2, 4]])
    # The tables' reference leaves out annotations without a point, so less is drawn of
    # the others; here the ego leans, which moves some edges of the rest into the next
    # cell.
    assert (raster[3] & ~wanted[3]).sum() < 0.02 * wanted[3].sum()


@pytest.mark.shared
def test_network_and_metrics_are_the_published_ones():
    found = {each.what: each for each in checked([0, 7])}
    assert [each for each in found.values() if not each.holds] == []
    assert len(found) == 15
    assert found["plan: distance of argmax cells, in cells"].compared == 2
