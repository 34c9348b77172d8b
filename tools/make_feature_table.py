"""The tables of features in the code -> docs/generated/features.md.

Run: python tools/make_feature_table.py
"""

from collections.abc import Sequence
from pathlib import Path

from deepval.basics.files.writing import write_atomically
from deepval.deploy.allocators.feature_sets import MEMORY_FEATURES
from deepval.deploy.features import cheap
from deepval.deploy.features.cheap import FEATURES, TRACKED_FEATURES, Feature

TARGET = Path(__file__).resolve().parent.parent / "docs" / "generated" / "features.md"


def markdown(features: Sequence[Feature]) -> str:
    """The features as a Markdown table."""
    bar = r"\|"
    lines = [
        f"| {n} | `{f.name}` | {f.group} | {f.formula.replace('|', bar)} |"
        for n, f in enumerate(features, 1)
    ]
    return (
        "\n".join(["| # | name | group | formula |", "|--:|---|---|---|", *lines])
        + "\n"
    )


def page() -> str:
    """The page of features."""
    _, rules, observed = (
        part.replace("\n", " ").strip() for part in (cheap.__doc__ or "").split("\n\n")
    )
    return f"""# Features of gates and routers

`python tools/make_feature_table.py` writes this page from the tables in the code; a \
test checks that it is up to date.
All features come from the view before escalation: ego motion, calibration, images and \
the cheap mode's report. Under \
an observing geometry (`cuboids`, `tracks` and its variants), the \
[{len(TRACKED_FEATURES)} \
features](#the-{len(TRACKED_FEATURES)}-features-of-observed-objects) at the end \
replace the \
others.

## The {len(FEATURES)} cheap-side features

{rules}

{markdown(FEATURES)}
## The {len(MEMORY_FEATURES)} memory features

These features compare the current frame with earlier ones. A change is NaN if there \
is no frame that far back. \
Extremes ignore frames on which the cheap mode was not run. The group `lost` describes \
objects that were seen within \
the last 8 frames and are missing now.

{markdown(MEMORY_FEATURES)}
## The {len(TRACKED_FEATURES)} features of observed objects

{observed}

{markdown(TRACKED_FEATURES)}
Under these geometries the [detection list](../definitions.md#detection-list) contains \
the 25 nearest objects.
"""


if __name__ == "__main__":
    write_atomically(TARGET, page())
    print(TARGET)
