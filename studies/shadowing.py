"""Complete tables and simulated worlds, subsampled by shadow plans -> width and
coverage of intervals, and the error.

Run: python studies/shadowing.py FOLDER [REPLICATIONS]; FOLDER holds the tables that
docs/guarantees.md names. Plans are fitted on every second unit, and the others are
judged; in worlds, on 100 further units.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

import deepval
import intervals
from deepval.judge.shadow import shadow_plan
from deepval.judge.tables.scores import align

ALPHA, DRAWS = 0.2, 200
DESIGNS = {
    "3 % by score": (False, False),
    "3 % by cheap loss": (False, True),
    "3 % by cheap loss, escalating": (True, True),
}
"""Whether the system escalates by the score, and whether the signal is the cheap
loss.
"""
ROUTING = {
    "routellm_mmlu_gsm8k": (None, "prompt_length"),
    "routerdc_7models": (None, "prompt_length"),
}


def chances(
    earlier: deepval.ValueTable,
    past: np.ndarray,
    table: deepval.ValueTable,
    score: np.ndarray,
) -> dict[str, np.ndarray]:
    """The propensities of the table's inputs by design, fitted on the earlier table."""
    cheap, own = earlier.losses[:, 0], table.losses[:, 0]
    found = {
        f"{100 * share:.0f} % uniform": np.full(len(score), share)
        for share in (0.03, 0.1)
    }
    for name, (escalating, by_loss) in DESIGNS.items():
        options = {"signal": cheap, "coming_signal": own} if by_loss else {}
        plan = shadow_plan(
            earlier,
            past,
            0.03,
            coming=score,
            alpha=ALPHA,
            escalating=escalating,
            **options,
        )
        inputs = zip(
            *(column.tolist() for column in ([score, own] if by_loss else [score])),
            strict=True,
        )
        found[name] = np.array([plan.propensity(*numbers) for numbers in inputs])
    return found


def shadowed(
    table: deepval.ValueTable,
    score: np.ndarray,
    chance: np.ndarray,
    rng: np.random.Generator,
) -> deepval.Row:
    """The row of a score in a log of the table with the coins of a plan."""
    ran = rng.random(len(score)) < chance
    log = {
        "unit": table.unit_ids[table.unit],
        "input": table.input,
        "score": score,
        "propensity": chance,
    }
    log |= {
        "loss_cheap": table.losses[:, 0],
        "loss_full": np.where(ran, table.losses[:, -1], np.nan),
    }
    return row_of(deepval.read_values(log), score)


def row_of(table: deepval.ValueTable, score: np.ndarray) -> deepval.Row:
    return deepval.evaluate(
        table, {"s": score}, ALPHA, draws=DRAWS, thresholds=False
    ).row("s")


def summary(rows: list[deepval.Row], truth: float) -> tuple[float, float, float, float]:
    """Median width, coverage by the official interval and by the second opinion, root
    mean square error; in %.
    """
    width = np.median([r.versus_random_hi - r.versus_random_lo for r in rows])
    held = np.mean([r.versus_random_lo <= truth <= r.versus_random_hi for r in rows])
    second = np.mean(
        [r.versus_random_second_lo <= truth <= r.versus_random_second_hi for r in rows]
    )
    error = np.sqrt(np.mean([(r.versus_random - truth) ** 2 for r in rows]))
    return tuple(float(100 * x) for x in (width, held, second, error))


def on_table(
    table: deepval.ValueTable, score: np.ndarray, replications: int
) -> dict[str, tuple[float, ...]]:
    """Subsamples of every second unit of a complete table, against the gain of that
    half.
    """
    earlier, judged = table.unit % 2 == 0, table.unit % 2 == 1
    part = table.restrict(table.unit_ids[1::2])
    complete, own = row_of(part, score[judged]), score[judged]
    designs = chances(table.restrict(table.unit_ids[::2]), score[earlier], part, own)
    found = {"complete": summary([complete], complete.versus_random)}
    for name, chance in designs.items():
        rng = np.random.default_rng(7)
        rows = [shadowed(part, own, chance, rng) for _ in range(replications)]
        found[name] = summary(rows, complete.versus_random)
    return found


def in_world(
    spread: str, units: int, replications: int
) -> dict[str, tuple[float, ...]]:
    """Samples of a simulated world, shadowed, against its truth."""
    world, rng = (
        intervals.World(intervals.SPREADS[spread], "skilled"),
        np.random.default_rng(11),
    )
    coins = np.random.default_rng(12)
    rows: dict[str, list[deepval.Row]] = {}
    earlier, past = sample(world, 100, rng)
    for _ in range(replications):
        table, score = sample(world, units, rng)
        rows.setdefault("complete", []).append(row_of(table, score))
        for name, chance in chances(earlier, past, table, score).items():
            rows.setdefault(name, []).append(shadowed(table, score, chance, coins))
    return {name: summary(items, world.truth) for name, items in rows.items()}


def sample(
    world: intervals.World, units: int, rng: np.random.Generator
) -> tuple[deepval.ValueTable, np.ndarray]:
    value, cheap, score = world.sample(units, rng)
    names = np.repeat([f"{u:03d}" for u in range(units)], intervals.INPUTS)
    losses = {"cheap": cheap.ravel(), "full": (cheap - value).ravel()}
    return deepval.ValueTable.from_columns(unit=names, losses=losses), score.ravel()


def main(folder: str, replications: str = "200") -> None:
    warnings.simplefilter("ignore")
    print(
        "median width / coverage / second opinion's coverage / error, in %; "
        f"{replications} replications"
    )
    number, at = int(replications), Path(folder)
    for name, (modes, score) in ROUTING.items():
        table = deepval.read_values(at / f"{name}.parquet", modes=modes)
        show(
            name,
            on_table(
                table,
                align(table, "s", at / f"s_{name}" / f"{score}.parquet").values,
                number,
            ),
        )
    for values in sorted(at.glob("cells*/*/values.parquet")):
        table, cell = deepval.read_values(values), values.parent
        for file in sorted(cell.glob("scores/*.csv")):
            show(
                f"{cell.name} {file.stem}",
                on_table(table, align(table, "s", file).values, number),
            )
    for spread in intervals.SPREADS:
        for units in (6, 24, 100):
            show(f"{spread}, {units} units", in_world(spread, units, number))


def show(name: str, found: dict[str, tuple[float, ...]]) -> None:
    print(
        f"{name}: "
        + "; ".join(
            f"{k} " + " / ".join(f"{x:.1f}" for x in v) for k, v in found.items()
        ),
        flush=True,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
