"""Langfuse: observations as its pages and API export them (camelCase) and as its
exports to storage do (snake_case); CSV, JSON or one per line.

Scores are exported to a file of their own, which `--quality` joins.
"""

from deepval.judge.tables.logs.owners.owner import Owner

TEXTS = frozenset({"input", "output", "metadata"})
ADVICE = (
    "Langfuse exports scores apart from observations: export them, too, and join them "
    "with {quality} (its column of values is `value`)."
)
OBSERVATIONS = Owner(
    name="Langfuse, observations",
    has=(
        frozenset({"id", "traceId", "startTime", "type"}),
        frozenset({"id", "trace_id", "start_time", "type"}),
        frozenset({"id", "traceId", "startTime", "calculatedTotalCost"}),
        frozenset({"id", "trace_id", "start_time", "provided_model_name"}),
    ),
    names={
        "id": ("id",),
        "model": ("providedModelName", "provided_model_name", "model"),
        "cost": (
            "calculatedTotalCost",
            "totalCost",
            "total_cost",
            "costDetails.total",
            "cost_details.total",
        ),
        "order": ("startTime", "start_time"),
        "unit": ("sessionId", "session_id", "userId", "user_id"),
        "group": ("traceName", "trace_name"),
    },
    advice=ADVICE,
    private=TEXTS,
)
SCORES = Owner(
    name="Langfuse, scores",
    has=(
        frozenset({"traceId", "value", "dataType"}),
        frozenset({"trace_id", "value", "data_type"}),
    ),
    names={
        "id": ("observationId", "observation_id", "traceId", "trace_id"),
        "reward": ("value",),
    },
    advice="These are scores alone: give them as {quality}, beside the observations.",
    private=frozenset({"comment"}),
)
