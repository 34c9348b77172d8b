"""`deepval analyse agreement`, `consumers`, `optima`: perception and consumers beside decisions."""

from deepval.cli import options
from deepval.cli.analysing import shown
from deepval.cli.analysing.shown import Cells, Form, Out, Shown, Units
from deepval.cli.options import DrawNumber, Json, Seed


def agreement(
    cells: Cells,
    *,
    units: Units = "all",
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show how far perception gain and decision value agree in sign, for every perception loss.

    Example: deepval analyse agreement cells/braking-monocular
    """
    from deepval.analyses import agreement as analysis

    told = Shown.of(form, json=json, out=out)
    number, start = options.draws(draws), options.at_least(seed, 0, "--seed")
    found = analysis.rows(shown.named(cells), units=shown.units(units), draws=number, seed=start, watch=options.watch)
    told.tell(found, analysis.table)


def consumers(
    cells: Cells,
    *,
    units: Units = "all",
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show how far two consumers of the same perception agree on what escalation is worth, in sign and in order.

    Example: deepval analyse consumers cells/braking-monocular cells/receding-horizon-monocular
    """
    from deepval.analyses import consumers as analysis

    told = Shown.of(form, json=json, out=out)
    number, start = options.draws(draws), options.at_least(seed, 0, "--seed")
    found = analysis.rows(shown.named(cells), units=shown.units(units), draws=number, seed=start, watch=options.watch)
    told.tell(found, analysis.table)


def optima(
    cells: Cells,
    *,
    alpha: options.Alphas = None,
    units: Units = "all",
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show what the best and the worst optimal allocation of one consumer is worth to another, whatever breaks ties.

    Example: deepval analyse optima cells/braking-monocular cells/receding-horizon-monocular --alpha 0.2
    """
    from deepval.analyses import optima as analysis

    told = Shown.of(form, json=json, out=out)
    found = analysis.rows(shown.named(cells), alphas=alpha or [0.2], units=shown.units(units), watch=options.watch)
    told.tell(found, analysis.table)
