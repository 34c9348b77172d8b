"""In a mild world of 100 units, the plan by cheap loss errs less than a uniform share,
as the page says.
"""

import pytest

import shadowing

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_the_design_errs_less_than_a_uniform_share():
    errors = {
        name: figures[-1]
        for name, figures in shadowing.in_world("mild", 100, 60).items()
    }
    print(errors)
    assert errors["3 % by cheap loss"] < 0.85 * errors["3 % uniform"]
    assert errors["3 % by cheap loss, escalating"] < errors["10 % uniform"]
