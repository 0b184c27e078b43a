"""Forms of published models that train in minutes on a laptop."""

import dataclasses
from collections.abc import Mapping

from jaxdis.data import DataSource
from jaxdis.models import Config, LabelledPartition, Method, Mlp, Pca, Stacks, Vae, WeakDe
from jaxdis.study._library import QUICK_POOL


def small(method: Method) -> Method:
    """The model with perceptrons, which trains in minutes; principal components as they are.

    FactorVAE's discriminator shrinks as well: that of the paper would cost ten times as much as the perceptrons.

    Raises:
      ValueError: for models without such a form: those with slots, and residual networks.
    """
    if isinstance(method, Pca):
        return method
    if isinstance(method, Vae):
        discriminator = dataclasses.replace(
            method.discriminator, network=dataclasses.replace(method.discriminator.network, layers=3, width=200)
        )
        return dataclasses.replace(method, network=Mlp(), discriminator=discriminator)
    if isinstance(method, LabelledPartition):
        return dataclasses.replace(method, network=Mlp())
    if isinstance(method, WeakDe):
        slopes = {"hidden_slope": 0.1, "decoder_slope": 0.1}
        return dataclasses.replace(
            method, network=Stacks(**slopes), opponents=(200, 200), batch_size=64, relation_batch=16, num_labelled=4096
        )
    if "network" not in (field.name for field in dataclasses.fields(method)):
        kind = type(method).__name__
        raise ValueError(
            f"network: must be the paper's for models of type {kind}, got small; take fewer updates instead"
        )
    return dataclasses.replace(method, network=Stacks(hidden_slope=0.1))


def with_network(config: Config, network: str, sources: Mapping[str, DataSource] | None) -> tuple[Config, int | None]:
    """The config with its file and the paper's network, or a small one with a pool of images."""
    config = dataclasses.replace(config, source=(sources or {}).get(config.data))
    if network == "paper":
        return config, None
    return dataclasses.replace(config, method=small(config.method)), QUICK_POOL
