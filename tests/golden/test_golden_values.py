"""Every case of cases.py has the values that it had when values.json was written."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

spec = importlib.util.spec_from_file_location("golden_cases", Path(__file__).with_name("cases.py"))
cases = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cases)

STORED = cases.stored()


@pytest.mark.parametrize("name", cases.CASES)
def test_values_are_as_before(name):
    chosen, expected = cases.CASES[name], STORED[name]
    found = chosen.run()
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        largest = np.max(np.abs(value), where=np.isfinite(value), initial=0.0)
        np.testing.assert_allclose(
            found[key], value, rtol=chosen.tolerance, atol=chosen.tolerance * largest, err_msg=f"{name}: {key}"
        )


def test_no_stored_value_is_left_over():
    assert STORED.keys() == cases.CASES.keys()
