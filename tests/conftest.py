"""Settings of all tests: hypothesis has no deadline; files that take seconds are marked
`long`.
"""

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

import typechecker

# tests that import ONNX Runtime themselves use no network either
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
# output is as wide as tests say, not as the terminal that they were started in
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")  # readline sets it for child processes alone
# as in a background job: tests of Ctrl-C would wait for ever
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no reason to fail.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

LONG = frozenset(
    f"test_{name}.py"
    for name in (
        # They build cells, fit allocators, run commands in processes of their own, draw
        # figures or simulate a world.
        *(
            "allocators",
            "bounded_reading",
            "browser",
            "build",
            "cell_files",
            "cli",
            "diagnostics",
            "docs",
            "figures",
        ),
        *(
            "driving_shared",
            "export",
            "road_view",
            "terminal",
            "edges",
        ),
        *(
            "fitting",
            "frames",
            "golden",
            "house",
            "html_report",
            "leaderboard",
            "models",
            "options",
            "own_allocator",
        ),
        *(
            "package",
            "extras",
            "perceive",
            "pixel_router",
            "profile",
            "regime",
            "results_page",
            "scenarionet",
            "seam",
        ),
        *(
            "shared_kitti",
            "submissions",
            "synthetic",
            "terms",
            "tracks",
            "built_in_modes",
            "observed_cells",
        ),
        *(
            "analysing",
            "escalation_analyses",
            "mechanism",
            "notebook",
            "python",
            "readme",
        ),
        *(
            "observations",
            "closed_loop",
            "drive_command",
            "nuplan",
            "learned_planner",
            "learned_systems",
        ),
        *(
            "planners",
            "external_analysis",
            "external_build",
            "across_targets",
            "reproduce",
        ),
        *(
            "paper_cells",
            "labels",
            "cost_analyses",
            "variants",
            "sweep_twins",
            "seeing",
            "rebuilding",
            "kept_units",
        ),
        # They compare with slow and obvious twins on many random tables.
        *(
            "ap_swap",
            "comparison",
            "features",
            "knapsack",
            "ladder",
            "laws",
            "report",
            "resampling",
            "streaming",
        ),
        *(
            "tracked",
            "over_cells",
            "diagnosis",
            "trust",
            "choosing",
            "held_out",
            "out_of_fold",
            "out_of_core",
        ),
        # They try what cannot be meant.
        *("stopping", "mutated", "odd_input", "no_network"),
        # They run every benchmark at a tiny size.
        "benchmarks",
        # They drive, start workers or run code of users.
        *("drives", "workers", "plugins", "ledger", "voi"),
        # Money, router logs.
        *("input_costs", "money", "recovery", "public_logs", "off_policy"),
    )
)
"""Files that `make quick` leaves out; the others take less than a minute."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files whose tests are all deselected: imports take a third of the
    time of `make quick`.
    """
    deselected = config.getoption("markexpr")
    long = "not long" in deselected and collection_path.name in LONG
    slow = (
        "not slow" in deselected and collection_path == Path(__file__).parent / "slow"
    )
    return True if long or slow else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of long files."""
    for item in items:
        if item.path.name in LONG:
            item.add_marker(pytest.mark.long)


def pytest_runtest_setup() -> None:
    """In each test the first calls of each function have their annotations checked."""
    typechecker.begin_test()


@pytest.fixture(autouse=True)
def _own_code_ends_with_its_test():
    """A command adds the recipes of a user's code to the table for its process, and
    many commands run in one here.
    """
    yield
    allocators = sys.modules.get("deepval.deploy.allocators")
    for name in [] if allocators is None else [*allocators.RECIPES]:
        if name not in allocators.BUILT_IN:
            del allocators.RECIPES[name]
