"""What serving costs: one frame, features and model, beside the fitting library's own call and one detector pass.

Run: python benchmarks/bench_serving.py. Every recipe is fitted on a synthetic cell; times are the least CPU seconds of
rounds, the library's by the very models that ours were taken from. `model` walks one row in NumPy, `served` is what an
allocator calls (trees by ONNX Runtime where it is installed), `graph` the whole exported graph in ONNX Runtime.
The detector is yolov8s at 640 px on one thread and
a random image, where the shared weights are at hand (DEEPVAL_SHARED).
"""

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from figures import Figure, report

from deepval.allocators import RECIPES, Learned
from deepval.allocators.models import Linear, Network, Quantile, Trees
from deepval.allocators.models.fits import one_thread
from deepval.allocators.onnx_graph import onnx_of
from deepval.allocators.tree_graph import ROW
from deepval.cells import folder, sources
from deepval.cells.build import cells
from deepval.cells.fitting import fit_on
from deepval.cells.folder import BuiltCell
from deepval.datasets.synthetic import WorldSettings
from deepval.features import Sight, glance
from deepval.features.views import Frame, Past, View, frames_of
from deepval.perception.running.detector import DetectorConfig, detect, load_detector
from deepval.perception.running.onnx_model import open_session

MODES = ("yolov8s-320", "yolov8s-512", "yolov8s-640")
SETTINGS = WorldSettings(scenes=12, frames=40)
ROUNDS, CALLS = 15, 40
LEAST_RATIO, MOST_SHARE = 2.0, 0.05
IMAGE_PX = 375, 1242


def seconds(call: Callable[[], Any], calls: int) -> float:
    """Least CPU seconds per call over the rounds."""
    call()
    found = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(calls):
            call()
        found.append((time.process_time() - begin) / calls)
    return min(found)


def fitted(cell: BuiltCell, name: str) -> tuple[Learned, list[Any]]:
    """A recipe's allocator, and the very models of the fitting library that its heads were taken from."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    found: list[Any] = []
    with ExitStack() as watched:
        for kind in (
            HistGradientBoostingClassifier,
            HistGradientBoostingRegressor,
            RidgeCV,
            MLPClassifier,
            MLPRegressor,
        ):

            def fit(model: Any, *data: Any, original: Any = kind.fit, **more: Any) -> Any:
                found.append(model)
                return original(model, *data, **more)

            watched.enter_context(mock.patch.object(kind, "fit", fit))
        made = fit_on(cell, name)
    if len(found) != len(library_heads(made)):
        raise SystemExit(f"{name}: every head must come from one model of the library")
    return made, found


def library_heads(made: Learned) -> list[Any]:
    """The heads that the library fitted: a quantile is counted, not fitted."""
    return [head for head in made.heads if not isinstance(head, Quantile)]


def library_calls(made: Learned, models: list[Any], row: np.ndarray) -> list[Callable[[], Any]]:
    """The library's prediction of one row by each model; standardising, where there is some, is done for it."""
    calls = []
    for head, model in zip(library_heads(made), models, strict=True):
        one = row[None] if isinstance(head, Trees) else head.standard.applied(row[None])
        classify = not isinstance(head, Linear) and head.link == "logistic"
        calls.append(partial(model.predict_proba if classify else model.predict, one))
        told = np.ravel(calls[-1]())[-1]
        told = told * head.scale + head.shift if isinstance(head, Network) else told
        # Weighted heads were fitted on numbers of bins, which tests compare; here the library gets the row as it is.
        if made.rule in ("value", "modes") and not np.isclose(head.predict_row(row), told, rtol=1e-9):
            raise SystemExit(f"{made.name}: the model must predict what the library does")
    return calls


def busy_frame(view: View) -> tuple[Frame, Past]:
    """The frame of a unit with the most boxes among the later half, and what is remembered by then."""
    counts = np.bincount(view.detections.frame, minlength=len(view))
    place = len(view) // 2 + int(counts[len(view) // 2 :].argmax())
    past = Past()
    for number, frame in enumerate(frames_of(view, images=False)):
        if number == place:
            return frame, past
        past = glance(frame, past, mode=view.mode).after
    raise AssertionError("a unit has frames in its later half")


