"""Factors → images: data sets rendered by pure functions, and the official files behind the same interface."""

from jaxdis.data.catalogue import dsprites
from jaxdis.data.factors import FactorSpace
from jaxdis.data.render import Render

__all__ = ["FactorSpace", "Render", "dsprites"]
