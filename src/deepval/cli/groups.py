"""Former place of what `deepval.cli.options` defines."""

from deepval.cli.options import Draws as Drawn
from deepval.cli.options import Workers as WhoWorks

__all__ = ["Drawn", "WhoWorks"]
