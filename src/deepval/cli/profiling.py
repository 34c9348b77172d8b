"""`deepval profile`: an allocator and a cell -> its cost cards in a costs file."""

from pathlib import Path
from typing import Annotated

import typer

from deepval.cli import options
from deepval.cli.options import Json
from deepval.errors import InputError
from deepval.metering.cards import Card, add_cards, measured_cards
from deepval.metering.cost_files import read_entries
from deepval.metering.energy import Spent
from deepval.metering.timing import Items, Stages


def profile(
    target: Annotated[str, typer.Argument(help="Allocator to measure.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Costs file (.toml) that takes the cards; the rest stays.")],
    cell: Annotated[Path | None, typer.Option("--cell", help="Cell whose inputs it runs on.")] = None,
    seconds: Annotated[float, typer.Option("--seconds", help="Time limit of each measurement.")] = 5.0,
    tolerance: Annotated[float, typer.Option("--tolerance", help="How tight the median must be, relative.")] = 0.02,
    batch: Annotated[int | None, typer.Option("--batch", help="Measure batches of this size as well.")] = None,
    threads: Annotated[int | None, typer.Option("--threads", help="Hold BLAS and OpenMP to so many threads.")] = None,
    energy: Annotated[bool, typer.Option("--energy", help="Measure energy over idle; needs a sensor.")] = False,
    json: Json = False,
) -> None:
    """Measure what an allocator costs per input, preprocessing and inference, and put it into a costs file.

    Example: deepval profile gate-ridge --cell cells/braking-monocular --out costs.toml --batch 64
    """
    # Looked at before anything is measured, so that a costs file that cannot be read stops it at once.
    read_entries(out, "allocators")
    stages, items = stages_of(target, cell)
    cards = measured_cards(
        target, stages, items, batch=batch, seconds=seconds, tolerance=tolerance, threads=threads, energy=energy
    )
    add_cards(out, cards)
    if json:
        typer.echo(options.as_json({card.name: card.entry() for card in cards}), nl=False)
        return
    for card in cards:
        typer.echo("\n".join(_lines(card)))
    typer.echo(f"Cards in {out}")


def stages_of(target: str, cell: Path | None) -> tuple[Stages, Items]:
    """The stages of an allocator, preprocessing first, and the items of a cell that they run on."""
    where = f" for {cell}" if cell else ""
    raise InputError(f"An allocator that can be measured is needed; found {target!r}{where}, and none is known yet.")


def _lines(card: Card) -> list[str]:
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
