"""Strict numerics for every test: no silent promotion, one compilation cache for all runs."""

import collections
import contextlib
import ctypes
import functools
import gc
import inspect
import itertools
import json
import linecache
import mmap
import os
import re
from pathlib import Path

import jax
import jaxlib
import pytest

from jaxdis._core import platforms, programs, runtime

# Programs of tests run for milliseconds and take seconds to compile: a fifth of that without optimization.
QUICK_TO_COMPILE = {
    "xla_backend_optimization_level": "0",
    "xla_cpu_use_fusion_emitters": "false",
    "xla_llvm_disable_expensive_passes": "true",
    "xla_cpu_parallel_codegen_split_count": "1",
}


def compile_quickly():
    """For this process and those it starts; XLA reads its flags when it first compiles, and ends at an unknown one.

    Flags that are set already stay. With ``JAXDIS_TESTS=optimized`` programs are those of users: some numbers are
    others, and tests that train for minutes take a fraction of the time.
    """
    if os.environ.get("JAXDIS_TESTS") == "optimized":
        return
    given = os.environ.get("XLA_FLAGS", "")
    flags = [f"--{flag}={value}" for flag, value in QUICK_TO_COMPILE.items() if flag not in given and known(flag)]
    os.environ["XLA_FLAGS"] = " ".join([*flags, given]).strip()


def known(flag: str) -> bool:
    """Whether the library holds the name as a string of its own; as part of another, it may be a flag of the past."""
    libraries = Path(jaxlib.__file__).parent.glob("*jax_common*")
    return any(contains(library, f"\0{flag}\0".encode()) for library in libraries)


def contains(path: Path, text: bytes) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(text) >= 0


compile_quickly()
runtime.use_cpu_devices(2)
runtime.use_compilation_cache()
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)  # no program is compiled by both workers
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


GOLDEN_VALUES = "tests.golden_values"
# By file and test: "all", or the cases that are slow.
SLOW = json.loads(Path(__file__).with_name("slow_cases.json").read_text())


@pytest.fixture(autouse=True)
def traced_anew():
    """What a test replaces must be seen: no program comes from disk, except in tests of that."""
    programs.keep_in(None)


@pytest.fixture(scope="session", autouse=True)
def commands_start_nothing():
    """They run in this process, whose devices are set already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jaxdis.cli._terminal.start", lambda cache: None)
        yield


def pytest_addoption(parser):
    parser.addoption("--forms", help="run the forms of another platform, gpu or tpu, on this one")


def pytest_configure(config):
    if forms := config.getoption("--forms"):
        os.environ[platforms.FORMS_VARIABLE] = forms  # before anything is traced; workers inherit it


def pytest_collection_modifyitems(items):
    for item in items:
        cases = SLOW.get(item.location[0], {}).get(item.originalname, ())
        if cases == "all" or (cases and item.callspec.id in cases):
            item.add_marker(pytest.mark.slow)
        if reads_recorded_values(item.module, item.function):
            item.add_marker(pytest.mark.golden)


@functools.cache
def reads_recorded_values(module, function) -> bool:
    """Whether a test names recorded values, or the functions of :mod:`tests.golden_values` that read them."""
    if not (readers := readers_of(module)):
        return False
    code = inspect.unwrap(function).__code__
    first, last = code.co_firstlineno, max(line for *_, line in code.co_lines() if line)
    source = "".join(linecache.getlines(code.co_filename)[first - 1 : last])  # inspect.getsource parses the file
    return any(re.search(rf"\b{name}\b", source) for name in {"GOLDEN", *readers})


@functools.cache
def readers_of(module) -> set[str]:
    return {name for name, value in vars(module).items() if getattr(value, "__module__", "") == GOLDEN_VALUES}


DEVICES = jax.devices


@pytest.fixture(scope="module", autouse=True)
def devices_of_module(request):
    yield from devices_of(request.node)


@pytest.fixture(autouse=True)
def devices_of_test(request):
    yield from devices_of(request.node)


def devices_of(node):
    """One, of which programs compile in three quarters of the time, or both for what is marked ``two_devices``."""
    with pytest.MonkeyPatch.context() as patch:
        both = node.get_closest_marker("two_devices")
        patch.setattr(jax, "devices", DEVICES if both else lambda *platform: DEVICES(*platform)[:1])
        yield


@pytest.fixture(scope="session", autouse=True)
def collect_garbage_rarely():
    """Tracing makes many objects that stay: by default a tenth of the time goes into walking them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)
    yield
    # The process ends: pytest would walk all that lives five times.
    gc.collect()
    gc.freeze()


TESTS = itertools.count(1)
# Tests between two looks at the memory maps, of which there are thousands to count.
BETWEEN = 4


@pytest.fixture(autouse=True)
def let_programs_go():
    """A process has a limit of memory maps, and every compiled program holds some."""
    yield
    if next(TESTS) % BETWEEN == 0 and runtime.forget_programs_if_many():
        return_memory()


# Files share programs until a worker holds so much: two workers fit a machine of 8 GB.
MOST_BYTES = 2_500_000_000


def resident_bytes() -> int:
    """How much memory this process holds; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def return_memory():
    """Free what nothing refers to.

    Without the trim, the C library keeps it for later: a worker that once held too much would clear its caches after
    each of its other files, and make the programs that they share anew.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # not Linux, or another C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)


# The programs that the file at hand has compiled, by name.
PROGRAMS = collections.Counter()
# How many the quick tests of a file may compile, half as many more than they do, since what an earlier file has made
# counts there; making programs is most of the time that tests take.
BUDGETS = json.loads(Path(__file__).with_name("programs.json").read_text())
FEW = 120


def count_program(event: str, _seconds: float, **facts):
    if event == "/jax/core/compile/backend_compile_duration":
        PROGRAMS[str(facts.get("fun_name"))] += 1


jax.monitoring.register_event_duration_secs_listener(count_program)


@pytest.fixture(scope="module", autouse=True)
def programs_of_file(request):
    """Compare their number with the file's budget: one shape for a table of cases is one program."""
    PROGRAMS.clear()
    yield
    if resident_bytes() > MOST_BYTES:
        jax.clear_caches()
        return_memory()
    file, count = request.node.nodeid, PROGRAMS.total()
    budget = BUDGETS.get(file, FEW)
    others = {"JAXDIS_TESTS", "JAX_ENABLE_X64", platforms.FORMS_VARIABLE} & set(os.environ)
    if count > budget and "not slow" in request.config.option.markexpr and not others:
        most = ", ".join(f"{name} {number}" for name, number in PROGRAMS.most_common(8))
        pytest.fail(
            f"{file}: must compile at most {budget} programs, got {count}: {most}; give cases one shape, compile "
            "functions whole (tests.programs.compiled_whole), or raise the number in tests/programs.json"
        )


@pytest.fixture
def compiled():
    """The programs compiled so far, in a list."""
    events = []

    def count(event: str, *_, **__):
        events.extend([event] if event == "/jax/core/compile/backend_compile_duration" else [])

    jax.monitoring.register_event_duration_secs_listener(count)
    yield events
    jax.monitoring.unregister_event_duration_listener(count)
