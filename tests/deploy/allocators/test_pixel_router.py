"""The pixel router: what it looks at, that training and serving repeat to the bit, and
its file.
"""

import json
from base64 import b64decode, b64encode
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch

from commands import call
from deepval.basics.errors import InputError
from deepval.deploy.allocators import PixelRecipe, PixelRouter, Training, read_allocator
from deepval.deploy.allocators.allocator import file_text
from deepval.deploy.allocators.pixel import (
    CHANNELS,
    MEAN,
    OPERATORS,
    SPREAD,
    fit_pixels,
    log_odds,
    network_input,
    new_network,
    onnx_bytes,
    weights_of,
)
from deepval.deploy.features import Sight
from deepval.deploy.fitting import fit_on, refit, score_on
from deepval.driving.cells import folder as folders
from deepval.driving.cells import sources
from deepval.driving.datasets.synthetic import WorldSettings
from deepval.driving.planners.neural import repeatable
from view_worlds import MODES, detections, glances_of, random_view

QUICK = PixelRecipe(epochs=1, batch=8)
TOLD = Training(
    "cell", "router-pixel", "value-binary", ("a",), 12, 0, ("cheap", "full"), {}
)


def pictures(number, *, seed=0, height=30, width=50):
    """Pictures of which every third is bright, and the label that says so."""
    labels = (np.arange(number) % 3 == 0).astype(float)
    levels = np.random.default_rng(seed).integers(0, 100, (number, height, width, 3))
    return (levels + 120 * labels[:, None, None, None]).astype(np.uint8), labels


def trained(seed=0, recipe=QUICK):
    shown, labels = pictures(12)
    return fit_pixels(
        recipe, lambda place: shown[place], labels, replace(TOLD, seed=seed)
    )


@pytest.fixture(scope="module")
def network():
    """A network with random weights, its normalisation measured on pictures: it tells
    any two pictures apart.
    """
    shown, _ = pictures(6, seed=3)
    with repeatable(torch, 3):
        made = new_network(torch)
        torch.nn.init.normal_(made[-1].weight)
        for norm in (
            each for each in made.modules() if isinstance(each, torch.nn.BatchNorm2d)
        ):
            norm.momentum = 1.0
            torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
            torch.nn.init.uniform_(norm.bias, -0.5, 0.5)
        log_odds(
            made, torch.from_numpy(np.stack([network_input(each) for each in shown]))
        )
    return made.eval()


@pytest.fixture(scope="module")
def router(network):
    return PixelRouter(onnx_bytes(weights_of(network)), TOLD)


@pytest.fixture(scope="module")
def saved(router, tmp_path_factory):
    path = tmp_path_factory.mktemp("pixel") / "pixel.json"
    router.save(path)
    return path


def test_a_picture_costs_about_0_15_gflops(router):
    graph = onnx.shape_inference.infer_shapes(onnx.load_from_string(router.model)).graph
    sizes = {
        info.name: [d.dim_value for d in info.type.tensor_type.shape.dim]
        for info in graph.value_info
    }
    weights = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    counted = CHANNELS + sum(
        np.prod(sizes[node.output[0]]) * np.prod(weights[node.input[1]][1:])
        for node in graph.node
        if node.op_type == "Conv"
    )
    assert counted == 68_526_176
    gflops = 2 * counted / 1e9
    print(f"{gflops:.3f} GFLOPs per picture")
    assert 0.13 < gflops < 0.15


def test_onnx_runtime_and_torch_agree(network, router):
    shown, _ = pictures(6, seed=3)
    batch = torch.from_numpy(np.stack([network_input(each) for each in shown]))
    with repeatable(torch, 0):
        wanted = log_odds(network, batch).detach().numpy()
    found = np.array(
        [
            router._session.run(None, {"picture": each[None]})[0][0, 0]
            for each in batch.numpy()
        ]
    )
    assert np.ptp(wanted) > 0.1
    assert np.abs(found - wanted).max() < 1e-4
    scores = [router.score_picture(each) for each in shown]
    assert np.allclose(scores, 1 / (1 + np.exp(-found.astype(float))), rtol=1e-12)


