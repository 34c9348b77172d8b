"""`deepval doctor`: a folder of ours -> what is whole, what is not, and what to run."""

from pathlib import Path
from typing import Annotated

import typer

from deepval.cli import options
from deepval.cli.options import Json
from deepval.cli.saying import say
from deepval.doctor import doctor as checkup
from deepval.files.canonical import plain
from deepval.report.tables import counted


def doctor(
    folder: Annotated[Path, typer.Argument(help="A folder that deepval wrote, or one with several of them below.")],
    *,
    json: Json = False,
) -> None:
    """Verify cells, caches, allocators, results, leaderboards, kept work and planners below a folder.

    Every file is compared with the hash that was written beside it; what killed commands left is named. Nothing is
    changed. Exits with 1 where something is wrong.

    Example: deepval doctor cells
    """
    up = checkup(folder)
    if json:
        about = {"folder": str(folder), "whole": not up.problems, "found": up.found, "files": up.files}
        about |= {"problems": plain(up.problems), "notes": up.notes}
        typer.echo(options.as_json(about), nl=False)
    else:
        there = ", ".join(f"{number} {kind}{'s' * (number > 1)}" for kind, number in up.found.items())
        say(
            f"{there or 'Nothing whole'}: {counted(up.files, 'file')} verified, {counted(len(up.problems), 'problem')}."
        )
        for problem in up.problems:
            say(f"  {problem.path}: {problem.wrong}. Run: {problem.run}")
        for note in up.notes:
            say(f"  note: {note}")
    if up.problems:
        raise typer.Exit(1)
