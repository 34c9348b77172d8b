"""`deepval build`: data sets and detections -> cells."""

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter

from deepval.basics import plugins
from deepval.basics.errors import InputError, InputWarning, few, library, suggestion
from deepval.basics.files import reading
from deepval.basics.files.writing import check_writable
from deepval.cli import options, terminal
from deepval.cli.data_options import SYNTHETIC, Geometry, MappedFiles
from deepval.cli.terminal import say
from deepval.deploy.board.cell_builds import current_cell, rebuild
from deepval.driving.cells import sources, spec
from deepval.driving.datasets import DATASETS, Dataset
from deepval.driving.geometry.classes import CLASSES, NUSCENES_CLASSES
from deepval.driving.perception.modes import NAMES, built_in_mode
from deepval.driving.planners.neural.planner import GET
from deepval.driving.systems import LEARNED, SYSTEMS, NamedSystem, System, own_system
from deepval.driving.systems.learned import LearnedPlanner, learned_planners
from deepval.judge.tables.costs import check_modes
from deepval.judge.tables.values import ValueTable


def check_roads(source: Dataset, units: Sequence[str]) -> None:
    """Raise unless every unit may have a lane map, for systems that draw the road."""
    lacking = source.without_map(units)
    if lacking:
        others = ",".join(unit for unit in units if unit not in lacking)
        advice = (
            f" or name the other{'s' if ',' in others else ''}: --units {others}"
            if others
            else ""
        )
        raise InputError(
            f"the learned planner draws the road, and {len(lacking)} of {len(units)} "
            f"units have no lane map ({few(lacking)}): give "
            f"--maps with their maps{',' if advice else ''}{advice}."
        )


SCORE_KINDS = ("probabilities", "raw", "none")


