"""Options that belong together are one parameter of a command, and every command has
all of them in its help.
"""

import inspect
from dataclasses import dataclass, field
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from cli_functions import functions
from deepval.cli.commands import COMMANDS, FUNCTIONS
from deepval.cli.typer_commands import OptionGroup, flatten
from deepval.errors import InputError


@dataclass(frozen=True)
class Size(OptionGroup):
    height: Annotated[int, typer.Option("--height")]
    width: Annotated[int, typer.Option("--width")] = 4
    seen: list[str] = field(default_factory=list, init=False)

    def __post_init__(self):
        if self.height < 0:
            raise InputError("--height must be 0 or more.")


def told(command, *words):
    app = typer.Typer(add_completion=False)
    app.command()(flatten(command))
    done = CliRunner().invoke(app, words)
    return done.output if done.exception is None else done.exception


def test_fields_are_options_and_what_is_given_is_one_value():
    def draw(
        name: str,
        *,
        size: Size,
        colour: Annotated[str, typer.Option("--colour")] = "red",
    ) -> None:
        typer.echo(f"{name} {size.height} x {size.width} {colour} {size.seen}")

    assert told(draw, "a", "--height", "3") == "a 3 x 4 red []\n"
    assert (
        told(draw, "a", "--height", "3", "--width", "7", "--colour", "blue")
        == "a 3 x 7 blue []\n"
    )
    assert isinstance(told(draw, "a"), SystemExit)  # --height has no default
    assert isinstance(told(draw, "a", "--height", "-1"), InputError)
    assert list(inspect.signature(flatten(draw)).parameters) == [
        "name",
        "height",
        "width",
        "colour",
    ]


@pytest.mark.parametrize(
    ("words", "function"),
    [each for each in functions() if COMMANDS.get(each[0]) not in FUNCTIONS],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_no_two_parameters_of_a_command_have_the_same_option(words, function):
    """A field and a parameter of one name would hide each other."""
    kinds = [
        each.annotation for each in inspect.signature(function).parameters.values()
    ]
    names = [name for name, each in inspect.signature(function).parameters.items()]
    inner = [
        vars(kind)["__dataclass_fields__"]
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, OptionGroup)
    ]
    options = list(inspect.signature(flatten(function)).parameters)
    assert (
        len(options)
        == len(set(options))
        == len(names)
        - len(inner)
        + sum(each.init for fields in inner for each in fields.values())
    )
