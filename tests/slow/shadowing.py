"""Complete tables and simulated worlds, subsampled by shadow plans -> width and coverage of intervals, and the error.

Run: python tests/slow/shadowing.py FOLDER [REPLICATIONS]; FOLDER holds the tables that docs/guarantees.md names. Plans
are fitted on every second unit, and the others are judged; in worlds, on 100 further units.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

import deepval
from deepval.judging.shadow import ShadowPlan, shadow_plan
from deepval.tables.scores import align

sys.path.insert(0, str(Path(__file__).parent))
import intervals

ALPHA, DRAWS, SEEN = 0.2, 200, ("complete", "3 % uniform", "10 % uniform", "3 % designed", "3 % designed, escalating")
ROUTING = {
    "routellm_mmlu_gsm8k": (None, "prompt_length"),
    "routerdc_7models": (None, "prompt_length"),
}


def plans(earlier: deepval.ValueTable, past: np.ndarray, coming: np.ndarray) -> dict[str, ShadowPlan]:
    """The designs by name."""
    designed, escalating = (
        shadow_plan(earlier, past, 0.03, coming=coming, alpha=ALPHA, escalating=flag) for flag in (False, True)
    )
    uniform = {f"{100 * s:.0f} % uniform": ShadowPlan((), (s,), ALPHA, s, s) for s in (0.03, 0.1)}
    return uniform | {"3 % designed": designed, "3 % designed, escalating": escalating}


def shadowed(table: deepval.ValueTable, score: np.ndarray, plan: ShadowPlan, rng: np.random.Generator) -> deepval.Row:
    """The row of a score in a log of the table with the coins of a plan."""
    chance = np.array(plan.propensities)[np.searchsorted(plan.edges, score, side="right")]
    ran = rng.random(len(score)) < chance
    log = {"unit": table.unit_ids[table.unit], "input": table.input, "score": score, "propensity": chance}
    log |= {"loss_cheap": table.losses[:, 0], "loss_full": np.where(ran, table.losses[:, -1], np.nan)}
    return row_of(deepval.read_values(log), score)


def row_of(table: deepval.ValueTable, score: np.ndarray) -> deepval.Row:
    return deepval.evaluate(table, {"s": score}, ALPHA, draws=DRAWS, thresholds=False).row("s")


def summary(rows: list[deepval.Row], truth: float) -> tuple[float, float, float, float]:
    """Median width, coverage by the official interval and by the second opinion, root mean square error; in %."""
    width = np.median([r.versus_random_hi - r.versus_random_lo for r in rows])
    held = np.mean([r.versus_random_lo <= truth <= r.versus_random_hi for r in rows])
    second = np.mean([r.versus_random_second_lo <= truth <= r.versus_random_second_hi for r in rows])
    error = np.sqrt(np.mean([(r.versus_random - truth) ** 2 for r in rows]))
    return tuple(float(100 * x) for x in (width, held, second, error))


def on_table(table: deepval.ValueTable, score: np.ndarray, replications: int) -> dict[str, tuple[float, ...]]:
    """Subsamples of every second unit of a complete table, against the gain of that half."""
    earlier, judged = table.unit % 2 == 0, table.unit % 2 == 1
    part = table.restrict(table.unit_ids[1::2])
    complete, own = row_of(part, score[judged]), score[judged]
    designs = plans(table.restrict(table.unit_ids[::2]), score[earlier], own)
    found = {"complete": summary([complete], complete.versus_random)}
    for name, plan in designs.items():
        rng = np.random.default_rng(7)
        rows = [shadowed(part, own, plan, rng) for _ in range(replications)]
        found[name] = summary(rows, complete.versus_random)
    return found


def in_world(spread: str, units: int, replications: int) -> dict[str, tuple[float, ...]]:
    """Samples of a simulated world, shadowed, against its truth."""
    world, rng = intervals.World(intervals.SPREADS[spread], "skilled"), np.random.default_rng(11)
    rows: dict[str, list[deepval.Row]] = {name: [] for name in SEEN}
    earlier, past = sample(world, 100, rng)
    for _ in range(replications):
        table, score = sample(world, units, rng)
        rows["complete"].append(row_of(table, score))
        for name, plan in plans(earlier, past, score).items():
            rows[name].append(shadowed(table, score, plan, rng))
    return {name: summary(items, world.truth) for name, items in rows.items()}


def sample(world: intervals.World, units: int, rng: np.random.Generator) -> tuple[deepval.ValueTable, np.ndarray]:
    value, cheap, score = world.sample(units, rng)
    names = np.repeat([f"{u:03d}" for u in range(units)], intervals.INPUTS)
    losses = {"cheap": cheap.ravel(), "full": (cheap - value).ravel()}
    return deepval.ValueTable.from_columns(unit=names, losses=losses), score.ravel()


def main(folder: str, replications: str = "200") -> None:
    warnings.simplefilter("ignore")
    print(f"median width / coverage / second opinion's coverage / error, in %; {replications} replications")
    number, at = int(replications), Path(folder)
    for name, (modes, score) in ROUTING.items():
        table = deepval.read_values(at / f"{name}.parquet", modes=modes)
        show(name, on_table(table, align(table, "s", at / f"s_{name}" / f"{score}.parquet").values, number))
    for values in sorted(at.glob("cells*/*/values.parquet")):
        table, cell = deepval.read_values(values), values.parent
        for file in sorted(cell.glob("scores/*.csv")):
            show(f"{cell.name} {file.stem}", on_table(table, align(table, "s", file).values, number))
    for spread in intervals.SPREADS:
        for units in (6, 24, 100):
            show(f"{spread}, {units} units", in_world(spread, units, number))


def show(name: str, found: dict[str, tuple[float, ...]]) -> None:
    print(f"{name}: " + "; ".join(f"{k} " + " / ".join(f"{x:.1f}" for x in v) for k, v in found.items()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
