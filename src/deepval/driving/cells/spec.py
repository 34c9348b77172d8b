"""A command line, a track's file or a manifest -> CellSpec: everything that defines a
cell.

A specification gives the cell's id, a hash of everything that the cell depends on
(files by SHA-256, thresholds, constants), and compares cells. From a command line, it
also has the data set and the reports on this machine.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePosixPath
from shlex import quote as quoted
from typing import Any

import numpy as np

from deepval.basics.arrays import Int
from deepval.basics.errors import InputError, UnsuitableError, quote
from deepval.basics.files.canonical import digest_of, file_digest, plain
from deepval.basics.plugins import Code
from deepval.driving.datasets import Dataset
from deepval.driving.perception.modes import BUILT_IN, built_in_name
from deepval.driving.perception.placing import PLACINGS
from deepval.driving.perception.reported.detection_rows import ModeReader
from deepval.driving.perception.reported.detections import Detections, persistent
from deepval.driving.planners.neural.planner import GET
from deepval.driving.systems import LEARNED, SYSTEMS, NamedSystem, System
from deepval.driving.systems.learned import MARKS, LearnedPlanner
from deepval.driving.systems.system import (
    constants,
    default_name,
    settable,
    with_constants,
)
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth
from deepval.judge.tables.split import Split, split

DEFAULT_MODES = ("yolov8s-320", "yolov8s-640")
DEFAULT_THRESHOLD = 0.25
"""Least score that modes of the synthetic world and of the detection profile report:
operating point S0.
"""


@dataclass(frozen=True, eq=False)
class ModeSpec:
    """One perception mode as a cell uses it.

    Attributes:
        name: Name of the mode.
        made: Origin of its report (file and its SHA-256, or seed and settings) and the
            kind of its scores.
        threshold: Least score of the detections used; None uses all.
        classes: Classes of the detections used; None uses all.
        reader: Reads its report on this machine; None where there is only a definition.
    """

    name: str
    made: Mapping[str, Any]
    threshold: float | None = None
    classes: tuple[str, ...] | None = None
    reader: ModeReader | None = field(default=None, compare=False, repr=False)

    @property
    def definition(self) -> dict[str, Any]:
        """The mode in a cell's definition."""
        classes = None if self.classes is None else sorted(self.classes)
        return {**plain(self.made), "threshold": self.threshold, "classes": classes}

    @classmethod
    def from_definition(cls, name: str, definition: Mapping[str, Any]) -> "ModeSpec":
        """The mode that a manifest defines."""
        origin = {
            key: value
            for key, value in definition.items()
            if key not in ("threshold", "classes")
        }
        classes = definition.get("classes")
        return cls(
            name,
            origin,
            definition.get("threshold"),
            None if classes is None else tuple(classes),
        )


