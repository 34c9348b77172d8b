"""Every reader on mutated real files, for a bounded number of them: only our own errors
come out.

Where atheris is installed it looks further, guided by coverage; `python
tests/slow/fuzz_atheris.py SECONDS [NAME ...]` for longer.
"""

import importlib.util
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzzed import changed, crash, targets

pytestmark = pytest.mark.slow
TIMES, GUIDED_S = 300, 15


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return {target.name: target for target in targets(tmp_path_factory.mktemp("fuzz"))}


NAMES = (
    *(
        "values.csv",
        "values.parquet",
        "scores.csv",
        "costs.toml",
        "result.json",
        "samples.npz",
        "frames.json",
    ),
    *(
        "split.json",
        "manifest.json",
        "allocator",
        "card.toml",
        "submission.csv",
        "history.json",
    ),
    *(
        "judgements",
        "boxes.parquet",
        "boxes.json",
        "plan.toml",
        "labels",
        "calibration",
        "json",
    ),
)


def test_every_target_is_named(files):
    assert set(files) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_mutated_files(files, name):
    rng, target = random.Random(name), files[name]
    found = {
        told for _ in range(TIMES) if (told := crash(target, changed(target.data, rng)))
    }
    assert found == set()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), data=st.binary(max_size=200))
def test_any_bytes(files, name, seed, data):
    """Bytes of any kind, alone and put into a real file."""
    target, rng = files[name], random.Random(seed)
    place = rng.randrange(len(target.data) + 1)
    assert crash(target, data) is None
    assert (
        crash(target, target.data[:place] + data + target.data[place + len(data) :])
        is None
    )


@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None,
    reason="atheris is not installed: pip install atheris",
)
def test_guided_by_coverage(tmp_path):
    script = Path(__file__).parent / "fuzz_atheris.py"
    done = subprocess.run(
        [sys.executable, script, str(GUIDED_S)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("nothing found") == len(NAMES)
