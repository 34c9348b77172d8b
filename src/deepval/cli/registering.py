"""Former place of what `deepval.cli.registered_plan` defines."""

from deepval.cli.registered_plan import count_look as noted

__all__ = ["noted"]