@dataclass(frozen=True, eq=False)
class CellSpec:
    """A cell: data set x modes x placing x downstream system.

    Two are equal iff their keys are.

    Attributes:
        dataset: Name of the data set.
        files: SHA-256 of its files by name, or of its folders where only those are
            listed.
        units: Its units, in order.
        modes: The modes, cheap first.
        geometry: How detections become objects, a name in PLACINGS.
        persistence: Whether a detection must persist over three frames to pass.
        system: Name of the downstream system.
        constants: Its constants by name; None where this version does not have the
            system.
        source: The data set on this machine; None where there is only a definition.
        rule: The downstream system itself; None where this version does not have it.
        left_out: Numbers of frames that are perceived but are no inputs, by unit.
        choices: Parts of units that are read, by unit, where it is not all of their
            files.
        code: The user's own code behind its "dataset" and its "system", where it is
            not deepval's.
    """

    dataset: str
    files: Mapping[str, str]
    units: tuple[str, ...]
    modes: tuple[ModeSpec, ...]
    geometry: str
    persistence: bool
    system: str
    constants: Mapping[str, Any] | None
    source: Dataset | None = field(default=None, repr=False)
    rule: System | None = field(default=None, repr=False)
    left_out: Mapping[str, tuple[int, ...]] = field(default_factory=dict, repr=False)
    choices: Mapping[str, Any] = field(default_factory=dict, repr=False)
    code: Mapping[str, Code] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if len(self.modes) < 2:
            raise InputError(
                f"A cell needs two modes or more, cheap first; found {len(self.modes)}."
            )
        if len({mode.name for mode in self.modes}) < len(self.modes):
            raise InputError("Modes need different names; one is given twice.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CellSpec) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.name)

    @cached_property
    def key(self) -> dict[str, Any]:
        """The properties by which cells are compared."""
        return {
            "data set": self.dataset,
            "units": len(self.units),
            "files": folder_digests_of(self.files),
            "choice within units": digest_of(dict(self.choices)),
            "modes": list(self.order),
            "mode": {
                m.name: {k: v for k, v in m.definition.items() if k != "source"}
                for m in self.modes
            },
            "geometry": self.geometry,
            "persistence": self.persistence,
            "system": self.definition["system"],
            "frames left out": sum(map(len, self.left_out.values())),
        }

    def differences(self, other: "CellSpec") -> tuple[str, ...]:
        """One phrase for every property in which another cell differs; empty where they
        are equal.
        """
        return tuple(unlike(self.key, other.key))

    @property
    def order(self) -> tuple[str, ...]:
        """Names of the modes, cheap first."""
        return tuple(mode.name for mode in self.modes)

    @cached_property
    def definition(self) -> dict[str, Any]:
        """Everything that the cell depends on, as written to a manifest."""
        return {
            "dataset": {
                "name": self.dataset,
                "files": dict(self.files),
                "units": list(self.units),
                **{
                    name: plain(items)
                    for name in ("left_out", "choices")
                    if (items := getattr(self, name))
                },
            },
            "modes": {mode.name: mode.definition for mode in self.modes},
            "geometry": self.geometry,
            "persistence": self.persistence,
            "system": {
                "name": self.system,
                "constants": None if self.constants is None else plain(self.constants),
            },
        }

    @cached_property
    def files_digest(self) -> str:
        """SHA-256 over the names and hashes of the data set's files."""
        return digest_of(dict(self.files))

    @property
    def id(self) -> str:
        """Name of the cell with the first digits of the hash of everything that defines
        it.
        """
        return f"{self.name}-{digest_of(self.definition)[:12]}"

    @property
    def name(self) -> str:
        """Data set, modes, geometry and system."""
        return "-".join([self.dataset, *self.order, self.geometry, self.system])

    def command(
        self,
        *,
        root: str,
        files: Mapping[str, str],
        out: str,
        costs: str | None = None,
        units: str | None = None,
    ) -> str:
        """The command line that builds the cell, for a shell.

        Args:
            root: Folder of the data set; not needed by the synthetic world.
            files: File of each mode's report; not needed for modes without a file.
            out: Folder to build in.
            costs: Cost profile to put into it.
            units: Its units as `--units` names them; None lists them, or their
                scenarios, if they are not all.
        """
        words = ["deepval build", f"--geometry {self.geometry}", *self._system_words()]
        words += [f"--costs {costs}"] if costs else []
        words += [
            f"--set {name}={_digits(value)}"
            for name, value in sorted(self.set_constants().items())
        ]
        words += ["--persistence"] if self.persistence else []
        if self.dataset == "synthetic":
            words += _synthetic_words(self.modes)
        else:
            own = self.code.get("dataset")
            dataset = self.dataset if own is None else quoted(own.word)
            words.append(f"--dataset {dataset} --root {quoted(root)}")
            words += [
                f"--seed {seed}"
                for seed in sorted(
                    {m.made["seed"] for m in self.modes if m.made.get("seed")}
                )
            ]
        for mode in self.modes if self.dataset != "synthetic" else ():
            words.append(_mode_words(mode, files))
            words += (
                []
                if mode.threshold is None
                else [f"--threshold {mode.name}={_digits(mode.threshold)}"]
            )
        words += [f"--class {name}" for name in sorted(self.modes[0].classes or ())]
        names = [
            name
            for unit in self.units
            for name in self.choices.get(unit, {}).get("scenes", (unit,))
        ]
        if (
            units is None
            and all(names)
            and (self.source is None or tuple(names) != self.source.unit_ids())
        ):
            units = ",".join(names)
        words += [] if units is None else [f"--units {quoted(units)}"]
        return " ".join([*words, f"--out {quoted(out)}"])

    def _system_words(self) -> tuple[str, ...]:
        """Options that select the downstream system; capitals stand for files whose
        paths are not recorded.
        """
        if self.rule is None and self.learned is not None:
            return (f"--system {self.learned}", "--weights WEIGHTS", "--masks MASKS")
        if "system" in self.code:
            return (f"--system {quoted(self.code['system'].word)}",)
        if isinstance(self.rule, LearnedPlanner):
            weights = quoted(str(self.rule.weights_file))
            masks = quoted(str(self.rule.masks_file))
            return (
                f"--system {self.rule.plain_name}",
                f"--weights {weights}",
                f"--masks {masks}",
            )
        return (f"--system {self.system}",)

    @property
    def learned(self) -> str | None:
        """Name of its system without the mark of the planner's origin; None where the
        planner is not learned.
        """
        return next(
            (
                name
                for name in LEARNED
                if self.system.removeprefix(name) in MARKS.values()
            ),
            None,
        )

    @property
    def acting(self) -> System:
        """The downstream system, ready to plan; raises InputError with the missing part
        where it is not.
        """
        if self.rule is None and self.learned is not None:
            raise UnsuitableError(
                "the learned planner needs its files to plan again: give --weights "
                "and --masks."
            )
        if self.rule is None and "system" in self.code:
            raise UnsuitableError(
                f"the system {self.system} is your own code, which plans again when "
                f"you confirm it: give --code {self.code['system'].word}."
            )
        if self.rule is None:
            raise UnsuitableError(
                f"this version does not know the system {self.system}: build the "
                "cell with one that it knows."
            )
        return self.rule

    def behind(
        self, used: Detections, scene: Scene, truth: Truth
    ) -> Int[np.ndarray, "obj"]:
        """The index of the detection behind each object that the cell places, -1 for an
        object without one.
        """
        keep = persistent(used) if self.persistence else None
        return PLACINGS[self.geometry].behind(used, scene, truth, keep=keep)

    def set_constants(self) -> dict[str, float]:
        """Constants that differ from the system's defaults, by name."""
        default = SYSTEMS.get(self.system)
        if default is None or "system" in self.code:
            return {}
        return changed_constants(default, self.constants or {})

    @cached_property
    def roles(self) -> Split:
        """The frozen split of its units."""
        return split(self.dataset, self.units)

    @classmethod
    def from_definition(
        cls, definition: Mapping[str, Any], order: Sequence[str]
    ) -> "CellSpec":
        """The cell that a manifest defines; the order of modes comes from the table, as
        a manifest sorts them.
        """
        try:
            system = definition["system"]
            return cls(
                dataset=definition["dataset"]["name"],
                files=dict(definition["dataset"]["files"]),
                units=tuple(definition["dataset"]["units"]),
                modes=tuple(
                    ModeSpec.from_definition(name, definition["modes"][name])
                    for name in order
                ),
                geometry=definition["geometry"],
                persistence=definition["persistence"],
                system=system["name"],
                constants=system["constants"],
                rule=SYSTEMS.get(system["name"]),
                left_out={
                    unit: tuple(frames)
                    for unit, frames in definition["dataset"]
                    .get("left_out", {})
                    .items()
                },
                choices=dict(definition["dataset"].get("choices", {})),
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise InputError(
                "a cell's definition must name its data set, modes, geometry and "
                f"system as `deepval build` does; this one does not ({error}): build "
                "the cell again."
            ) from error


@dataclass(frozen=True, eq=False)
class Material:
    """The material of cells: data set, units to read, modes (cheap first), frames by
    unit that are no inputs, and the code of a data set of the user's own.
    """

    source: Dataset
    modes: tuple[ModeSpec, ...]
    units: tuple[str, ...]
    left_out: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    code: Code | None = None


def specs(
    material: Material,
    *,
    geometries: Sequence[str] = ("monocular",),
    systems: Sequence[str | System | NamedSystem] = ("braking",),
    persistence: bool = False,
    changes: Mapping[str, float] | None = None,
) -> list[CellSpec]:
    """Every combination of placing and system on a material.

    Args:
        material: Data set and modes.
        geometries: How detections become objects: names in PLACINGS.
        systems: Names of downstream systems, or systems, all of different names.
        persistence: Whether a detection must persist over three frames to pass.
        changes: Constants to change, by name; each must be a constant of at least one
            of the systems.
    """
    source = material.source
    paths = {
        name: path
        for unit in material.units
        for name, path in source.files(unit).items()
    }
    files = {name: file_digest(path) for name, path in paths.items()}
    choices = {
        unit: choice for unit in material.units if (choice := source.choice(unit))
    }
    for geometry in geometries:
        if geometry not in PLACINGS:
            raise InputError(
                f"A geometry must be one of {', '.join(PLACINGS)}; found {geometry!r}."
            )
    if len(set(geometries)) < len(geometries):
        raise InputError("Geometries must be different; one is given twice.")
    named = [_named(item) for item in systems]
    _check_names(named)
    rules = _with_changes(named, changes or {})
    own = {} if material.code is None else {"dataset": material.code}
    return [
        CellSpec(
            dataset=source.name,
            files=files,
            units=material.units,
            modes=material.modes,
            geometry=geometry,
            persistence=persistence,
            system=item.name,
            constants=constants(item.system),
            source=source,
            rule=item.system,
            left_out=material.left_out,
            choices=choices,
            code=own if item.code is None else {**own, "system": item.code},
        )
        for geometry in geometries
        for item in rules
    ]


def _named(item: str | System | NamedSystem) -> NamedSystem:
    if isinstance(item, NamedSystem):
        return item
    if isinstance(item, str):
        return NamedSystem(item, _system(item))
    return NamedSystem(default_name(item), item)


def _check_names(systems: Sequence[NamedSystem]) -> None:
    """Raise where two systems have one name: their cells would be one folder."""
    first: dict[str, NamedSystem] = {}
    for item in systems:
        other = first.setdefault(item.name, item)
        if other is item:
            continue
        words = [own.code.word for own in (other, item) if own.code is not None]
        both = f" ({', '.join(words)})" if words else ""
        raise InputError(
            f"Downstream systems need different names; {item.name!r} is the name of "
            f"two{both}: leave one out, or give it another field `name`."
        )


def changed_constants(default: System, current: Mapping[str, Any]) -> dict[str, float]:
    """The constants that are single numbers and differ from those of a system, by
    name.
    """
    own = plain(current)
    changed = {}
    for name, (holder, value) in settable(default).items():
        number = own.get(name) if holder is None else own.get(holder, {}).get(name)
        if number is not None and number != value:
            changed[name] = number
    return changed


def _synthetic_words(modes: Sequence[ModeSpec]) -> list[str]:
    words = [f"--seed {modes[0].made['seed']}"] if modes[0].made["seed"] else []
    if [mode.name for mode in modes] != list(DEFAULT_MODES):
        words += [f"--mode {mode.name}" for mode in modes]
    return words + [
        f"--threshold {m.name}={_digits(m.threshold)}"
        for m in modes
        if m.threshold not in (None, DEFAULT_THRESHOLD)
    ]


def _mode_words(mode: ModeSpec, files: Mapping[str, str]) -> str:
    if mode.made.get("source") == BUILT_IN:
        built_in = built_in_name(mode.made)
        return (
            f"--mode {mode.name}"
            if mode.name == built_in
            else f"--mode {mode.name}={built_in}"
        )
    return (
        "--mode "
        f"{quoted(f'{mode.name}={files[mode.name]}')} --scores-are "
        f"{mode.name}={mode.made['scores']}"
    )


def _digits(value: float) -> str:
    """A number in the fewest digits that are exact."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def folder_digests_of(files: Mapping[str, str]) -> dict[str, str]:
    """One SHA-256 per folder of a data set, over the names and hashes of the files in
    it.
    """
    folders: dict[str, dict[str, str]] = {}
    for name, digest in files.items():
        folders.setdefault(PurePosixPath(name).parts[0], {})[name] = digest
    return {
        folder: digests[folder] if list(digests) == [folder] else digest_of(digests)
        for folder, digests in sorted(folders.items())
    }


def unlike(required: Any, actual: Any, point: str = "") -> Iterator[str]:
    """Phrases for the points in which plain data differ from the required data."""
    if isinstance(required, Mapping) and isinstance(actual, Mapping):
        for key in dict.fromkeys([*required, *actual]):
            yield from unlike(
                required.get(key), actual.get(key), f"{point} {key}".lstrip()
            )
    elif required != actual:
        yield f"{point} must be {_phrase(required)}; found {_phrase(actual)}"


def _phrase(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            quote(value["profile"])
            if "profile" in value
            else f"a table of {', '.join(value)}"
        )
    return "none" if value is None else quote(value)


def _with_changes(
    systems: Sequence[NamedSystem], changes: Mapping[str, float]
) -> list[NamedSystem]:
    """The systems with changed constants; each system takes the changes to its own
    constants.
    """
    names_by_system = [
        {*settable(item.system), *item.system.also_called} for item in systems
    ]
    all_names = sorted(set().union(*names_by_system))
    for constant in changes:
        if constant not in all_names:
            raise InputError(
                f"A constant must be one of {', '.join(all_names)}; found {constant!r}."
            )
    changed = []
    for item, own in zip(systems, names_by_system, strict=True):
        applied = {name: value for name, value in changes.items() if name in own}
        changed.append(replace(item, system=with_constants(item.system, applied)))
    return changed


def _system(name: str) -> System:
    if name in LEARNED:
        raise InputError(
            f"The downstream system {name} needs its weights and masks: {GET}."
        )
    if name not in SYSTEMS:
        raise InputError(
            f"A downstream system must be one of {', '.join(SYSTEMS)}; found {name!r}."
        )
    return SYSTEMS[name]
