"""The command `deepval`: files in, verdicts out. Bad input is one sentence on stderr and exit code 2."""

import sys
import warnings
from typing import Annotated, Any

import typer

from deepval.cli import analysing, demo, fitting, judging, making, profiling, protocol, reporting
from deepval.errors import InputError, InputWarning
from deepval.version import __version__

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
COMMANDS = (
    demo.demo,
    making.perceive,
    making.build,
    fitting.fit,
    fitting.score,
    profiling.profile,
    judging.evaluate,
    judging.compare,
    analysing.analyse,
    protocol.cells,
    protocol.validate,
    protocol.leaderboard,
    reporting.report,
)
for command in COMMANDS:
    app.command()(command)


@app.callback(invoke_without_command=True)
def root(
    *, version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False
) -> None:
    """Decision Evaluation for Escalated Perception: does the expensive mode help the decision, and is it worth it?"""
    if version:
        typer.echo(f"deepval {__version__}")
        raise typer.Exit


def _warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    label = "note" if issubclass(category, InputWarning) else "warning"
    typer.echo(f"deepval: {label}: {message}", err=True)


def main() -> None:
    """Run the command; bad input is one sentence and exit code 2."""
    warnings.showwarning = _warn
    try:
        app()
    except InputError as error:
        typer.echo(f"deepval: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(0)
