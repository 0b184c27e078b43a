"""The training runs of three papers, as values: what to train, and which members.

Step counts are an argument throughout; the papers' own are the defaults. Where a paper and its released code differ,
the choice is an argument and its default is named.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxdis.models.config import Adversary, Config
from jaxdis.models.members import Members, members
from jaxdis.models.networks.architectures import Discriminator, burgess, locatello
from jaxdis.models.objectives.table import beta_tc_parts

# Locatello et al. (2020), Table 3.
LOCATELLO_STRENGTHS: dict[str, dict[str, tuple[float, ...]]] = {
    "beta": {"beta": (1, 2, 4, 6, 8, 16)},
    "annealed": {"capacity": (5, 10, 25, 50, 75, 100)},
    "factor": {"gamma": (10, 20, 30, 40, 50, 100)},
    "dip_i": {"lambda_off_diagonal": (1, 2, 5, 10, 20, 50)},
    "dip_ii": {"lambda_off_diagonal": (1, 2, 5, 10, 20, 50)},
    "beta_tc": {"beta": (1, 2, 4, 6, 8, 10)},
}


class Preset(NamedTuple):
    """One program and its members: ``train(preset.config, *preset.members)``."""

    config: Config
    members: Members


def locatello2020(
    data: str = "dsprites",
    *,
    seeds: int | Sequence[int] = 50,
    steps: int = 300_000,
    kernel: str = "code",
    literal_steps: bool = False,
    strengths: dict | None = None,
) -> tuple[Preset, Preset]:
    """The study of Locatello et al. (2020): six objectives × six strengths × seeds on one data set.

    Batch 64, ten codes, Adam at 1e-4, Bernoulli decoder, Tables 2 to 4; their own estimator of total correlation.

    Args:
      kernel: ``code``: 2 × 2 kernels in the last two encoder convolutions, as released; ``paper``: Table 2.
      literal_steps: FactorVAE for half the steps. In the released code both of its optimizers count the global step, so
        that (from reading; not run) training ends after 150 000 updates of 300 000.
      strengths: fewer settings, in the form of :data:`LOCATELLO_STRENGTHS`.

    Returns:
      Two presets, two compilations: the five objectives that share a loss, and FactorVAE.
    """
    strengths = LOCATELLO_STRENGTHS if strengths is None else strengths
    shared = {name: settings for name, settings in strengths.items() if name != "factor"}
    network = locatello(kernel)
    plain = Config(data=data, objective=tuple(shared), network=network, steps=steps, estimator="locatello")
    factor = Config(
        data=data,
        objective="factor",
        network=network,
        steps=steps // 2 if literal_steps else steps,
        adversary=Adversary(order="simultaneous"),
    )
    rows = [(plain, shared), (factor, {"factor": strengths["factor"]})] if "factor" in strengths else [(plain, shared)]
    return tuple(Preset(config, members(sweep, seeds)) for config, sweep in rows if sweep)


def mahon2024(
    data: str = "dsprites",
    *,
    seeds: int | Sequence[int] = 5,
    steps: int = 1_152_000,
    variant: str = "yann_custom",
    literal: bool = True,
) -> tuple[Preset, ...]:
    """β-VAE, β-TCVAE and FactorVAE of Mahon et al. (2024), "all default parameters as specified in the code".

    That is ambiguous between the code's ``Custom`` and ``dsprites`` sections; only the first exists for all data sets
    and is the default. The step count is 100 epochs of dSprites; FactorVAE doubles both epochs and batch, so that its
    number of updates is the same. β-TCVAE is trained by its parts,
    :func:`~jaxdis.models.objectives.table.beta_tc_parts`, with the estimator ``mss_yann``.

    Args:
      literal: FactorVAE as the code runs: the encoder also descends on the discriminator's loss, and five hidden layers
        of the discriminator where its documentation says six.
    """
    if variant not in ("yann_custom", "yann_dsprites"):
        raise ValueError(f"variant: needs 'yann_custom' or 'yann_dsprites', got {variant!r}")
    custom = variant == "yann_custom"
    adversary = Adversary(
        order="split_batch",
        encoder_sees_discriminator=literal,
        clip=False,
        network=Discriminator(layers=5 if literal else 6),
    )
    shared = {"data": data, "network": burgess(), "steps": steps, "estimator": "mss_yann", "adversary": adversary}
    warm = {"warmup_steps": 10_000}
    beta = members({"beta": {"beta": 4, "learning_rate": 5e-4, **warm}}, seeds)
    factor_rate, judge_rate = (5e-4, 5e-5) if custom else (1e-4, 1e-4)
    factor = {"gamma": 6 if custom else 6.4, "learning_rate": factor_rate, "discriminator_learning_rate": judge_rate}
    parts = beta_tc_parts(alpha=1, beta=6 if custom else 6.4, gamma=1, learning_rate=5e-4, **warm)
    return (
        Preset(Config(objective="beta", **shared), beta),
        Preset(Config(objective="beta_tc", **shared), _by_parts(parts, beta)),
        Preset(Config(objective="factor", **shared), members({"factor": {**factor, **warm}}, seeds)),
    )


def julka2024(data: str = "shapes3d", *, seeds: int | Sequence[int] = 5, steps: int = 864_000) -> tuple[Preset, Preset]:
    """β-VAE (β of 2 to 5) and FactorVAE (γ of 2 to 10) of Julka et al. (2024), appendix.

    4 × 4 kernels throughout, PyTorch's default initialization, batch 64, Adam at 1e-4, 128 epochs of 432 000 images;
    the discriminator is updated after the autoencoder, on fresh codes. The text speaks of 5 seeds, the appendix of 10.
    """
    network = locatello("paper", initialization="torch")
    adversary = Adversary(order="sequential", clip=False, network=Discriminator(initialization="torch"))
    shared = {"data": data, "network": network, "steps": steps, "adversary": adversary}
    return (
        Preset(Config(objective="beta", **shared), members({"beta": {"beta": (2, 3, 4, 5)}}, seeds)),
        Preset(Config(objective="factor", **shared), members({"factor": {"gamma": (2, 4, 6, 8, 10)}}, seeds)),
    )


def _by_parts(row, like: Members) -> Members:
    """Members with the seeds of others and one row of hyperparameters."""
    m = len(like.labels)
    columns = type(row)(*(np.full(m, value, np.float32) for value in row))
    named = {"objective": "beta_tc", "beta": float(row.total_correlation)}
    return Members(like.keys, columns, tuple({**named, "seed": label["seed"]} for label in like.labels))
