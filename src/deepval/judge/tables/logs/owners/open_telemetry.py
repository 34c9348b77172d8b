"""OpenTelemetry: spans of generative AI in OTLP JSON, one export in a file or one per
line.

A span counts if it names a model (`gen_ai.request.model`). Its quality is the last
event `gen_ai.evaluation.result`, its price an attribute, which has no standard name.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from deepval.judge.tables.logs.owners.owner import Owner, Record

MODELS = ("gen_ai.request.model", "gen_ai.response.model")
EVALUATION = "gen_ai.evaluation.result"
SCORE = "gen_ai.evaluation.score.value"


def _list(part: Any, *names: str) -> list[Any]:
    """A list in an object, under its name in JSON or in Python."""
    for name in names:
        if isinstance(part, Mapping) and isinstance(part.get(name), list):
            return part[name]
    return []


def _attributes(part: Any) -> dict[str, Any]:
    """Attributes with one value, by name."""
    values = {}
    for item in _list(part, "attributes"):
        if isinstance(item, Mapping) and isinstance(item.get("value"), Mapping):
            for kind, value in item["value"].items():
                # 64-bit integers are texts in JSON
                values[str(item.get("key"))] = (
                    int(value) if kind == "intValue" and _whole(value) else value
                )
    return values


def _whole(value: Any) -> bool:
    return str(value).lstrip("-").isdecimal()


def _spans(record: Record) -> Iterator[Mapping[str, Any]]:
    for resource in _list(record, "resourceSpans", "resource_spans"):
        for scope in _list(resource, "scopeSpans", "scope_spans"):
            for span in _list(scope, "spans"):
                if isinstance(span, Mapping):
                    yield span


def _rows(record: Record) -> Iterator[Record]:
    for span in _spans(record):
        values = _attributes(span)
        if not any(values.get(name) for name in MODELS):
            continue
        row = {
            **values,
            "trace_id": span.get("traceId", span.get("trace_id")),
            "span_id": span.get("spanId", span.get("span_id")),
        }
        nanoseconds = span.get("startTimeUnixNano", span.get("start_time_unix_nano"))
        if _whole(nanoseconds):
            row["start_time"] = int(str(nanoseconds)) / 1e9
        for event in _list(span, "events"):
            if isinstance(event, Mapping) and event.get("name") == EVALUATION:
                row[SCORE] = _attributes(event).get(SCORE, row.get(SCORE))
        yield row


SPANS = Owner(
    name="OpenTelemetry, spans of generative AI",
    has=(frozenset({"resourceSpans"}), frozenset({"resource_spans"})),
    names={
        "id": ("span_id",),
        "model": MODELS,
        "reward": (SCORE,),
        "cost": ("gen_ai.usage.cost", "operation.cost", "llm.usage.total_cost"),
        "order": ("start_time",),
        "unit": ("gen_ai.conversation.id", "session.id", "user.id", "enduser.id"),
        "group": ("gen_ai.operation.name",),
    },
    advice=(
        "Spans have quality as events gen_ai.evaluation.result; without them, join it "
        "with {quality} (columns id, correct)."
    ),
    rows=_rows,
)
