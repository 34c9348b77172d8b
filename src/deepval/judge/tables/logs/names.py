"""Names of columns that logs use for what a values file needs.

A name is compared in lower case with its words joined by underscores. Earlier names
come first.
"""

import re
from collections.abc import Collection, Iterable, Mapping

ID_ENDING = re.compile(r"[_ .-]ids?$", re.IGNORECASE)
THINGS = ("call", "example", "item", "prompt", "question", "request", "sample")
NO_PLAIN_PLURAL = ("s", "x", "y", "z", "ch", "sh")
"""Endings of words whose plural is not the word with an s."""
ROLES = {
    "id": (
        "request_id",
        "request",
        "input",
        "input_id",
        "id",
        "prompt_id",
        "query_id",
        "question_id",
        "sample_id",
        "example_id",
        "item_id",
        "call_id",
        "global_index",
        "record_index",
        "index",
        "token",
        "uuid",
        "uid",
        "trace_id",
        "span_id",
        "observation_id",
        "prompt_digest",
    ),
    "model": (
        "model",
        "model_name",
        "model_id",
        "mode",
        "llm",
        "engine",
        "deployment",
        "selected_model",
    ),
    "right": ("correct", "is_correct", "right", "passed", "success", "accuracy"),
    "reward": ("reward", "quality", "performance", "rating", "score", "value"),
    "loss": ("loss",),
    "cost": (
        "cost_usd",
        "cost",
        "usd",
        "total_cost",
        "price",
        "price_usd",
        "response_cost",
        "spend",
    ),
    "unit": (
        "unit",
        "tenant",
        "tenant_id",
        "customer",
        "customer_id",
        "account",
        "account_id",
        "user",
        "user_id",
        "team",
        "team_id",
        "session",
        "session_id",
        "conversation",
        "conversation_id",
        "thread_id",
        "document",
        "document_id",
        "scene",
        "drive",
        "log_name",
    ),
    "order": (
        "order",
        "timestamp",
        "time",
        "ts",
        "created_at",
        "created",
        "start_time",
        "started_at",
        "date",
        "datetime",
    ),
    "group": (
        "task",
        "category",
        "domain",
        "dataset",
        "group",
        "topic",
        "subject",
        "language",
        "benchmark",
    ),
    "propensity": ("propensity",),
}
"""Usual names by role, apart from scores, which are always named by the user."""

PROMPTS = ("prompt", "origin_query", "query", "question")
"""Columns with the prompt: its length and a digest of it are kept, never its text."""
TEXTS = frozenset(
    (
        *PROMPTS,
        "answer",
        "body",
        "completion",
        "content",
        "generated_answer",
        "ground_truth",
        "messages",
        "model_response",
        "output",
        "raw_output",
        "request_body",
        "response",
        "response_body",
        "system_prompt",
        "target",
        "text",
    )
)
"""Columns with prompts, answers and the right answer: never read."""
CHARACTERS = "_chars"
"""Ending of a column with the length of a text in characters."""
DIGEST = "_digest"
"""Ending of a column with digests of a text, which can serve as ids."""


def plain(name: str) -> str:
    """A name in lower case, words joined by underscores: startTime is start_time."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^0-9a-z]+", "_", words.lower()).strip("_")


def first(available: Iterable[str], usual: Collection[str]) -> str | None:
    """The available name that comes first among the usual ones."""
    by_plain: dict[str, str] = {}
    for name in available:
        by_plain.setdefault(plain(name), name)
    return next((by_plain[name] for name in usual if name in by_plain), None)


def usual_names(role: str, owner: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Usual names of a column in a role, those of the log's owner before the others."""
    return (*map(plain, owner.get(role, ())), *ROLES[role])


def input_noun(column: str | None) -> str:
    """What an input is, by its column of ids: `request` of `request_id`."""
    word = ID_ENDING.sub("", column or "")
    # A bare `token` or `index` names the id and not the thing.
    if word == column and word not in THINGS:
        return "input"
    return _noun(word, "input")


def unit_noun(column: str | None) -> str:
    """What a unit is, by its column: `tenant`, or `user` of `user_id`."""
    return _noun(ID_ENDING.sub("", column or ""), "unit")


def _noun(word: str, usual: str) -> str:
    """A word that is a plain noun in lower case, else the usual one."""
    if re.fullmatch(r"[a-z]{2,20}", word) and not word.endswith(NO_PLAIN_PLURAL):
        return word
    return usual
