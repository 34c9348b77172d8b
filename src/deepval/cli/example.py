"""`deepval example`: small files like those of a service or a test drive, and the
commands that answer with them.

Each example is drawn from one seed, so its files are the same everywhere; the base
install reads them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Literal

import numpy as np
from cyclopts import Parameter

from deepval.basics.errors import InputError
from deepval.basics.files import reading
from deepval.basics.files.writing import check_writable, write_atomically
from deepval.cli import options
from deepval.cli.terminal import say, write
from deepval.judge.tables.columns import csv_text

Name = Literal["routing", "driving", "gate"]

REQUESTS = 400
TENANTS = (
    "acme",
    "borealis",
    "cobalt",
    "delta",
    "emporium",
    "fjord",
    "granite",
    "harbor",
    "iris",
    "juniper",
    "kestrel",
    "lumen",
    "meridian",
    "northwind",
    "orchard",
    "pinnacle",
    "quarry",
    "riverside",
    "summit",
    "tundra",
)
MODELS = ("small", "medium", "large")
TASKS = ("extract", "summarise", "code", "reason")
TASK_SHARES = (0.3, 0.3, 0.2, 0.2)
RIGHT = ((0.95, 0.96, 0.96), (0.85, 0.9, 0.91), (0.55, 0.7, 0.92), (0.35, 0.48, 0.85))
"""Probability of a right answer of the small, medium and large model, by task."""
LOG_TOKENS = (6.3, 7.6, 6.2, 5.6)
"""Mean logarithm of a prompt's length, by task: texts to summarise are long."""
USD_PER_TOKEN = (0.2e-6, 0.8e-6, 6e-6)
SLIPS = 0.06
"""Probability that an answer comes out other than its difficulty says."""

DRIVES = 9
FRAMES = 60
FRAMES_PER_S = 10
AFFECTED = 0.15
"""Share of the frames on which the detectors' losses differ."""

DOCUMENTS = 600
USERS = 30


@dataclass(frozen=True)
class Example:
    """Files of an example, and what to run on them."""

    content: str
    files: Callable[[], dict[str, str]]
    """Draws the text of each file, by name."""
    commands: dict[str, str]
    """Each question, and the command that answers it."""


def routing() -> dict[str, str]:
    """Right and wrong answers of three models with their prices, a router's guesses,
    and the length of each prompt.
    """
    rng = np.random.default_rng(0)
    task = rng.choice(len(TASKS), REQUESTS, p=TASK_SHARES)
    right = np.array(RIGHT)[task]

    # One difficulty per request: the models fail on the same requests, but for slips.
    difficulty = rng.random((REQUESTS, 1))
    slips = rng.random(right.shape) < SLIPS
    rewards = (difficulty < right) ^ slips

    tokens = np.exp(rng.normal(np.array(LOG_TOKENS)[task], 0.5)).round()
    usd = tokens[:, None] * USD_PER_TOKEN

    # The router recognises the task, not the difficulty of a request.
    guesses = right[:, 1:] - right[:, :1] + rng.normal(0, 0.08, (REQUESTS, 2))

    number = np.arange(REQUESTS)
    ids = np.char.mod("r%03d", number + 1)
    requests = {
        "unit": np.array(TENANTS)[number % len(TENANTS)],
        "input": ids,
        "task": np.array(TASKS)[task],
    }
    for model, column in zip(MODELS, rewards.T, strict=True):
        requests[f"reward_{model}"] = column.astype(int)
    for model, column in zip(MODELS, usd.T, strict=True):
        requests[f"usd_{model}"] = np.char.mod("%.7f", column)

    router = {"input": ids}
    for model, column in zip(MODELS[1:], guesses.T, strict=True):
        router[f"score_{model}"] = np.char.mod("%.3f", column)
    length = {"input": ids, "score": tokens.astype(int)}
    return {
        "requests.csv": csv_text(requests),
        "router.csv": csv_text(router),
        "length.csv": csv_text(length),
    }


