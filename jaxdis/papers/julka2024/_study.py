"""The studies of Julka et al. 2024: how metrics agree on trained models, and what they respond to by construction."""

from collections.abc import Mapping, Sequence
from typing import Literal

from jaxdis._core.options import Count, checked
from jaxdis.data import DataSource
from jaxdis.metrics import Metric
from jaxdis.models import About, Config, Discriminator, DiscriminatorTraining, Vae, locatello, members
from jaxdis.papers.harness._presets import Preset, Run
from jaxdis.papers.harness._small_forms import with_network
from jaxdis.papers.julka2024._table_two import agreement_metrics, table_two_metrics
from jaxdis.study._definition import Sampling, Study, Training
from jaxdis.study.certificate._calibration import SWEEPS, Calibration

PARTS = ("cases", "sweeps", "sizes")
# Of all combinations, the share that Julka et al. 2024, §IV-F, keep for testing.
TEST_SHARE = 0.1


@checked
def runs(data: str = "shapes3d", *, seeds: int | Sequence[int] = 5, steps: int = 864_000) -> tuple[Run, ...]:
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
    sweeps = {"beta": {"beta": (2, 3, 4, 5)}}, {"factor": {"gamma": (2, 4, 6, 8, 10)}}

    def config(objective: str) -> Config:
        return Config(data, method=Vae(objective, network, discriminator=discriminator), steps=steps)

    return tuple(Run(config(*sweep), members(sweep, seeds)) for sweep in sweeps)


PRESET = Preset(
    runs,
    About(
        "Towards an Improved Metric",
        "β-VAE with four settings and FactorVAE with five.",
        ("julka2024",),
    ),
)


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
    trainings = []
    for name in data:
        for run in runs(name, seeds=1, steps=steps):
            config, pool = with_network(run.config, network, sources)
            sweep = {"beta": {"beta": (2, 3, 4, 5)}, "factor": {"gamma": (2, 4, 6, 8, 10)}}[config.method.trained[0]]
            rows = {config.method.trained[0]: sweep}
            trainings.append(Training.of(config, rows, seeds, pool, held_out_share=TEST_SHARE))
    return Study.of(
        "julka2024",
        trainings,
        agreement_metrics() if metrics is None else metrics,
        sampling=Sampling(train_samples, test_samples, validation_samples),
        title="Which metrics agree on β-VAE and FactorVAE",
    )


@checked
def calibration(
    *,
    seeds: int | None = None,
    train_samples: Count | None = None,
    parts: tuple[str, ...] = PARTS,
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
    left_out = {"cases": {"case_samples": 0}, "sweeps": dict.fromkeys(SWEEPS, ()), "sizes": {"sizes": ()}}
    for part in set(PARTS) - set(parts):
        sizes |= left_out[part]
    if metrics is not None and list(metrics) == ["table2"]:
        metrics = table_two_metrics()
    return Calibration.of("all" if metrics is None else metrics, **sizes).resized(seeds, train_samples)
