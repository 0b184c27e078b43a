"""DCI's trees at the standard workload: 10,000 train and 5,000 test samples, 10 codes, sizes 3, 6, 40, 32, 32

Peers: scikit-learn's ``GradientBoostingClassifier`` at its defaults (the learner of disentanglement_lib, Locatello et
al. 2020), whose cost is proportional to the number of classes: the factor of 6 classes is fitted with ``PEER_STAGES``
and the time scaled by 100 / PEER_STAGES and by 113 / 6 classes. LightGBM and xgboost, where installed, and
``HistGradientBoostingClassifier`` fit the same factor with all stages and are scaled by 113 / 6.
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
