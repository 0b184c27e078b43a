"""The mutual-information family of a zoo: MIG, MIG-sup, MED, DCIMIG and modularity from one relation.

Floor on one core for a member of 10,000 × 10 with sizes 3, 6, 40, 32, 32: 100,000 values to bin (0.10 ms), three
grouped counter updates for each (300,000 at 0.46 ns: 0.14 ms), 22,600 logarithms (0.04 ms), 400 KB copied in: 0.3 to
0.35 ms. One member alone pays the start of a program as well, about half a millisecond of Python.
What is left above it: the minimum and maximum of each code, and the transposition of bin numbers.

Peer: the code path of disentanglement_lib (Locatello et al. 2020), written again from numpy's histogram and
scikit-learn's ``mutual_info_score``.
"""

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score
from workload import DSPRITES, SHAPES3D, make_zoo

from jaxdis import Factors, evaluate

FAMILY = ("mig", "mig_sup", "med", "dcimig", "modularity")
SIZES = {"dsprites": DSPRITES, "shapes3d": SHAPES3D}


def reference(codes, values):
    """Discretize each code by its histogram's edges, then one call for each pair of code and factor."""
    d, k = codes.shape[1], values.shape[1]
    bins = [np.digitize(codes[:, i], np.histogram(codes[:, i], 20)[1][:-1]) for i in range(d)]
    information = np.array([[mutual_info_score(bins[i], values[:, j]) for j in range(k)] for i in range(d)])
    entropy = np.array([mutual_info_score(values[:, j], values[:, j]) for j in range(k)])
    ordered = np.sort(information, axis=0)[::-1]
    return np.mean((ordered[0] - ordered[1]) / entropy)


@pytest.mark.parametrize("sizes", SIZES)
def bench_peer(measure, sizes, benchmark):
    benchmark.group = f"mutual information, {sizes}: ms per member"
    codes, values = make_zoo(1, sizes=SIZES[sizes])
    measure(lambda: reference(codes[0], values), rounds=5, compiled=False)


@pytest.mark.parametrize("members", [1, 16, 64, 256, 1000])
@pytest.mark.parametrize("sizes", SIZES)
def bench_family(measure, sizes, members, benchmark):
    benchmark.group = f"mutual information, {sizes}: ms per member"
    codes, values = make_zoo(members, sizes=SIZES[sizes])
    factors = Factors.of(values)
    measure(lambda: dict(evaluate(codes, factors, FAMILY)), each=members)
    assert evaluate(codes[:1], factors, "mig")["mig"][0] == pytest.approx(reference(codes[0], values), abs=1e-5)


@pytest.mark.parametrize("metric", ["sap_r2", "mcc", "amari", "rmig"])
def bench_other(measure, metric, benchmark):
    benchmark.group = "other relations, dsprites, 64 members: ms per member"
    codes, values = make_zoo(64)
    factors = Factors.of(values)
    measure(lambda: dict(evaluate(codes, factors, metric)), rounds=3, each=64)
