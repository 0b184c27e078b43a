"""Every function that reads samples, with 2,000 codes, in a process whose memory is limited."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.measure_seconds import sources
from jaxdis.evaluation._costs import Size, seconds_of

N, D, SIZES = 300, 2000, (3, 4)
GIGABYTES = 3
# Each scores several rows: a process takes seconds to begin.
PROCESSES = 5
ROWS = """
import json, resource, sys
import jax
import numpy as np
from benchmarks.measure_seconds import sources
from jaxdis import Factors, evaluate
n, d, sizes, gigabytes, names = json.loads(sys.argv[1])
rows, rng = sources(), np.random.default_rng(0)
short = {"stages": 5, "depth": 2, "trees": 3, "epochs": 3, "max_epochs": 3}
values = rng.integers(0, sizes, (n, len(sizes)))
codes = rng.normal(size=(n, d)).astype(np.float32)
codes[:, [5, d - 1]] += 5 * values
codes[:, 7] = 1
factors = Factors.of(values, sizes)
resource.setrlimit(resource.RLIMIT_DATA, (gigabytes << 30,) * 2)
for name in names:
    metric = rows[name]
    metric = metric.with_options(**{option: short[option] for option in short if option in metric.all_options})
    # What draws random numbers has others for other places.
    orders = (codes,) if metric.source.reads.key else (codes, codes[:, ::-1])
    print(json.dumps([name, *(evaluate(each, factors, {"row": metric}).to_dict() for each in orders)]), flush=True)
    jax.clear_caches()
"""
# Takes a minute with as many codes.
SLOWER = {name for name, row in sources().items() if seconds_of(row.source).of(Size.of(N, D, SIZES)) > 40}


@pytest.mark.parametrize("place", range(PROCESSES))
def test_two_thousand_codes_fit_and_their_order_does_not_matter(place):
    names = sorted(sources().keys() - SLOWER)[place::PROCESSES]
    run = [sys.executable, "-c", ROWS, json.dumps([N, D, SIZES, GIGABYTES, names])]
    done = subprocess.run(
        run, capture_output=True, text=True, timeout=1800, env={**os.environ, "PYTHONPATH": os.getcwd()}
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"after {[name for name, *_ in lines]} of {names}: {done.stderr[-2000:]}"
    assert [name for name, *_ in lines] == names
    for name, found, *of_reversed_codes in lines:
        assert np.isfinite(np.array([*found.values()], float)).any(), (name, found)
        for other in of_reversed_codes:
            np.testing.assert_allclose([*other.values()], [*found.values()], atol=2e-3, err_msg=name)
