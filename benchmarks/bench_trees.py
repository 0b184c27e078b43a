"""DCI's trees at the standard workload: 10,000 train and 5,000 test samples, 10 codes, sizes 3, 6, 40, 32, 32

Peers: scikit-learn's ``GradientBoostingClassifier`` at its defaults (the learner of disentanglement_lib, Locatello et
al. 2020), whose cost is proportional to the number of classes: the factor of 6 classes is fitted with ``PEER_STAGES``
and the time scaled by 100 / PEER_STAGES and by 113 / 6 classes. LightGBM and xgboost, where installed, and
``HistGradientBoostingClassifier`` fit the same factor with all stages and are scaled by 113 / 6.

Floor of a stage on one core, histograms: 1.2 million gradients (113 columns filled up to 120) by 10 codes by 6 payloads
(root: gradients; one left child: gradients and counts; two more: gradients, and counts that share an integer) are 72
million row additions, at 0.06 ns 4 ms, at the 0.09 ns measured for the kernel alone 6.5 ms. Exponentials and products
of probabilities are 1.4 ms, the paths of 15,000 samples through seven splits 0.7 ms and their transposes 0.4 ms, sums
over leaves 1 ms, gains of 7 nodes by 640 cuts 1.3 ms: 11 ms in all. Measured 16 to 17 ms; what is left is the traffic
of 5 MB payloads, which each code reads anew. Paths are found tree by tree, along the samples: a row of numbers is
compared with one cut. As products of samples with one-hot features they took 5 ms. XLA has to be told the order in
memory, since it would otherwise find the paths in the order of their transpose, in 3 ms.

Measured on one core of a server, nothing else on it: 1.04 s with histograms against 236 s of the peer, 226 times;
LightGBM and xgboost 5.2 s (5.0 times), HistGradientBoostingClassifier 6.8 s (6.6); 2.67 s with exact splits, 88 times
(84 to 88 in four runs of five rounds each). On a slower machine: 1.61 s with histograms (178, LightGBM 4.3 and
HistGradientBoostingClassifier 6.0 times) and 4.0 s with exact splits against 287 s of the peer, 72 times. An earlier
run on two cores, wall time: 1.8 and 2.3 s with histograms, LightGBM 4.6 s, xgboost 5.4 s,
HistGradientBoostingClassifier 12.6 s; the peer knows one thread. Memory of a member: 43 MB, which bounds a chunk under
``vmap``; a CPU maps over members, once each.

A stage of exact splits takes 40 ms on the slower machine. It sums 132 runs of samples as histograms do, with 6 payloads
(7 ms, of which counts, two in two bytes, are 1.4); bounds the gain within each (2 ms); and walks the 26 of 1,320 runs
per node, on average, that may hold the best cut: 2 million samples, 10 ms, mostly reading gradients and nodes in the
order of a code; later stages, whose gains are alike, walk more (7 % of the runs at the root). Their running sums are
two small products, over 8 places and over 10 such groups, in place of one over 80. Promising runs are found by rows of
rows of their mask, in 3 ms; a binary search took 15 steps of six kernels. Indices that are known to be right are not
checked: XLA computes them, and what they depend on, for each sample that is read. Gradients are scaled block by block:
elsewhere XLA repeats the division for each reader, in flattened form. What is left are paths and their transposes (3
ms), leaves (1.7 ms) and some 15 passes over arrays of 5 MB, .3 to .5 ms each. Two reads of samples that are side by
side in memory, by keeping gradients also by trees and walking neighboring trees together, take 2 ms less, but the
transposes take as much; places that are carried from round to round, and so computed once, spare 1 %. Knowing the best
gain beforehand would spare only a quarter of the walks, and walking the most promising run of each node first a tenth
at most. Runs of 64 to 96 samples take the same time, as do 256 to 1,024 runs at a time. Running sums in a loop over the
places of a run are twice as fast alone, but slower here: the reads, in the order of places, leave the cache. 65 MB.

Three more ideas that do not help with exact splits: bounds with the steepest gradients of each run, not of all samples,
spare 5 % of the walks and cost more; runs half as long at the root take the same time; the node written into the last
bits of a gradient spares a read, but XLA then computes its place for each sample anew (5 ms more).

Growth (20 stages, 4,000 samples, 10 codes, sizes 6 and 10; ms with histograms, with exact splits): 2,000, 4,000, 8,000
samples 18, 24, 46 and 55, 77, 120; 5, 10, 20 codes 17, 24, 40 and 53, 77, 107; 16, 32, 64 classes 24, 45, 75 and 77,
142, 249; 20, 40 stages 24, 43 and 77, 152. A member of a zoo of 1, 2, 8 (histograms): 26, 26, 23. Compile time does
not depend on any of these: 5 s with histograms, 10 s with exact splits.

Convergence of boosting: differences of D and C (the entropy scores of the importances) and of accuracy, on noisy
representations of factors with 2 to 40 values.

    exact − mean of five random states of scikit-learn, six representations, n = 2,000
                                                         D, C         accuracy of every factor
    largest difference                                   0.003        0.004
    spread of scikit-learn's states                      0.005        0.009
    held-out cuts halfway between any neighbors                       up to −0.010
    exclusive or, where no first cut gains anything      D is 0.46 to 0.61 over six states; 0.49 here

    histogram (64 bins) − exact, n = 10,000              D            C
    mixture, 3, 6, 40, 32 and 32 values                  0.001        0.005
    of these, the first two (accuracy above 0.2)         0.008        0.013
    rotation                                             0.010        0.007
    two other mixtures                                   0.010, 0.005 0.008, 0.002
    products of codes, one factor at accuracy 0.98       0.033        0.006      (128 bins: changes below 0.014)
    40 values at accuracy 0.09                           −0.035       0.002      (128 bins: changes below 0.014)
    accuracy: at most 0.005, except for +0.027 on one factor of ten values

    histogram − exact, n = 2,000, D; bins:               64      128     255     1,000   2,000
    rotation                                             0.017   0.005
    products of codes, one factor at accuracy 0.98               −0.028  −0.049  −0.050  0.002
    40 values at accuracy 0.09                                   −0.084  −0.068  −0.044  0.001

    rotation, n = 2,000; stages:                         25      100     400
    D, exact                                             0.332   0.301   0.294
    D, histogram                                         0.335   0.306   0.300
    accuracy, exact                                      0.809   0.837   0.843

    rotation, exact; samples:                            500     2,000   10,000
    D                                                    0.487   0.301   0.298
    accuracy                                             0.797   0.837   0.879

    other learners − exact, n = 2,000, 100 trees, D      rotation     mixture    (C alike)
    LightGBM                                             0.01         0.01       (40 values: −0.07)
    xgboost (default importance, gain per split)         −0.10        −0.08
    scikit-learn's classifying forest                    −0.15        −0.26

A forest needs more than 64 bins for a continuous factor that a code encodes exactly. On the teapots, depth 10 (error in
units of the factor's deviation, for a factor that a code copies):

    bins                             64      256     1,024   scikit-learn
    error                            0.126   0.080   0.001   0.0005
    D                                0.824   0.839   0.844   0.849 ± 0.003
    C                                0.805   0.815   0.821   0.826 ± 0.001

With a depth chosen for each factor on left-out samples, D is 0.866 and C is 0.848.
"""

