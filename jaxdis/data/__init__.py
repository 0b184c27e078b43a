"""Factors → images: data sets rendered by pure functions, and the official files with the same interface.

>>> space, render = jaxdis.data.dsprites()
>>> images = render(space.sample(jax.random.key(0), 64))  # [64, 64, 64, 1] in [0, 1]
"""

from jaxdis.data import synthetic
from jaxdis.data._data_source import DataSource
from jaxdis.data._datasets import (
    DATASETS,
    DataSet,
    cars3d,
    clevr6,
    color_dsprites,
    dsprites,
    example,
    hearts,
    mpi3d,
    multi_dsprites,
    noisy_dsprites,
    scream_dsprites,
    shapes3d,
    smallnorb,
    teapots,
)
from jaxdis.data._factor_space import FactorSpace, Interval
from jaxdis.data._folder import folder
from jaxdis.data._render import Render
from jaxdis.data._scenes import Scenes, SceneSamples

__all__ = ["DATASETS", "DataSet", "DataSource", "FactorSpace", "Interval", "Render", "SceneSamples", "Scenes", "cars3d"]
__all__ += ["clevr6", "color_dsprites", "dsprites", "example", "folder", "hearts", "mpi3d", "multi_dsprites"]
__all__ += ["noisy_dsprites", "scream_dsprites", "shapes3d", "smallnorb", "synthetic", "teapots"]
