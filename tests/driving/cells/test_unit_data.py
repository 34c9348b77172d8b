"""Units that are held in memory for who goes through them again and again."""

from collections import Counter

import pytest

from deepval.driving.cells.spec import specs
from deepval.driving.cells.unit import cache_units, unit_data
from street import Street, street


@pytest.fixture
def reads(monkeypatch):
    """How often each unit was read from here on."""
    counted, read = Counter(), Street.read_unit

    def counting(self, unit):
        counted[unit] += 1
        return read(self, unit)

    monkeypatch.setattr(Street, "read_unit", counting)
    cache_units(0)  # what other tests left
    cache_units()
    yield counted
    cache_units()


def test_a_unit_is_read_again_unless_it_is_held(reads):
    (spec,) = specs(street(reach_m=(15.0, 31.0)), geometries=("cuboids",))
    units = spec.units[:3]
    for _ in range(2):
        for unit in units:
            unit_data(spec, unit)
    assert reads == dict.fromkeys(units, 2)
    cache_units(3)
    first = [unit_data(spec, unit) for unit in units]
    again = [unit_data(spec, unit) for unit in units]
    assert reads == {units[0]: 3, units[1]: 3, units[2]: 2}
    for one, other in zip(first, again, strict=True):
        assert one.scene is other.scene
        assert one.truth is other.truth
        assert all(one.reported[mode] is other.reported[mode] for mode in one.reported)
    cache_units()
    unit_data(spec, units[0])
    assert reads[units[0]] == 4
