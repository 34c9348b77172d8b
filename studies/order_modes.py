"""A specification with modes -> how well each mode finds objects on the training units,
and which pairs make sense.

    python studies/order_modes.py docs/replication/kitti-cars.toml --data ../shared/data

A pair makes sense as cheap -> full where the full mode's recall is higher by at least
0.02 and its F1 is higher, both over the training units as the benchmark matches
(docs/definitions.md, Matching). Decision values are not looked at.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np

from deepval.basics.errors import InputError
from deepval.driving.cells.sources import read_specification
from deepval.driving.cells.spec import CellSpec, ModeSpec
from deepval.driving.cells.unit import used_detections
from deepval.driving.geometry.classes import super_class
from deepval.driving.perception.reported.losses import matching
from deepval.judge.report.forms import table_markdown
from deepval.judge.report.text_tables import Table, lines_of, number

LEAST_RECALL = 0.02
"""Least difference in recall at which one mode counts as better."""


@dataclass(frozen=True)
class Quality:
    """Counts of a mode on the training units: right and wrong detections, missed
    objects of its classes.
    """

    mode: str
    right: int
    wrong: int
    missed: int

    @property
    def recall(self) -> float:
        """Share of the objects that it finds."""
        return self.right / max(self.right + self.missed, 1)

    @property
    def precision(self) -> float:
        """Share of its detections that are right."""
        return self.right / max(self.right + self.wrong, 1)

    @property
    def f1(self) -> float:
        """2 right / (2 right + wrong + missed)."""
        return 2 * self.right / max(2 * self.right + self.wrong + self.missed, 1)


def quality(spec: CellSpec, mode: ModeSpec) -> Quality:
    """How well a mode of a cell finds objects."""
    counts = np.zeros(3, dtype=int)
    if spec.source is None or mode.reader is None or mode.classes is None:
        raise InputError(f"mode {mode.name}: its report and its classes must be known.")
    mine = np.unique(super_class(np.array(mode.classes)))
    for unit in spec.roles.train:
        scene, truth = spec.source.read_unit(unit)
        report = mode.reader.detections(scene, truth)
        used = used_detections(mode, report.where(np.isin(report.cls, mode.classes)))
        found = matching(used, truth)
        missed = found.missed & np.isin(super_class(truth.cls), mine)
        counts += [
            np.count_nonzero(marks)
            for marks in (found.partner >= 0, found.false_positive, missed)
        ]
    return Quality(mode.name, *counts.tolist())


def sensible(found: Sequence[Quality]) -> list[tuple[str, str]]:
    """Pairs that make sense, cheap first."""
    return [
        (cheap.mode, full.mode)
        for cheap, full in permutations(sorted(found, key=lambda each: each.recall), 2)
        if full.recall - cheap.recall >= LEAST_RECALL and full.f1 > cheap.f1
    ]


def main() -> None:
    """Print the table and the pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("specification", type=Path)
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    specs = [
        wanted.specs[0]
        for wanted in read_specification(given.specification, given.data)
    ]
    modes = {mode.name: mode for spec in specs for mode in spec.modes}
    found = sorted(
        (quality(specs[0], mode) for mode in modes.values()),
        key=lambda each: each.recall,
    )
    texts = [
        (q.mode, f"{q.right:,}", number(q.recall), number(q.precision), number(q.f1))
        for q in found
    ]
    header = ("source", "right", "recall", "precision", "F1")
    print(table_markdown(Table("On training units", header, lines_of(texts))))
    pairs = sensible(found)
    print(f"{len(pairs)} of {len(found) * (len(found) - 1) // 2} pairs make sense:")
    print("\n".join(f"{cheap} -> {full}" for cheap, full in pairs))
    specified = {tuple(spec.order) for spec in specs}
    print(
        "The specification has these pairs."
        if specified == set(pairs)
        else "The specification has other pairs."
    )


if __name__ == "__main__":
    main()
