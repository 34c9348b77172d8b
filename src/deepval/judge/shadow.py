"""An earlier table and its score, and a budget -> the probability with which each
coming input runs both modes.

The gain over random at a share alpha is the sum of w V, with w = 1 - alpha above the
threshold and -alpha below. Coins are independent, so the variance that shadowing adds
is the sum of w^2 V^2 (1 - p) / p, whatever the correlation within units; it is least
for p proportional to |w| times the root of the mean V^2. A score hardly predicts the
size of V, but whatever is known when the coin is tossed may: if inputs are recorded and
run again later, even the cheap loss.
"""

import csv
import hashlib
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics import checks
from deepval.basics.arrays import Float
from deepval.basics.errors import InputError, quote
from deepval.basics.files import reading
from deepval.basics.files.canonical import json_text, read_json
from deepval.basics.files.writing import append_line, file_path, write_atomically
from deepval.judge.routing import MODES
from deepval.judge.tables.off_policy import LEAST_SHADOWED
from deepval.judge.tables.scores import align
from deepval.judge.tables.values import LARGEST_LOSS, ValueTable

BINS, POOLED, FLOOR = 9, 30, 0.2
"""Bins of the signal, each half as large as the one below, as large values are few; the
inputs by which a bin's mean V^2 is drawn to that of all; the least propensity as a
share of the budget."""


