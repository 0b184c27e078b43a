"""A study's executors, by name; the only module that imports Dask.

An executor only computes missing cells: after any failure the directory holds everything finished, and the next round
or run computes the rest. Tasks take and return small values; arrays are exchanged through the directory, which every
worker must see under the same path.
"""

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from pathlib import Path

from jaxdis._core import runtime

# How long to wait for a Dask scheduler, at first and when it went away.
SCHEDULER_SECONDS = 60
# Workers on this machine, and ports: more there are not.
MOST_PROCESSES, MOST_PORT = 1024, 65535
# A batch whose worker died is given to another this many times before its failure is reported.
RETRIES = 2


@contextlib.contextmanager
def opened(name: str | None, cache: Path | None = None) -> Iterator[concurrent.futures.Executor | None]:
    """The executor with that name, shut down on exit; after an exception, running tasks are stopped at once.

    ``None`` is this process, ``processes:4`` are so many workers on this machine, which keep compiled programs in
    ``cache``, and ``dask://HOST:PORT`` are a Dask scheduler's workers.
    """
    if name is None:
        yield None
        return
    check_name(name)
    kind, _, argument = name.partition(":")
    executor = Processes(int(argument), cache) if kind == "processes" else Dask(f"tcp:{argument}")
    try:
        yield executor
    except BaseException:
        executor.stop()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def check_name(name: str) -> None:
    kind, _, argument = name.partition(":")
    host, _, port = argument.removeprefix("//").rpartition(":")
    if kind == "processes" and _number(argument, MOST_PROCESSES):
        return
    if kind == "dask" and argument.startswith("//") and host and _number(port, MOST_PORT):
        return
    ranges = f"a COUNT of 1 to {MOST_PROCESSES} and a PORT of 1 to {MOST_PORT}"
    raise ValueError(f"executor: must be processes:COUNT or dask://HOST:PORT, {ranges}, got {name!r}")


def _number(text: str, most: int) -> bool:
    """Whether a text is an integer from 1 to ``most``."""
    return text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= most


class Processes(concurrent.futures.Executor):
    """Spawned workers on this machine, each with one device; started again after a dead worker broke the pool.

    With ``CUDA_VISIBLE_DEVICES`` set, worker i is given its i-th device. Workers end with this process, however it
    ends: they watch a pipe that it keeps open.
    """

    def __init__(self, count: int, cache: Path | None = None):
        self._count, self._cache = count, cache
        self._pool = self._line = None

    def submit(self, function, /, *args, **kwargs) -> concurrent.futures.Future:
        for _ in range(2):
            if self._pool is None:
                self._pool = self._begin()
            try:
                with _interrupts_held():
                    return self._pool.submit(function, *args, **kwargs)
            except BrokenProcessPool:
                self._pool.shutdown(wait=False)
                self.stop()
                self._pool = None
        raise BrokenProcessPool(f"{self._count} workers were begun twice and died")

    def stop(self) -> None:
        """End the workers now, even in the middle of a task."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            self.stop()

    def _begin(self) -> concurrent.futures.ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")  # forked workers would share the parent's JAX threads
        _begin_tracker()
        numbers = context.Queue()
        for number in range(self._count):
            numbers.put(number)
        watched, self._line = context.Pipe(duplex=False)
        given = (numbers, watched, self._cache)
        return concurrent.futures.ProcessPoolExecutor(self._count, context, initializer=_prepare, initargs=given)


class Dask(concurrent.futures.Executor):
    """A Dask scheduler's workers; reconnects after the scheduler restarts."""

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

    def stop(self) -> None:
        """Abandon running tasks; the scheduler drops the batches when a client is gone."""
        self.shutdown()

    def _connected(self) -> concurrent.futures.Executor:
        from distributed import Client

        if self._client is None or self._client.status != "running":
            self.shutdown()
            self._client = Client(self._address, timeout=SCHEDULER_SECONDS, set_as_default=False)
            # pure=False: a batch that failed is tried again, not answered from memory.
            self._engine = self._client.get_executor(retries=RETRIES, pure=False)
        return self._engine


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ignore Ctrl-C while workers are started, which inherit this: the driver handles it, and they end with it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_tracker() -> None:
    """Start Python's semaphore tracker, which removes those that a stopped driver left, without its remark."""
    before = os.environ.get("PYTHONWARNINGS", "")
    os.environ["PYTHONWARNINGS"] = f"{before},ignore::UserWarning:multiprocessing.resource_tracker"
    try:
        resource_tracker.ensure_running()
    finally:
        os.environ["PYTHONWARNINGS"] = before


def _end_with(watched) -> None:
    """End this process once nobody holds the other end of a pipe."""
    with contextlib.suppress(EOFError, OSError):
        watched.recv_bytes()
    os._exit(1)


def _prepare(numbers, watched, cache: Path | None) -> None:
    threading.Thread(target=_end_with, args=(watched,), daemon=True).start()
    number = numbers.get()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible:
        devices = visible.split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = devices[number % len(devices)]
    runtime.use_cpu_devices(1)
    runtime.use_compilation_cache(cache)
