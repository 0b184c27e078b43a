"""Score thousands of representations at once with the metrics of the literature, and train zoos of models.

Every name is loaded on first use: ``import jaxdis`` is immediate, and scoring arrays loads no model.

Axis letters are the same everywhere:

====  =====================================
m     members (representations) of a zoo
n     samples
d     codes (latent coordinates)
k     ground-truth factors
b     bins
v     values of a factor
s     slots of an object-centric representation
====  =====================================

A *code* is one latent coordinate, a *factor* one ground-truth factor of variation. A *relation* is a matrix ``[d, k]``
of how strongly each code (row) encodes each factor (column); information is in nats. A *score* reduces a relation to
numbers, and a *metric* is a score of a relation or a function of the samples. An *option* is a static argument of any
of these. A *zoo* is a set of models, its *members*. A *method* is a kind of model together with its training; a
*variant* of a method is what a zoo sweeps under one name, such as an objective, and a *setting* is a variant with
values of its hyperparameters. A *slot* is one of several code vectors of an image, whose order has no meaning.
*Held-out* samples are those of the argument ``test``, on which learners are evaluated; *validation* samples are those
on which options are chosen. A *cell* is one result of a study, such as a trained member; in a space of factors it is
one combination of their values.
"""

from jaxdis._core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, f"{__file__.removesuffix('c')}i")
