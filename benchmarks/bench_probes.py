"""Small classifiers at the standard workload: 10,000 train and 5,000 test samples, 10 codes, sizes 3, 6, 40, 32, 32.

Peers are the algorithms of the released codes, run one member at a time: SNC re-expressed in NumPy and SciPy (Mahon et
al. 2024), scikit-learn's ``LinearSVC``, ``LogisticRegression``, ``LogisticRegressionCV`` and ``Lasso``, and for the
probes ``MLPClassifier`` at equal width, batch and epochs on one factor, scaled by the ten probes of a member. Torch,
where installed, trains the same probe in a tight loop and by the released recipe (a data loader that stacks samples).
"""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.stats import entropy
from sklearn.linear_model import Lasso, LogisticRegression, LogisticRegressionCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC
from workload import DSPRITES, make_zoo

from jaxdis import METRICS, Factors, evaluate
from jaxdis._core.spec import Spec
from jaxdis.metrics import Direct
from jaxdis.metrics._downstream import downstream_logistic

MEMBERS, TRAIN, TEST = 16, 10_000, 5_000
EPOCHS, BATCH = 75, 1024
FLOPS = 75 * TRAIN * 2 * (6 * 10 * 5 * 256 - 2 * 10 * 5 * 256 + 6 * 256 * sum(DSPRITES))


@functools.cache
def zoo():
    codes, values = make_zoo(MEMBERS, TRAIN + TEST)
    return codes[:, :TRAIN], values[:TRAIN], codes[:, TRAIN:], values[TRAIN:]


def score(measure, metric, *, members=MEMBERS, rounds=3):
    codes, values, held_out, truth = zoo()
    factors, test = Factors.of(values, DSPRITES), (held_out[:members], Factors.of(truth, DSPRITES))
    plan = {"metric": metric}
    measure(lambda: evaluate(codes[:members], factors, plan, test=test).to_dict(), rounds=rounds, each=members)


def bench_peer_snc(measure, benchmark):
    benchmark.group = "SNC: ms per member"
    codes, values, held_out, truth = zoo()
    measure(lambda: _snc(codes[0], values, held_out[0], truth), rounds=3, compiled=False)


@pytest.mark.parametrize("mode", ["paper", "code"])
def bench_snc(measure, mode, benchmark):
    benchmark.group = "SNC: ms per member"
    score(measure, METRICS["snc"].with_options(mode=mode))