def test_training_finds_what_pictures_show():
    router = trained(recipe=PixelRecipe(epochs=4, batch=4))
    shown, labels = pictures(9, seed=1)
    scores = np.array([router.score_picture(each) for each in shown])
    assert scores[labels == 1].min() > scores[labels == 0].max()


def test_the_same_seed_gives_the_same_bytes_and_leaves_torch_alone():
    first = trained()
    told = {
        "learner": "MobileNetV2",
        "epochs": 1,
        "batch": 8,
        "step": PixelRecipe().step,
    }
    assert first.training == replace(TOLD, settings=told)
    before = torch.get_num_threads(), torch.random.get_rng_state()
    torch.manual_seed(99)
    assert trained().to_json() == first.to_json()
    assert trained(seed=1).model != first.model
    assert torch.get_num_threads() == before[0]
    assert not torch.are_deterministic_algorithms_enabled()
    torch.random.set_rng_state(before[1])


def unit(frames=7, *, seed=5, failures=True):
    return random_view(
        np.random.default_rng(seed),
        frames,
        mode=MODES[0],
        images=True,
        failures=failures,
    )


def test_a_frame_has_the_same_score_alone_in_its_unit_and_in_any_order(router):
    view = unit(12)
    scores = router.score(view)
    run = view.detections.run
    assert 0 < run.sum() < len(view)
    assert np.array_equal(np.isnan(scores), ~run)
    assert np.array_equal(scores, router.score(Sight(view)), equal_nan=True)
    assert np.array_equal(
        scores, [router.score_frame(seen) for seen in glances_of(view)], equal_nan=True
    )
    whole = unit(9, failures=False)
    order = np.random.default_rng(1).permutation(9)
    other = replace(whole, scene=replace(whole.scene, images=whole.scene.images[order]))
    assert np.array_equal(router.score(other), router.score(whole)[order])
    assert len(set(router.score(whole).tolist())) == 9


def test_resizing_takes_the_mean_under_a_tent():
    rows = np.random.default_rng(4).integers(0, 256, 256)
    image = np.broadcast_to(rows[:, None, None], (256, 128, 3)).astype(np.uint8)
    # Half as many rows: new row 10 has its centre between rows 20 and 21, and its tent
    # reaches two rows each way.
    level = (
        0.25 * rows[19] + 0.75 * rows[20] + 0.75 * rows[21] + 0.25 * rows[22]
    ) / 2.0
    assert np.allclose(
        network_input(image)[:, 10], (level / 255 - MEAN) / SPREAD, atol=1e-6
    )
    # At the border only rows that are there count.
    level = (0.75 * rows[0] + 0.75 * rows[1] + 0.25 * rows[2]) / 1.75
    assert np.allclose(
        network_input(image)[:, 0], (level / 255 - MEAN) / SPREAD, atol=1e-6
    )
    same = np.random.default_rng(4).integers(0, 256, (128, 128, 3), dtype=np.uint8)
    assert np.allclose(
        network_input(same), (np.moveaxis(same, 2, 0) / 255 - MEAN) / SPREAD, atol=1e-6
    )


def test_a_file_gives_back_the_router(router, saved):
    read = read_allocator(saved)
    assert isinstance(read, PixelRouter)
    assert read.to_json() == router.to_json() == saved.read_text()
    view = unit()
    assert np.array_equal(read.score(view), router.score(view), equal_nan=True)
    assert read.training == TOLD


def changed(saved, path, **changes):
    """The file with other content under its own, now wrong, hash."""
    path.write_text(json.dumps(json.loads(saved.read_text()) | changes))
    return path


