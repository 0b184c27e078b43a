"""Factors → images: data sets rendered by pure functions, and the official files with the same interface.

>>> space, render = jaxdis.data.dsprites()
>>> images = render(space.sample(jax.random.key(0), 64))  # [64, 64, 64, 1], float32 in [0, 1]
"""

from jaxdis.data import synthetic
from jaxdis.data.catalog import (
    cars3d,
    clevr6,
    color_dsprites,
    dsprites,
    hearts,
    mpi3d,
    multi_dsprites,
    noisy_dsprites,
    scream_dsprites,
    shapes3d,
    smallnorb,
    standin_arm,
    standin_gray_turntable,
    standin_turntable,
    teapots,
)
from jaxdis.data.factors import FactorSpace
from jaxdis.data.intervals import Interval
from jaxdis.data.render import Render
from jaxdis.data.scenes import Scenes, SceneSamples
from jaxdis.data.source import DataSource
from jaxdis.data.table import DATASETS, DataSet

__all__ = [
    "DATASETS",
    "DataSet",
    "DataSource",
    "FactorSpace",
    "Interval",
    "Render",
    "SceneSamples",
    "Scenes",
    "cars3d",
    "clevr6",
    "color_dsprites",
    "dsprites",
    "hearts",
    "mpi3d",
    "multi_dsprites",
    "noisy_dsprites",
    "scream_dsprites",
    "shapes3d",
    "smallnorb",
    "standin_arm",
    "standin_gray_turntable",
    "standin_turntable",
    "synthetic",
    "teapots",
]
