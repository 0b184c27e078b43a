"""What the reproduction of Eastwood & Williams 2018 runs: four models on teapots, trained without a part of them, and
DCI by regression as in the paper, with options chosen on validation samples."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from jaxdis._core.options import Count, Cuts, Depth, Depths, NonNegative, Penalties, checked
from jaxdis._core.spec import Spec, metric
from jaxdis._core.store import Store
from jaxdis._learners.linear import PENALTIES
from jaxdis.data import DataSource
from jaxdis.data._teapot import Gap
from jaxdis.factors import Codes, Factors, Sample
from jaxdis.metrics import Direct, Metric
from jaxdis.metrics._plan import plan_of
from jaxdis.models import Config, InfoGan, Pca, ResnetVae
from jaxdis.papers.harness._paper import Finished, Size, Sources
from jaxdis.relations._learned import lasso_importance, random_forest
from jaxdis.relations._relation import Relation
from jaxdis.scores._entropies import entropy
from jaxdis.study._definition import Sampling, Study, Training
from jaxdis.study._trained_work import TrainedWork

# The depths that forests of continuous factors choose among.
DEPTHS = tuple(range(4, 21, 2))


class Regression(NamedTuple):
    """Disentanglement, completeness and error as Eastwood & Williams (2018) print them.

    ``disentanglement []`` is the weighted mean of ``per_code [d]``, ``completeness []`` the mean of ``per_factor [k]``,
    and ``score []`` that of ``error [k]``, root-mean-square errors on the test samples divided by the factor's standard
    deviation among them. ``importance [d, k]`` of codes in predictions; ``chosen [k]``: the penalty or depth chosen on
    validation samples; NaN if none was.
    """

    score: Float[Array, ""]
    disentanglement: Float[Array, ""]
    completeness: Float[Array, ""]
    per_code: Float[Array, " d"]
    per_factor: Float[Array, " k"]
    error: Float[Array, " k"]
    importance: Float[Array, "d k"]
    chosen: Float[Array, " k"]


@metric(errors=("score", "error"), chooses="penalty")
def lasso_regression(
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    validation: Sample | None = None,
    penalty: NonNegative | Penalties = PENALTIES,
    active: Bool[Array, " d"] | None = None,
) -> Regression:
    """DCI by a lasso; if the test samples lie in a region that training leaves out, this is zero-shot transfer.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``, validation codes ``[v, d]``.

    Options:
      penalty: as in :func:`jaxdis.relations.lasso_importance`.

    Contract:

    - As :func:`jaxdis.relations.lasso_importance`. Completeness is the plain mean over factors.
    - Errors are at least 0; 1 is reached by predicting the mean of the test samples. Inside a narrow region a factor
      varies less, so that an equal error weighs more.

    Reference: Eastwood & Williams 2018, §4.3, and appendix B.2 for zero-shot transfer (penalty chosen on a development
    set; their notebook fixes 0.02).
    """
    relation = lasso_importance(codes, factors, test=test, validation=validation, penalty=penalty, active=active)
    return _in_full(relation, 1 - relation.fit)


@metric(errors=("score", "error"), chooses="depth")
def forest_regression(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    validation: Sample | None = None,
    trees: Count = 10,
    depth: Depth | Depths = DEPTHS,
    max_bins: Cuts = 256,
    active: Bool[Array, " d"] | None = None,
) -> Regression:
    """DCI by random forests; if the test samples lie in a region that training leaves out, this is zero-shot transfer.

    Shapes: as in :func:`lasso_regression`.

    Options:
      trees, depth, max_bins: as in :func:`jaxdis.relations.random_forest`.

    Contract:

    - As :func:`jaxdis.relations.random_forest`, and errors as in :func:`lasso_regression`.
    - With 256 bins, the error of a factor that is a code is below 0.02.

    Reference: Eastwood & Williams 2018, §4.3, and appendix B.2 for zero-shot transfer.
    """
    options = {"trees": trees, "depth": depth, "max_bins": max_bins, "active": active}
    relation = random_forest(key, codes, factors, test=test, validation=validation, **options)
    varied = test.factors.values.max(axis=0) > test.factors.values.min(axis=0)
    return _in_full(relation, jnp.where(varied, 1 - relation.fit, jnp.nan))


def _in_full(relation: Relation, error: Float[Array, " k"]) -> Regression:
    scores = entropy(relation, completeness="mean")
    chosen = jnp.full(error.shape, jnp.nan) if relation.chosen is None else relation.chosen
    error = jnp.where(relation.ceiling > 0, error, jnp.nan)
    both = scores.disentanglement, scores.completeness, scores.per_code, scores.per_factor
    return Regression(jnp.nanmean(error), *both, error, relation.strength, chosen)


MODELS = ("pca", "resnet_vae", "infogan")
# What `network="narrow"` changes: minutes on two cores, on images of 32 × 32 pixels.
NARROW = {"channels": (8, 16, 32, 32), "batch_size": 32}
NARROW_RATE = 1e-3
NARROW_DATA = DataSource(options=(("side", 32),))


@dataclasses.dataclass(frozen=True)
class Teapots(Study):
    """A study whose results are also drawn as the paper's figures."""


