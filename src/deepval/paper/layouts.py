"""The tables of the paper by name: which rows and columns they have, how these are
named, and where each figure comes from.

A table is a grid of lines. A row and a column each say a part of what their entry is:
of which cell (`Kind`), which figures of it, and which rows of an analysis they are
read from. `tables` fills the grid. A table with a row per cell also has rows for cells
that the paper has not, named in the same way.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from itertools import product

from deepval.judge.report.text_tables import number, percent
from deepval.paper.published_figures import pair_of

NAMES = {"nuscenes": "nuScenes", "kitti": "KITTI", "nuplan": "nuPlan"}
"""Data set as the paper writes it."""
SYSTEMS = {
    "braking": "q_brake",
    "receding-horizon": "q_traj",
    "planner-ade": "planner ADE",
    "planner-fde": "planner FDE",
    "pdm-closed-safety": "PDM-Closed, safety",
    "pdm-closed-scalar": "PDM-Closed, scalar",
    "idm-safety": "IDM, safety",
    "idm-scalar": "IDM, scalar",
}
"""Downstream system as the paper writes it; others keep their name."""
GEOMETRIES = {"monocular": "mono", "tracks": ""}
LOSSES = {
    "collision": "collision",
    "clearance shortfall": "clearance shortfall",
    "deviation": "logged-trajectory deviation",
    "safety": "safety aggregate",
    "scalar": "scalar aggregate",
}
LONG = {"yolov8s": "YOLOv8s", "rtdetr-l": "RT-DETR-l"}
SHORT = {"yolov8s": "Y8", "rtdetr-l": "RT"}


@dataclass(frozen=True)
class Kind:
    """What a figure is about, as far as a row or a column says it."""

    dataset: str = ""
    geometry: str = ""
    system: str = ""
    pair: str = ""

    def with_rest(self, other: "Kind") -> "Kind":
        """This one, with what it leaves open from the other."""
        parts = (
            getattr(self, part.name) or getattr(other, part.name)
            for part in fields(Kind)
        )
        return Kind(*parts)


@dataclass(frozen=True)
class Figure:
    """A figure of a cell: where it is found, and how it is written.

    Attributes:
        analysis: The analysis that computes it.
        field: The field of its rows; empty if a row or column of the table names it.
        where: What must hold in the row: name=value pairs joined by ;.
        form: Turns the number into text.
        verdict: Field of the verdict that marks it: bold for better, * for worse.
        is_span: Whether it is the range over all rows for which `where` holds.
    """

    analysis: str
    field: str = ""
    where: str = ""
    form: Callable[[float | None], str] = number
    verdict: str = ""
    is_span: bool = False


@dataclass(frozen=True)
class Line:
    """A row or a column: its headings, and its part of what its entries are."""

    headings: tuple[str, ...]
    kind: Kind = field(default_factory=Kind)
    figures: tuple[Figure, ...] = ()
    where: str = ""


@dataclass(frozen=True)
class PerCell:
    """Lines of which each belongs to a cell.

    Attributes:
        kinds: The paper's cells, in its order.
        lines: The lines of a cell; none for a cell that does not belong here.
    """

    kinds: tuple[Kind, ...]
    lines: Callable[[Kind], tuple[Line, ...]]


@dataclass(frozen=True)
class Layout:
    """One table of the paper.

    Attributes:
        name: Its name.
        caption: What it shows.
        heads: Headings of the names of the rows.
        rows: Its rows.
        columns: Its columns.
        note: What its marks and signs mean.
        analyses: The analyses that its figures come from.
        own: Turns the name of an own allocator into a line; None where a table has no
            allocators.
    """

    name: str
    caption: str
    heads: tuple[str, ...]
    rows: tuple[Line, ...] | PerCell
    columns: tuple[Line, ...] | PerCell
    analyses: tuple[str, ...]
    note: str = ""
    own: Callable[[str], Line] | None = None


def pair_name(pair: str, families: dict[str, str]) -> str:
    """`yolov8s-320 -> yolov8s-640` as `YOLOv8s 320->640`, by the names of families."""
    cheap, _, full = pair.partition(" -> ")
    family, dash, size = cheap.rpartition("-")
    full_family, _, full_size = full.rpartition("-")
    if not dash or family != full_family:
        return f"{cheap}->{full}"
    return f"{families.get(family, family)} {size}->{full_size}"


def kinds(datasets: str, geometries: str, systems: str, pairs: str) -> tuple[Kind, ...]:
    """Every combination, the last one varying first; names are separated by blanks,
    sizes of pairs are written Y320, R480.
    """
    families = {"Y": "yolov8s", "R": "rtdetr-l"}
    full = [
        pair_of(f"{families[name[0]]}-{name[1:]}", f"{families[name[0]]}-640")
        for name in pairs.split()
    ]
    parts = (datasets.split(), geometries.split(), systems.split(), full)
    return tuple(Kind(*part) for part in product(*parts))


def dataset_name(kind: Kind) -> str:
    """`KITTI`; other names as they are."""
    return NAMES.get(kind.dataset, kind.dataset)


def geometry_name(kind: Kind) -> str:
    """`mono` or `oracle`; nothing where the geometry is that of tracks."""
    return GEOMETRIES.get(kind.geometry, kind.geometry)


def system_name(kind: Kind, *, short: bool = False) -> str:
    """`q_brake`; `short` writes the learned planner as q_plan."""
    if short and kind.system == "planner-ade":
        return "q_plan"
    if short and kind.system == "planner-self-ade":
        return "q_plan, own reference"
    return SYSTEMS.get(kind.system, kind.system)


def _joined(*parts: str) -> str:
    return " ".join(filter(None, parts))


def _is_usual(kind: Kind) -> bool:
    return kind.pair == pair_of("yolov8s-320", "yolov8s-640")


# The cells of the core track; in tables of held-out units their pair is not named.
CORE = (
    *kinds("nuscenes", "oracle monocular", "braking planner-ade planner-fde", "Y320"),
    *kinds("kitti", "oracle monocular", "braking receding-horizon", "Y320"),
)
NUPLAN = kinds(
    "nuplan",
    "tracks",
    "pdm-closed-safety pdm-closed-scalar idm-safety idm-scalar",
    "Y320",
)
MAIN = tuple(
    kind
    for system in ("braking", "planner-ade")
    for kind in CORE
    if kind.dataset == "nuscenes" and kind.system == system
) + tuple(
    kind
    for system in ("braking", "receding-horizon")
    for kind in CORE
    if kind.dataset == "kitti" and kind.system == system
)
"""The order of the main table: by system, then by geometry."""

AFFECTED = Figure("signs", "affected", form=lambda value: f"{value or 0:,.0f}")


def _tenths(value: float | None) -> str:
    return percent(value, 1)


def _hundredths(value: float | None) -> str:
    return number(value, 2)


def _bare(value: float | None) -> str:
    """A share in percent without its sign."""
    return percent(value, 1).removesuffix("%")


def _signed(value: float | None) -> str:
    text = number(value)
    return f"+{text}" if value is not None and value > 0 else text


HARMED = Figure("signs", "harm_rate", form=_tenths)
RATIO = Figure("signs", "harm_ratio", form=_hundredths)
ALL_FULL = Figure("signs", "all_full_share", form=percent)
ORACLE = Figure("signs", "oracle_share", form=percent)


def _columns(*headed: tuple[str, tuple[Figure, ...]]) -> tuple[Line, ...]:
    return tuple(Line((heading,), figures=figures) for heading, figures in headed)


def _ceiling_row(kind: Kind) -> tuple[Line, ...]:
    name = ", ".join(
        filter(
            None,
            (dataset_name(kind), system_name(kind, short=True), geometry_name(kind)),
        )
    )
    pair = pair_name(kind.pair, LONG)
    if kind.geometry == "tracks":
        planner, _, loss = system_name(kind).partition(", ")
        name, pair = f"{dataset_name(kind)}, {planner}", f"{loss} loss"
    return (Line((name, pair), kind),)


CEILING = Layout(
    name="ceiling",
    caption=(
        "Sign-varying decision value across data sets, detector families, fidelity "
        "gaps and downstream systems, over all units"
    ),
    heads=("Dataset, system, geometry", "Transition / loss"),
    rows=PerCell(
        (
            *kinds("nuscenes", "oracle monocular", "braking", "Y320"),
            *kinds("nuscenes", "oracle monocular", "planner-ade", "Y320"),
            *kinds("kitti", "monocular", "receding-horizon", "Y320 Y384 Y512 R480"),
            *kinds("nuplan", "tracks", "pdm-closed-safety idm-safety", "Y320"),
        ),
        _ceiling_row,
    ),
    columns=_columns(
        ("Affected", (AFFECTED,)),
        ("Harmed", (HARMED,)),
        ("rho", (RATIO,)),
        ("All-full", (ALL_FULL,)),
        ("Oracle@20", (ORACLE,)),
    ),
    analyses=("signs",),
    note=(
        "Affected: inputs whose decision value is not zero. Harmed: share of these "
        "that the full mode makes worse. rho: harm ratio. All-full and Oracle@20: loss "
        "reduction against all-cheap, by escalating everything and by the oracle at "
        "20 % of the inputs."
    ),
)


def _sign_row(kind: Kind) -> tuple[Line, ...]:
    system = f"{dataset_name(kind)}, {system_name(kind, short=True)}"
    return (Line((system, pair_name(kind.pair, SHORT), geometry_name(kind)), kind),)


SIGN = Layout(
    name="sign",
    caption=(
        "Sign-varying decision value and harm ratio across detector families, fidelity "
        "gaps and geometries"
    ),
    heads=("Downstream system", "Pair", "Geometry"),
    rows=PerCell(
        (
            *kinds(
                "nuscenes", "oracle", "braking planner-ade planner-self-ade", "Y320"
            ),
            *kinds("kitti", "monocular oracle", "receding-horizon", "Y320"),
            *kinds("kitti", "monocular", "receding-horizon", "Y384 Y512 R480"),
        ),
        _sign_row,
    ),
    columns=_columns(
        ("Affected", (AFFECTED,)),
        ("Harmed", (HARMED,)),
        ("rho", (RATIO,)),
        ("All-full / Oracle@20", (ALL_FULL, ORACLE)),
    ),
    analyses=("signs",),
    note="Loss reductions are relative to all-cheap inference.",
)


def _pair_row(kind: Kind) -> tuple[Line, ...]:
    if kind.system not in ("braking", "receding-horizon") or kind.dataset != "kitti":
        return ()
    return (Line((pair_name(kind.pair, LONG),), Kind("kitti", pair=kind.pair)),)


REFGEOM = Layout(
    name="refgeom",
    caption=(
        "Harm with deployed monocular and oracle geometry on every KITTI fidelity "
        "pair, over all units"
    ),
    heads=("Pair",),
    rows=PerCell(
        kinds("kitti", "monocular", "braking", "Y320 Y384 Y512 R320 R480"), _pair_row
    ),
    columns=tuple(
        Line(
            (f"{SYSTEMS[system]} {heading}, {GEOMETRIES.get(geometry, geometry)}",),
            Kind(geometry=geometry, system=system),
            (figure,),
        )
        for system in ("braking", "receding-horizon")
        for heading, figure in (
            ("harmed, %", Figure("signs", "harm_rate", form=_bare)),
            ("rho", Figure("signs", "harm_ratio")),
        )
        for geometry in ("monocular", "oracle")
    ),
    analyses=("signs",),
    note=(
        "Harmed: share of affected inputs made worse by the full mode. rho: harm ratio."
    ),
)


def _calib_row(kind: Kind) -> tuple[Line, ...]:
    where = geometry_name(kind)
    if not _is_usual(kind) or kind.dataset == "kitti":
        where = pair_name(kind.pair, SHORT)
        if kind.geometry != "monocular":
            where = f"{where} {geometry_name(kind)}"
    label = f"{_joined(dataset_name(kind), where)}, {system_name(kind, short=True)}"
    return (Line((label,), kind),)


CALIB = Layout(
    name="calib",
    caption=(
        "Harm rate and harm ratio rho with a shared threshold (S0) and with per-mode "
        "operating points (S1 to S3), over all units"
    ),
    heads=("Cell",),
    rows=PerCell(
        (
            *kinds("nuscenes", "oracle monocular", "braking planner-ade", "Y320"),
            *(
                Kind("kitti", "monocular", system, pair.pair)
                for pair in kinds("kitti", "monocular", "braking", "Y384 Y512 R480")
                for system in ("receding-horizon", "braking")
            ),
        ),
        _calib_row,
    ),
    columns=tuple(
        Line(
            (heading,),
            figures=(
                Figure("operating-points", "harm_rate", form=_tenths),
                Figure("operating-points", "harm_ratio", form=_hundredths),
            ),
            where=f"scheme={scheme}",
        )
        for scheme, heading in (
            ("S0", "S0 (shared)"),
            ("S1", "S1 (equal boxes)"),
            ("S2", "S2 (F1)"),
            ("S3", "S3 (precision)"),
        )
    ),
    analyses=("operating-points",),
    note="KITTI rows use monocular geometry.",
)

HELD_OUT = Figure("held-out", "ndg", "kind=selection;alpha=0.2", verdict="verdict")
MARKS = (
    "Bold: the paired 95 % interval of realized decision gain against random, over "
    "every bootstrap draw, lies above zero; *: below zero."
)


def _allocator(heading: str, name: str) -> Line:
    return Line((heading,), figures=(HELD_OUT,), where=f"allocator={name}")


def _own_allocator(name: str) -> Line:
    return _allocator(name, name)


def _core_row(kind: Kind) -> tuple[Line, ...]:
    label = _joined(dataset_name(kind), geometry_name(kind))
    if not _is_usual(kind):
        label = f"{label}, {pair_name(kind.pair, SHORT)}"
    joint = " " if kind.geometry == "tracks" else ", "
    return (Line((f"{label}{joint}{system_name(kind)}",), kind),)


def _main_row(kind: Kind) -> tuple[Line, ...]:
    if kind.system == "planner-fde" or kind.dataset == "nuplan":
        return ()
    (row,) = _core_row(kind)
    return (Line((row.headings[0].replace("planner ADE", "q_plan"),), kind),)


CONTROLS = (("Random", "random"), ("Ego speed", "ego-speed"))
LISTS = (
    ("MLP, V", "router-mlp-value"),
    ("MLP, V>0", "router-mlp-binary"),
    ("GBM, V", "router-gbm-value"),
    ("GBM, V>0", "router-gbm-binary"),
)


def _held_out(
    name: str,
    caption: str,
    columns: tuple[tuple[str, str], ...],
    rows: PerCell | None = None,
    *,
    takes_own: bool = True,
    note: str = "",
) -> Layout:
    return Layout(
        name=name,
        caption=caption,
        heads=("Cell",),
        rows=rows or PerCell((*CORE, *NUPLAN), _core_row),
        columns=tuple(_allocator(*column) for column in columns),
        analyses=("held-out",),
        note=_joined(MARKS, note),
        own=_own_allocator if takes_own else None,
    )


HELDOUT_MAIN = _held_out(
    "heldout-main",
    (
        "Held-out results on the core track: nDG of the deployable baselines at a 20 % "
        "selection budget on the frozen test splits"
    ),
    (
        ("Rand.", "random"),
        ("Ego sp.", "ego-speed"),
        ("Unc.", "uncertainty"),
        ("Crit.", "criticality"),
        ("Gate, ridge", "gate-ridge"),
        ("Gate, GBM", "gate-gbm"),
        *((f"Router {heading}", name) for heading, name in LISTS),
    ),
    PerCell(MAIN, _main_row),
    note="Planner rows use q_plan with average displacement.",
)
HELDOUT = _held_out(
    "heldout",
    "Deployable baselines, nDG at a 20 % budget on all held-out test cells",
    (
        *CONTROLS,
        ("Uncertainty", "uncertainty"),
        ("Criticality", "criticality"),
        ("Gate, ridge", "gate-ridge"),
        ("Gate, GBM", "gate-gbm"),
    ),
)
ROUTERS = _held_out(
    "routers",
    "Router variants, nDG at a 20 % budget on the held-out test cells",
    (*LISTS, ("Pixel router", "router-pixel")),
)
DIAG_HELDOUT = _held_out(
    "diag-heldout",
    "Diagnostic signals, nDG at a 20 % budget on the held-out test cells",
    (
        ("Criticality (reference)", "reference-criticality"),
        ("G^E_FN", "gain-E1"),
        ("G^E_risk", "gain-E8"),
        ("PKL", "gain-PKL"),
        ("TIP", "gain-TIP"),
    ),
    takes_own=False,
    note=(
        "These signals require the full output or the reference state. PKL and TIP are "
        "defined only on nuScenes."
    ),
)

TARGET_SCORES = (
    ("Random (16 seeds)", "deployable", "random"),
    ("Cheap-detection uncertainty", "deployable", "uncertainty"),
    ("Pre-escalation gate, GBM", "deployable", "gate-gbm, out of fold"),
    ("Criticality (reference geometry)", "diagnostic", "reference-criticality"),
    ("False-negative gain G^E_FN", "diagnostic", "gain-E1"),
    ("Risk-weighted gain G^E_risk", "diagnostic", "gain-E8"),
    ("PKL gain H^PKL", "diagnostic", "gain-PKL"),
    ("TIP gain H^TIP", "diagnostic", "gain-TIP"),
    ("Target decision oracle", "label", "oracle"),
)


def _target_column(kind: Kind) -> tuple[Line, ...]:
    name = system_name(kind, short=True)
    usual = kind.dataset == "nuscenes" and kind.geometry == "oracle" and _is_usual(kind)
    if not usual:
        name = f"{_core_row(kind)[0].headings[0]}"
    return (Line((name,), kind),)


TARGET = Layout(
    name="target",
    caption="Cross-target diagnostic analysis: nDG at a 20 % budget, all units",
    heads=("Allocation score", "class"),
    rows=tuple(
        Line(
            (heading, role),
            figures=(Figure("targets", "ndg", "alpha=0.2"),),
            where=f"score={score}",
        )
        for heading, role, score in TARGET_SCORES
    ),
    columns=PerCell(
        kinds("nuscenes", "oracle", "braking planner-self-ade planner-ade", "Y320"),
        _target_column,
    ),
    analyses=("targets",),
    note=(
        "Only the first three rows are deployable; the gate is fit out of fold by unit."
    ),
)

MECHANISM = (
    ("Delta false positives", "false_positives", _signed),
    ("Delta false negatives", "misses", _signed),
    ("Delta detections", "detections", _signed),
    ("frames with an added FP", "more_false_positives", _tenths),
    ("frames recovering no miss", "no_miss_recovered", _tenths),
)


def _cell_name(kind: Kind) -> str:
    """The cell in the head of a column: `nuScenes, q_brake`; others by their row."""
    if kind.dataset == "nuscenes" and kind.geometry == "oracle" and _is_usual(kind):
        return f"{dataset_name(kind)}, {system_name(kind, short=True)}"
    return _core_row(kind)[0].headings[0]


MECH = Layout(
    name="mech",
    caption=(
        "Mean change in detection errors from cheap to full mode, by the sign of "
        "decision value"
    ),
    heads=("Change",),
    rows=tuple(
        Line((heading,), figures=(Figure("mechanism", name, form=form),))
        for heading, name, form in MECHANISM
    ),
    columns=PerCell(
        kinds("nuscenes", "oracle", "braking planner-ade", "Y320"),
        lambda kind: tuple(
            Line((f"{_cell_name(kind)}, {effect}",), kind, where=f"effect={effect}")
            for effect in ("helped", "harmed", "unaffected")
        ),
    ),
    analyses=("mechanism",),
    note="Delta: full less cheap.",
)

SIGNAGREE = Layout(
    name="signagree",
    caption="Perception-level gains do not fix the sign of decision value",
    heads=("Perception gain",),
    rows=tuple(
        Line((heading,), where=f"loss={loss}")
        for heading, loss in (
            ("Exact (false-negative count)", "E1"),
            ("False negatives + false positives", "E3"),
            ("Combined error (E_5)", "E5"),
            ("Risk-weighted (E_risk)", "E8"),
        )
    ),
    columns=PerCell(
        kinds("nuscenes", "oracle", "braking planner-ade", "Y320"),
        lambda kind: tuple(
            Line(
                (f"{_cell_name(kind)}, {heading}",),
                kind,
                (Figure("agreement", name, form=form),),
            )
            for heading, name, form in (
                ("Corr.", "spearman", lambda value: _signed_hundredths(value)),
                ("P(harm|G>0)", "harm_given_gain", _tenths),
                ("Disagree", "disagree", _tenths),
            )
        ),
    ),
    analyses=("agreement",),
    note=(
        "Corr.: Spearman correlation of gain and decision value. P(harm|G>0): share of "
        "inputs with positive perception gain that escalation harms. Disagree: share "
        "whose signs differ, where neither is zero."
    ),
)


def _signed_hundredths(value: float | None) -> str:
    text = _hundredths(value)
    return f"+{text}" if value is not None and value > 0 else text


TASKS = {"braking": "longitudinal", "lateral": "lateral"}


def _robust_row(kind: Kind) -> tuple[Line, ...]:
    if kind.system not in TASKS:
        return ()
    place = f"{dataset_name(kind)}/{pair_name(kind.pair, SHORT)} {geometry_name(kind)}"
    return (Line((place, TASKS[kind.system]), kind),)


ROBUST = Layout(
    name="robust",
    caption=(
        "nDG of the false-negative gain and of a multi-metric diagnostic at a 20 % "
        "budget, across configurations"
    ),
    heads=("Configuration", "Task"),
    rows=PerCell(
        tuple(
            Kind(place.dataset, place.geometry, system, place.pair)
            for place in (
                *kinds("kitti", "monocular oracle", "braking", "Y320"),
                *kinds("kitti", "monocular", "braking", "Y384 Y512 R320 R480"),
                *kinds("nuscenes", "monocular oracle", "braking", "Y320"),
            )
            for system in TASKS
        ),
        _robust_row,
    ),
    columns=_columns(
        ("nDG of G^E_FN", (Figure("robustness", "fn_ndg"),)),
        ("Multi-metric diagnostic", (Figure("robustness", "multi_ndg"),)),
    ),
    analyses=("robustness",),
)


def _span(group: str, system: str) -> tuple[Line, ...]:
    names = {
        ("weights", "braking"): "Braking weights",
        ("corridor", "braking"): "Braking corridor",
        ("weights", "receding-horizon"): "Trajectory weights",
    }
    heading = names[group, system]
    return tuple(
        Line(
            (f"{heading}, {of}",),
            Kind(system=system),
            (Figure("sensitivity", name, f"group={group}", form, is_span=True),),
        )
        for of, name, form in (
            ("harmed, %", "harm_rate", _bare),
            ("rho", "harm_ratio", _hundredths),
        )
    )


def _setting_row(kind: Kind) -> tuple[Line, ...]:
    if kind.system not in ("braking", "receding-horizon"):
        return ()
    pair = pair_name(kind.pair, SHORT)
    if kind.dataset == "nuscenes" and _is_usual(kind):
        pair = ""
    label = f"{_joined(dataset_name(kind), pair)}, {geometry_name(kind)}"
    return (Line((label,), Kind(kind.dataset, kind.geometry, "", kind.pair)),)


LOSSSENS = Layout(
    name="losssens",
    caption=(
        "Harm rate and harm ratio rho across loss and corridor variants, as the range "
        "over variants that include the default, over all units"
    ),
    heads=("Setting",),
    rows=PerCell(
        (
            *kinds("nuscenes", "oracle monocular", "braking", "Y320"),
            *kinds("kitti", "monocular", "braking", "Y320 Y384 Y512 R320 R480"),
            *kinds("kitti", "oracle", "braking", "Y320"),
        ),
        _setting_row,
    ),
    columns=(
        *_span("weights", "braking"),
        *_span("corridor", "braking"),
        *_span("weights", "receding-horizon"),
    ),
    analyses=("sensitivity",),
)


def _external_rows(kind: Kind) -> tuple[Line, ...]:
    planner = {"pdm-closed": "PDM-Closed", "idm": "IDM"}.get(kind.system)
    if planner is None:
        return ()
    return tuple(
        Line((planner, heading), kind, where=f"loss={loss}")
        for loss, heading in LOSSES.items()
    )


EXTERNAL = Layout(
    name="external",
    caption="All losses for both published planners, over all states",
    heads=("Planner", "Loss"),
    rows=PerCell(kinds("nuplan", "tracks", "pdm-closed idm", "Y320"), _external_rows),
    columns=_columns(
        (
            "Affected",
            (Figure("external", "affected", form=lambda value: f"{value or 0:,.0f}"),),
        ),
        ("Harmed", (Figure("external", "harmed", form=_tenths),)),
        ("rho", (Figure("external", "harm_ratio", form=_hundredths),)),
        (
            "All-full / Oracle@20",
            (
                Figure("external", "all_full", form=percent),
                Figure("external", "oracle_20", form=percent),
            ),
        ),
    ),
    analyses=("external",),
    note="The losses are geometric and are not nuPlan's metric suite.",
)

POWER = Layout(
    name="power",
    caption=(
        "Typical uncertainty of paired comparisons with random at a 20 % budget: the "
        "median half-width, over all scored signals, of the paired 95 % interval on "
        "realized decision value, as a share of the all-cheap loss"
    ),
    heads=("Cell",),
    rows=PerCell((*CORE, *NUPLAN), _core_row),
    columns=_columns(
        (
            "Half-width",
            (Figure("half-widths", "half_width", "kind=selection;alpha=0.2", _tenths),),
        )
    ),
    analyses=("half-widths",),
    note="Least first.",
)

LAYOUTS = {
    layout.name: layout
    for layout in (
        CEILING,
        SIGN,
        REFGEOM,
        HELDOUT_MAIN,
        HELDOUT,
        ROUTERS,
        DIAG_HELDOUT,
        TARGET,
        CALIB,
        POWER,
        EXTERNAL,
        MECH,
        SIGNAGREE,
        ROBUST,
        LOSSSENS,
    )
}
"""The tables whose entries are figures of one cell each, in the order of the text."""


def lines_of(
    axis: tuple[Line, ...] | PerCell, here: tuple[Kind, ...], *, all_rows: bool
) -> Iterator[Line]:
    """The lines of an axis: the paper's, of which those of cells that are not here only
    on request, then those of the other cells here.
    """
    if not isinstance(axis, PerCell):
        yield from axis
        return
    shown: set[tuple[str, ...]] = set()
    for kind in (*axis.kinds, *here):
        for line in axis.lines(kind):
            is_here = any(line.kind.with_rest(other) == other for other in here)
            if line.headings not in shown and (is_here or all_rows):
                shown.add(line.headings)
                yield line
