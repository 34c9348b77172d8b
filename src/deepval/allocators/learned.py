"""A front and fitted models -> scores of a unit at once, or of one frame as it arrives; and the plain file of it.

The file is JSON: what is looked at (front and names of its columns), the models in plain numbers, how their predictions
become a score, and what it was fitted on. It loads without the library that fitted it, and nothing in it is executed.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from deepval.allocators.fronts import FRONTS, Front
from deepval.allocators.models import Model, model_of
from deepval.arrays import Float
from deepval.errors import InputError
from deepval.features import Glance, Sight, look
from deepval.files import write_atomically
from deepval.signals import Part
from deepval.views import CheapMode, View

FORMAT, VERSION = "deepval allocator", 1
LARGEST_BYTES = 64 * 2**20
RECALLED = 0.5
"""Weight of what is remembered by rule "recall", by cross-validation over KITTI's training and validation units."""
Rule = Literal["value", "difference", "recall", "modes"]


@dataclass(frozen=True)
class Training:
    """What a model was fitted on, from which it can be fitted again.

    Attributes:
        cell: Id of the cell, which carries the hash of all that it rests on.
        recipe: Name of the recipe.
        target: What was predicted.
        units: The units whose inputs were used.
        inputs: How many inputs there were.
        seed: Seed of what is random in the fit.
        modes: Names of the cell's modes, cheap first.
        settings: The learner's settings.
    """

    cell: str
    recipe: str
    target: str
    units: tuple[str, ...]
    inputs: int
    seed: int
    modes: tuple[str, ...]
    settings: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Learned:
    """A fitted allocator.

    Attributes:
        name: Its name.
        front: What it looks at.
        heads: The models.
        rule: "value": one head, whose prediction is the score; "difference": the first head's less the second's;
            "recall": the same and half the third's; "modes": a head and so a score for every mode above cheap.
        training: What it was fitted on.
    """

    name: str
    front: Front
    heads: tuple[Model, ...]
    rule: Rule
    training: Training = field(repr=False)

    def __post_init__(self) -> None:
        wanted = {"value": 1, "difference": 2, "recall": 3, "modes": len(self.training.modes) - 1}[self.rule]
        if len(self.heads) != wanted:
            raise InputError(f"{self.name}: the rule {self.rule!r} needs {wanted} models; found {len(self.heads)}.")
        for head in self.heads:
            if head.columns != len(self.front.columns):
                raise InputError(
                    f"{self.name}: a model must take the {len(self.front.columns)} columns of {self.front.name!r}; "
                    f"one takes {head.columns}."
                )

    @property
    def uses(self) -> frozenset[Part]:
        """The parts of the view that it reads."""
        return self.front.uses

    def undefined(self, mode: CheapMode) -> str | None:
        """Why there is no score for this cheap mode: a learned allocator fills gaps, so there always is one."""
        del mode

    def score(self, view: View | Sight) -> Float[np.ndarray, "time *mode"]:
        """The score of each frame of a unit; NaN where the cheap mode was not run."""
        sight = look(view, images="image" in self.uses) if isinstance(view, View) else view
        found = self.score_rows(self.front.rows(sight))
        found[~sight.view.detections.run] = np.nan
        return found

    def score_rows(self, rows: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row *mode"]:
        """The score of each row of the front."""
        found = [head.predict(rows) for head in self.heads]
        return np.stack(found, axis=1) if self.rule == "modes" else _one(found)

    def score_frame(self, glance: Glance) -> float | tuple[float, ...]:
        """The score of one frame as it arrives, to the bit that which its unit gives; one per mode by rule "modes"."""
        if not glance.frame.run:
            return np.nan if self.rule != "modes" else (np.nan,) * len(self.heads)
        return self.score_row(self.front.row(glance))

    def score_row(self, row: Float[np.ndarray, "column"]) -> float | tuple[float, ...]:
        """The score of one row of the front."""
        found = [head.predict_row(row) for head in self.heads]
        return tuple(found) if self.rule == "modes" else _one(found)

    def to_json(self) -> str:
        """The file's text: one line per part, the same for the same allocator."""
        content = {
            "name": self.name,
            "rule": self.rule,
            "training": asdict(self.training),
            "front": self.front.name,
            "columns": list(self.front.columns),
            "heads": [head.to_dict() for head in self.heads],
        }
        return file_text(content)

    def save(self, path: Path | str) -> None:
        """Write the allocator to a file."""
        write_atomically(path, self.to_json())


def _one(found: list[Any]) -> Any:
    """One score of one, two or three predictions: a, a - b, a - b + c/2."""
    score = found[0]
    for prediction, weight in zip(found[1:], (-1.0, RECALLED), strict=False):
        score = score + weight * prediction
    return score


def file_text(content: Mapping[str, Any]) -> str:
    """The text of an allocator's file: format and version, the content, and the hash of all of it."""
    whole = {"format": FORMAT, "version": VERSION, **content}
    lines = [f"{json.dumps(key)}: {_dumped(value)}" for key, value in (whole | {"sha256": _digest(whole)}).items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def file_content(path: Path | str) -> dict[str, Any]:
    """What an allocator's file holds; a file that is not one, of another version or cut off is refused."""
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > LARGEST_BYTES:
            raise InputError(f"{path}: an allocator's file has at most {LARGEST_BYTES:,} bytes; found {size:,}.")
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: must be an allocator's file that can be read; {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: must be an allocator as `deepval fit` writes it; it is no complete JSON ({error}). Fit it again."
        ) from error
    return _checked_format(content, str(path))


def _checked_format(content: Any, source: str) -> dict[str, Any]:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f'{source}: must be an allocator as `deepval fit` writes it, with "format": "{FORMAT}".')
    if content.get("version") != VERSION:
        raise InputError(
            f"{source}: this deepval reads version {VERSION} of allocator files; found version "
            f"{content.get('version')!r}. Fit it again, or install the deepval that wrote it."
        )
    return content


