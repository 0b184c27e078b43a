"""Every metric alone and all of them together: seconds per member, and what the first call costs beyond that.

    python -m pytest benchmarks/bench_all.py -o addopts= --benchmark-timer=time.process_time

Together they cost less than the sum: metrics that read the same relation, or the same fit, share it. There is no peer
that has all of them; each part is beside its own peer in the other files. Set ``JAX_ENABLE_COMPILATION_CACHE=false`` to
see what compiling costs without a cache.
"""

import numpy as np
import pytest
from workload import DSPRITES, make_zoo

from jaxdis import METRICS, Factors, evaluate

TRAIN, HELD_OUT = 10_000, 5000


@pytest.mark.benchmark(group="one member under each metric")
@pytest.mark.parametrize("name", [*METRICS, "all"])
def test_metric(name, measure):
    codes, values = make_zoo(1, n=TRAIN + HELD_OUT)
    factors, unseen = Factors.of(values[:TRAIN], DSPRITES), Factors.of(values[TRAIN:], DSPRITES)
    codes, held_out = codes[:, :TRAIN], codes[:, TRAIN:]
    variances = np.full_like(codes, 0.1)
    measure(lambda: evaluate(codes, factors, name, test=(held_out, unseen), variances=variances), rounds=2)
