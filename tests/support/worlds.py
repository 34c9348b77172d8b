"""Tables, scores, costs and budgets of a few inputs from a few arguments: what tests of
the judgement are made of.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import deepval
from deepval.basics.errors import InputWarning
from deepval.judge.tables.columns import read

UNIT_NAMES = ("10", "9", "b", "a2", "B", "a10")
"""As text they sort in another order than as listed or as numbers."""
ALPHAS = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1 / 3)
COSTS = {
    "modes": {
        "cheap": {"ms": 5.0, "mj": 20.0, "mj_gpu": 8.0, "mj_all": 32.0},
        "full": {"ms": 8.0, "mj": 50.0, "mj_gpu": 30.0, "mj_all": 64.0},
    },
    "allocators": {
        "dear": {"ms": 3.0, "mj": 10.0, "mj_gpu": 0.0, "mj_all": 20.0},
        "light": {"ms": 0.5, "mj": 1.0, "mj_gpu": 0.5, "mj_all": 2.0},
        "free": {"ms": 0.0, "mj": 0.0, "mj_gpu": 0.0, "mj_all": 0.0},
    },
}


def read_only(values: Any, dtype: type = np.float64) -> np.ndarray:
    array = np.array(values, dtype=dtype)
    array.flags.writeable = False
    return array


def quietly(function: Any, *args: Any, **options: Any) -> Any:
    """The answer of a call whose warnings about odd tables are expected."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        return function(*args, **options)


def judge(
    table: deepval.ValueTable,
    scores: Mapping[str, Any],
    budgets: Any = None,
    **options: Any,
) -> deepval.Result:
    """`evaluate` where single units, zero values and losses that are not positive are
    meant.
    """
    return quietly(deepval.evaluate, table, scores, budgets, **options)


def table_of(
    values: Any, *, unit: Any = None, cheap: Any = None, **columns: Any
) -> deepval.ValueTable:
    """A table with these decision values, exact where `cheap` losses are left to be
    max(V, 0).
    """
    values = np.asarray(values, dtype=np.float64)
    cheap = (
        np.maximum(values, 0.0)
        if cheap is None
        else np.broadcast_to(np.asarray(cheap, float), values.shape)
    )
    unit = np.zeros(len(values), dtype=int) if unit is None else unit
    losses = {"cheap": read_only(cheap), "full": read_only(cheap - values)}
    return quietly(
        deepval.ValueTable.from_columns,
        unit=unit,
        input=np.arange(len(values)),
        losses=losses,
        **columns,
    )


def random_losses(rng: np.random.Generator, inputs: int, modes: int = 2) -> np.ndarray:
    """Whole, in tenths, continuous, or in quarters with totals that are at times zero
    or negative.
    """
    shape = inputs, modes
    losses = (
        rng.integers(0, 4, shape).astype(float),
        rng.integers(0, 5, shape) / 10,
        rng.exponential(size=shape),
        rng.integers(-3, 5, shape) / 4,
        rng.integers(0, 2, shape) * rng.integers(0, 4, shape) / 10,
    )[rng.integers(5)]
    unchanged = rng.random(inputs) < rng.choice([0.0, 0.3, 0.8])
    losses[unchanged] = losses[unchanged, :1]
    return read_only(losses)


def random_scores(rng: np.random.Generator, inputs: int) -> np.ndarray:
    """Continuous, discrete, mostly tied or constant, at times with infinities and zeros
    of both signs.
    """
    scores = (
        rng.normal(size=inputs),
        rng.integers(-1, 3, inputs).astype(float),
        np.where(rng.random(inputs) < 0.7, 0.0, rng.normal(size=inputs)),
        np.full(inputs, 7.0),
    )[rng.choice(4, p=[0.35, 0.3, 0.25, 0.1])]
    if rng.random() < 0.3:
        odd = rng.choice([-np.inf, np.inf, 0.0, -0.0], inputs)
        scores = np.where(rng.random(inputs) < 0.3, odd, scores)
    return read_only(scores)


def random_units(rng: np.random.Generator, inputs: int, most: int) -> list[str]:
    names = rng.permutation(UNIT_NAMES)[: rng.integers(1, most + 1)]
    return [str(name) for name in rng.choice(names, inputs)]


def random_table(
    rng: np.random.Generator,
    *,
    inputs: int,
    units: int,
    modes: Sequence[str] = ("cheap", "full"),
    **columns: Any,
) -> deepval.ValueTable:
    losses = random_losses(rng, inputs, len(modes))
    return quietly(
        deepval.ValueTable.from_columns,
        unit=random_units(rng, inputs, units),
        input=rng.permutation(inputs) + 100,
        losses={mode: losses[:, m] for m, mode in enumerate(modes)},
        **columns,
    )


def random_budget(rng: np.random.Generator, costs: Any = COSTS) -> Any:
    alpha = float(rng.choice(ALPHAS))
    accounting = ("cascade", "skipping")[rng.integers(2)]
    convention = ("mj", "mj_gpu", "mj_all")[rng.integers(3)]
    return (
        deepval.Selection(alpha),
        deepval.Latency(alpha, costs, accounting),
        deepval.Energy(alpha, costs, accounting, convention),
    )[rng.integers(3)]


@dataclass(frozen=True)
class World:
    """All that one call of `evaluate` needs."""

    table: deepval.ValueTable
    units: list[str]
    scores: dict[str, np.ndarray]
    budgets: list[Any]
    draws: Any
    seed: int

    def judged(self) -> deepval.Result:
        listed = self.table.with_units(self.units)
        return judge(
            listed,
            self.scores,
            self.budgets,
            draws=self.draws,
            seed=self.seed,
            units=self.units,
        )


def random_world(
    rng: np.random.Generator, *, budgets: int = 3, most_inputs: int = 9
) -> World:
    """A table with ties and odd totals, units without inputs, and allocators that
    cannot always pay for themselves.
    """
    table = random_table(rng, inputs=int(rng.integers(1, most_inputs + 1)), units=3)
    empty = [
        name
        for name in UNIT_NAMES
        if name not in table.unit_ids and rng.random() < 0.15
    ]
    units = [*map(str, table.unit_ids), *empty]
    exact = len(units) <= 4 and rng.random() < 0.4
    chosen: dict[tuple, Any] = {}
    while len(chosen) < budgets:
        budget = random_budget(rng)
        key = (
            budget.kind,
            budget.alpha,
            getattr(budget, "accounting", None),
            getattr(budget, "convention", None),
        )
        chosen[key] = budget
    return World(
        table=table,
        units=[units[i] for i in rng.permutation(len(units))],
        scores={name: random_scores(rng, len(table)) for name in COSTS["allocators"]},
        budgets=list(chosen.values()),
        draws="exact" if exact else int(rng.choice([0, 1, 7, 20])),
        seed=int(rng.integers(1000)),
    )


def parquet_columns(path: Path) -> dict[str, np.ndarray]:
    """The columns of a Parquet file; text as text, numbers as they are."""
    raw = read(path)
    return {
        name: raw.ids(name) if column.dtype.kind == "O" else column
        for name, column in raw.data.items()
    }
