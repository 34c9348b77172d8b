"""Shadowed inputs, as they arrive -> an alarm as soon as a declared claim on gain, harm
or rate is not true any more.

An input is shadowed if both modes ran on it. Every unit becomes three numbers, and
every claim a detector after Shiryaev and Roberts, whose false alarms are bounded
however often one looks: docs/guarantees.md.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from deepval.basics import checks
from deepval.basics.arrays import Float
from deepval.basics.errors import InputError, argument, quote
from deepval.basics.files import reading
from deepval.basics.files.canonical import digest_of, json_lines, plain, read_json
from deepval.basics.files.reading import check_file_form
from deepval.basics.files.writing import file_path, write_atomically
from deepval.judge.intervals import student_quantile
from deepval.judge.streaming import FrozenThreshold
from deepval.judge.tables import columns
from deepval.judge.tables.logs.files import read_records
from deepval.judge.tables.values import loss_columns, refuse_large
from deepval.judge.unit_blocks import autocorrelation, block_length, block_means

SCHEMA = "deepval-watch 1"
RISK, HORIZON = 0.01, 1000
"""Probability of a false alarm on a true claim, within so many units."""
CAPPED = 0.8
"""Share of the reference's units whose gain is below the default cap."""
SLACK = {"gain": 0.2, "harm": 1.25, "rate": 0.02}
"""Default claims: at most this share of the gain is lost, so many times the harm, and
this distance to the rate.
"""
DOUBT = 0.05
"""Probability, on each side, with which the reference's mean may err where default
claims allow for it.
"""
UNLIKE, FEWEST_RUNS = 3.0, 30
"""Factor between the shadowed shares of reference and stream from which they are
unlike, and the runs that it takes to say so.
"""
BETS = 2.0 ** -np.arange(5)
MOST = 1e300
LEAST = 1e-4
"""Smallest propensity that is accepted."""
ESCALATED = " Or `escalated`: 1 where the full mode ran, 0 elsewhere."
NUMBER = r"([-+]?[\d.]+(?:e[-+]?\d+)?%?)"
FORMS = {
    "gain": f"gain>={NUMBER}",
    "harm": f"harm<={NUMBER}",
    "rate": rf"rate={NUMBER}\+-{NUMBER}",
}

Row = tuple[str, str, float, float, float, float]
"""Unit, input, share in which it was escalated, value of escalation in loss, weight of
the value and of the share.
"""
Log = Literal["complete", "all inputs", "shadowed inputs"]
"""Whether both modes ran on every input; else whether a log lists all inputs, or only
those on which both modes ran.
"""


def evidence(
    against: Float[np.ndarray, "*stream unit side"],
) -> Float[np.ndarray, "*stream unit"]:
    """The evidence against a claim after every unit: the mean of S = (S + 1)(1 + g z)
    over sides and bets g.

    Args:
        against: z, at least -1, and with an expectation of at most 0 while the claim is
            true.
    """
    wealth = np.zeros((*against.shape[:-2], against.shape[-1], len(BETS)))
    path = np.empty(against.shape[:-1])
    for unit in range(against.shape[-2]):
        wealth = np.minimum(
            (wealth + 1) * (1 + BETS * against[..., unit, :, None]), MOST
        )
        path[..., unit] = wealth.mean(axis=(-2, -1))
    return path


