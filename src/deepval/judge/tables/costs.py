"""A TOML file, or a mapping of its shape -> a cost profile: costs per input of modes
and allocators.

`ms` is latency. Energy in millijoules comes under three conventions: `mj` counts the
module (GPU, CPU and SoC rails over idle), `mj_gpu` the GPU rail only, `mj_all` all
rails. `usd` is money. An allocator's cost is charged on every input.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from numbers import Real
from pathlib import Path
from typing import Any, Literal, get_args

from deepval.basics.display import Printable
from deepval.basics.errors import InputError, quote
from deepval.basics.files import reading
from deepval.basics.files.canonical import cell_content, toml_content

Convention = Literal["ms", "mj", "mj_gpu", "mj_all", "usd"]
CONVENTIONS: tuple[Convention, ...] = get_args(Convention)
MODULE, GPU_RAIL, ALL_RAILS = CONVENTIONS[1:4]
TABLES = ("modes", "allocators", "profile")
"""Top-level keys of a costs file; the last one is its name."""
MEASURED = (
    *(
        "served",
        "p95_ms",
        "ms_lo",
        "ms_hi",
        "gpu_ms",
        "calls",
        "samples",
        "batch",
        "size",
        "tight",
        "threads",
    ),
    *("device", "energy", "note", "weights_sha256"),
)
"""Keys that describe a measurement.

