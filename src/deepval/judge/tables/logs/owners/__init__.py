"""The formats of other programs that are recognised by their fields.

A new one is a file beside this one, and a place in the list: the more fields it asks
for, the earlier.
"""

from collections.abc import Iterable

from deepval.judge.tables.logs.owners import (
    inspect_ai,
    langfuse,
    litellm,
    open_telemetry,
    router_arena,
    semantic_router,
)
from deepval.judge.tables.logs.owners.owner import Owner

OWNERS: tuple[Owner, ...] = (
    open_telemetry.SPANS,
    inspect_ai.LOGS,
    router_arena.CACHED,
    semantic_router.REPLAY,
    litellm.SPEND_LOGS,
    litellm.PAYLOADS,
    langfuse.SCORES,
    langfuse.OBSERVATIONS,
)


def owner_of(fields: Iterable[str]) -> Owner | None:
    """The program whose logs have these fields."""
    present = frozenset(fields)
    return next((owner for owner in OWNERS if owner.wrote(present)), None)
