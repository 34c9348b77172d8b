"""A value table -> a values file, and a scores file for each of its scores."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.errors import InputError
from deepval.basics.files.writing import write_atomically
from deepval.judge.tables import keys
from deepval.judge.tables.columns import (
    ESTIMATED,
    LOSS_PREFIX,
    REWARD_PREFIX,
    csv_text,
    parquet_bytes,
)
from deepval.judge.tables.input_costs import NAMES
from deepval.judge.tables.values import ValueTable


def write_values(
    table: ValueTable,
    path: str | Path,
    *,
    trials: Mapping[str, Float[np.ndarray, "input"]] | None = None,
) -> None:
    """Write a table as a values file, .csv or .parquet; the file is complete or not
    there.

    Args:
        table: The table.
        path: The file.
        trials: Columns of trials, which replace those of losses or rewards.
    """
    path = Path(path)
    check_name(path)
    content = _columns_of(table, trials)
    if path.suffix.lower() == ".parquet":
        noun, unit_noun = table.nouns
        about = {"input": noun, "unit": unit_noun, "id": table.id_column}
        write_atomically(path, parquet_bytes(content, about))
    else:
        write_atomically(path, csv_text(content))


def check_name(path: Path) -> None:
    """Raise where a values file cannot have this name."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(
            f"{path}: the name must end in .csv "
            f"or .parquet; found {path.suffix or 'no ending'!r}."
        )


def attribute_scores(table: ValueTable) -> dict[str, Float[np.ndarray, "input"]]:
    """Scores that an imported table brings along: 1 - confidence of the cheap model,
    and every other attribute.
    """
    scores = {
        name: column
        for name, column in table.attributes.items()
        if column.dtype.kind in "fiu"
    }
    if "confidence" in scores:
        scores["low_confidence"] = 1.0 - scores.pop("confidence")
    return {name: score for name, score in scores.items() if np.isfinite(score).all()}


def write_scores(table: ValueTable, folder: str | Path) -> list[Path]:
    """Write a scores file for each score of an imported table; the paths."""
    paths = []
    for name, score in attribute_scores(table).items():
        path = Path(folder) / f"{name}.parquet"
        content = {"input": keys.as_text(table.input), "score": score}
        write_atomically(path, parquet_bytes(content), make_folder=True)
        paths.append(path)
    return paths


def _columns_of(
    table: ValueTable, trials: Mapping[str, Float[np.ndarray, "input"]] | None
) -> dict[str, np.ndarray]:
    """The columns of a table, as in a values file."""
    content = {"unit": table.unit_ids[table.unit], "input": keys.as_text(table.input)}
    if table.order is not None:
        content["order"] = table.order
    if trials:
        content |= trials
    else:
        for mode, column in zip(table.modes, table.losses.T, strict=True):
            if table.is_reward:
                content[f"{REWARD_PREFIX}{mode}"] = 0.0 - column
            else:
                content[f"{LOSS_PREFIX}{mode}"] = column
    names = {convention: name for name, convention in reversed(list(NAMES.items()))}
    for convention, costs in table.input_costs.items():
        for mode, column in zip(table.modes, costs.T, strict=True):
            content[f"{names[convention]}_{mode}"] = column
    content |= table.attributes
    if table.estimated is not None:
        content[ESTIMATED] = np.full(len(table), table.estimated)
    return content
