"""What the reproduction of Julka et al. 2024 runs: synthetic representations of known properties, a zoo on Shapes3D."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from jaxdis._core.options import Count, checked
from jaxdis.data import DataSource
from jaxdis.metrics import METRICS, Blend, Metric
from jaxdis.models import Config, Discriminator, DiscriminatorTraining, Vae, locatello, members
from jaxdis.papers.harness import Preset, Run
from jaxdis.papers.harness._paper import Size, Sources
from jaxdis.papers.harness._scale import HALF_SIZE, trainings_of
from jaxdis.study._definition import Sampling, Study
from jaxdis.study.certificate import SWEEPS, Calibration

# The parts of a calibration, and what leaves each of them out.
NO_CASES, NO_SWEEPS, NO_SIZES = {"case_samples": 0}, dict.fromkeys(SWEEPS, ()), {"sizes": ()}
WITHOUT: Mapping[str, dict] = {"cases": NO_CASES, "sweeps": NO_SWEEPS, "sizes": NO_SIZES}
SWEEP = {"beta": {"beta": (2, 3, 4, 5)}, "factor": {"gamma": (2, 4, 6, 8, 10)}}


@checked
def published_runs(data: str = "shapes3d", *, seeds: int | Sequence[int] = 5, steps: int = 864_000) -> tuple[Run, ...]:
    """Julka et al. (2024), appendix: β from 2 to 5, γ from 2 to 10, 128 epochs over 432,000 images.

    4 × 4 kernels throughout, PyTorch's default initialization, batch 64 and Adam at 1e-4. The discriminator is updated
    after the autoencoder, on fresh codes. The text has 5 seeds, the appendix 10.

    Args:
      data: a data set's name.
      seeds: how many seeds (0, 1, …), or the seeds themselves.
      steps: updates of each member.
    """
    discriminator = DiscriminatorTraining(order="sequential", clip=False, network=Discriminator(initialization="torch"))
    network = locatello(as_released=False, initialization="torch")

    def config(objective: str) -> Config:
        return Config(data, method=Vae(objective, network, discriminator=discriminator), steps=steps)

    return tuple(Run(config(objective), members({objective: row}, seeds)) for objective, row in SWEEP.items())


PRESET = Preset.described(published_runs, __package__)


@checked
def julka2024(
    *,
    seeds: int = 5,
    steps: Count = 864_000,
    train_samples: int = 10_000,
    test_samples: int = 5_000,
    validation_samples: int = 0,
    data: tuple[str, ...] = ("shapes3d",),
    network: Literal["paper", "mlp"] = "paper",
    sources: Mapping[str, DataSource] | None = None,
    metrics: Sequence[str] | Mapping[str, Metric] | None = None,
) -> Study:
    """Julka et al. 2024, §IV-F: how metrics agree on β-VAE (four β) and FactorVAE (five γ), Figure 5.

    A random tenth of all combinations is never trained on; all metrics draw their held-out samples from these. The
    default metrics are the figure's, with the paper's options (30 bins). The text has 5 seeds, the appendix 10. What
    the paper computes from synthetic representations is the study ``calibration``. ``network="mlp"`` trains in minutes
    on a laptop, on an image pool drawn once.
    """
    published = [run for name in data for run in published_runs(name, seeds=1, steps=steps)]
    trainings = trainings_of(published, SWEEP, seeds, network, sources, held_out_share=0.1)
    plan = agreement_metrics() if metrics is None else metrics
    sampling = Sampling(train_samples, test_samples, validation_samples)
    title = "Which metrics agree on β-VAE and FactorVAE"
    return Study.of("julka2024", trainings, plan, sampling=sampling, title=title)


@checked
def calibration(
    *,
    seeds: int | None = None,
    train_samples: Count | None = None,
    parts: tuple[str, ...] = tuple(WITHOUT),
    metrics: Sequence[str] | Mapping[str, Metric] | None = None,
) -> Calibration:
    """Julka et al. 2024, §IV: what each metric responds to, on representations with known properties; trains nothing.

    Args:
      seeds: seeds per representation; None: 25, and 10 for the curve over sizes.
      train_samples: samples per representation; None: the paper's numbers.
      parts: ``cases`` shows what each metric responds to; ``sweeps`` and ``sizes`` are curves.
      metrics: as in every study; or ``table2``, the metrics of the paper's Table II.
    """
    sizes: dict = {}
    for part, without in WITHOUT.items():
        sizes |= {} if part in parts else without
    if metrics is not None and list(metrics) == ["table2"]:
        metrics = table_two_metrics()
    return Calibration.of("all" if metrics is None else metrics, **sizes).resized(seeds, train_samples)


POINTS = {"warp": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0), "rotation": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)}
POINTS["noise"] = POINTS["warp"]
# Sizes of the small forms.
SMALL_CASES = {"seeds": 5, "case_samples": 5000}
SMALL_SWEEPS = {"seeds": 3, "sweep_samples": 2000}
SMALL_COST = {"sizes": (1000, 5000), "full_size": 20_000, "size_seeds": 3}
SMALL_AGREEMENT = {"seeds": 2, "steps": 2500, "train_samples": 4000, "test_samples": 2000}


def runs(size: Size, sources: Sources) -> dict[str, Any]:
    """Table II, Figures 1 to 3, Figure 4 and Figure 5, each a study; small: fewer samples, seeds and points."""
    if size == "paper":
        return {
            "cases": Calibration.of(table_two_metrics(), seeds=50, **NO_SWEEPS, **NO_SIZES),
            "sweeps": Calibration.of(sweep_metrics(), seeds=50, **NO_CASES, **NO_SIZES),
            "cost": Calibration.of(table_two_metrics(), **NO_CASES, **NO_SWEEPS),
            "agreement": julka2024(sources=sources),
        }
    quick_dci = METRICS["dci"].with_options(splitter="histogram")
    sources = {"shapes3d": HALF_SIZE} | dict(sources or {})
    plan = {**agreement_metrics(), "dci": quick_dci}
    return {
        "cases": Calibration.of(table_two_metrics(), **SMALL_CASES, **NO_SWEEPS, **NO_SIZES),
        "sweeps": Calibration.of(sweep_metrics(), **SMALL_SWEEPS, **NO_CASES, **NO_SIZES, **POINTS),
        "cost": Calibration.of({**table_two_metrics(), "dci": quick_dci}, **NO_CASES, **NO_SWEEPS, **SMALL_COST),
        "agreement": julka2024(**SMALL_AGREEMENT, network="mlp", sources=sources, metrics=plan),
    }


# With the paper's bins.
BINS = {"mig": {"bins": 30}, "mig_sup": {"bins": 30, "normalize": "code"}, "dcimig": {"bins": 30}}


def _metrics(*names: str, **options: dict) -> dict[str, Metric]:
    given = BINS | options
    return {name: METRICS[name].with_options(**given.get(name, {})) for name in names}


def table_two_metrics() -> dict[str, Metric]:
    """The metrics of the table with the settings that compute its rows, for :meth:`Calibration.of`."""
    names = ("factor_vae", "sap", "mig", "mig_sup", "dci", "modularity_ksg", "dcimig", "edi")
    sap = Blend("threshold_accuracy", "gap").with_options(bins=200)
    return _metrics(*names, edi={"capped": False, "noise": 0.0}) | {"sap": sap}


def agreement_metrics() -> dict[str, Metric]:
    """The metrics of Figure 5, with the same bins; EDI estimates what several codes hold together by a network."""
    names = ("factor_vae", "sap", "mig", "mig_sup", "dci", "modularity", "dcimig", "edi")
    return _metrics(*names, modularity={"bins": 30}, edi={"joint": "neural"})


def sweep_metrics() -> dict[str, Metric]:
    """The metrics of Figures 1 to 3. MINE, a network for each pair, is left out: EDI uses nearest neighbors.

    Nothing is pruned and EDI has no guard against noise, as in the paper: both would end curves before α = 1.
    """
    names = ("beta_vae", "factor_vae", "sap_r2", "mig", "mig_ksg", "mig_sup", "dci_lasso", "modularity_ksg")
    return _metrics(*names, "dcimig", "edi", factor_vae={"prune": 0.0}, edi={"noise": 0.0})