import os

import jax
import jax.numpy as jnp
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestRegressor
from workload import DSPRITES, make_zoo

from jaxdis import METRICS, RELATIONS, Factors, Sample, evaluate

CORES = int(os.environ.get("BENCHMARK_CORES", "1"))
TRAIN, TEST, STAGES, PEER_STAGES = 10_000, 5_000, 100, 10
CLASSES = sum(DSPRITES)


def sample(n=TRAIN, d=10, sizes=DSPRITES):
    codes, values = make_zoo(1, n=n + n // 2, d=d, sizes=sizes)
    return codes[0], values


def bench_peer_scikit_learn(measure, benchmark):
    benchmark.group = "boosted trees, dsprites: ms per member"
    codes, values = sample()
    model = GradientBoostingClassifier(n_estimators=PEER_STAGES)
    scale = STAGES / PEER_STAGES * CLASSES / 6
    measure(lambda: _fit_and_score(model, codes, values[:, 1]), rounds=5, each=1 / scale, compiled=False)


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "scikit-learn histogram"])
def bench_histogram_library(measure, name, benchmark):
    benchmark.group = "boosted trees, dsprites: ms per member"
    codes, values = sample()
    model = _library(name)
    measure(
        lambda: _fit_and_score(model, codes, values[:, 1]),
        rounds=1,
        each=6 / CLASSES,
        compiled=False,
        scaled=CLASSES / 6,
    )


