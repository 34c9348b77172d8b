"""`deepval analyse external`: cells of published planners -> five losses, agreement and viability."""

from dataclasses import asdict

from deepval.cli import options
from deepval.cli.analysing.shown import Cells, Shown


def external(sources: Cells, *, output: Shown) -> None:
    """Show what escalation does to published planners under five losses, how far they agree, and who is viable.

    Example: deepval analyse external cells/pdm-closed-safety-tracks cells/idm-safety-tracks
    """
    from deepval.paper.analyses import external as analysis
    from deepval.paper.analyses.external import external_tables

    output.refuse_csv()
    result = analysis.rows(sources.by_path(), watch=options.watch)
    output.tell_parts(asdict(result), external_tables(result))