def rewritten(saved, path, **changes):
    """The file with other content and the hash that fits it."""
    kept = {
        key: value
        for key, value in json.loads(saved.read_text()).items()
        if key != "sha256"
    }
    path.write_text(file_text(kept | changes))
    return path


def test_a_file_that_is_not_as_it_was_written_is_refused(saved, tmp_path):
    path = tmp_path / "bad.json"
    path.write_text(saved.read_text()[: saved.stat().st_size // 2])
    with pytest.raises(
        InputError,
        match="must be an allocator as `deepval fit` writes it; Unterminated",
    ):
        read_allocator(path)
    model = bytearray(b64decode(json.loads(saved.read_text())["onnx"]))
    model[len(model) // 2] ^= 1
    with pytest.raises(InputError, match="altered after it was written"):
        read_allocator(changed(saved, path, onnx=b64encode(bytes(model)).decode()))
    with pytest.raises(
        InputError, match=r"reads version 1 of allocator files; found version 2"
    ):
        read_allocator(changed(saved, path, version=2))
    with pytest.raises(
        InputError, match=r"'front' must be one of cheap, .*, pixels; found 'sound'"
    ):
        read_allocator(changed(saved, path, front="sound"))
    with pytest.raises(InputError, match="must contain an ONNX graph in base64"):
        read_allocator(rewritten(saved, path, onnx="not base64!"))


def looped(model):
    """A graph with the right ends that runs a Loop for as many rounds as it likes."""
    made, kind = onnx.helper, onnx.TensorProto
    body = made.make_graph(
        [
            made.make_node("Identity", ["on"], ["still_on"]),
            made.make_node("Identity", ["x"], ["x_out"]),
        ],
        "body",
        [
            made.make_tensor_value_info("round", kind.INT64, []),
            made.make_tensor_value_info("on", kind.BOOL, []),
            made.make_tensor_value_info("x", kind.FLOAT, [1, 1]),
        ],
        [
            made.make_tensor_value_info("still_on", kind.BOOL, []),
            made.make_tensor_value_info("x_out", kind.FLOAT, [1, 1]),
        ],
    )
    del model.graph.node[:], model.graph.initializer[:]
    values = {
        "rounds": np.array(2**62),
        "go": np.array(True),
        "start": np.zeros((1, 1), np.float32),
    }
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(value, name) for name, value in values.items()
    )
    model.graph.node.append(
        made.make_node("Loop", ["rounds", "go", "start"], ["log_odds"], body=body)
    )


def with_another_operator(model):
    model.graph.node[-1].output[0] = "before"
    model.graph.node.append(onnx.helper.make_node("Identity", ["before"], ["log_odds"]))


def renamed_operator(model):
    """As long as ours to the byte."""
    model.graph.node[-2].op_type = "Squeeze"


def outside(model):
    tensor = model.graph.initializer[-1]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="elsewhere.bin")


def wider(model):
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 255


def infinite(model):
    model.graph.initializer[-1].raw_data = np.array([np.inf], "<f4").tobytes()


@pytest.mark.parametrize(
    "change",
    [looped, with_another_operator, renamed_operator, outside, wider, infinite],
)
def test_a_graph_that_is_not_ours_is_never_executed(
    change, saved, router, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        "deepval.deploy.allocators.pixel.open_session",
        lambda *_, **__: pytest.fail("it was opened"),
    )
    model = onnx.load_from_string(router.model)
    change(model)
    altered = model.SerializeToString()
    path = rewritten(saved, tmp_path / "altered.json", onnx=b64encode(altered).decode())
    sentence = r"router-pixel: its network('s weights)? must be .*Fit it again"
    with pytest.raises(InputError, match=rf"altered\.json: {sentence}"):
        read_allocator(path)
    with pytest.raises(InputError, match=sentence):
        PixelRouter(altered, TOLD)


def test_the_graph_is_what_onnx_itself_would_write(router):
    model = onnx.load_from_string(router.model)
    onnx.checker.check_model(model, full_check=True)
    assert model.SerializeToString(deterministic=True) == router.model
    assert {node.op_type for node in model.graph.node} == set(OPERATORS)


def test_without_a_picture_there_is_a_clear_sentence(router):
    view = unit(failures=False)
    bare = replace(view, scene=replace(view.scene, images=None))
    with pytest.raises(
        InputError,
        match=(
            r"router-pixel looks at pictures, and 0000/000000 has none: build the cell"
        ),
    ):
        router.score(bare)
    with pytest.raises(
        InputError,
        match=(
            r"looks at pictures, and frame 0 of the drive has "
            r"none: give Frame its image"
        ),
    ):
        router.score_frame(next(glances_of(bare)))
    failed = replace(bare, detections=detections([], len(view), status=[1] * len(view)))
    assert np.isnan(router.score(failed)).all()
    assert np.isnan(router.score_frame(next(glances_of(failed))))
    with pytest.raises(InputError, match="height x width x RGB of 8 bit"):
        router.score_picture(np.zeros((4, 4, 3)))


def test_labels_of_one_kind_are_refused():
    shown, _ = pictures(4)
    with pytest.raises(InputError, match="both labels, 0 and 1; found 0"):
        fit_pixels(QUICK, lambda place: shown[place], np.zeros(4), TOLD)


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """A tiny cell as the command builds it, with pictures and without."""
    material = sources.synthetic(settings=WorldSettings(scenes=4, frames=6), seed=5)
    folder = tmp_path_factory.mktemp("cells")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "synthetic", lambda *_, **__: material)
        for name, more in (("pictured", ["--pictures"]), ("bare", [])):
            call("build", "--out", folder / name, *more)
    pictured, bare = (
        folders.read_cell(folder / name / "braking-monocular")
        for name in ("pictured", "bare")
    )
    return pictured, bare