def driving() -> dict[str, str]:
    """Losses of a small and a large detector on the frames of each drive, and the
    vehicle's speed.
    """
    rng = np.random.default_rng(0)
    drive = np.repeat(np.arange(DRIVES), FRAMES)
    frame = np.tile(np.arange(FRAMES), DRIVES)
    speed_mps = rng.uniform(4, 16, DRIVES)[drive] + rng.normal(0, 1, drive.size)
    small = rng.gamma(0.6, 0.5, drive.size)

    # The large detector helps on some roads; on others its false alarms brake.
    effect = rng.normal(0.25, 0.5, DRIVES)[drive] + rng.normal(0, 0.5, drive.size)
    affected = rng.random(drive.size) < AFFECTED
    large = np.where(affected, np.maximum(small - effect, 0), small)

    ids = np.char.mod("f%03d", np.arange(drive.size) + 1)
    losses = {
        "unit": np.char.mod("drive-%d", drive + 1),
        "input": ids,
        "order": np.char.mod("%.1f", frame / FRAMES_PER_S),
        "loss_small": np.char.mod("%.3f", small),
        "loss_large": np.char.mod("%.3f", large),
    }
    speed = {"input": ids, "score": np.char.mod("%.2f", speed_mps)}
    return {"drives.csv": csv_text(losses), "speed.csv": csv_text(speed)}


def gate() -> dict[str, str]:
    """Losses of two models on documents, and two versions of a score, of which the new
    one is worse.
    """
    rng = np.random.default_rng(0)
    cheap = rng.gamma(1, 1, DOCUMENTS)
    differs = rng.random(DOCUMENTS) < 0.2
    effect = rng.normal(0.5, 0.8, DOCUMENTS)
    full = np.where(differs, np.maximum(cheap - effect, 0), cheap)

    number = np.arange(DOCUMENTS)
    ids = np.char.mod("doc-%03d", number + 1)
    values = {
        "unit": np.char.mod("user-%02d", number % USERS + 1),
        "input": ids,
        "loss_cheap": np.char.mod("%.3f", cheap),
        "loss_full": np.char.mod("%.3f", full),
    }
    files = {"values.csv": csv_text(values)}
    for version, noise in (("old", 0.4), ("new", 1.6)):
        score = cheap - full + rng.normal(0, noise, DOCUMENTS)
        scores = {"input": ids, "score": np.char.mod("%.3f", score)}
        files[f"{version}.csv"] = csv_text(scores)
    return files


EXAMPLES: dict[Name, Example] = {
    "routing": Example(
        "400 requests of 20 tenants to three language models with prices, the scores "
        "of a router, and the length of each prompt",
        routing,
        {
            "Is the router worth its price?": (
                "deepval evaluate requests.csv -s router.csv"
            ),
            "Is it enough to send long prompts to the large model?": (
                "deepval evaluate requests.csv -s length.csv"
            ),
            "Which threshold is deployed?": (
                "deepval threshold requests.csv -s router.csv --alpha 0.2 "
                "-o deployed.json"
            ),
        },
    ),
    "driving": Example(
        "the losses of two detectors on 540 frames of nine drives, and the vehicle's "
        "speed",
        driving,
        {
            "Does the large detector help, and where not?": (
                "deepval evaluate drives.csv"
            ),
            "Is it worth running where the vehicle is fast?": (
                "deepval evaluate drives.csv -s speed.csv"
            ),
        },
    ),
    "gate": Example(
        "the losses of two models on 600 documents of 30 users, and two versions of a "
        "score",
        gate,
        {
            "May the new version replace the old one (exit code 3: no)?": (
                "deepval compare values.csv new.csv old.csv --alpha 0.2 --fail-if worse"
            ),
            "How do both fare?": "deepval evaluate values.csv -s new.csv old.csv",
        },
    ),
}


def example(
    name: Name = "routing",
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o", group=options.OUTPUT)] = Path(),
) -> None:
    """Each file is invented and the same everywhere. A file of that name with other
    content stays, and nothing is written.

    Example: deepval example routing

    Args:
        name: Requests to language models, drives, or a change to guard.
        out: Folder for the files. Default: the current one.
    """
    chosen = EXAMPLES[name]
    files = chosen.files()
    check_writable(out, folder=True)
    for file, text in files.items():
        path = out / file
        if reading.exists(path) and reading.content(path) != text.encode():
            raise InputError(
                f"{path} must be a file of this example or absent; it has other "
                "content: move it, or choose another folder with --out."
            )
    for file, text in files.items():
        write_atomically(out / file, text, make_folder=True)

    names = ", ".join(str(out / file) for file in files)
    say(f"{names}: {chosen.content} (invented).")
    for question, command in chosen.commands.items():
        words = []
        for word in command.split():
            is_file = word.endswith((".csv", ".json"))
            words.append(quote(str(out / word)) if is_file else word)
        say(f"\n{question}")
        write(f"  {' '.join(words)}\n")
