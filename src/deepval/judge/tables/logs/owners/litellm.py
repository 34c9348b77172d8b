"""LiteLLM: rows of its table SpendLogs (CSV or JSON), and `StandardLoggingPayload` as
its callbacks get it, one per line.

`model_group` is the name that callers use, `model` that of the deployment.
"""

from deepval.judge.tables.logs.owners.owner import Owner

QUALITY_ADVICE = (
    "LiteLLM logs no quality: join it with {quality} (columns id, correct), "
    "where id is that of the log."
)
SPEND_LOGS = Owner(
    name="LiteLLM, SpendLogs",
    has=(frozenset({"request_id", "spend", "startTime", "model"}),),
    names={
        "id": ("request_id",),
        "model": ("model_group", "model"),
        "cost": ("spend",),
        "order": ("startTime",),
        "unit": ("end_user", "user", "team_id"),
    },
    advice=QUALITY_ADVICE,
    private=frozenset({"proxy_server_request"}),
)
PAYLOADS = Owner(
    name="LiteLLM, StandardLoggingPayload",
    has=(frozenset({"id", "response_cost", "startTime", "model_group", "model"}),),
    names={
        "id": ("id",),
        "model": ("model_group", "model"),
        "cost": ("response_cost",),
        "order": ("startTime",),
        "unit": ("end_user", "metadata.user_api_key_team_id"),
    },
    advice=QUALITY_ADVICE,
)
