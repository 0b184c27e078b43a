"""Engines that a study runs on, by name; the one module that imports Dask.

An engine only gets missing cells written: whatever dies, the directory holds what was finished, and the next round or
the next run makes the rest. Tasks take and return small values; arrays go through the directory, which every worker
must see under the same path.
"""

import concurrent.futures
import contextlib
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from jaxdis import runtime

# How long to wait for a Dask scheduler, at first and when it went away.
SCHEDULER_SECONDS = 60
# A batch whose worker died is given to another this many times before its failure is reported.
RETRIES = 2


@contextlib.contextmanager
def opened(name: str | None, cache: Path | None = None) -> Iterator[concurrent.futures.Executor | None]:
    """The executor of that name, shut down on leaving.

    Args:
      name: ``None`` for this process, ``processes:4`` for that many workers on this machine, ``dask://HOST:PORT`` for
        the workers of a Dask scheduler.
      cache: folder for the workers' compiled programs.

    Raises:
      ValueError: for another name.
      OSError: when there is no scheduler at that address.
    """
    if name is None:
        yield None
        return
    kind, _, argument = name.partition(":")
    if kind == "processes" and argument.isdigit() and int(argument) > 0:
        executor = Processes(int(argument), cache)
    elif kind == "dask" and argument.startswith("//") and argument.rpartition(":")[2].isdigit():
        executor = Dask(f"tcp:{argument}")
    else:
        raise ValueError(f"executor: needs processes:COUNT or dask://HOST:PORT, got {name!r}")
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)


class Processes(concurrent.futures.Executor):
    """Spawned workers on this machine, each with one device; begun anew when a dead worker broke the pool.

    With ``CUDA_VISIBLE_DEVICES`` set, worker i is given the i-th device of it.
    """

    def __init__(self, count: int, cache: Path | None = None):
        self._count, self._cache = count, cache
        self._pool = None

    def submit(self, function, /, *args, **kwargs) -> concurrent.futures.Future:
        for _ in range(2):
            if self._pool is None:
                self._pool = self._begin()
            try:
                return self._pool.submit(function, *args, **kwargs)
            except BrokenProcessPool:
                self._pool.shutdown(wait=False)
                self._pool = None
        raise BrokenProcessPool(f"{self._count} workers were begun twice and died")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait, cancel_futures=cancel_futures)

    def _begin(self) -> concurrent.futures.ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")  # forked workers would share the parent's JAX threads
        numbers = context.Queue()
        for number in range(self._count):
            numbers.put(number)
        given = (numbers, self._cache)
        return concurrent.futures.ProcessPoolExecutor(self._count, context, initializer=_prepare, initargs=given)


class Dask(concurrent.futures.Executor):
    """The workers of a Dask scheduler; connects again when the scheduler was restarted."""

    def __init__(self, address: str):
        self._address = address
        self._client = None
        self._connected()

    def submit(self, function, /, *args, **kwargs) -> concurrent.futures.Future:
        return self._connected().submit(function, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    def _connected(self) -> concurrent.futures.Executor:
        from distributed import Client

        if self._client is None or self._client.status != "running":
            self.shutdown()
            self._client = Client(self._address, timeout=SCHEDULER_SECONDS, set_as_default=False)
            # pure=False: a batch that failed is tried again, not answered from memory.
            self._engine = self._client.get_executor(retries=RETRIES, pure=False)
        return self._engine


def _prepare(numbers, cache: Path | None) -> None:
    number = numbers.get()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible:
        devices = visible.split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = devices[number % len(devices)]
    runtime.use_cpu_devices(1)
    runtime.use_compilation_cache(cache)