def build(
    *,
    out: Annotated[Path, Parameter(alias="-o", group=options.OUTPUT)],
    files: MappedFiles = SYNTHETIC,
    mode: tuple[str, ...] = (),
    threshold: tuple[str, ...] = (),
    scores_are: tuple[str, ...] = (),
    only: Annotated[tuple[str, ...], Parameter(name="--class")] = (),
    geometry: tuple[Geometry, ...] = ("monocular",),
    system: tuple[str, ...] = ("braking",),
    weights: Path | None = None,
    masks: Path | None = None,
    change: Annotated[tuple[str, ...], Parameter(name="--set")] = (),
    persistence: bool = False,
    costs: Path | None = None,
    pictures: bool = False,
    seed: Annotated[int | None, options.whole(0, 2**63 - 1)] = None,
    workers: options.Workers = options.WORKERS_DEFAULTS,
    printing: options.Printing = options.PRINTING_DEFAULTS,
) -> None:
    """A cell has the loss of every input under every mode, and the hashes of all its
    sources.

    Example: deepval build --dataset kitti --root kitti_tracking --mode
    CIWT=CIWT.parquet --mode RRC=RRC.parquet --threshold RRC=0.25 --scores-are CIWT=raw
    --class Car --geometry monocular --system braking --out cells

    Args:
        out: Folder; each cell becomes a folder in it.
        mode: NAME=DETECTIONS, cheap first; or a mode without a file: none, none-camera,
            reference, profile-320, profile-640 (or another size). Repeatable.
        threshold: Lowest score of detections: 0.25 or NAME=0.25. Repeatable.
        scores_are: NAME=probabilities, raw or none. Repeatable.
        only: Keep detections of this class: Car, Van, Truck, Bus, Pedestrian,
            Person_sitting, Cyclist, Tram, Misc; nuScenes has its own names. Repeatable.
        geometry: How detections become objects. Repeatable.
        system: Downstream system: braking, receding-horizon, lateral,
            pdm-closed-safety, pdm-closed-scalar, idm-safety, idm-scalar, planner-ade,
            planner-fde, planner-self-ade, planner-self-fde, or your own: FILE.py:NAME.
            Repeatable.
        weights: Weights (.pt, .npz) of the learned planner.
        masks: Masks (.json, .npz) of the learned planner.
        change: NAME=NUMBER: a constant of the systems, such as
            corridor_half_width_m=1.5. Repeatable.
        persistence: Keep only detections that last three frames.
        costs: Costs to put into every cell: a .toml file or a profile
            (jetson-agx-xavier, jetson-agx-xavier-nuplan, jetson-agx-xavier-nuscenes).
        pictures: Store thumbnails (needed by router-pixel).
        seed: Seed of the synthetic world, or of profile-SIZE. Default: 0.
    """
    kind = files.kind
    check_writable(out, folder=True)
    for name in ("scipy", "pyarrow"):
        library(name, purpose="Building cells", extra="fit")
    rules = _rules(system, weights, masks)
    material = _material(files, mode, threshold, scores_are, only, seed)
    if any(isinstance(rule, LearnedPlanner) for rule in rules):
        check_roads(material.source, material.units)
    if costs is not None:
        check_modes(costs, [mode_spec.name for mode_spec in material.modes])
    cell_specs = spec.specs(
        material,
        geometries=geometry,
        systems=rules,
        persistence=persistence,
        changes=_changes(change),
    )
    folders = {
        cell_spec: out / f"{cell_spec.system}-{cell_spec.geometry}"
        for cell_spec in cell_specs
    }
    cells_by_spec: dict[spec.CellSpec, _CellResult] = {}
    for cell_spec, folder in folders.items():
        current = current_cell(cell_spec, folder, costs=costs, pictures=pictures)
        if current is not None:
            before = _CellResult(
                folder, current.cell.id, current.frames, current.cell.table, now=False
            )
            cells_by_spec[cell_spec] = before
    missing = [cell_spec for cell_spec in cell_specs if cell_spec not in cells_by_spec]
    with workers.start() as map_units:
        cells = rebuild(
            missing,
            out,
            folders.__getitem__,
            costs=costs,
            pictures=pictures,
            map_units=map_units,
            watch=terminal.watch,
        )
        for cell in cells if missing else ():
            cells_by_spec[cell.spec] = _CellResult(
                folders[cell.spec], cell.id, len(cell.shared.inputs), cell.table
            )
    places = _places(files, mode, weights, masks)
    for folder in folders.values() if kind != "synthetic" else ():
        places.write(folder)
    results = [cells_by_spec[cell_spec] for cell_spec in cell_specs]
    too_few = cell_specs[0].roles.too_few
    if too_few is not None:
        note = (
            f"{too_few}: all units of {kind} are judged, nothing is held out, and no "
            "allocator can be fitted here."
        )
        warnings.warn(InputWarning(note), stacklevel=2)
    if printing.is_json:
        terminal.print_json([_summary(result) for result in results])
        return
    for result in results:
        before = "" if result.now else "unchanged since it was built; "
        say(
            f"{result.folder}: "
            f"{before}{_judged_share(result)}{_sentence(result.table.summary())}"
        )


