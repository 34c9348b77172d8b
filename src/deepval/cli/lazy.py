"""Former place of what `deepval.cli.commands` defines."""

from deepval.cli.commands import LOOK
from deepval.cli.commands import lazy_group as grouped


def lazy_group(modules: dict[str, str]) -> type:
    """A group with one heading."""
    return grouped({"Commands": modules})


__all__ = ["LOOK", "lazy_group"]
