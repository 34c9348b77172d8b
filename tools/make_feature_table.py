"""The tables of features in the code -> docs/features.md.

Run: python tools/make_feature_table.py
"""

from pathlib import Path

from deepval.allocators.feature_sets import MEMORY_FEATURES
from deepval.features import table, tracked
from deepval.features.table import FEATURES, markdown
from deepval.features.tracked import TRACKED_FEATURES
from deepval.files.writing import write_atomically

TARGET = Path(__file__).resolve().parent.parent / "docs" / "features.md"


def page() -> str:
    """The page of features."""
    rules, observed = ((part.__doc__ or "").split("\n\n")[1].replace("\n", " ").strip() for part in (table, tracked))
    return f"""# What a gate may look at

Made by `python tools/make_feature_table.py` from the tables in the code; a test checks that this page is up to date.
All of it comes from the pre-escalation view: ego motion, calibration, images and what the cheap mode reports. Cells \
whose placing observes have the [18 features](#the-{len(TRACKED_FEATURES)}-features-of-observed-objects) at the end in \
place of the others.

## The {len(FEATURES)} cheap-side features

{rules}

{markdown(FEATURES)}
## The {len(MEMORY_FEATURES)} memory features

What was seen, near and required a moment ago, against now. Changes are NaN where there was no frame so long before; \
frames on which the cheap mode was not run do not count for extremes. The group `lost` is about objects that were seen \
within the last 8 frames and are missing now.

{markdown(MEMORY_FEATURES)}
## The {len(TRACKED_FEATURES)} features of observed objects

{observed}

{markdown(TRACKED_FEATURES)}
The [detection list](definitions.md#detection-list) of such cells is that of the 25 nearest objects.
"""


if __name__ == "__main__":
    write_atomically(TARGET, page())
    print(TARGET)