def _material(
    files: MappedFiles,
    mode: Sequence[str],
    threshold: Sequence[str],
    scores: Sequence[str],
    only: Sequence[str],
    seed: int | None,
) -> sources.Material:
    """The data and modes of the cells."""
    kind, units = files.kind, files.unit_names
    classes = [options.one_of(name, _class_names(kind), "--class") for name in only]
    modes = mode or sources.DEFAULT_MODES
    seeded = kind == "synthetic" or any(
        (_built_in(text) or "").startswith("profile-") for text in modes
    )
    _refuse_ignored(
        kind,
        {"--root": files.root, "--scores-are": scores} if kind == "synthetic" else {},
    )
    _refuse_ignored(kind, {} if seeded else {"--seed": seed})
    files.check_maps()
    if kind != "synthetic" and ((files.root is None and kind in DATASETS) or not mode):
        folder = "--root, the folder of its files, and " * (kind in DATASETS)
        raise InputError(f"--dataset {kind} needs {folder}two or more --mode.")
    if files.root is not None and not reading.exists(files.root):
        raise InputError(
            "--root must be the folder of the data set's "
            f"files; there is no {files.root}."
        )
    start = seed or 0
    thresholds, kinds = (
        _by_mode(threshold, "--threshold", modes),
        _by_mode(scores, "--scores-are", modes),
    )
    if kind == "synthetic":
        least = {
            name: float(
                thresholds.get(name, thresholds.get("", sources.DEFAULT_THRESHOLD))
            )
            for name in modes
        }
        return sources.synthetic(
            modes, seed=start, threshold=least, classes=classes or None, units=units
        )
    mode_files = [_mode_file(text, thresholds, kinds, classes, start) for text in modes]
    code = None
    if kind not in DATASETS:
        own = plugins.find(kind, "datasets")
        code = None if own is None else own.code
    return sources.from_files(files.open(), mode_files, units=units, code=code)


def _places(
    files: MappedFiles, mode: Sequence[str], weights: Path | None, masks: Path | None
) -> sources.DataPlaces:
    """Where the data are, for analyses that read them again."""
    named = [text.partition("=") for text in mode if _built_in(text) is None]
    return sources.DataPlaces(
        root=files.root,
        modes={name: Path(path) for name, _, path in named},
        maps=files.maps,
        weights=weights,
        masks=masks,
    )


def _class_names(dataset: str) -> tuple[str, ...]:
    """Names of the classes that detections on a data set may have."""
    return tuple(NUSCENES_CLASSES) if dataset == "nuscenes" else CLASSES


def _rules(
    names: Sequence[str], weights: Path | None, masks: Path | None
) -> list[str | System | NamedSystem]:
    """Downstream systems: the learned planner's with its files, all others by name."""
    own = {
        name: own_system(name)
        for name in names
        if name not in SYSTEMS and name not in LEARNED
    }
    for name in (name for name, system in own.items() if system is None):
        options.one_of(
            name, (*SYSTEMS, *LEARNED, *plugins.installed("systems")), "--system"
        )
    learned = [name for name in names if name in LEARNED]
    if not learned:
        unused = [
            option
            for option, value in (("--weights", weights), ("--masks", masks))
            if value is not None
        ]
        if unused:
            raise InputError(
                f"{unused[0]} applies only to the systems {', '.join(LEARNED)}; none "
                "was requested: leave it out."
            )
        return [own.get(name) or name for name in names]
    if weights is None or masks is None:
        raise InputError(f"--system {learned[0]} needs --weights and --masks: {GET}.")
    planners = dict(
        zip(
            learned,
            learned_planners(learned, weights=weights, masks=masks),
            strict=True,
        )
    )
    return [planners.get(name) or own.get(name) or name for name in names]


def _changes(texts: Sequence[str]) -> dict[str, float]:
    """Constants of systems by name, from NAME=NUMBER."""
    constants: dict[str, float] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not _finite(value):
            raise InputError(f"--set must be NAME=NUMBER; found {text!r}.")
        if name in constants:
            raise InputError(
                f"--set must be given once for {name}; found {text!r} as well."
            )
        constants[name] = float(value)
    return constants


def _refuse_ignored(dataset: str, options_of_others: dict[str, Any]) -> None:
    for name, value in options_of_others.items():
        if value not in (None, ()):
            raise InputError(
                f"{name} changes nothing with --dataset {dataset}: leave it out, or "
                "give another --dataset."
            )


