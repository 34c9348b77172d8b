"""Rows and the samples behind them -> the samples that a result holds, and the other way round."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError
from deepval.judging.draws import Draws
from deepval.judging.resamples import Resampling, Sample
from deepval.judging.rows import Judged
from deepval.judging.streams import Streamed
from deepval.judging.totals import Totals
from deepval.results import Result, Samples


@dataclass(frozen=True, eq=False)
class Basis:
    """What comparing and pooling work on: the totals of every resample, every row and stream with its samples."""

    totals: Totals
    judged: tuple[Judged, ...]
    streamed: tuple[Streamed, ...] = ()


def samples_of(resamples: Resampling, judged: Sequence[Judged], streamed: Sequence[Streamed] = ()) -> Samples:
    """What a result keeps of the samples of its rows and streams."""
    nothing = np.full(len(resamples.counts), np.nan)

    def stacked(part: Callable[[Judged], Float[np.ndarray, "resample"]]) -> Float[np.ndarray, "row resample"]:
        return np.stack([part(item) for item in judged])

    def of_streams(
        part: Callable[[Streamed], Float[np.ndarray, "resample"]],
    ) -> Float[np.ndarray, "stream resample"] | None:
        return np.stack([part(item) for item in streamed]) if streamed else None

    return Samples(
        unit_ids=resamples.unit_ids,
        counts=resamples.draws.counts,
        weights=resamples.draws.weights,
        seed=resamples.draws.seed,
        cheap_loss=resamples.cheap_loss,
        full_gain=resamples.full_gain,
        full_benefit=resamples.full_benefit,
        gain=stacked(lambda item: item.sample.gain if item.sample else nothing),
        benefit=stacked(lambda item: item.sample.benefit if item.sample else nothing),
        escalated=stacked(lambda item: item.sample.escalated if item.sample else nothing),
        prize=stacked(lambda item: item.prize),
        versus_random=stacked(lambda item: item.difference.loss),
        stream_gain=of_streams(lambda item: item.sample.gain if item.sample else nothing),
        stream_benefit=of_streams(lambda item: item.sample.benefit if item.sample else nothing),
        stream_escalated=of_streams(lambda item: item.sample.escalated if item.sample else nothing),
        stream_prize=of_streams(lambda item: item.prize),
    )


def basis(result: Result) -> Basis:
    """What a result rests on; raises where its samples were not kept."""
    held = result.samples
    if held is None:
        raise InputError(
            "Draw by draw comparisons need a result with its samples; this one has none. Take it fresh from "
            "evaluate(), or save it with result.save(path, samples=True)."
        )
    draws = Draws(held.counts, held.weights, held.seed)
    even = result.setting.concentration.effective_units
    totals = Totals(
        held.unit_ids, draws, held.cheap_loss, held.full_gain, held.full_benefit, math.nan if even is None else even
    )
    judged = []
    for index, row in enumerate(result.rows):
        sample = Sample(held.gain[index], held.benefit[index], held.escalated[index])
        runs = not np.isnan(sample.gain[0])
        difference = totals.difference(held.versus_random[index])
        judged.append(Judged(row, sample if runs else None, held.prize[index], difference))
    return Basis(totals, tuple(judged), _streamed(result, held))


def _streamed(result: Result, held: Samples) -> tuple[Streamed, ...]:
    """The streams with their samples; none where they were saved before streams kept theirs."""
    gain, benefit = held.stream_gain, held.stream_benefit
    escalated, prize = held.stream_escalated, held.stream_prize
    if gain is None or benefit is None or escalated is None or prize is None:
        return ()
    found = []
    for index, row in enumerate(result.streams):
        sample = None if np.isnan(gain[index, 0]) else Sample(gain[index], benefit[index], escalated[index])
        found.append(Streamed(row, sample, prize[index]))
    return tuple(found)
