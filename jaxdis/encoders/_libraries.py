"""Torch, Keras and Flax models as functions of images, each called as its library wants it."""

import contextlib
import sys
from collections.abc import Callable
from typing import Literal

import numpy as np

Layout = Literal["nhwc", "nchw"]

# The classes from which models derive, by the modules that define them: no library is imported for this.
_TORCH = ("torch.nn.modules.module", "Module")
_LINEN = ("flax.linen.module", "Module")
_KERAS = ("keras", "tf_keras", "tensorflow")


def is_model(encode) -> bool:
    """Whether this is a Flax module with its variables, which is a pair, and not two encoders."""
    return isinstance(encode, tuple) and len(encode) == 2 and _LINEN in _classes(encode[0])


def as_function(encode, layout: Layout | None) -> Callable:
    """A model as a function from images ``[n, h, w, c]`` to codes; a function itself, in the layout that it reads."""
    if is_model(encode):
        module, variables = encode
        return _in_layout(lambda images: module.apply(variables, images), layout)
    classes = _classes(encode)
    if _TORCH in classes:
        return _of_torch(encode, layout or "nchw")
    if _LINEN in classes and encode.scope is None:
        raise ValueError("encode: must be a pair (module, variables) of a Flax module, got the module alone")
    if any(module.split(".")[0] in _KERAS and name == "Layer" for module, name in classes):
        return _in_layout(lambda images: np.asarray(encode(np.asarray(images), training=False)), layout)
    return _in_layout(encode, layout)


def _classes(model) -> set[tuple[str, str]]:
    return {(kind.__module__, kind.__name__) for kind in type(model).__mro__}


def _in_layout(encode: Callable, layout: Layout | None) -> Callable:
    if layout != "nchw":
        return encode

    def transposed(images):
        images = images.transpose(0, 3, 1, 2)
        return encode(np.require(images, requirements="CW") if isinstance(images, np.ndarray) else images)

    return transposed


def _of_torch(model, layout: Layout) -> Callable:
    """In evaluation mode, without gradients, on the parameters' device and in their precision."""
    torch = sys.modules["torch"]

    def encode(images):
        array = np.array(images, order="C")
        array = np.ascontiguousarray(array.transpose(0, 3, 1, 2)) if layout == "nchw" else array
        tensors = [tensor for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()]
        like = {"device": tensors[0].device, "dtype": tensors[0].dtype} if tensors else {}
        with torch.no_grad(), _evaluating(model):
            codes = model(torch.from_numpy(array).to(**like))
        if not isinstance(codes, torch.Tensor):
            return codes
        return (codes if codes.dtype == torch.float64 else codes.float()).cpu().numpy()

    return encode


@contextlib.contextmanager
def _evaluating(model):
    """Evaluation mode, and afterwards the modes that the model's parts had."""
    modes = {part: part.training for part in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training