def _mode_file(
    text: str,
    thresholds: dict[str, str],
    kinds: dict[str, str],
    only: list[str],
    seed: int,
) -> sources.ModeFile:
    name, equals, path = text.partition("=")
    without_file = _built_in(text)
    if not equals and without_file is None:
        raise InputError(
            "--mode of a data set on disk must be NAME=DETECTIONS, or a mode without "
            f"a file: {NAMES}; found {text!r}."
        )
    # A kind of scores for all modes applies only to modes with a file.
    limit = thresholds.get(name, thresholds.get(""))
    kind = kinds.get(name, kinds.get("") if without_file is None else None)
    scores: Any = (
        None if kind is None else options.one_of(kind, SCORE_KINDS, "--scores-are")
    )
    return sources.ModeFile(
        name=name,
        path=Path(path) if without_file is None else None,
        like=without_file,
        threshold=None if limit is None else float(limit),
        scores=scores,
        classes=tuple(only) if only else None,
        seed=seed,
    )


def _built_in(text: str) -> str | None:
    """The mode without a file that a text names, plainly or as NAME=MODE; None where a
    file of that name exists.
    """
    _, equals, mode_name = text.rpartition("=")
    return (
        None
        if built_in_mode(mode_name) is None
        or (equals and reading.exists(Path(mode_name)))
        else mode_name
    )


def _by_mode(texts: Sequence[str], option: str, modes: Sequence[str]) -> dict[str, str]:
    """Values by mode, from NAME=VALUE; a bare VALUE applies to every mode and has the
    empty name.
    """
    names = [text.partition("=")[0] for text in modes]
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if equals and name not in names:
            raise InputError(
                f"{option} must be "
                "of a "
                f"mode ({', '.join(names)}); found {text!r}{suggestion(name, names)}"
            )
        if name in values:
            raise InputError(
                f"{option} must be given "
                f"once for {name or 'all modes'}; found {text!r} as well."
            )
        if option == "--threshold" and not _finite(value):
            raise InputError(
                f"{option} must be a number or NAME=NUMBER; found {text!r}."
            )
        values[name] = value
    return values


def _finite(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


class _CellResult(NamedTuple):
    """A cell that this command built or found up to date."""

    folder: Path
    id: str
    frames: int
    table: ValueTable
    now: bool = True


def _summary(cell: _CellResult) -> dict[str, Any]:
    from dataclasses import asdict

    content = {"folder": str(cell.folder), "id": cell.id, "frames": cell.frames}
    return content | _without_nan(asdict(cell.table.summary()))


def _without_nan(content: dict[str, Any]) -> dict[str, Any]:
    """The content with None for NaN, which JSON lacks."""
    return {
        key: None if isinstance(value, float) and value != value else value
        for key, value in content.items()
    }


def _judged_share(cell: _CellResult) -> str:
    """The share of frames that the system judges, of those on which both the cheapest
    and the fullest mode ran.
    """
    from deepval.judge.report.text_tables import percent

    judged, frames = len(cell.table), cell.frames
    return (
        ""
        if judged == frames
        else f"judges {judged:,} of {frames:,} frames ({percent(judged / frames, 1)}); "
    )


def _sentence(summary: Any) -> str:
    from deepval.judge.report.text_tables import almost_zero, number, percent

    if not summary.affected:
        return (
            f"none of {summary.inputs:,} inputs affected: both modes "
            "lead to the same losses"
        )
    affected = percent(summary.affected / summary.inputs, 1)
    # Where no input is helped, the ratio is undefined.
    ratio = (
        "undefined" if math.isnan(summary.harm_ratio) else number(summary.harm_ratio)
    )
    shares = summary.all_full_share, summary.oracle_share
    start = (
        f"{summary.affected:,} of {summary.inputs:,} inputs affected ({affected}), "
        f"{percent(summary.harm_rate, 1)} of them harmed, harm ratio {ratio}, "
    )
    why = almost_zero(summary.cheap_loss, *shares)
    if why is not None:
        full, oracle = (f"{share * summary.cheap_loss:.3g}" for share in shares)
        return f"{start}all-full {full}, Oracle@20 {oracle} in units of the loss: {why}"
    full, oracle = (
        "undefined" if math.isnan(share) else percent(share) for share in shares
    )
    return f"{start}all-full {full}, Oracle@20 {oracle} of {summary.cheap_loss:,.0f}"
