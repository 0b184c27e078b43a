"""A finished study of any number of members whose scores are made up: for tests of reports alone."""

import numpy as np

from jaxdis import METRICS, models
from jaxdis.data import DATASETS
from jaxdis.metrics import Blend
from jaxdis.models import Config, Mlp, Vae
from jaxdis.scores import SCORES
from jaxdis.study import Sampling, Study, Training
from jaxdis.study._definition import cells, encode_spec, score_spec, train_spec
from jaxdis.study._library import sampled_scores
from jaxdis.study._make import samples_of
from jaxdis.study._store import Store

NAMES = (
    "mig",
    "mig_sup",
    "sap",
    "modularity",
    "dci",
    "irs",
    "factor_vae",
    "beta_vae",
    "explicitness",
    "downstream_trees",
)
NAMES += ("total_correlation", "code_information")
SAMPLES = 64


def big_study(data=("dsprites", "color_dsprites"), regularizations: int = 4, seeds: int = 4) -> Study:
    """Five objectives × regularizations × seeds on each data set."""
    values = tuple(range(1, regularizations + 1))
    sweep = {name: {"beta": values} for name in ("beta", "beta_tc")}
    sweep |= {name: {"lambda_off_diagonal": values} for name in ("dip_i", "dip_ii")} | {
        "annealed": {"capacity": values}
    }
    trainings = []
    for name in data:
        method = Vae(tuple(sweep), Mlp((4,), num_codes=3), batch_size=4, estimator="locatello2020")
        trainings.append(Training.of(Config(name, method=method, steps=100), sweep, seeds, pool=64))
    plan = {name: METRICS[name] for name in NAMES} | sampled_scores()
    plan["groups"] = Blend("mutual_information", SCORES["independent_groups"])
    plan |= {f"{short}_gap": Blend(name, "gap") for short, name in (("r2", "r2"), ("correlation", "correlation"))}
    return Study.of("big", trainings, plan, sampling=Sampling(SAMPLES, 32))


def fill(study: Study, out, score=None) -> Store:
    """Publish every cell; ``score(label, data, name, field)`` gives the scores, random numbers if None."""
    store, rng = Store(out), np.random.default_rng(0)
    store.open(study.describe())
    zoos, samples_by = {}, {}
    rows = {position: training.members() for position, training in enumerate(study.trainings)}
    for member in cells(study):
        training = study.trainings[member.training]
        _, hyperparameters, _ = rows[member.training]
        if member.training not in zoos:
            zoos[member.training] = _untrained(training, rows[member.training])
            samples_by[member.training] = samples_of(training, study.sampling)
        spec = train_spec(training, hyperparameters, member.label, member.row)
        store.publish("train", spec, {"final_loss": float(rng.normal()), "stopped": 0}, zoos[member.training])
        samples = samples_by[member.training]
        arrays = {
            "mean": rng.normal(size=(SAMPLES, 3)).astype(np.float32),
            "variance": np.full((SAMPLES, 3), 0.1, np.float32),
            "factors": np.asarray(samples.train.values),
            "test_mean": rng.normal(size=(32, 3)).astype(np.float32),
            "test_factors": np.asarray(samples.test.values),
        }
        losses = {f"sample_{name}": float(rng.normal()) for name in ("reconstruction", "kl", "elbo")}
        store.publish("encode", encode_spec(study, member.train), {"samples": SAMPLES, **losses}, arrays)
        for name, _ in study.metrics:
            columns, parts = made_up(name, rng, training.config.data, member.label, score)
            store.publish("score", score_spec(study, member.encode, name), {"columns": columns, "parts": parts})
    return store


def _untrained(training: Training, members) -> dict[str, np.ndarray]:
    """The arrays of one member after a single update, which stand for all members of its training."""
    config = Config(training.config.data, method=training.config.method, steps=1)
    shape = DATASETS[training.config.data].shape
    keys, hyperparameters, labels = members
    one = type(hyperparameters)(*(column[:1] for column in hyperparameters))
    return models.train(config, keys[:1], one, labels=labels[:1], data=np.zeros((8, *shape), np.uint8)).packed()


def made_up(name: str, rng, data: str, label: dict, score) -> tuple[dict, dict]:
    """Columns and parts of a metric."""
    value = (lambda field: float(rng.uniform())) if score is None else (lambda field: score(label, data, name, field))
    fields = {
        "dci": ("disentanglement", "completeness", "informativeness"),
        "downstream_trees": ("", "worst", "efficiency"),
        "total_correlation": ("", "wasserstein"),
        "groups": ("", "largest"),
    }.get(name.removesuffix("_sampled"), ("",))
    columns = {f"{name}.{field}" if field else name: value(field) for field in fields}
    parts = {}
    if name == "downstream_trees":
        sizes = [10, 100, 1000, 10_000]
        parts = {f"{name}.by_size": [value(str(size)) for size in sizes], f"{name}.samples": sizes}
    if name == "groups":
        parts = {f"{name}.merge_pair": [[0, 1], [2, 5], [3, 6], [4, 7]]}
    if name in ("mig", "sap"):
        parts = {f"{name}.per_factor": rng.uniform(size=5).tolist()}
    return columns, parts
