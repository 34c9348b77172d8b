"""Former place of what `deepval.cli.options` defines."""

from deepval.cli.options import number

__all__ = ["number"]
