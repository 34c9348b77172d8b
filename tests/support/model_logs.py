"""Small logs of models as other programs write them, with texts that must stay out.

Fields and nesting are those that the programs wrote (LiteLLM 1.106, Inspect 0.3.285,
OpenTelemetry 1.45 with semantic conventions of generative AI, Langfuse's reference of
exports, RouterArena's cached results, the vLLM semantic router's replay store).
"""

import json
import struct
import zipfile
import zlib

SECRET = "Tell nobody: the key lies under the mat"
"""What users asked, in every log."""
ANSWER = "It lies under the mat"
IDS = ("0017", "0018", "0019")
TENANTS = ("acme", "acme", "umbrella")
RIGHT = {"small": (1.0, 0.0, 1.0), "large": (1.0, 1.0, 0.0)}
COST = {"small": (0.001, 0.002, 0.001), "large": (0.01, 0.02, 0.03)}
RUNS = [(i, model) for i in range(3) for model in RIGHT]


def right_by_id(models=False):
    """A file of quality, as CSV: by id, or by id and model."""
    if models:
        rows = [f"{IDS[i]},{model},{RIGHT[model][i]}" for i, model in RUNS]
        return "\n".join(["id,model,correct", *rows]) + "\n"
    rows = [f"{IDS[i]}-{model},{RIGHT[model][i]}" for i, model in RUNS]
    return "\n".join(["id,correct", *rows]) + "\n"


def spend_logs():
    """Rows of LiteLLM's table SpendLogs: two models answer in each session."""
    return [
        {
            "request_id": f"chatcmpl-{IDS[i]}-{model}",
            "call_type": "acompletion",
            "api_key": "88dc28d0f030c55ed4ab77ed8faf098196cb1c05",
            "spend": COST[model][i],
            "total_tokens": 30,
            "prompt_tokens": 10,
            "completion_tokens": 20,
            "startTime": f"2026-03-01T12:0{i}:00.500000+00:00",
            "endTime": f"2026-03-01T12:0{i}:01+00:00",
            "model": f"openai/{model}",
            "model_group": model,
            "end_user": TENANTS[i],
            "metadata": {"user_api_key_alias": None, "tags": []},
            "request_tags": [],
            "messages": [{"role": "user", "content": SECRET}],
            "response": {"choices": [{"message": {"content": ANSWER}}]},
            "session_id": IDS[i],
            "status": "success",
        }
        for i, model in RUNS
    ]


def payloads():
    """LiteLLM's StandardLoggingPayload, one per call."""
    return [
        {
            "id": f"{IDS[i]}-{model}",
            "trace_id": IDS[i],
            "call_type": "completion",
            "status": "success",
            "startTime": 1795122541.5 + i,
            "endTime": 1795122542.5 + i,
            "model": f"openai/{model}",
            "model_group": model,
            "response_cost": COST[model][i],
            "end_user": TENANTS[i],
            "metadata": {"usage_object": {"total_tokens": 30}},
            "messages": [{"role": "user", "content": SECRET}],
            "response": {"choices": [{"message": {"content": ANSWER}}]},
            "model_parameters": {},
        }
        for i, model in RUNS
    ]


def cached_results(model):
    """RouterArena's cached results of a model."""
    return [
        {
            "global_index": f"AIME_{IDS[i]}",
            "question": SECRET,
            "llm_selected": model,
            "generated_answer": ANSWER,
            "token_usage": {"input_tokens": 349, "output_tokens": 120},
            "success": True,
            "provider": "anthropic",
            "error": None,
            "evaluation_result": {
                "extracted_answer": ANSWER,
                "ground_truth": ANSWER,
                "score": RIGHT[model][i],
                "metric": "math_metric",
                "inference_cost": COST[model][i],
            },
        }
        for i in range(3)
    ]


def replay():
    """A list of the vLLM semantic router's replay API."""
    verdicts = {1.0: "good_fit", 0.0: "underpowered"}
    records = [
        {
            "id": f"replay-{i}-{model}",
            "timestamp": f"2026-03-01T12:0{i}:00Z",
            "request_id": IDS[i],
            "session_id": TENANTS[i],
            "turn_index": 1,
            "decision": "math_route",
            "decision_tier": 0,
            "category": "math",
            "original_model": "auto",
            "selected_model": model,
            "confidence_score": 0.5,
            "signals": {"domain": ["math"]},
            "request_body": json.dumps({"messages": [{"content": SECRET}]}),
            "response_body": ANSWER,
            "prompt": SECRET,
            "lifecycle_state": "completed",
            "outcomes": [
                {
                    "source": "user",
                    "target": "model",
                    "verdict": verdicts[RIGHT[model][i]],
                    "reason": SECRET,
                }
            ],
            "actual_cost": COST[model][i],
            "currency": "USD",
        }
        for i, model in RUNS
    ]
    return {"object": "router_replay.list", "count": 6, "total": 6, "data": records}


def spans():
    """An export of OpenTelemetry's spans in OTLP JSON."""
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": [_attribute("service.name", "chat")]},
                "scopeSpans": [{"scope": {"name": "x"}, "spans": list(_spans())}],
            }
        ]
    }


