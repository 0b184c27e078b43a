"""How many CPU devices may train large models at the same time: they share one machine's memory."""

import functools
import logging

import jax

from jaxdis._core import memory
from jaxdis._core.operations import live_bytes
from jaxdis.models.methods._method import Method, Slots
from jaxdis.models.training._image_source import Source
from jaxdis.models.training._step import begin, update

# Smaller states, of models without slots, train on any machine.
LARGE_STATE = 128 << 20
# XLA's convolutions on CPU copy the windows that they read, which the count leaves out: up to as much again.
COPIES = 1.8
log = logging.getLogger("jaxdis")


def devices_that_fit(method: Method, hyperparameters, source: Source, devices: tuple) -> tuple:
    """The first devices, as many as have room for a member each, at least one; all if they are no CPUs.

    One member may not fit either; that is said and not refused, since its memory is counted roughly, see
    :func:`~jaxdis._core.operations.live_bytes`.
    """
    if devices[0].platform != "cpu":
        return devices
    method = method.tuned(devices[0].platform)
    key = jax.random.key(0)
    state = jax.eval_shape(functools.partial(begin, method), key)
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    if size < LARGE_STATE and method.represents is not Slots:
        return devices
    one = jax.tree.map(lambda column: column[0], hyperparameters)
    needed = COPIES * live_bytes(functools.partial(update, method, source=source), state, key, one)
    free = memory.free_bytes(devices[0])
    if needed > free:
        words = "training: a model may need up to %s of memory, of which %s are free; a smaller batch_size needs less"
        log.warning(words, memory.in_words(needed), memory.in_words(free))
    return devices[: max(1, int(min(len(devices), free / needed)))]