@dataclass(frozen=True)
class ShadowPlan:
    """Propensities by a signal, below and above the threshold of the score.

    Attributes:
        threshold: Least score of the escalated share.
        edges: Rising signals between which the propensity is constant; an edge belongs
            to the interval above it.
        propensities: Propensity of each interval, from the lowest signals up: for
            scores below the threshold, then for the others.
        alpha: Share of escalated inputs at which the score will be judged.
        share: Expected share of inputs that run both modes for the plan alone.
        uniform: Share of inputs, drawn at random, that would be as precise, by the
            spread in the earlier table.
        by_signal: Whether the signal is another number than the score.
        seed: Seed of the coins.
    """

    threshold: float
    edges: tuple[float, ...]
    propensities: tuple[float, ...]
    alpha: float
    share: float
    uniform: float
    by_signal: bool = False
    seed: int = 0

    def propensity(self, score: float, signal: float | None = None) -> float:
        """Probability with which an input of this score, and of this signal if the plan
        has one, runs both modes.
        """
        if (signal is None) == self.by_signal:
            raise InputError(
                "This "
                "plan "
                "goes "
                "by "
                f"{'a signal and the score' if self.by_signal else 'the score alone'}."
            )
        number = checks.number(score if signal is None else signal, "signal")
        above = (len(self.edges) + 1) * (
            checks.number(score, "score") >= self.threshold
        )
        return self.propensities[
            above + int(np.searchsorted(self.edges, number, side="right"))
        ]

    def shadows(self, score: float, name: Any, signal: float | None = None) -> bool:
        """Whether the input of this id runs both modes: a coin that depends on the seed
        and the id alone.
        """
        digest = hashlib.sha256(f"{self.seed}\n{name}".encode()).digest()
        return (
            int.from_bytes(digest[:8], "big") < self.propensity(score, signal) * 2**64
        )

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON."""
        write_atomically(file_path(path), json_text(asdict(self)))

    @classmethod
    def load(cls, path: str | Path) -> "ShadowPlan":
        """The plan in a file."""
        plan = reading.check_file_form(
            cls, read_json(file_path(path)), path, "a shadow plan"
        )
        fits = (
            len(plan.propensities) == 2 * len(plan.edges) + 2
            and (np.diff(plan.edges) > 0).all()
        )
        if not fits or not all(0 < p <= 1 for p in plan.propensities):
            raise InputError(
                f"{path}: a shadow plan must have rising edges and 2 propensities per "
                "interval, above 0 and at most 1."
            )
        return plan


def shadow_plan(
    table: ValueTable,
    score: Any,
    share: float,
    *,
    coming: Any = None,
    signal: Any = None,
    coming_signal: Any = None,
    alpha: float = 0.2,
    escalating: bool = False,
    seed: int = 0,
) -> ShadowPlan:
    """The plan with the least variance that shadowing adds to the gain over random.

    Args:
        table: An earlier table with the losses of both modes on every input.
        score: Scores of the table, as in `evaluate`.
        share: Expected share of the inputs that run both modes, such as 0.03.
        coming: Scores of the coming inputs, on which the share is met exactly; None for
            those of the table.
        signal: A number of every input of the table, in the form of scores, that
            predicts the size of its decision value, such as the loss of the cheap mode;
            None for the score itself.
        coming_signal: The signals of the coming inputs, if both are passed.
        alpha: Share of escalated inputs at which the score will be judged.
        escalating: Whether a running system escalates that share by this score, after
            the cheap mode: both modes run there anyway, so these inputs have propensity
            1 and cost nothing.
        seed: Seed of the coins.
    """
    alpha, share = checks.share_of_inputs(alpha), checks.share_of_inputs(share, "share")
    if alpha == 1:
        raise InputError(
            "A shadow plan needs an alpha below 1: at 1, a score gains what random "
            "selection gains."
        )
    past = align(table, "score", score)
    predictor = past if signal is None else align(table, "signal", signal)
    new = (
        (past.values, predictor.values)
        if coming is None
        else (coming, coming if signal is None else coming_signal)
    )
    future, hint = (np.asarray(x, dtype=float) for x in new)
    # Intervals of scores have finite ends: an infinite score lies in none of them.
    numbers = all(
        x.ndim == 1 and np.isfinite(x).all()
        for x in (past.values, predictor.values, future, hint)
    )
    if not numbers or not len(future) == len(hint) > 0:
        raise InputError(
            "A shadow plan needs one finite score and signal for every input of the "
            "table and every coming one."
        )
    squares = table.decision_values**2
    if not squares.any():
        raise InputError(
            "A shadow plan needs a table in which the full mode "
            "changes some loss; it changes none."
        )
    edges = np.unique(
        np.quantile(
            predictor.values, 1 - 0.5 ** np.arange(1, BINS), method="inverted_cdf"
        )
    )
    bins = len(edges) + 1
    members = np.searchsorted(edges, predictor.values, side="right")
    counted, total = (
        np.bincount(members, x, minlength=bins)
        for x in (np.ones(len(squares)), squares)
    )
    spread = np.sqrt((total + POOLED * squares.mean()) / (counted + POOLED))
    threshold = float(np.quantile(future, 1 - alpha, method="higher"))
    target = np.concatenate([alpha * spread, (1 - alpha) * spread])
    group = np.searchsorted(edges, hint, side="right") + bins * (future >= threshold)
    number = np.bincount(group, minlength=2 * bins)
    charged = slice(bins if escalating else 2 * bins)
    runs = min(share * len(future), float(number[charged].sum()))
    propensity = np.ones(2 * bins)
    propensity[charged] = water_filling(
        target[charged], number[charged], runs, FLOOR * share
    )
    variance = float(number @ (target**2 * (1 - propensity) / propensity))
    uniform = float(number @ target**2)
    uniform = uniform / (uniform + variance)
    chances = tuple(propensity.tolist())
    return ShadowPlan(
        threshold,
        tuple(edges.tolist()),
        chances,
        alpha,
        share,
        uniform,
        signal is not None,
        checks.whole(seed, "seed"),
    )


def water_filling(
    target: Float[np.ndarray, "group"], number: np.ndarray, runs: float, floor: float
) -> Float[np.ndarray, "group"]:
    """Propensities in proportion to `target`, from `floor` to 1, with which `runs` of
    the inputs are expected to run.

    Their sum rises with the factor, in straight pieces between those at which a group
    leaves the floor or meets 1.
    """
    factors = np.unique(np.concatenate([floor / target, 1 / target]))
    sums = np.clip(factors[:, None] * target, floor, 1) @ number
    return np.clip(np.interp(runs, sums, factors) * target, floor, 1)


class ShadowLog:
    """A CSV file to which a running system appends one row per input: unit, input,
    score, propensity and losses.

    `deepval evaluate` and `deepval.read_values` read it. Rows of several processes
    never mix, a row is written as a whole or not at all, and a file whose last line was
    cut is refused. A row that the readers would refuse is not written; one that the
    file has, as after a retry, is not written again.
    """

    def __init__(self, path: str | Path, modes: Sequence[str] = MODES) -> None:
        self.path = file_path(path)
        # What the file is known to hold, as other processes append to it too.
        self.logged: dict[str, str] = {}
        self.gaps: tuple[bool, ...] | None = None
        self.read_up_to = 0
        self.header = _line(
            [
                "unit",
                "input",
                "score",
                "propensity",
                *(f"loss_{mode}" for mode in modes),
            ]
        )
        if reading.exists(self.path):
            with reading.open_file(self.path, "a shadow log") as file:
                first = file.readline().decode("utf-8", "replace").rstrip("\r\n")
                file.seek(-1 if first else 0, 2)
                if first and first != self.header:
                    raise InputError(
                        f"{self.path}: must be a shadow "
                        f"log with columns {self.header}; it has {quote(first)}."
                    )
                if first and file.read(1) != b"\n":
                    raise InputError(
                        f"{self.path}: must end with a whole line; its last line is "
                        "cut: remove it."
                    )

    def append(
        self,
        unit: Any,
        name: Any,
        *,
        score: float,
        propensity: float,
        losses: Sequence[float | None],
    ) -> None:
        """Append the row of an input; losses are cheap first, and None where
        unknown.
        """
        texts = [str(unit), str(name)]
        numbers = [
            checks.number(score, "score"),
            checks.number(propensity, "propensity"),
        ]
        numbers += [
            None if loss is None else checks.number(loss, "loss") for loss in losses
        ]
        complete = None not in numbers
        if not all(text and text.isprintable() for text in texts) or len(
            numbers
        ) + 1 != self.header.count(","):
            raise InputError(
                "A row needs a printable unit and input and a loss (or None) per "
                f"mode; found {quote(losses)}."
            )
        if not LEAST_SHADOWED <= propensity <= 1 or (propensity == 1 and not complete):
            raise InputError(
                f"A propensity must be from {LEAST_SHADOWED:g} to 1, with all losses "
                f"at 1; found propensity {propensity!r} and losses {quote(losses)}."
            )
        if numbers[2] is None or (numbers[-1] is not None and not complete):
            raise InputError(
                "A row needs the loss of the cheap mode, and all losses where it has "
                f"the full one; found losses {quote(losses)}."
            )
        if any(n is not None and abs(n) > LARGEST_LOSS for n in numbers[2:]):
            raise InputError(
                f"A loss must be at most {LARGEST_LOSS:g} in size; found "
                f"{quote(losses)}."
            )
        row = _line(
            [*texts, *("" if number is None else repr(number) for number in numbers)]
        )
        append_line(
            self.path,
            row,
            header=self.header,
            unless=lambda: self._is_logged(texts[1], row),
        )

    def _is_logged(self, name: str, row: str) -> bool:
        """Whether the file has this row; another row of the same input is refused, and
        one with losses that no reader could join with those of the file.
        """
        self._read_on()
        logged = self.logged.get(name)
        if logged is not None and logged != row:
            raise InputError(
                f"{self.path}: input {name!r} is logged with other values: log each "
                "input once, or give it another id."
            )
        gaps = _gaps(row)
        if any(gaps) and self.gaps is not None and gaps != self.gaps:
            raise InputError(
                f"{self.path}: rows must lack the same losses, or none; found {row}."
            )
        return logged is not None

    def _read_on(self) -> None:
        """Read the rows that this process or another one has appended."""
        with reading.open_file(self.path, "a shadow log") as file:
            if not file.seekable():
                return
            file.seek(self.read_up_to)
            text = file.read()
        lines = text.decode("utf-8", "replace").split("\n")[:-1]
        for line in lines:
            if line.rstrip("\r") == self.header:
                continue
            row = line.rstrip("\r")
            cells = next(csv.reader([row]))
            self.logged[cells[1]] = row
            if any(_gaps(row)):
                self.gaps = _gaps(row)
        self.read_up_to += text.rfind(b"\n") + 1


def _gaps(row: str) -> tuple[bool, ...]:
    """Which losses a row lacks."""
    return tuple(not cell for cell in next(csv.reader([row]))[4:])


def _line(cells: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()