@checked
def eastwood2018(
    *,
    seeds: int = 1,
    steps: Count = 125_000,
    train_samples: Count = 142_927,
    test_samples: int = 17_854,
    validation_samples: int = 17_854,
    models: tuple[str, ...] = MODELS,
    network: Literal["paper", "narrow"] = "paper",
    gap: Literal["released", "printed"] = "released",
    metrics: Sequence[str] | Mapping[str, Metric] | None = None,
    sources: Mapping[str, DataSource] | None = None,
) -> Teapots:
    """Eastwood & Williams 2018: PCA, VAE (β = 1), β-VAE (β = 6) and InfoGAN on teapots except red ones from above.

    Codes are scored by a lasso and by random forests, whose penalty and depth are chosen on validation samples, on test
    samples and on the combinations that were left out. There are as many images as the paper has outside the gap;
    training images, and samples in each role, are drawn independently, where the paper fits its regressors on the
    training images. As many left-out images as test samples are drawn, where the paper has 21,238.

    Args:
      steps: updates for the VAEs and for InfoGAN's critic, which has five per update of the generator.
      models: some of :data:`MODELS`.
      network: ``narrow`` trains in minutes on two cores, on images of 32 × 32 pixels.
      gap: rule in :class:`jaxdis.data._teapot.Gap`; the paper's numbers follow the released one.
      metrics: further metrics by name.
      sources: ``{"teapots": DataSource(…)}`` with the official file, whose images have 64 × 64 pixels; without it,
        images are rendered. All samples are then drawn from the images of that file, and may share some.
    """
    narrow = network == "narrow"
    size, rendered = (NARROW, NARROW_DATA) if narrow else ({}, None)
    source = (sources or {}).get("teapots", rendered)
    rate = {"learning_rate": NARROW_RATE} if narrow else {}
    configs = {
        "pca": (Pca(), None, {}),
        "resnet_vae": (ResnetVae(**size), steps, {"beta": (1, 6), **rate}),
        "infogan": (InfoGan(**size), max(1, steps // 5), rate),
    }
    unknown = [name for name in models if name not in configs]
    if unknown:
        raise ValueError(f"models: must be some of {', '.join(MODELS)}, got {unknown[0]!r}")
    trainings = [
        Training.of(Config("teapots", source, method, count), {name: sweep}, seeds, pool=train_samples, region=Gap(gap))
        for name, (method, count, sweep) in configs.items()
        if name in models
    ]
    lasso, forest = Direct(Spec(lasso_regression)), Direct(Spec(forest_regression))
    plan = {} if metrics is None else dict(plan_of(metrics))
    plan |= {"lasso": lasso, "forest": forest, "lasso_unseen": lasso, "forest_unseen": forest}
    sampling = Sampling(train_samples, test_samples, validation_samples)
    title = "Teapots: DCI and zero-shot transfer of PCA, VAEs and InfoGAN"
    novel = ("lasso_unseen", "forest_unseen")
    return Teapots.of("eastwood2018", trainings, plan, sampling=sampling, title=title, novel=novel)


SMALL = {"seeds": 3, "steps": 2000, "train_samples": 10_000, "test_samples": 2000, "validation_samples": 2000}


def runs(size: Size, sources: Sources) -> dict[str, Study]:
    """The paper's study, or a small one: narrow networks on images of 32 × 32 pixels, three seeds."""
    # One run, as in the paper, has no interval, and would decide no claim.
    sizes = {"seeds": 3} if size == "paper" else {**SMALL, "network": "narrow"}
    return {"teapots": eastwood2018(**sizes, sources=sources)}


class TeapotsWork(TrainedWork):
    def report(self, store: Store) -> Path:
        """Write the report of any study, and Figures 2 to 6 in ``figures``."""
        from jaxdis.papers.eastwood2018._page import write_figures  # matplotlib is not needed to compute cells

        write_figures(Finished(self.study, store.root))
        return super().report(store)
