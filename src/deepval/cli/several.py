"""Former place of what `deepval.cli.arguments` defines."""

from deepval.cli.arguments import OptionGroup as Several
from deepval.cli.arguments import spread

__all__ = ["Several", "spread"]