They are not charged; nor are `<stage>_ms` and `<stage>_p95_ms` of a stage.
"""
LARGEST_COST = 1e9
"""Costs above this per input are refused (12 days, a megajoule, a billion dollars):
sums are counted in integers.
"""
_SHIPPED = (Path(__file__).parent / "cost_profiles").glob("*.toml")
PROFILES = {path.stem: path for path in sorted(_SHIPPED, key=lambda path: path.stem)}
"""Cost profiles that ship with deepval, by name."""


@dataclass(frozen=True, repr=False)
class Costs(Printable):
    """Cost per input of each mode (cheap first, full last) and of each allocator, by
    convention.

    Attributes:
        modes: Per mode, its cost under each measured convention.
        allocators: Per allocator, the same; a cost of zero must be stated explicitly.
        served: How an allocator's cost was measured, such as "single" calls or
            "batched".
        source: Source of the figures, for messages.
    """

    modes: Mapping[str, Mapping[Convention, float]]
    allocators: Mapping[str, Mapping[Convention, float]]
    served: Mapping[str, str]
    source: str = "the costs given"

    def has_all(self, convention: str) -> bool:
        """Whether every mode has a cost under a convention."""
        entries = self.modes.values()
        return bool(entries) and all(convention in entry for entry in entries)

    def __post_init__(self) -> None:
        for kind in ("mode", "allocator"):
            table = getattr(self, f"{kind}s")
            _refuse_other_shapes(table, f"{kind}s", self.source)
            for name, entry in table.items():
                for convention, cost in entry.items():
                    if not _is_cost(cost):
                        raise InputError(
                            f"{self.source}: a cost must be finite, not negative and "
                            f"at most {LARGEST_COST:g}; {kind} {name!r} has "
                            f"{convention} = {quote(cost)}."
                        )
        if len(self.modes) == 1:
            raise InputError(
                f"{self.source}: costs of two or more modes are needed; found "
                f"{quote(list(self.modes))}."
            )
        if not self.modes:
            return
        cheap, *_, full = self.modes
        for convention in CONVENTIONS:
            low = self.modes[cheap].get(convention, -math.inf)
            high = self.modes[full].get(convention, math.inf)
            if not high > low:
                raise InputError(
                    f"{self.source}: the full mode must cost more than the cheap one, "
                    f"and the cheap one come first; found {convention} = {high} for "
                    f"{full!r} and {low} for {cheap!r}."
                )

    @classmethod
    def of(cls, source: Any) -> "Costs":
        """Costs from a TOML file, the name of a shipped profile, a mapping of the same
        shape, or a `Costs`.
        """
        if isinstance(source, cls):
            return source
        if isinstance(source, str | Path):
            return cls.of_file(costs_bytes(source), str(source))
        if isinstance(source, Mapping):
            return cls._from_mapping(source, "the costs given")
        raise InputError(
            f"Costs must be a .toml file or a mapping; found {type(source).__name__}."
        )

    @classmethod
    def of_file(cls, content: bytes, source: str) -> "Costs":
        """Costs from the content of a TOML file."""
        return cls._from_mapping(toml_content(content, source), source)

    @classmethod
    def _from_mapping(cls, content: Mapping[str, Any], source: str) -> "Costs":
        _check_keys(content, TABLES, source)
        modes = content.get("modes", {})
        allocators = content.get("allocators", {})
        if not modes and not allocators:
            raise InputError(
                f"{source}: costs of two or more modes are needed; found []."
            )
        _refuse_other_shapes(modes, "modes", source)
        _refuse_other_shapes(allocators, "allocators", source)
        served = {}
        for name, entry in allocators.items():
            if "served" in entry:
                served[str(name)] = str(entry["served"])
        return cls(
            modes=_charged(modes, f"{source}: mode"),
            allocators=_charged(allocators, f"{source}: allocator"),
            served=served,
            source=source,
        )

    def of_mode(self, mode: str, convention: Convention) -> float:
        """Cost of one pass of a mode."""
        return self._lookup(self.modes, mode, convention, "mode")

    def of_allocator(self, allocator: str, convention: Convention) -> float:
        """Cost of scoring one input; an allocator without a figure is an error, never
        free.
        """
        return self._lookup(self.allocators, allocator, convention, "allocator")

    def _lookup(
        self,
        table: Mapping[str, Mapping[Convention, float]],
        name: str,
        convention: Convention,
        kind: str,
    ) -> float:
        found: Any = table.get(name, f"only {kind}s {list(table)}")
        if name not in table or convention not in found:
            raise InputError(
                f"{self.source}: a measured budget needs {convention!r} of {kind} "
                f"{name!r}; found {found}. Add it under [{kind}s.{name}]."
            )
        return found[convention]

    def with_modes(self, names: Mapping[str, str]) -> "Costs":
        """The costs of the named modes only, in this order and under new names:
        {"cheap": "yolov8s-320", ...}.
        """
        for name in names.values():
            if name not in self.modes:
                raise InputError(
                    f"{self.source}: modes must be among {', '.join(self.modes)}; "
                    f"found {name!r}."
                )
        return replace(self, modes={new: self.modes[old] for new, old in names.items()})

    def to_dict(self) -> dict[str, Any]:
        """The figures in the shape of the TOML file."""
        modes = {name: dict(entry) for name, entry in self.modes.items()}
        allocators: dict[str, dict[str, Any]] = {}
        for name, entry in self.allocators.items():
            allocators[name] = {**entry}
            if name in self.served:
                allocators[name]["served"] = self.served[name]
        return {"modes": modes, "allocators": allocators}


def read_costs(source: Any) -> Costs:
    """A cost profile from a TOML file, the name of a shipped profile (`PROFILES`) or a
    mapping of a file's shape.
    """
    return Costs.of(source)


def check_modes(source: str | Path, modes: Iterable[str]) -> None:
    """Raise where a costs file lacks one of the modes; its figures are checked where
    they are used.
    """
    names = list(modes)
    available = toml_content(costs_bytes(source), str(source)).get("modes", {})
    unknown = [name for name in names if name not in available]
    if unknown:
        raise InputError(
            f"{source}: costs must be those of the modes {', '.join(names)}; it has "
            f"none of {', '.join(unknown)}{_nearest(unknown[0], available)}. "
            f"Its modes are {', '.join(available)}."
        )


def costs_bytes(source: str | Path) -> bytes:
    """Content of the file, or of the shipped profile of that name where there is no
    such file.
    """
    path = Path(source)
    if not reading.exists(path):
        path = PROFILES.get(str(source), path)
    content = cell_content(path)
    if content is not None:
        return content
    what = "costs in a .toml file"
    if path.suffix == "":
        what += f", or a shipped profile ({', '.join(PROFILES)}),"
    return reading.content(path, what)


def _is_cost(cost: Any) -> bool:
    if isinstance(cost, bool) or not isinstance(cost, Real):
        return False
    return 0 <= float(cost) <= LARGEST_COST


def _refuse_other_shapes(table: Any, kind: str, source: str) -> None:
    """Raise where costs are not entries by name."""
    entries = table.values() if isinstance(table, Mapping) else [table]
    if not all(isinstance(entry, Mapping) for entry in entries):
        raise InputError(
            f"{source}: {kind} must be costs by name: [{kind}.<name>] tables, such as "
            f"[{kind}.mine] with ms = 13.2."
        )


def _charged(
    table: Mapping[Any, Mapping[str, Any]], what: str
) -> dict[str, dict[Convention, float]]:
    """The figures that are charged; notes on how they were measured are left out."""
    costs: dict[str, dict[Convention, float]] = {}
    for name, entry in table.items():
        staged = [key for key in entry if _of_a_stage(str(key), entry)]
        _check_keys(entry, (*CONVENTIONS, *MEASURED, *staged), f"{what} {name!r}")
        costs[str(name)] = {
            convention: _as_float(entry[convention], f"{what} {name!r}: {convention}")
            for convention in CONVENTIONS
            if convention in entry
        }
    return costs


def _as_float(cost: Any, what: str) -> float:
    """A number of a file as float; one that is too large for it is infinite."""
    if isinstance(cost, bool) or not isinstance(cost, Real):
        raise InputError(f"{what} must be a number; found {cost!r}.")
    try:
        return float(cost)
    except OverflowError:
        return math.inf


def _of_a_stage(key: str, entry: Collection[str]) -> bool:
    """Whether a figure belongs to a stage: the entry has both its median and its 95th
    percentile.
    """
    stage = key.removesuffix("_ms").removesuffix("_p95")
    return {f"{stage}_ms", f"{stage}_p95_ms"} <= set(entry)


def _check_keys(keys: Iterable[Any], allowed: Collection[str], what: str) -> None:
    for key in map(str, keys):
        if key not in allowed:
            raise InputError(
                f"{what}: keys must be among {', '.join(allowed)}; found "
                f"{key!r}{_nearest(key, allowed)}."
            )


def _nearest(name: str, allowed: Collection[str]) -> str:
    """The nearest allowed name, as the end of a sentence; empty where none is near."""
    # "energy_mj" means mj, although other names are spelled more like it.
    parts = set(re.split(r"[\W_]+", name.lower())) & set(CONVENTIONS) & set(allowed)
    close = get_close_matches(name.lower(), allowed, 1, 0.85)
    near = close or list(parts) or get_close_matches(name.lower(), allowed, 1, 0.5)
    if near:
        return f" (did you mean {near[0]!r}?)"
    return ""
