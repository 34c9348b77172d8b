"""`deepval profile`: an allocator and a cell -> its cost cards in a costs file."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from deepval.cells.fitting import allocator_named, called
from deepval.cells.folder import BuiltCell, read_cell
from deepval.cli import options
from deepval.cli.options import Json
from deepval.cli.saying import say
from deepval.errors import InputError
from deepval.features import Glance, glance
from deepval.features.views import CheapMode, Frame, Past, frames_of
from deepval.metering.cards import CostCard, add_cards, measured_cards
from deepval.metering.cost_files import read_entries
from deepval.metering.energy import Spent
from deepval.metering.timing import Items, Stages


def profile(
    target: Annotated[str, typer.Argument(help="File of a fitted allocator, or a signal by name.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Costs file (.toml) that takes the cards; the rest stays.")],
    cell: Annotated[Path | None, typer.Option("--cell", help="Cell whose inputs it runs on.")] = None,
    seconds: Annotated[float, typer.Option("--seconds", help="Time limit of each measurement.")] = 5.0,
    tolerance: Annotated[float, typer.Option("--tolerance", help="How tight the median must be, relative.")] = 0.02,
    batch: Annotated[int | None, typer.Option("--batch", help="Measure batches of this size as well.")] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", help="Hold BLAS, OpenMP and OpenCV to so many threads.")
    ] = None,
    energy: Annotated[bool, typer.Option("--energy", help="Measure energy over idle; needs a sensor.")] = False,
    json: Json = False,
) -> None:
    """Measure what an allocator costs per input, preprocessing and inference, and put it into a costs file.

    Example: deepval profile gate-ridge.json --cell cells/braking-monocular --out costs.toml --batch 64
    """
    # Looked at before anything is measured, so that a costs file that cannot be read stops it at once.
    read_entries(out, "allocators")
    name, stages, items = stages_of(target, cell)
    cards = measured_cards(
        name, stages, items, batch=batch, seconds=seconds, tolerance=tolerance, threads=threads, energy=energy
    )
    add_cards(out, cards)
    if json:
        typer.echo(options.as_json({card.name: card.entry() for card in cards}), nl=False)
        return
    for card in cards:
        say("\n".join(_lines(card)))
    say(f"Cards in {out}")


def stages_of(target: str, cell: Path | None) -> tuple[str, Stages, Items]:
    """What an allocator's scores are called, its stages from frame to score, and the frames of a cell they run on.

    The first is all from the cheap mode's boxes on, memory included: for a learned allocator to the row that its
    models take.
    """
    if cell is None:
        raise InputError("An allocator is measured on real inputs: give --cell, a folder that `deepval build` wrote.")
    allocator, built = allocator_named(target, cell), read_cell(cell)
    frames = _frames(built)
    steps = dict(allocator.stages())
    first = next(iter(steps))
    return called(target), steps | {first: lambda items: steps[first](_seen(items))}, frames


class _Arrived(NamedTuple):
    """A frame with what is remembered when it arrives."""

    frame: Frame
    past: Past
    mode: CheapMode


def _seen(items: _Arrived | list[_Arrived]) -> Glance | list[Glance]:
    if isinstance(items, list):
        return [glance(item.frame, item.past, mode=item.mode) for item in items]
    return glance(items.frame, items.past, mode=items.mode)


def _frames(built: BuiltCell) -> list[_Arrived]:
    """The frames of the cell's validation units on which the cheap mode was run, as a router receives them."""
    found = []
    for view in built.views:
        if view.scene.unit not in built.split.validation:
            continue
        past = Past()
        for frame in frames_of(view):
            if frame.run:
                found.append(_Arrived(frame, past, view.mode))
            past = glance(frame, past, mode=view.mode).after
    return found


def _lines(card: CostCard) -> list[str]:
    timing, entry = card.timing, card.entry()
    low, high = timing.interval_ms
    parts = ", ".join(f"{stage} {entry[f'{stage}_ms']:.4g}" for stage in timing.stages)
    energy = (
        ", ".join(f"{convention} {mj:.4g}" for convention, mj in card.energy.mj.items())
        if isinstance(card.energy, Spent)
        else card.energy
    )
    return [
        f"{card.name} ({card.served}{f' {timing.batch}' if timing.batch else ''}): {timing.ms:.4g} ms per input "
        f"[{low:.4g}, {high:.4g}], p95 {timing.p95_ms:.4g} ({parts}), {timing.calls:,} calls",
        f"  {card.threads} threads, {card.device}; energy: {energy}",
        *(f"  note: {note}" for note in card.notes),
    ]