def _library(name):
    if name == "lightgbm":
        return pytest.importorskip("lightgbm").LGBMClassifier(max_depth=3, num_leaves=8, n_jobs=CORES, verbose=-1)
    if name == "xgboost":
        return pytest.importorskip("xgboost").XGBClassifier(
            max_depth=3, learning_rate=0.1, n_estimators=STAGES, tree_method="hist", n_jobs=CORES
        )
    return HistGradientBoostingClassifier(max_depth=3, early_stopping=False)


def _fit_and_score(model, codes, classes):
    return model.fit(codes[:TRAIN], classes[:TRAIN]).score(codes[TRAIN:], classes[TRAIN:])


@pytest.mark.parametrize("splitter", ["histogram", "exact"])
def bench_boosted(measure, splitter, benchmark):
    benchmark.group = "boosted trees, dsprites: ms per member"
    _measure(measure, *sample(), DSPRITES, rounds=5, splitter=splitter)


@pytest.mark.parametrize("splitter", ["histogram", "exact"])
@pytest.mark.parametrize(
    ("n", "d", "sizes", "stages"),
    [
        (2000, 10, (6, 10), 20),
        (4000, 10, (6, 10), 20),
        (8000, 10, (6, 10), 20),
        (4000, 5, (6, 10), 20),
        (4000, 20, (6, 10), 20),
        (4000, 10, (6, 10, 16), 20),
        (4000, 10, (6, 10, 16, 32), 20),
        (4000, 10, (6, 10), 40),
    ],
)
def bench_growth(measure, splitter, n, d, sizes, stages, benchmark):
    benchmark.group = f"growth of boosted trees, {splitter}"
    _measure(measure, *sample(n, d, sizes), sizes, rounds=3, splitter=splitter, stages=stages)


@pytest.mark.parametrize("members", [1, 2, 8])
def bench_members(measure, members, benchmark):
    """Each core takes members of its own; the time of one does not depend on how many there are."""
    benchmark.group = "members of a zoo, 4,000 samples, sizes 6 and 10, 20 stages: ms per member"
    codes, values = make_zoo(members, n=6000, sizes=(6, 10))
    metric = {"dci": METRICS["dci"].with_options(splitter="histogram", stages=20)}
    train, test = values[:4000], (codes[:, 4000:], Factors.of(values[4000:], (6, 10)))
    factors = Factors.of(train, (6, 10))
    measure(lambda: evaluate(codes[:, :4000], factors, metric, test=test).to_dict(), rounds=3, each=members)


def _measure(measure, codes, values, sizes, *, rounds, **options):
    n = len(codes) * 2 // 3
    spec = RELATIONS["boosted_trees"].with_options(**options)
    arguments = (
        jnp.asarray(codes[:n]),
        Factors.of(values[:n], sizes),
        Sample(jnp.asarray(codes[n:]), Factors.of(values[n:], sizes)),
    )
    compiled = jax.jit(lambda codes, factors, test: spec(codes, factors, test=test)).lower(*arguments).compile()
    memory = compiled.memory_analysis().temp_size_in_bytes
    fitted = jax.jit(lambda codes, factors, test: spec(codes, factors, test=test))
    measure(lambda: fitted(*arguments), rounds=rounds, megabytes=round(memory / 1e6, 1), n=n, **options)


def bench_peer_forest(measure, benchmark):
    benchmark.group = "forest of 10 regressors, depth 8, dsprites: ms per member"
    codes, values = sample()

    def fit():
        models = [RandomForestRegressor(10, max_depth=8).fit(codes[:TRAIN], column[:TRAIN]) for column in values.T]
        return [model.score(codes[TRAIN:], column[TRAIN:]) for model, column in zip(models, values.T, strict=True)]

    measure(fit, rounds=2, compiled=False)


def bench_forest(measure, benchmark):
    benchmark.group = "forest of 10 regressors, depth 8, dsprites: ms per member"
    codes, values = sample()
    spec = RELATIONS["random_forest"].with_options(depth=8, choose_depth=False)
    factors = Factors.of(values[:TRAIN], DSPRITES)
    test = Sample(jnp.asarray(codes[TRAIN:]), Factors.of(values[TRAIN:], DSPRITES))
    fitted = jax.jit(lambda key, codes: spec(key, codes, factors, test=test))
    measure(lambda: fitted(jax.random.key(0), jnp.asarray(codes[:TRAIN])), rounds=3)
