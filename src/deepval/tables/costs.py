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

from deepval.display import Printable
from deepval.errors import InputError, quote
from deepval.files import reading
from deepval.files.canonical import cell_content, toml_content

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

    def __post_init__(self) -> None:
        for table, kind in ((self.modes, "modes"), (self.allocators, "allocators")):
            if not isinstance(table, Mapping) or not all(
                isinstance(entry, Mapping) for entry in table.values()
            ):
                raise InputError(
                    f"{self.source}: {kind} must be costs by name, "
                    "{'cheap': {'ms': 13.2}}."
                )
        if len(self.modes) == 1:
            raise InputError(
                f"{self.source}: costs of two or more modes "
                f"are needed; found {quote(list(self.modes))}."
            )
        for table, kind in ((self.modes, "mode"), (self.allocators, "allocator")):
            for name, entry in table.items():
                for convention, cost in entry.items():
                    number = not isinstance(cost, bool) and isinstance(cost, Real)
                    if not number or not 0 <= float(cost) <= LARGEST_COST:
                        large = number and LARGEST_COST < float(cost) < math.inf
                        need = (
                            f"at most {LARGEST_COST:g}"
                            if large
                            else "finite and not negative"
                        )
                        raise InputError(
                            f"{self.source}: a cost must "
                            f"be {need}; "
                            f"{kind} {name!r} has {convention} = {quote(cost)}."
                        )
        for convention in CONVENTIONS if self.modes else ():
            cheap, *_, full = self.modes
            low, high = (
                self.modes[cheap].get(convention),
                self.modes[full].get(convention),
            )
            if low is not None and high is not None and not high > low:
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
        modes, allocators = content.get("modes", {}), content.get("allocators", {})
        if not modes and not allocators:
            raise InputError(
                f"{source}: costs of two or more modes are needed; found []."
            )
        for name, table in (("modes", modes), ("allocators", allocators)):
            if not isinstance(table, Mapping) or not all(
                isinstance(entry, Mapping) for entry in table.values()
            ):
                raise InputError(
                    f"{source}: [{name}.<name>] tables are needed, such as "
                    f"[{name}.cheap] with ms = 13.2."
                )
        return cls(
            modes={
                str(name): _entry(entry, f"{source}: mode {name!r}")
                for name, entry in modes.items()
            },
            allocators={
                str(name): _entry(entry, f"{source}: allocator {name!r}")
                for name, entry in allocators.items()
            },
            served={
                str(name): str(entry["served"])
                for name, entry in allocators.items()
                if "served" in entry
            },
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
        try:
            return table[name][convention]
        except KeyError:
            raise InputError(
                f"{self.source}: a measured budget needs {convention!r} of {kind} "
                f"{name!r}; found "
                f"{dict(table[name]) if name in table else f'only {kind}s {list(table)}'}"  # noqa: E501
                f". Add it under [{kind}s.{name}]."
            ) from None

    def with_modes(self, names: Mapping[str, str]) -> "Costs":
        """The costs of the named modes only, in this order and under new names:
        {"cheap": "yolov8s-320", ...}.
        """
        unknown = [name for name in names.values() if name not in self.modes]
        if unknown:
            raise InputError(
                f"{self.source}: modes must "
                f"be among {', '.join(self.modes)}; found {unknown[0]!r}."
            )
        return replace(self, modes={new: self.modes[old] for new, old in names.items()})

    def to_dict(self) -> dict[str, Any]:
        """The figures in the shape of the TOML file."""
        allocators = {name: dict(entry) for name, entry in self.allocators.items()}
        for name, served in self.served.items():
            allocators[name] = allocators[name] | {"served": served}  # pyright: ignore[reportArgumentType]
        return {
            "modes": {name: dict(entry) for name, entry in self.modes.items()},
            "allocators": allocators,
        }


def read_costs(source: Any) -> Costs:
    """A cost profile from a TOML file, the name of a shipped profile (`PROFILES`) or a
    mapping of a file's shape.
    """
    return Costs.of(source)


def check_modes(source: str | Path, modes: Iterable[str]) -> None:
    """Raise where a costs file lacks one of the modes; its figures are checked where
    they are used.
    """
    names, available = (
        list(modes),
        toml_content(costs_bytes(source), str(source)).get("modes", {}),
    )
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
    path, named = Path(source), PROFILES.get(str(source))
    path = named if named and not reading.exists(path) else path
    content = cell_content(path)
    other = (
        f", or a shipped profile ({', '.join(PROFILES)})," if path.suffix == "" else ""
    )
    return (
        reading.content(path, f"costs in a .toml file{other}")
        if content is None
        else content
    )


def _entry(entry: Mapping[str, Any], what: str) -> dict[Convention, float]:
    staged = [key for key in entry if _of_a_stage(str(key), entry)]
    _check_keys(entry, (*CONVENTIONS, *MEASURED), what, besides=staged)
    costs: dict[Convention, float] = {}
    for convention in CONVENTIONS:
        if convention not in entry:
            continue
        cost = entry[convention]
        if isinstance(cost, bool) or not isinstance(cost, Real):
            raise InputError(f"{what}: {convention} must be a number; found {cost!r}.")
        try:
            costs[convention] = float(cost)
        except OverflowError:
            costs[convention] = math.inf
    return costs


def _of_a_stage(key: str, entry: Collection[str]) -> bool:
    """Whether a figure belongs to a stage: the entry has both its median and its 95th
    percentile.
    """
    stage = re.fullmatch(r"(.+?)_(p95_)?ms", key)
    return stage is not None and {f"{stage[1]}_ms", f"{stage[1]}_p95_ms"} <= set(entry)


def _check_keys(
    keys: Iterable[Any],
    allowed: Collection[str],
    what: str,
    *,
    besides: Collection[str] = (),
) -> None:
    unknown = [str(key) for key in keys if key not in allowed and key not in besides]
    if unknown:
        raise InputError(
            f"{what}: keys must "
            "be among "
            f"{', '.join(allowed)}; found "
            f"{unknown[0]!r}{_nearest(unknown[0], allowed)}."
        )


def _nearest(name: str, allowed: Collection[str]) -> str:
    """The nearest allowed name, as the end of a sentence; empty where none is near."""
    parts = [
        part
        for part in re.split(r"[\W_]+", name.lower())
        if part in CONVENTIONS and part in allowed
    ]
    near = (
        get_close_matches(name.lower(), allowed, 1, 0.85)
        or parts
        or get_close_matches(name.lower(), allowed, 1, 0.5)
    )
    return f" (did you mean {near[0]!r}?)" if near else ""