def detector_s() -> float | None:
    """CPU seconds of one full detector pass on a random image, None without weights."""
    default = Path(__file__).resolve().parents[2] / "shared"
    weights = Path(os.environ.get("DEEPVAL_SHARED", default)) / "data" / "weights"
    if not (weights / "yolov8s.onnx").is_file():
        return None
    names = weights / "coco80_names.json"
    detector = load_detector(weights / "yolov8s.onnx", names=names, config=DetectorConfig(threads=1))
    image = np.random.default_rng(0).integers(0, 256, (*IMAGE_PX, 3), np.uint8)
    return seconds(lambda: detect(detector, image, size=640), 1)


def measured(cell: BuiltCell, made: Learned, models: list[Any]) -> tuple[float, ...]:
    """Seconds of one frame with features; of its model in NumPy, as served, as a graph; in a batch; of the library."""
    view = cell.views[0]
    frame, past = busy_frame(view)
    row = made.front.row(glance(frame, past, mode=view.mode))
    whole_s = seconds(lambda: made.score_frame(glance(frame, past, mode=view.mode)), CALLS)
    model_s = seconds(lambda: [head.predict_row(row) for head in made.heads], CALLS)
    served_s = seconds(lambda: made.score_row(row), CALLS)
    session, one = open_session(onnx_of(made), name=made.name, threads=1), row[None]
    graph_s = seconds(lambda: session.run(None, {ROW: one}), CALLS)
    if made.score_row(row) != made.score_rows(one)[0].tolist() and not made.per_mode:
        raise SystemExit(f"{made.name}: a row must score as in a batch, to the bit")
    batch_s = sum(seconds(lambda v=v: made.score(Sight(v, images=False)), 1) for v in cell.views[:4])
    with one_thread():
        theirs = library_calls(made, models, row)
        library_s = seconds(lambda: [call() for call in theirs], CALLS // 4)
    return whole_s, model_s, served_s, graph_s, batch_s / sum(map(len, cell.views[:4])), library_s


def main() -> list[Figure]:
    material = sources.synthetic(MODES, settings=SETTINGS)
    (built,) = cells(material)
    pass_s = detector_s()
    figures = []
    with tempfile.TemporaryDirectory() as home:
        folder.write(built, home)
        cell = folder.read_cell(home)
        boxes = len(busy_frame(cell.views[0])[0].cls)
        print(f"one frame with {boxes} boxes; microseconds of CPU, least of {ROUNDS} rounds")
        if pass_s is None:
            print("no weights at hand: not beside a detector pass")
        else:
            print(f"one detector pass, yolov8s at 640 px on one thread: {pass_s * 1e6:,.0f} microseconds")
        print(
            f"{'allocator':<20} one frame   model  served   graph in batch  library library/served model/served",
            "pass/frame",
        )
        for name in (name for name, recipe in RECIPES.items() if recipe.extra is None):
            whole_s, model_s, served_s, graph_s, batch_s, library_s = measured(cell, *fitted(cell, name))
            alone = f"{model_s * 1e6:7.0f} {served_s * 1e6:7.0f} {graph_s * 1e6:7.0f}"
            times = f"{whole_s * 1e6:9.0f} {alone} {batch_s * 1e6:8.0f} {library_s * 1e6:8.0f}"
            beside = "" if pass_s is None else f"{pass_s / whole_s:10.0f}"
            print(f"{name:<20} {times} {library_s / served_s:14.1f} {model_s / served_s:12.1f} {beside}", flush=True)
            told = f"served {served_s * 1e6:.0f} us", f"library {library_s * 1e6:.0f} us"
            good = library_s >= LEAST_RATIO * served_s
            figures.append(Figure(f"serve {name}", *told, f"{LEAST_RATIO:g} times faster", good))
            if pass_s is not None:
                told = f"frame {whole_s * 1e6:.0f} us", f"detector pass {pass_s * 1e3:.0f} ms"
                good = whole_s <= MOST_SHARE * pass_s
                figures.append(Figure(f"serve {name}", *told, f"<= {MOST_SHARE:.0%} of a pass", good))
    return figures


if __name__ == "__main__":
    print("\n" + report(main()))
