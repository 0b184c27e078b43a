"""What the reproduction of Mahon et al. 2024 runs: seven models without combinations of factors, and exact results."""

import time
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis.data import DataSource, synthetic
from jaxdis.evaluation._evaluate import evaluate
from jaxdis.evaluation._relate import relate
from jaxdis.metrics import METRICS
from jaxdis.papers.harness._paper import Finished, Piece, Size, Sources
from jaxdis.papers.mahon2024._study import METRICS as NAMES
from jaxdis.papers.mahon2024._study import mahon2024 as whole_study
from jaxdis.relations._relation import Relation
from jaxdis.scores import SCORES
from jaxdis.study._definition import Study

SMALL_DATA = ("dsprites", "shapes3d")
HALF_SIZE = DataSource(options=(("pool", 2),))
# Without WeakDE, whose four networks take as long as all others together.
SMALL_MODELS = ("beta", "beta_tc", "factor", "parted_vae", "parted_vae_ss", "labelled_partition")
SMALL = {"seeds": 2, "combinations": 2, "steps": 1000, "train_samples": 2500, "test_samples": 1500}


def runs(size: Size, sources: Sources) -> dict[str, Study]:
    """The paper's study, or a small one: six models, two combinations and two random splits, perceptrons on 32 × 32."""
    if size == "paper":
        # Never the stand-in for MPI3D, whose numbers are no MPI3D's.
        data = (*SMALL_DATA, *(("mpi3d",) if "mpi3d" in (sources or {}) else ()))
        return {"combinations": whole_study(data=data, sources=sources, probes="mahon2024_paper")}
    plan = {name: METRICS[name] for name in NAMES}
    plan["dci"] = plan["dci"].with_options(splitter="histogram")
    small = whole_study(
        **SMALL,
        data=SMALL_DATA,
        models=SMALL_MODELS,
        network="mlp",
        probes="mahon2024_paper",
        sources=dict.fromkeys(SMALL_DATA, HALF_SIZE) | dict(sources or {}),
        metrics=plan,
    )
    return {"combinations": small}


def pieces(size: Size) -> dict[str, Piece]:
    """What is exact or needs no training."""
    return {"toy": Piece(toy), "distributed": Piece(distributed), "times": Piece(times)}


def toy(finished: Mapping[str, Finished]) -> dict:
    """Table 1 from the exact populations of the two toy models, in percent.

    DCI is the mean of D, C and the accuracy .75, with importances 2 × accuracy − 1; MED the same with information in
    bits. SNC is not adjusted for chance there: accuracy − ½.
    """
    rows_by_model = {}
    for name in ("M1", "M2"):
        codes, factors = synthetic.toy_model(name)
        numbers, values = np.asarray(codes).astype(int), np.asarray(factors.values)
        accuracy = (numbers[:, :, None] == values[:, None, :]).mean(axis=0)
        bits = np.asarray(relate(codes, factors, "mutual_information").strength) / np.log(2)
        scores = evaluate(codes, factors, ("mig", "snc"), test=(codes, factors))
        aligned = scores.part("snc.code").astype(int)
        rows_by_model[name] = {
            "MIG": scores["mig"],
            "SAP": np.ptp(accuracy, axis=0).mean(),
            "DCI": _of_matrix(2 * accuracy - 1),
            "MED": _of_matrix(bits),
            "SNC": scores["snc"] / 2,
            "NK": _lost_without(aligned, numbers, values),
        }
    return {name: {metric: 100 * float(value) for metric, value in row.items()} for name, row in rows_by_model.items()}


def _of_matrix(strength: np.ndarray) -> float:
    """Mean of D, C and .75."""
    relation = Relation.of(jnp.asarray(strength, jnp.float32), jnp.ones(strength.shape[1]))
    score = SCORES["entropy"](relation)
    return float((score.disentanglement + score.completeness) / 3 + 0.25)


def _lost_without(aligned: np.ndarray, codes: np.ndarray, values: np.ndarray) -> float:
    """Mean over factors of the best accuracy of all codes minus that without the aligned code, on a population."""

    def best(columns, truth):
        _, cell = np.unique(columns, axis=0, return_inverse=True)
        counts = np.zeros((cell.max() + 1, 2))
        np.add.at(counts, (cell.ravel(), truth), 1)
        return counts.max(axis=1).sum() / len(truth)

    lost = [
        best(codes, values[:, j]) - best(np.delete(codes, code, axis=1), values[:, j]) for j, code in enumerate(aligned)
    ]
    return float(np.mean(lost))


def distributed(finished: Mapping[str, Finished], samples: int = 20_000) -> dict:
    """Theorem 3.1: D, C and the largest information of a code, of representations that grow.

    ``limit`` is the 95th percentile of the largest information of codes whose samples were permuted.
    """
    results_by_size = {}
    for n in (4, 8, 16):
        codes, factors = synthetic.distributed(n, 3, jax.random.key(n), samples)
        scores = evaluate(codes, factors, {"dci": METRICS["dci"].with_options(splitter="histogram")})
        order = np.stack([np.random.default_rng(seed).permutation(samples) for seed in range(20)])
        zoo = np.concatenate([np.asarray(codes)[None], np.asarray(codes)[order]])
        strength = np.stack(
            [np.asarray(relate(member_codes, factors, "mutual_information").strength).max() for member_codes in zoo]
        )
        results_by_size[str(n)] = {
            "disentanglement": float(scores["dci.disentanglement"]),
            "completeness": float(scores["dci.completeness"]),
            "bound": 1 - 2 / np.log2(n),
            "information": float(strength[0]),
            "limit": float(np.percentile(strength[1:], 95)),
        }
    return results_by_size


def times(finished: Mapping[str, Finished], samples: int = 5000) -> dict:
    """CPU seconds of NK and of DCI by boosted trees with exact splits, compiled, on the codes of one member."""
    zoo = finished["combinations"]
    codes, data = zoo.codes(np.arange(len(zoo.members)) == 0), str(zoo.table["data"][0])
    factors = zoo.factors(data)
    codes, factors = codes[0][:samples], factors.take(jnp.arange(min(samples, factors.num_samples)))
    metrics = {"nk": METRICS["nk"].with_options(preset="mahon2024_paper"), "dci": METRICS["dci"]}
    seconds = {}
    for name, metric in metrics.items():
        for _ in range(2):  # the first call compiles
            started = time.process_time()
            evaluate(codes, factors, {name: metric})
            seconds[name] = time.process_time() - started
    return seconds
