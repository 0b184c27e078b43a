"""The mutual-information family of a zoo: MIG, MIG-sup, MED, DCIMIG and modularity from one relation.

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