@dataclass(frozen=True)
class Claim:
    """A claim on the units to come: a mean of at least or at most `limit`; of the rate,
    within `margin` of it.
    """

    kind: str
    limit: float
    margin: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Claim":
        """The claim that a text such as gain>=0.02, harm<=1% or rate=0.2+-0.02
        states.
        """
        for kind, form in FORMS.items():
            if match := re.fullmatch(form, text.replace(" ", "").replace("±", "+-")):
                try:
                    return cls(
                        kind,
                        *(
                            float(t.rstrip("%")) * (0.01 if t[-1] == "%" else 1)
                            for t in match.groups()
                        ),
                    )
                except ValueError:
                    break
        raise InputError(
            "A claim must be gain>=X, harm<=X or rate=X+-Y, with numbers or percent, "
            f"in a shell in quotes; found {quote(text)}."
        )

    def __str__(self) -> str:
        sign = {"gain": ">=", "harm": "<=", "rate": "="}[self.kind]
        return f"{self.kind}{sign}{self.limit:.6g}" + f"+-{self.margin:.6g}" * (
            self.kind == "rate"
        )

    def check(self, mean: float, cap: float) -> None:
        """Raise where the claim can be no claim, or the reference itself does not meet
        it.
        """
        rate = self.kind == "rate"
        low, high = (0.0, 1.0) if rate else (-cap if self.kind == "gain" else 0.0, cap)
        if not (
            low <= self.limit <= high and self.margin > 0
            if rate
            else low < self.limit < high
        ):
            what = "and a margin above 0" if rate else f"the {argument('cap')}"
            raise InputError(
                f"{self}: must have a number between {low:.4g} and {high:.4g}, {what}."
            )
        if rate and self.margin >= max(self.limit, 1 - self.limit):
            raise InputError(
                f"{self}: must leave some rate that breaks it, and no rate is further "
                f"than {max(self.limit, 1 - self.limit):.4g} from {self.limit:.4g}: "
                "state a smaller margin (2 points are 0.02 or 2%)."
            )
        if (self.against(np.array([mean]), cap) > 0).any():
            raise InputError(
                f"{self}: the reference itself must "
                f"meet the claim; its {self.kind} is {mean:.4g}."
            )

    def against(
        self, seen: Float[np.ndarray, "*stream unit"], cap: float
    ) -> Float[np.ndarray, "*stream unit side"]:
        """What every unit says against the claim, from -1 on."""
        low, high = self.limit - self.margin, self.limit + self.margin
        below, above = (
            (low - seen) / ((cap if self.kind == "gain" else 1.0) - low),
            (seen - high) / (high or 1.0),
        )
        return np.stack(
            {"gain": (below,), "harm": (above,), "rate": (below, above)}[self.kind],
            axis=-1,
        )


class ClaimState(NamedTuple):
    """What the units seen so far say about a claim.

    Attributes:
        claim: The claim.
        alarm: The unit after which the evidence first was enough; None where it never
            was.
        after: Number of units up to there.
        evidence: Evidence against the claim now.
        enough: Evidence that raises the alarm.
        progress: Logarithm of 1 + evidence, as a share of that of an alarm.
        units: Number of complete units.
        mean: Their mean, counted as the claim counts; None without units.
        reference: The same in the reference.
    """

    claim: str
    alarm: str | None
    after: int | None
    evidence: float
    enough: float
    progress: float
    units: int
    mean: float | None
    reference: float

    @property
    def sentence(self) -> str:
        """The state in one line."""
        seen = f"{self.units} unit{'s' * (self.units != 1)}"
        if self.mean is None:
            return (
                f"{self.claim}: quiet, no unit is complete "
                f"yet (reference {self.reference:.4g})."
            )
        words = f"quiet, {self.progress:.0%} of the way to an alarm"
        if self.after:
            words = f"ALARM at unit {self.alarm} (unit {self.after} of the stream)"
        return (
            f"{self.claim}: {words}; evidence now {self.evidence:.3g}, an alarm takes "
            f"{self.enough:,.0f}; mean "
            f"{self.mean:.4g} of {seen} (reference {self.reference:.4g})."
        )


