"""jaxdis: score thousands of representations at once with every disentanglement metric; train the zoos they come from."""

from jaxdis.typing import Factors, Sample

__version__ = "0.1.0"
__all__ = ["Factors", "Sample", "__version__"]
