"""`deepval.Watch` on streams whose truth is known: false alarms and delays that
docs/guarantees.md states.
"""

import numpy as np
import pytest

from deepval.judge.watching import HORIZON, RISK
from watch_streams import NEVER, Oracle, Pools, delays, false_alarms, watched

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("spread", ["mild", "concentrated"])
def test_false_alarms_and_delays(spread):
    pools = Pools.of(spread, np.random.default_rng(7))
    exact, near, harm = (
        pools.claim("gain", 1.0),
        pools.claim("gain", 0.8),
        pools.claim("harm", 1.25),
    )
    for claim in (exact, near, harm):
        assert false_alarms(claim, pools, 10_000) <= RISK
    for after in ("noise", "reversed"):
        oracle = Oracle(pools, after, 10_000)
        for before in (0, 200):
            parts = [("good", before), (after, 1500)]
            best = np.median(delays(oracle.path(parts, 1000, 3), oracle.enough, before))
            own, loose = (
                np.median(
                    delays(
                        watched(claim, pools, parts, 1000, 3), HORIZON / RISK, before
                    )
                )
                for claim in (exact, near)
            )
            assert best < own < loose < NEVER
            assert own <= 2.3 * best
            assert loose <= 2.7 * best
