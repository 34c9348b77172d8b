"""Every analysis runs on a system, a data set and an estimator of the user's own, or
says why it cannot.
"""

from itertools import product

import pytest

import own_code

SAMPLE = ("signs", "viability", "external", "break-even")
CASES = []
for case in product(own_code.NAMES, own_code.COLUMNS):
    mark = pytest.mark.long if case[0] in SAMPLE else pytest.mark.slow
    CASES.append(pytest.param(*case, marks=mark))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    own_code.build(folder)
    return folder


@pytest.mark.parametrize(("name", "column"), CASES)
def test_an_analysis_runs_on_own_code_or_says_why_not(name, column, folder):
    reason = own_code.reason(name, column, folder)
    expected = own_code.REASONS.get((name, column))
    if expected is None:
        assert reason is None
    else:
        assert expected in str(reason)
