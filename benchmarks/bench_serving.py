"""What serving costs: one frame, features and model, beside the fitting library's own
call and one detector pass.

Run: python benchmarks/bench_serving.py. Every recipe is fitted on a synthetic cell;
times are the least CPU seconds of some rounds. `library` is the call of the model that
ours was taken from, or of a network of the library with our layers. `model` walks one
row in NumPy, `served` is what an allocator calls (trees by ONNX Runtime where it is
installed), `graph` is the whole exported graph in ONNX Runtime. The detector is yolov8s
at 640 px on one thread and a random image, where DEEPVAL_SHARED has the weights.
"""

import os
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from figures import Figure, finish

from deepval.deploy.allocators import RECIPES, Learned, RowRecipe
from deepval.deploy.allocators.models import Linear, Network, Quantile, Trees, trees
from deepval.deploy.allocators.models.model import one_thread
from deepval.deploy.allocators.models.trees import informative_columns
from deepval.deploy.allocators.onnx_graph import ROW
from deepval.deploy.allocators.row_allocator import onnx_of
from deepval.deploy.features import Sight, glance
from deepval.deploy.fitting import fit_on
from deepval.driving.cells import folder, sources
from deepval.driving.cells.build import cells
from deepval.driving.cells.folder import BuiltCell
from deepval.driving.datasets.synthetic import WorldSettings
from deepval.driving.perception.running.detector import (
    DetectorConfig,
    detect,
    load_detector,
)
from deepval.driving.perception.running.onnx_model import open_session
from deepval.driving.views import Frame, Past, View, frames_of

MODES = ("yolov8s-320", "yolov8s-512", "yolov8s-640")
SETTINGS = WorldSettings(scenes=12, frames=40)
ROUNDS, CALLS = 15, 40
LEAST_RATIO, MOST_SHARE = 2.0, 0.05
IMAGE_PX = 375, 1242
TINY_RECIPES = (
    "gate-ridge",
    "gate-multi-fidelity",
    "router-mlp-value",
    "router-recall",
)


def seconds(call: Callable[[], Any], calls: int, rounds: int) -> float:
    """Least CPU seconds per call over the rounds."""
    call()
    taken = []
    for _ in range(rounds):
        begin = time.process_time()
        for _ in range(calls):
            call()
        taken.append((time.process_time() - begin) / calls)
    return min(taken)


class LibraryModel(NamedTuple):
    """A model of the fitting library, and the columns of a row that it was fitted on
    (None: all).
    """

    model: Any
    columns: np.ndarray | None


def fitted(cell: BuiltCell, name: str) -> tuple[Learned, list[LibraryModel]]:
    """A recipe's allocator, and for each of its heads but quantiles the library's model
    that predicts the same.
    """
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )
    from sklearn.linear_model import RidgeCV

    models: list[LibraryModel] = []
    columns: list[np.ndarray] = []

    def watched_columns(rows: np.ndarray) -> np.ndarray:
        columns.append(informative_columns(rows))
        return columns[-1]

    with ExitStack() as watched:
        # Trees are fitted without the columns that never vary.
        watched.enter_context(
            mock.patch.object(trees, "informative_columns", watched_columns)
        )
        for kind in (
            HistGradientBoostingClassifier,
            HistGradientBoostingRegressor,
            RidgeCV,
        ):

            def fit(
                model: Any, *data: Any, original: Any = kind.fit, **more: Any
            ) -> Any:
                models.append(
                    LibraryModel(
                        model, None if isinstance(model, RidgeCV) else columns[-1]
                    )
                )
                return original(model, *data, **more)

            watched.enter_context(mock.patch.object(kind, "fit", fit))
        allocator = fit_on(cell, name)
    by_library = iter(models)
    heads = [head for head in allocator.heads if not isinstance(head, Quantile)]
    return allocator, [
        LibraryModel(library_network(head), None)
        if isinstance(head, Network)
        else next(by_library)
        for head in heads
    ]


