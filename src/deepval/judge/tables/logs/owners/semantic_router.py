"""vLLM semantic router: replay records, as the management API lists them or one per
line.

Each has the model that was selected, its price, and outcomes that were reported later.
"""

from collections.abc import Iterator

from deepval.judge.tables.logs.owners.owner import Owner, Record

VERDICTS = {"good_fit": 1.0, "overprovisioned": 1.0, "underpowered": 0.0, "failed": 0.0}
"""Whether the answer did, by the verdict of an outcome: an overprovisioned model gave a
good answer at too high a price.
"""


def _rows(record: Record) -> Iterator[Record]:
    """The record with the verdict of its last outcome."""
    outcomes = record.get("outcomes")
    if not isinstance(outcomes, list):
        outcomes = []
    right = None
    for outcome in outcomes:
        if isinstance(outcome, dict) and outcome.get("verdict") in VERDICTS:
            right = VERDICTS[outcome["verdict"]]
    yield {**record, "outcome": right}


REPLAY = Owner(
    name="vLLM semantic router, replay",
    has=(
        frozenset({"id", "timestamp", "selected_model", "decision"}),
        frozenset({"id", "timestamp", "selected_model", "lifecycle_state"}),
    ),
    names={
        "id": ("request_id", "id"),
        "model": ("selected_model",),
        "right": ("outcome",),
        "cost": ("actual_cost",),
        "order": ("timestamp",),
        "unit": ("session_id", "conversation_id"),
        "group": ("category", "decision"),
    },
    advice=(
        "Report outcomes to the router's API, or join quality with {quality} "
        "(columns id, correct; propensity, too, where the router drew at random)."
    ),
    rows=_rows,
    private=frozenset({"tool_definitions"}),
)
