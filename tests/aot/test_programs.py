"""What a CPU compiles for each metric: no more operations than the budgets say."""

import json

import pytest

from jaxdis import METRICS
from tests.aot.budgets import FILE
from tests.aot.programs import operations_of

BUDGETS = json.loads(FILE.read_text())["cpu"]
# Another version of JAX may write a program with so many more operations.
TOLERANCE = 1.05


@pytest.mark.parametrize("name", METRICS)
def test_no_more_is_compiled_than_before(name):
    assert operations_of(name) <= TOLERANCE * BUDGETS[name], "python -m tests.aot.programs"