@dataclass(frozen=True)
class Watch:
    """Claims on a stream of shadowed inputs, and the units seen so far; `begin` and
    `load` make one.

    Attributes:
        claims: The claims, such as gain>=0.02.
        modes: Names of the cheap and the full mode.
        threshold: Threshold of the score and acceptance of ties; None where rows state
            `escalated`.
        log: What the reference lists; the stream is shadowed alike.
        rate: Share of escalated inputs of the reference: that of the random choice that
            the gain is measured against.
        loss: Mean all-cheap loss per input of the reference, the unit of gain and harm.
        cap: The most that one unit counts for, as gain, loss or harm.
        reference: Mean gain, harm and rate per unit of the reference.
        risk: Probability of a false alarm on a true claim within `horizon` units.
        horizon: Number of units.
        block: Number of units in a row that count as one.
        autocorrelation: Autocorrelation of the reference's gains from one unit to the
            next.
        reference_units: Number of units of the reference.
        shadowed: Share of the reference's inputs on which both modes ran, as its
            propensities have it; 0 where none are logged.
        units: Name, gain, harm and rate of every complete unit.
        rows: The rows of the unit that is not complete yet.
    """

    claims: tuple[str, ...]
    modes: tuple[str, str]
    threshold: FrozenThreshold | None
    log: Log
    rate: float
    loss: float
    cap: float
    reference: tuple[float, float, float]
    risk: float = RISK
    horizon: int = HORIZON
    block: int = 1
    autocorrelation: float = 0.0
    reference_units: int = 0
    shadowed: float = 0.0
    units: tuple[tuple[str, float, float, float], ...] = ()
    rows: tuple[Row, ...] = ()

    def __post_init__(self) -> None:
        if (
            not 0 < self.risk < 1
            or self.horizon < 1
            or self.block < 1
            or not (0 < self.loss < math.inf and 0 < self.cap < math.inf)
        ):
            raise InputError(
                "A watch needs a risk between 0 and 1, a horizon and blocks of 1 unit "
                "or more, and a positive loss and cap; found "
                f"{self.risk:g}, {self.horizon}, {self.block}, {self.loss:g} and "
                f"{self.cap:g}."
            )
        if not self.parsed or len(set(map(str, self.parsed))) < len(self.parsed):
            raise InputError(
                "Claims must be different ones, "
                f"at least one; found {', '.join(self.claims) or 'none'}."
            )
        for claim in self.parsed:
            claim.check(
                dict(zip(FORMS, self.reference, strict=True))[claim.kind], self.cap
            )

    @cached_property
    def parsed(self) -> tuple[Claim, ...]:
        """The claims, read from their texts."""
        return tuple(map(Claim.parse, self.claims))

    @classmethod
    def begin(
        cls,
        reference: Any,
        claims: Sequence[str] = (),
        *,
        alpha: float | None = None,
        cap: float | None = None,
        risk: float = RISK,
        horizon: int = HORIZON,
        blocks: int | None = None,
    ) -> "Watch":
        """A watch with what a reference sets: a log of shadowed inputs from a good
        time, or a complete table.

        Args:
            reference: A file or columns: unit, input, loss_<mode> (cheap first),
                `escalated` or `score`, and optionally the `propensity` with which an
                input was shadowed.
            claims: Claims such as gain>=0.02, harm<=1%, rate=0.2+-0.02. Default:
                `usual_claims`.
            alpha: Share of inputs above the threshold, where the reference has a score
                and not `escalated`; None for 0.2.
            cap: The most that one unit counts for. Default: the 80 % quantile of the
                size of the units' gains.
            risk: Probability of a false alarm on a true claim within `horizon` units.
            horizon: Number of units.
            blocks: Number of units in a row that count as one; 1 declares that units
                are independent. Default: from the reference, whose units must be in
                time order (`unit_blocks`).
        """
        log = _read(reference)
        prefix, modes = loss_columns(log.data, log.source)
        threshold = None
        if "escalated" not in log.data:
            log.require("score", advice=ESCALATED)
            share = checks.share_of_inputs(0.2 if alpha is None else alpha)
            threshold = FrozenThreshold.calibrate(
                _within(log, "score", -math.inf, math.inf), share
            )
            if math.isinf(threshold.theta):
                raise InputError(
                    f"{log.source}: the threshold must be a finite score; at {share:g} "
                    f"of the inputs it is {threshold.theta:g}. Give finite scores, or "
                    f"another share ({argument('alpha')})."
                )
        elif alpha is not None:
            raise InputError(
                f"{log.source}: has a column 'escalated', so no share "
                f"({argument('alpha')}) can be set."
            )
        pair = (modes[0], modes[-1])
        cheap, full = (
            log.numbers(prefix + mode) * (1 if prefix == columns.LOSS_PREFIX else -1)
            for mode in pair
        )
        kind: Log = "complete"
        if "propensity" in log.data:
            kind = "all inputs" if np.isnan(full).any() else "shadowed inputs"
        rows = _rows(log, pair, threshold, kind)
        escalated, _, weights, shares = np.array([row[2:] for row in rows]).T
        if not weights.any():
            raise InputError(
                f"{log.source}: a reference must hold inputs on which both modes ran; "
                "there are none."
            )
        rate = float(np.average(escalated, weights=shares))
        loss = float(np.average(np.nan_to_num(cheap), weights=weights))
        if not loss > 0:
            raise InputError(
                f"{log.source}: the mean loss of {pair[0]} must be above 0, because "
                f"gains are shares of it; found {loss:g}. Of rewards, give what is "
                "lost: loss_<mode> = best - reward, here and in the stream."
            )
        # In the order of first rows: neighbours in time say how units depend.
        place = {name: at for at, name in enumerate(dict.fromkeys(r[0] for r in rows))}
        rows.sort(key=lambda row: place[row[0]])
        units = tuple(_complete(rows, rate, loss))
        if cap is None:
            cap = float(np.quantile([abs(unit[1]) for unit in units], CAPPED))
            if not cap > 0:
                raise InputError(
                    f"{log.source}: most units gain nothing, which gives no cap: name "
                    f"one ({argument('cap')})."
                )
        counted = _counted(units, cap)
        stated = tuple(
            str(Claim.parse(text)) for text in claims or usual_claims(counted, cap)
        )
        gains = counted[:, 0]
        return cls(
            stated,
            pair,
            threshold,
            kind,
            rate,
            loss,
            cap,
            reference=tuple(counted.mean(axis=0).tolist()),
            risk=risk,
            horizon=horizon,
            block=block_length(gains) if blocks is None else blocks,
            autocorrelation=autocorrelation(gains),
            reference_units=len(units),
            shadowed=0.0 if kind == "complete" else _shadowed(rows),
        )

    def read(
        self, source: Any, *, end: bool = False, skip_seen: bool = False
    ) -> "Watch":
        """The watch after further rows; a unit is complete when a row of another unit
        follows, or at the `end`.

        Args:
            source: A file or columns, as for `begin`, in the order of arrival; None for
                no rows.
            end: Whether the last unit is complete.
            skip_seen: Whether rows that were read before are skipped, as in a log that
                grows; otherwise refused.
        """
        log = None if source is None else _read(source)
        fresh = [] if log is None else _rows(log, self.modes, self.threshold, self.log)
        where = "The rows" if log is None else log.source
        done, within = {unit[0] for unit in self.units}, {row[:2] for row in self.rows}
        if skip_seen:
            seen = [row[0] in done or row[:2] in within for row in fresh]
            last_seen = max((at for at, was in enumerate(seen) if was), default=-1)
            # Units without shadowed inputs leave no trace: their rows before the last
            # one that was read are no news.
            fresh = [
                row
                for at, row in enumerate(fresh)
                if not seen[at] and (at > last_seen or row[4])
            ]
        self._check_alike(fresh, where)
        rows = [*self.rows, *fresh]
        last = rows[-1][0] if rows and not end else None
        for name, _ in groupby(row[0] for row in rows):
            if name in done:
                raise InputError(
                    f"{where}: rows of a unit must come one after the other, and once; "
                    f"unit {name!r} was complete: leave its rows out (--skip-seen, if "
                    "the file has grown), or give it another name."
                )
            done.add(name)
        if len({row[:2] for row in rows}) < len(rows):
            raise InputError(
                f"{where}: the inputs of a unit must differ; one of unit "
                f"{rows[-1][0]!r} is repeated."
            )
        closed = [row for row in rows if row[0] != last]
        units = (*self.units, *_complete(closed, self.rate, self.loss))
        return replace(
            self, units=units, rows=tuple(row for row in rows if row[0] == last)
        )

    def _check_alike(self, fresh: Sequence[Row], where: str) -> None:
        """Refuse rows that are shadowed far more or far less than the reference: units
        of few runs vary more, and the cap takes more of them.
        """
        runs = sum(row[4] > 0 for row in fresh)
        if not self.shadowed or runs < FEWEST_RUNS:
            return
        share = _shadowed(fresh)
        if not 1 / UNLIKE <= share / self.shadowed <= UNLIKE:
            raise InputError(
                f"{where}: must be shadowed as the reference is: both modes ran on "
                f"{share:.2g} of the inputs, and on {self.shadowed:.2g} of the "
                "reference's. Begin with a log of the same share, or keep of the "
                "reference what the same coin would have shadowed."
            )

    @cached_property
    def paths(self) -> dict[str, Float[np.ndarray, "block"]]:
        """The evidence against every claim after every block of units."""
        seen = dict(zip(FORMS, _counted(self.units, self.cap).T, strict=True))
        paths = {}
        for claim in self.parsed:
            blocks = block_means(seen[claim.kind], self.block)
            paths[str(claim)] = evidence(claim.against(blocks, self.cap))
        return paths

    @property
    def enough(self) -> float:
        """Evidence that raises an alarm: the horizon in blocks, divided by the risk."""
        return self.horizon / self.block / self.risk

    @property
    def states(self) -> list[ClaimState]:
        """What the units say about every claim."""
        means = (
            _counted(self.units, self.cap).mean(axis=0).tolist()
            if self.units
            else (None, None, None)
        )
        states = []
        for claim, path in zip(self.parsed, self.paths.values(), strict=True):
            hit = np.flatnonzero(path >= self.enough)
            at, now = (
                (int(hit[0]) if len(hit) else None),
                float(path[-1]) if len(path) else 0.0,
            )
            alarm = (None, None)
            if at is not None:
                after = (at + 1) * self.block
                alarm = (self.units[after - 1][0], after)
            number = list(FORMS).index(claim.kind)
            way = min(1.0, math.log1p(now) / math.log1p(self.enough))
            ends = (len(self.units), means[number], self.reference[number])
            states.append(ClaimState(str(claim), *alarm, now, self.enough, way, *ends))
        return states

    @property
    def alarm(self) -> bool:
        """Whether there is an alarm on some claim."""
        return any(state.alarm is not None for state in self.states)

    @property
    def promise(self) -> str:
        """What is promised while a claim is true."""
        risk = f"{100 * self.risk:.3g} %"
        many = f"{self.horizon:,} units"
        clip = f"A unit counts for at most {self.cap:.4g}, in reference and stream."
        nearby = f"autocorrelation {self.autocorrelation:.2f}"
        if self.block == 1:
            dependent = ""
            bound = 1.96 / math.sqrt(max(self.reference_units, 1))
            if self.autocorrelation > bound:
                dependent = f" In the reference they are not: {nearby}."
            return (
                f"A true claim raises a false alarm within {many} with a probability "
                f"of at most {risk}, if units are independent.{dependent} {clip}"
            )
        drift = max(1, self.reference_units // 10)
        return (
            f"Units may resemble their neighbours ({nearby} from one to the next in "
            f"the reference), so {self.block} in a row count as one: a true claim "
            f"raises a false alarm within {many} with a probability of about {risk}. "
            "This holds if conditions do not drift over more than about "
            f"{drift} unit{'s' * (drift != 1)}; a slower drift in a good router can "
            f"look like a fault. {clip}"
        )

    def save(self, path: str | Path) -> None:
        """Write the watch to a JSON file, in one step."""
        content = plain(self)
        write_atomically(
            file_path(path),
            json_lines(
                {"schema": SCHEMA, "sha256": digest_of(content), "watch": content}
            ),
        )

    @classmethod
    def load(cls, path: str | Path) -> "Watch":
        """The watch in a file that `save` wrote; one that was changed or cut is
        refused.
        """
        what = "the state of a watch, as `deepval watch` writes it"
        content = read_json(path, what, finite=True)
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise InputError(f"{path}: must be {what}; it is another file.")
        if content.get("sha256") != digest_of(content.get("watch")):
            raise InputError(
                f"{path}: must be {what}; it was changed since: "
                "restore it, or begin a new one."
            )
        return check_file_form(cls, content["watch"], path, what)


def usual_claims(reference: Float[np.ndarray, "unit kind"], cap: float) -> list[str]:
    """Claims on gain, harm and rate by `SLACK`, or by the 95 % bound of the reference's
    mean, which leaves more room.

    The bound is Student's t; harm may be rare, so three units with the cap as harm are
    always allowed for. No claim goes further than half-way to the cap, or to the
    furthest rate.
    """
    units = len(reference)
    error = np.full(3, np.inf)
    if units > 1:
        error = (
            student_quantile(DOUBT, units - 1)
            * reference.std(axis=0, ddof=1)
            / math.sqrt(units)
        )
    gain, harm, rate = reference.mean(axis=0).tolist()
    least = max(
        min(gain - SLACK["gain"] * abs(gain), gain - error[0]), (gain - cap) / 2
    )
    most = min(
        max(SLACK["harm"] * harm, harm + error[1], 3 * cap / units), (harm + cap) / 2
    )
    margin = min(max(SLACK["rate"], error[2]), max(rate, 1 - rate) / 2)
    return [
        f"gain>={least:.4g}",
        f"harm<={most:.4g}",
        f"rate={rate:.4g}+-{margin:.4g}",
    ]


def _read(source: Any) -> columns.Columns:
    if (
        isinstance(source, str | Path)
        and Path(source).suffix == ".csv"
        and reading.content(source)[-1:] not in b"\n"
    ):
        raise InputError(
            f"{source}: the last line must end; it may still be "
            "written: wait, or end the line."
        )
    log = read_records(source)
    log.require("unit", "input")
    return log


def _rows(
    log: columns.Columns,
    modes: tuple[str, str],
    threshold: FrozenThreshold | None,
    kind: Log,
) -> list[Row]:
    """The rows of a log that count; weights undo the propensities, and are 0 where the
    full mode did not run.
    """
    prefix, _ = loss_columns(log.data, log.source)
    names = [prefix + mode for mode in modes]
    log.require(*names)
    ids, shadowed = log.ids("input"), "propensity" in log.data
    if shadowed == (kind == "complete"):
        has, needs = (
            ("propensities", "none") if shadowed else ("no propensities", "some")
        )
        raise InputError(
            f"{log.source}: must be shadowed as the reference is: it has {has}, and "
            f"the reference has {needs}. Begin with a log of the same kind."
        )
    cheap, full = map(log.numbers, names)
    ran = ~np.isnan(full)
    if not shadowed and not ran.all():
        row = columns.row_name(int(np.argmin(ran)), ids)
        raise InputError(
            f"{log.source}: inputs without a full loss, such "
            f"as {row}, need a column 'propensity'."
        )
    for name, column in zip(names, (cheap, full), strict=True):
        refuse_large(np.where(ran, column, 0.0), ids, f"{log.source}: column {name!r}")
    value = np.where(
        ran, cheap - full if prefix == columns.LOSS_PREFIX else full - cheap, 0.0
    )
    if "escalated" in log.data or threshold is None:
        log.require("escalated")
        escalated = _within(log, "escalated", 0.0)
    else:
        log.require("score", advice=ESCALATED)
        escalated = threshold.expected(_within(log, "score", -math.inf, math.inf))
    weight = ran / _within(log, "propensity", LEAST) if shadowed else np.ones(len(ids))
    share = np.ones(len(ids)) if kind == "all inputs" else weight
    parts = (
        map(str, log.ids("unit")),
        map(str, ids),
        *(x.tolist() for x in (escalated, value, weight, share)),
    )
    return [row for row in zip(*parts, strict=True) if row[5]]


def _shadowed(rows: Sequence[Row]) -> float:
    """The share of inputs on which both modes ran: runs over the sum of weights."""
    weights = np.array([row[4] for row in rows if row[4] > 0])
    if len(weights) == 0:
        return 0.0
    return float(len(weights) / weights.sum())


def _within(
    log: columns.Columns, name: str, least: float, most: float = 1.0
) -> Float[np.ndarray, "input"]:
    """A column of numbers from `least` to `most`."""
    numbers = log.numbers(name)
    bad = np.flatnonzero(~((numbers >= least) & (numbers <= most)))
    if len(bad):
        raise InputError(
            f"{log.source}: column {name!r} must hold numbers from {least:g} to "
            f"{most:g}; {columns.row_name(int(bad[0]), log.data['input'])} "
            f"holds {numbers[bad[0]]:g}."
        )
    return numbers


def _complete(
    rows: Sequence[Row], rate: float, loss: float
) -> Iterator[tuple[str, float, float, float]]:
    """Name, gain over random, harm and rate of every unit with shadowed inputs; the
    first two per input, of `loss`.
    """
    for name, own in groupby(rows, key=lambda row: row[0]):
        escalated, value, weight, share = np.array([row[2:] for row in own]).T
        if weight.any():
            parts = (
                np.column_stack(
                    [(escalated - rate) * value, escalated * np.maximum(-value, 0.0)]
                )
                / loss
            )
            gain, harm = np.average(parts, axis=0, weights=weight).tolist()
            yield name, gain, harm, float(np.average(escalated, weights=share))


def _counted(
    units: Sequence[tuple[str, float, float, float]], cap: float
) -> Float[np.ndarray, "unit kind"]:
    """Gain, harm and rate of units; gain and harm count for at most the cap."""
    numbers = np.array([unit[1:] for unit in units]).reshape(len(units), 3)
    return np.column_stack([np.clip(numbers[:, :2], -cap, cap), numbers[:, 2:]])