def library_network(head: Network) -> Any:
    """A network of the library with the layers of ours, which are not trained by it."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    kind = MLPClassifier if head.link == "logistic" else MLPRegressor
    model = kind(
        hidden_layer_sizes=tuple(len(bias) for _, bias in head.layers[:-1]), max_iter=1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(
            np.random.default_rng(0).normal(size=(8, head.width)), np.arange(8) % 2
        )
    model.coefs_, model.intercepts_ = (
        [layer[place] for layer in head.layers] for place in (0, 1)
    )
    return model


def library_calls(
    allocator: Learned, models: list[LibraryModel], row: np.ndarray
) -> list[Callable[[], Any]]:
    """The library's prediction of one row by each model; standardising, where there is
    some, is done before.
    """
    calls = []
    heads = [head for head in allocator.heads if not isinstance(head, Quantile)]
    for head, (model, columns) in zip(heads, models, strict=True):
        one = row[None] if isinstance(head, Trees) else head.standard.apply(row[None])
        if columns is not None:
            one = one[:, columns] if len(columns) else np.zeros((1, 1))
        classify = not isinstance(head, Linear) and head.link == "logistic"
        calls.append(partial(model.predict_proba if classify else model.predict, one))
        predicted = np.ravel(calls[-1]())[-1]
        predicted = (
            predicted * head.scale + head.shift
            if isinstance(head, Network)
            else predicted
        )
        # Weighted heads were fitted on numbers of bins, which tests compare; here the
        # library gets the row as it is.
        if allocator.rule in ("value", "modes") and not np.isclose(
            head.predict_row(row), predicted, rtol=1e-9
        ):
            raise SystemExit(
                f"{allocator.name}: the model must predict what the library does"
            )
    return calls


def busy_frame(view: View) -> tuple[Frame, Past]:
    """The frame of a unit with the most boxes among the later half, and what is
    remembered by then.
    """
    counts = np.bincount(view.detections.frame, minlength=len(view))
    busiest = len(view) // 2 + int(counts[len(view) // 2 :].argmax())
    past = Past()
    for number, frame in enumerate(frames_of(view, images=False)):
        if number == busiest:
            return frame, past
        past = glance(frame, past, mode=view.mode).after
    raise AssertionError("a unit has frames in its later half")


def detector_s(rounds: int) -> float | None:
    """CPU seconds of one full detector pass on a random image, None without weights."""
    default = Path(__file__).resolve().parents[2] / "shared"
    weights = Path(os.environ.get("DEEPVAL_SHARED", default)) / "data" / "weights"
    if not (weights / "yolov8s.onnx").is_file():
        return None
    names = weights / "coco80_names.json"
    detector = load_detector(
        weights / "yolov8s.onnx", names=names, config=DetectorConfig(threads=1)
    )
    image = np.random.default_rng(0).integers(0, 256, (*IMAGE_PX, 3), np.uint8)
    return seconds(lambda: detect(detector, image, size=640), 1, rounds)


def measured(
    cell: BuiltCell,
    allocator: Learned,
    models: list[LibraryModel],
    *,
    calls: int,
    rounds: int,
) -> tuple[float, ...]:
    """Seconds of one frame with features; of its model in NumPy, as served, as a graph;
    in a batch; of the library.
    """
    view = cell.views[0]
    frame, past = busy_frame(view)
    row = allocator.feature_set.row(glance(frame, past, mode=view.mode))
    whole_s = seconds(
        lambda: allocator.score_frame(glance(frame, past, mode=view.mode)),
        calls,
        rounds,
    )
    model_s = seconds(
        lambda: [head.predict_row(row) for head in allocator.heads], calls, rounds
    )
    served_s = seconds(lambda: allocator.score_row(row), calls, rounds)
    session, one = (
        open_session(onnx_of(allocator), name=allocator.name, threads=1),
        row[None],
    )
    graph_s = seconds(lambda: session.run(None, {ROW: one}), calls, rounds)
    if (
        allocator.score_row(row) != allocator.score_rows(one)[0].tolist()
        and not allocator.per_mode
    ):
        raise SystemExit(
            f"{allocator.name}: a row must score as in a batch, to the bit"
        )
    batch_s = sum(
        seconds(lambda v=v: allocator.score(Sight(v, images=False)), 1, rounds)
        for v in cell.views[:4]
    )
    with one_thread():
        theirs = library_calls(allocator, models, row)
        library_s = seconds(
            lambda: [call() for call in theirs], max(1, calls // 4), rounds
        )
    return (
        whole_s,
        model_s,
        served_s,
        graph_s,
        batch_s / sum(map(len, cell.views[:4])),
        library_s,
    )


def main(*, tiny: bool = False) -> list[Figure]:
    calls, rounds = (2, 1) if tiny else (CALLS, ROUNDS)
    (built,) = cells(sources.synthetic(MODES, settings=SETTINGS))
    pass_s = detector_s(rounds)
    figures = []
    if pass_s is None:
        figures.append(
            Figure(
                "serve beside a detector",
                "no weights",
                "-",
                "set DEEPVAL_SHARED",
                met=None,
            )
        )
    with tempfile.TemporaryDirectory() as home:
        folder.write(built, home)
        cell = folder.read_cell(home)
        boxes = len(busy_frame(cell.views[0])[0].cls)
        print(
            f"one frame with {boxes} boxes; microseconds "
            f"of CPU, least of {rounds} rounds"
        )
        if pass_s is not None:
            print(
                "one detector pass, yolov8s at 640 px on one thread: "
                f"{pass_s * 1e6:,.0f} microseconds"
            )
        print(
            f"{'allocator':<20} one frame   model  served   graph in batch  library "
            "library/served model/served",
            "pass/frame",
        )
        names = [
            name for name, recipe in RECIPES.items() if isinstance(recipe, RowRecipe)
        ]
        for name in TINY_RECIPES if tiny else names:
            allocator, models = fitted(cell, name)
            whole_s, model_s, served_s, graph_s, batch_s, library_s = measured(
                cell, allocator, models, calls=calls, rounds=rounds
            )
            alone = f"{model_s * 1e6:7.0f} {served_s * 1e6:7.0f} {graph_s * 1e6:7.0f}"
            times = (
                f"{whole_s * 1e6:9.0f} "
                f"{alone} {batch_s * 1e6:8.0f} {library_s * 1e6:8.0f}"
            )
            beside = "" if pass_s is None else f"{pass_s / whole_s:10.0f}"
            print(
                f"{name:<20} {times} "
                f"{library_s / served_s:14.1f} {model_s / served_s:12.1f} {beside}",
                flush=True,
            )
            figures.append(
                Figure(
                    f"serve {name}",
                    f"served {served_s * 1e6:.0f} us CPU",
                    "library "
                    f"{library_s * 1e6:.0f} us: {library_s / served_s:.1f} times",
                    f"at least {LEAST_RATIO:g} times as fast",
                    library_s >= LEAST_RATIO * served_s,
                )
            )
            if pass_s is not None:
                figures.append(
                    Figure(
                        f"serve {name}",
                        f"whole frame {whole_s * 1e6:.0f} us CPU",
                        f"detector pass {pass_s * 1e3:.0f} ms: {whole_s / pass_s:.2%}",
                        f"at most {MOST_SHARE:.0%} of a pass",
                        whole_s <= MOST_SHARE * pass_s,
                    )
                )
    return figures


if __name__ == "__main__":
    finish(main())
