"""`deepval analyse external`: cells of published planners -> five losses, agreement and viability."""

from dataclasses import asdict

from deepval.cli import options
from deepval.cli.analysing import shown
from deepval.cli.analysing.shown import Cells, Form, Out, Shown
from deepval.cli.options import Json


def external(cells: Cells, *, form: Form = None, out: Out = None, json: Json = False) -> None:
    """Show what escalation does to published planners under five losses, how far they agree, and who is viable.

    Example: deepval analyse external cells/pdm-closed-safety-tracks cells/idm-safety-tracks
    """
    from deepval.analyses import external as analysis
    from deepval.analyses.external_tables import external_tables

    told = Shown.of(form, json=json, out=out)
    told.refuse_csv()
    found = analysis.rows(shown.read_all(cells), watch=options.watch)
    told.tell_parts(asdict(found), external_tables(found))