def _spans():
    for i, model in RUNS:
        yield {
            "traceId": IDS[i],
            "spanId": f"{i}{model}",
            "name": f"chat {model}",
            "kind": 3,
            "startTimeUnixNano": str(1795122541_500_000_000 + i * 10**9),
            "endTimeUnixNano": str(1795122542_500_000_000 + i * 10**9),
            "attributes": [
                _attribute("gen_ai.operation.name", "chat"),
                _attribute("gen_ai.provider.name", "openai"),
                _attribute("gen_ai.request.model", model),
                _attribute("gen_ai.conversation.id", TENANTS[i]),
                {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "10"}},
                {
                    "key": "gen_ai.usage.cost",
                    "value": {"doubleValue": COST[model][i]},
                },
                _attribute("gen_ai.input.messages", SECRET),
            ],
            "events": [
                {
                    "name": "gen_ai.evaluation.result",
                    "attributes": [
                        _attribute("gen_ai.evaluation.name", "Correctness"),
                        {
                            "key": "gen_ai.evaluation.score.value",
                            "value": {"doubleValue": RIGHT[model][i]},
                        },
                        _attribute("gen_ai.evaluation.explanation", SECRET),
                    ],
                }
            ],
        }
    yield {"traceId": "0", "spanId": "r", "name": "root", "attributes": []}


def _attribute(key, text):
    return {"key": key, "value": {"stringValue": text}}


def observations():
    """Observations as Langfuse's API and pages export them."""
    return [
        {
            "id": f"{IDS[i]}-{model}",
            "traceId": IDS[i],
            "type": "GENERATION",
            "name": "answer",
            "startTime": f"2026-03-01T12:0{i}:00.000Z",
            "model": model,
            "input": SECRET,
            "output": ANSWER,
            "metadata": {"note": SECRET},
            "calculatedTotalCost": COST[model][i],
            "sessionId": TENANTS[i],
        }
        for i, model in RUNS
    ]


def stored_observations():
    """Observations as Langfuse exports them to storage."""
    return [
        {
            "id": f"{IDS[i]}-{model}",
            "trace_id": IDS[i],
            "type": "GENERATION",
            "start_time": f"2026-03-01 12:0{i}:00.000000",
            "provided_model_name": model,
            "input": SECRET,
            "output": ANSWER,
            "total_cost": COST[model][i],
            "session_id": TENANTS[i],
        }
        for i, model in RUNS
    ]


def langfuse_scores():
    """Scores as Langfuse exports them to storage."""
    return [
        {
            "id": f"score-{i}-{model}",
            "trace_id": IDS[i],
            "observation_id": f"{IDS[i]}-{model}",
            "name": "correctness",
            "value": RIGHT[model][i],
            "data_type": "NUMERIC",
            "source": "EVAL",
            "comment": SECRET,
        }
        for i, model in RUNS
    ]


def inspect_log(model, epochs=1):
    """An Inspect log in JSON; its scorer gives the letters C and I."""
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "task": "sums",
            "model": model,
            "dataset": {"samples": 3, "sample_ids": list(IDS)},
            "packages": {"inspect_ai": "0.3.285"},
        },
        "plan": {"name": "plan", "steps": []},
        "samples": [
            {
                "id": IDS[i],
                "epoch": epoch,
                "input": SECRET,
                "target": ANSWER,
                "metadata": {"topic": "sum"},
                "scores": {
                    "match": {
                        "value": "C" if RIGHT[model][i] else "I",
                        "answer": ANSWER,
                        "explanation": ANSWER,
                    }
                },
                "model_usage": {
                    f"mockllm/{model}": {
                        "input_tokens": 10,
                        "total_cost": COST[model][i],
                    }
                },
                "started_at": f"2026-03-01T12:0{i}:00+00:00",
            }
            for epoch in range(1, epochs + 1)
            for i in range(3)
        ],
    }


def write_eval(path, log, *, zstandard=False, declared=None):
    """An .eval file: a zip with the header and the summaries, compressed as Inspect
    does, or by deflating.
    """
    header = {name: value for name, value in log.items() if name != "samples"}
    members = {
        "header.json": json.dumps(header).encode(),
        "summaries.json": json.dumps(log["samples"]).encode(),
        "samples/0017_epoch_1.json": json.dumps({"input": SECRET}).encode(),
    }
    if not zstandard:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return
    import pyarrow as pa

    packed = {
        n: bytes(pa.compress(d, "zstd", asbytes=True)) for n, d in members.items()
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in packed.items():
            archive.writestr(name, data)
        places = {item.filename: item.header_offset for item in archive.infolist()}
        directory = archive.start_dir
    content = bytearray(path.read_bytes())
    at = directory
    for name, data in members.items():
        size = len(data) if declared is None else declared
        about = struct.pack("<3L", zlib.crc32(data), len(packed[name]), size)
        local = places[name]
        content[local + 8 : local + 10] = struct.pack("<H", 93)
        content[local + 14 : local + 26] = about
        content[at + 10 : at + 12] = struct.pack("<H", 93)
        content[at + 16 : at + 28] = about
        at += 46 + len(name)
    path.write_bytes(bytes(content))