def _snc(codes, values, held_out, truth):
    """The released algorithm: information of every pair by equal-count bins, assignment, bins to classes, accuracy."""
    d, k = codes.shape[1], values.shape[1]
    information, cuts = np.empty((d, k)), {}
    for i in range(d):
        for j in range(k):
            size = DSPRITES[j]
            cuts[i, j] = np.sort(codes[:, i])[np.arange(size) * len(codes) // size]
            bins = sum(codes[:, i] < cut for cut in cuts[i, j])
            information[i, j] = -_conditional_entropy(bins, values[:, j])
    rows, columns = linear_sum_assignment(-information)
    accuracies = []
    for i, j in zip(rows, columns, strict=True):
        cut = cuts[i, j].copy()
        cut[0] = min(cut[0], held_out[:, i].min())
        bins, judged = (sum(sample[:, i] < each for each in cut) for sample in (codes, held_out))
        size = DSPRITES[j]
        agree = np.array([[((bins == b) & (values[:, j] == v)).sum() for v in range(size)] for b in range(size + 1)])
        named = dict(zip(*linear_sum_assignment(-agree), strict=True))
        accuracies.append((np.array([named.get(b, -1) for b in judged]) == truth[:, j]).mean())
    return np.mean(accuracies)


def _conditional_entropy(bins, classes):
    total = 0.0
    for value in np.unique(bins):
        chosen = classes[bins == value]
        total += len(chosen) / len(classes) * entropy(np.bincount(chosen))
    return total


def bench_peer_sap(measure, benchmark):
    benchmark.group = "SAP: ms per member"
    codes, values, held_out, truth = zoo()

    def fit():
        for i in range(10):
            for j in range(5):
                model = LinearSVC(C=0.01, class_weight="balanced").fit(codes[0][:, i : i + 1], values[:, j])
                model.score(held_out[0][:, i : i + 1], truth[:, j])

    measure(fit, rounds=1, compiled=False)


def bench_sap(measure, benchmark):
    benchmark.group = "SAP: ms per member"
    score(measure, METRICS["sap"])


def bench_peer_explicitness(measure, benchmark):
    benchmark.group = "explicitness: ms per member"
    codes, values, held_out, truth = zoo()
    mean, deviation = codes[0].mean(axis=0), codes[0].std(axis=0)

    def fit():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its 100 iterations do not suffice for codes of trained models
            for j, size in enumerate(DSPRITES):
                model = LogisticRegression().fit((codes[0] - mean) / deviation, values[:, j])
                for sample, labels in ((codes[0], values), (held_out[0], truth)):
                    probability = model.predict_proba((sample - mean) / deviation)
                    [roc_auc_score(labels[:, j] == v, probability[:, v]) for v in range(size)]

    measure(fit, rounds=1, compiled=False)


def bench_explicitness(measure, benchmark):
    benchmark.group = "explicitness: ms per member"
    score(measure, METRICS["explicitness"])


def bench_peer_cross_validation(measure, benchmark):
    benchmark.group = "LR-CV, 10 penalties × 5 folds: ms per member"
    codes, values, held_out, truth = zoo()

    def fit():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for j in range(5):
                model = LogisticRegressionCV(Cs=10, cv=KFold(5)).fit(codes[0], values[:, j])
                model.score(held_out[0], truth[:, j])

    measure(fit, rounds=1, compiled=False)


def bench_cross_validation(measure, benchmark):
    benchmark.group = "LR-CV, 10 penalties × 5 folds: ms per member"
    score(measure, Direct(Spec(downstream_logistic, (("sizes", (TRAIN,)),))), members=2, rounds=1)


def bench_peer_lasso(measure, benchmark):
    benchmark.group = "lasso: ms per member"
    codes, values, _, _ = zoo()
    mean, deviation = codes[0].mean(axis=0), codes[0].std(axis=0)
    targets = (values - values.mean(axis=0)) / values.std(axis=0)

    def fit():
        inputs = (codes[0] - mean) / deviation
        return [Lasso(alpha=0.02).fit(inputs, target).predict(inputs) for target in targets.T]

    measure(fit, rounds=30, compiled=False)


def bench_lasso(measure, benchmark):
    benchmark.group = "lasso: ms per member"
    score(measure, METRICS["dci_lasso"], rounds=30)


def bench_peer_probes(measure, benchmark):
    """One perceptron on the factor of 32 classes; the mean probe has 23 outputs."""
    benchmark.group = "NK, 10 perceptrons × 75 epochs: ms per member"
    codes, values, held_out, truth = zoo()
    share = 5

    def fit():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = MLPClassifier((256,), batch_size=BATCH, alpha=0, max_iter=EPOCHS // share, n_iter_no_change=EPOCHS)
            return model.fit(codes[0], values[:, 3]).score(held_out[0], truth[:, 3])

    measure(fit, rounds=1, each=1 / (10 * share), compiled=False)


@pytest.mark.parametrize("loader", [False, True], ids=["tight loop", "released recipe"])
def bench_torch_probes(measure, loader, benchmark):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    benchmark.group = "NK, 10 perceptrons × 75 epochs: ms per member"
    codes, values, _, _ = zoo()
    inputs, classes = torch.tensor(codes[0]), torch.tensor(values[:, 3].astype(np.int64))
    epochs = 3 if loader else 15
    batches = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(inputs, classes), batch_size=BATCH, shuffle=True
    )

    def fit():
        net = torch.nn.Sequential(torch.nn.Linear(10, 256), torch.nn.ReLU(), torch.nn.Linear(256, 32))
        adam = torch.optim.Adam(net.parameters(), lr=1e-3)
        for _ in range(epochs):
            if loader:
                drawn = batches
            else:
                order = torch.randperm(TRAIN).split(BATCH)
                drawn = ((inputs[rows], classes[rows]) for rows in order)
            for x, y in drawn:
                adam.zero_grad(set_to_none=True)
                torch.nn.functional.cross_entropy(net(x), y).backward()
                adam.step()
        return float(next(net.parameters()).detach().sum())

    fit()  # torch imports parts of itself when they are first used
    measure(fit, rounds=1, each=epochs / (10 * EPOCHS), compiled=False)


@pytest.mark.parametrize("preset", ["mahon2024_paper", "converged"])
def bench_probes(measure, preset, benchmark):
    benchmark.group = "NK, 10 perceptrons × 75 epochs: ms per member"
    score(measure, METRICS["nk"].with_options(preset=preset), members=2, rounds=1)
    if preset == "mahon2024_paper":
        seconds = benchmark.stats.stats.median / 2
        benchmark.extra_info["gigaflops"] = round(FLOPS / seconds / 1e9, 1)


def bench_products(measure, benchmark):
    """The rate of one large float32 product, of which the probes reach a fraction."""
    benchmark.group = "float32 matrix product, 1024³"
    square = jnp.asarray(np.random.default_rng(0).normal(size=(1024, 1024)), jnp.float32)
    product = jax.jit(lambda a: a @ a)
    measure(lambda: product(square), rounds=10, gigaflop=2 * 1024**3 / 1e9)
