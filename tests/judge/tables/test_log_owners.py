"""Logs of other programs: what they logged comes out, and no text does."""

import csv
import json

import numpy as np
import pytest

import deepval
import model_logs
from commands import refusal, run
from model_logs import COST, IDS, RIGHT, SECRET, TENANTS


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return [path]


def write_json(path, content):
    path.write_text(json.dumps(content))
    return [path]


def write_csv(path, records):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        for record in records:
            cells = {
                n: json.dumps(v) if isinstance(v, dict | list) else v
                for n, v in record.items()
            }
            writer.writerow(cells)
    return [path]


def router_arena(folder):
    cached = folder / "cached_results"
    cached.mkdir()
    for model in RIGHT:
        write_lines(cached / f"{model}.jsonl", model_logs.cached_results(model))
    return [cached]


def eval_files(folder, zstandard):
    files = []
    for model in RIGHT:
        files.append(folder / f"{model}.eval")
        log = model_logs.inspect_log(model)
        model_logs.write_eval(files[-1], log, zstandard=zstandard)
    return files


def quality(folder, models=False):
    file = folder / "quality.csv"
    file.write_text(model_logs.right_by_id(models))
    return ["--quality", file]


def inspect_json(folder):
    return [
        file
        for model in RIGHT
        for file in write_json(folder / f"{model}.json", model_logs.inspect_log(model))
    ]


def stored(folder):
    """Langfuse's observations and scores; both know the observation."""
    scores = write_lines(folder / "scores.jsonl", model_logs.langfuse_scores())
    log = write_lines(folder / "log.jsonl", model_logs.stored_observations())
    return [*log, "--quality", *scores]


def observations(folder):
    """Langfuse's observations, and quality by observation."""
    log = write_csv(folder / "log.csv", model_logs.observations())
    return [*log, *quality(folder)]


FORMATS = {
    "RouterArena": router_arena,
    "Inspect, zip": lambda folder: eval_files(folder, zstandard=False),
    "Inspect, Zstandard": lambda folder: eval_files(folder, zstandard=True),
    "Inspect, JSON": inspect_json,
    "semantic router": lambda f: write_json(f / "r.json", model_logs.replay()),
    "semantic router, lines": lambda f: write_lines(
        f / "r.jsonl", model_logs.replay()["data"]
    ),
    "spans": lambda f: [
        *write_json(f / "s.json", model_logs.spans()),
        *("--id", "trace_id"),
    ],
    "spans, lines": lambda f: [
        *write_lines(f / "s.jsonl", [model_logs.spans()]),
        *("--id", "trace_id"),
    ],
    "Langfuse, storage": lambda f: [*stored(f), "--id", "trace_id"],
    "Langfuse, pages": lambda f: [*observations(f), "--id", "traceId"],
    "LiteLLM, table": lambda f: [
        *write_csv(f / "spend.csv", model_logs.spend_logs()),
        *("--id", "session_id", *quality(f, models=True)),
    ],
    "LiteLLM, table in JSON": lambda f: [
        *write_json(f / "spend.json", model_logs.spend_logs()),
        *("--id", "session_id", *quality(f, models=True)),
    ],
    "LiteLLM, payloads": lambda f: [
        *write_lines(f / "log.jsonl", model_logs.payloads()),
        *("--id", "trace_id", *quality(f, models=True)),
    ],
}


def imported(folder, words):
    """The table that a command writes, and what it printed."""
    done = run("import", *words, "-o", folder / "values.parquet", notes=True)
    assert done.code == 0, done.err
    return deepval.read_values(folder / "values.parquet"), done


@pytest.mark.filterwarnings("ignore::deepval.InputWarning")
@pytest.mark.parametrize("name", FORMATS)
def test_what_a_program_logged_comes_out(name, tmp_path):
    table, done = imported(tmp_path, FORMATS[name](tmp_path))
    ids = [str(i).removeprefix("AIME_") for i in table.input]
    assert ids == list(IDS)
    assert table.modes == ("small", "large")
    sign = -1 if table.is_reward else 1
    right = sign * table.losses.T if table.is_reward else 1 - table.losses.T
    assert right.tolist() == [list(RIGHT["small"]), list(RIGHT["large"])]
    np.testing.assert_allclose(
        table.input_costs["usd"].T, [COST["small"], COST["large"]]
    )
    if "RouterArena" not in name and "Inspect" not in name:
        assert list(table.unit_ids[table.unit]) == list(TENANTS)
        assert np.diff(table.order).tolist() == pytest.approx(
            [1, 1] if "payloads" in name or "spans" in name else [60, 60]
        )
    assert "log of" in done.out
    content = (tmp_path / "values.parquet").read_bytes()
    for text in (SECRET, model_logs.ANSWER):
        assert text.encode() not in content
        assert text not in done.out + done.err


@pytest.mark.parametrize("log", [stored, observations])
def test_quality_is_joined_by_the_id_of_a_call(log, tmp_path):
    """Two calls answer a request: their trace is the id, quality is by call."""
    words = log(tmp_path)
    # one model ran on each call: nothing can be compared
    assert "--id" in refusal("import", *words, "-o", tmp_path / "v.csv")


@pytest.mark.filterwarnings("ignore::deepval.InputWarning")
def test_letters_of_inspect_and_epochs(tmp_path):
    files = []
    for model in RIGHT:
        files += write_json(
            tmp_path / f"{model}.json", model_logs.inspect_log(model, epochs=2)
        )
    words = [*files, "-o", tmp_path / "v.csv"]
    assert "--repeat" in refusal("import", *words)
    done = run("import", *words, "--repeat", "trial", notes=True)
    header = (tmp_path / "v.csv").read_text().splitlines()[0]
    assert done.code == 0
    assert "reward_small@1,reward_small@2,reward_large@1,reward_large@2" in header
    sentence = refusal("evaluate", tmp_path / "v.csv")
    assert "--repeat first" in sentence
    assert "mean" in sentence


LACKING = {
    "spend": (model_logs.spend_logs, "--quality FILE"),
    "payloads": (model_logs.payloads, "--quality FILE"),
    "observations": (model_logs.observations, "--quality FILE"),
    "scores": (model_logs.langfuse_scores, "--quality"),
}


@pytest.mark.parametrize("name", LACKING)
def test_a_log_without_quality_says_how_to_join_it(name, tmp_path):
    records, advice = LACKING[name]
    write_lines(tmp_path / "log.jsonl", records())
    words = (tmp_path / "log.jsonl", "-o", tmp_path / "v.csv")
    assert advice in refusal("import", *words)
    assert not (tmp_path / "v.csv").exists()


def test_damaged_and_oversized_zips_are_refused(tmp_path):
    file = tmp_path / "log.eval"
    log = model_logs.inspect_log("small")
    model_logs.write_eval(file, log, zstandard=True, declared=2**29)
    assert "at most" in refusal("import", file, "-o", tmp_path / "v.csv")
    model_logs.write_eval(file, log, zstandard=True, declared=10)
    assert "damaged" in refusal("import", file, "-o", tmp_path / "v.csv")
    model_logs.write_eval(file, log)
    file.write_bytes(file.read_bytes()[:-100])
    assert "Inspect log" in refusal("import", file, "-o", tmp_path / "v.csv")
    file.write_bytes(b"no zip")
    assert "Inspect log" in refusal("import", file, "-o", tmp_path / "v.csv")