def check_hash(content: Mapping[str, Any], source: str) -> None:
    """Raise where an allocator's file is not as it was written."""
    try:
        found = _digest({name: value for name, value in content.items() if name != "sha256"})
    except (ValueError, RecursionError):
        # No file of ours holds NaN, infinity or lists without end.
        found = None
    if found is None or content.get("sha256") != found:
        raise InputError(f"{source}: the file was altered after it was written: its hash does not fit. Fit it again.")


def training_of(content: Mapping[str, Any]) -> Training:
    """What a file says that its allocator was fitted on; KeyError or TypeError where it does not."""
    told = content["training"]
    return Training(**told | {"units": tuple(told["units"]), "modes": tuple(told["modes"])})


def learned_of(content: Mapping[str, Any], source: str) -> Learned:
    """The allocator that a file's content describes, refused where it was altered."""
    front = FRONTS[content["front"]]
    _check_columns(content.get("columns"), front, source)
    check_hash(content, source)
    try:
        heads = tuple(model_of(head) for head in content["heads"])
        return Learned(str(content["name"]), front, heads, content["rule"], training_of(content))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"{source}: must hold models in plain numbers; {error!r} is in the way.") from error


def _check_columns(columns: Any, front: Front, source: str) -> None:
    if columns == list(front.columns):
        return
    known = list(columns) if isinstance(columns, list) else []
    pairs = zip([*known, None], [*front.columns, None], strict=False)
    place, (found, wanted) = next((n, pair) for n, pair in enumerate(pairs) if pair[0] != pair[1])
    raise InputError(
        f"{source}: columns must be those of {front.name!r} in this deepval; column {place} is {found!r} and should be "
        f"{wanted!r}. Fit it again."
    )


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(_dumped(content).encode()).hexdigest()


def _dumped(content: Any) -> str:
    return json.dumps(content, sort_keys=True, allow_nan=False)