@pytest.fixture(scope="module")
def fitted(cells):
    return fit_on(cells[0], QUICK, seed=2)


def test_it_is_fitted_on_a_cell_and_scores_it(cells, fitted, tmp_path):
    cell, _ = cells
    told = fitted.training
    assert (told.cell, told.recipe, told.target) == (
        cell.id,
        "router-pixel",
        "value-binary",
    )
    assert (told.units, told.inputs, told.modes) == (
        cell.split.fit,
        6 * len(cell.split.fit),
        cell.table.modes,
    )
    scored = score_on(cell, fitted)
    assert (scored.name, scored.kind, scored.coverage) == (
        "router-pixel",
        "deployable",
        1.0,
    )
    assert set(cell.table.restrict(cell.split.test).input) == set(scored.input)
    view = next(view for view in cell.views if view.scene.unit == cell.split.test[0])
    wanted = dict(
        zip(view.scene.inputs.tolist(), fitted.score(view).tolist(), strict=True)
    )
    found = dict(zip(scored.input.tolist(), scored.score.tolist(), strict=True))
    assert {name: found[name] for name in wanted} == wanted
    assert refit(cell, fitted).to_json() == fitted.to_json()


def test_the_command_fits_and_scores(cells, fitted, tmp_path):
    fitted.save(tmp_path / "first.json")
    folder, again, scores = (
        cells[0].folder,
        tmp_path / "again.json",
        tmp_path / "scores.csv",
    )
    call("fit", folder, "--like", tmp_path / "first.json", "--out", again)
    assert again.read_bytes() == (tmp_path / "first.json").read_bytes()
    scored = call("score", folder, again, "--out", scores)
    expected = score_on(cells[0], fitted, units="validation,test")
    assert len(scores.read_text().splitlines()) == 1 + len(expected.input)
    # It needs an extra to be fitted again, so that it scores its own validation units,
    # which are marked.
    assert expected.fit.inside.any()
    assert "of them are of units that it was fitted on" in scored
