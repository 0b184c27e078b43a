"""Score thousands of representations at once with the literature's metrics, and train model zoos.

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
that tells how strongly each code (row) encodes each factor (column); information is in nats. A *score* reduces a
relation to numbers, and a *metric* is a score of a relation or a function of the samples. An *option* is a static
argument that any of these takes. A *zoo* is a set of models, its *members*. A *method* is a model and how it is
trained; its *variant* is what a zoo sweeps under one name, such as an objective, and a *setting* is a variant with
values for its hyperparameters. A *slot* is one of several code vectors for an image, whose order has no meaning.
*Held-out* samples are given as ``test``, on which learners are evaluated; *validation* samples are those on which
options are chosen. A *cell* is one result in a study, such as a trained member; in a space of factors it is one
combination of their values.
"""

from jaxdis._core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, f"{__file__.removesuffix('c')}i")
