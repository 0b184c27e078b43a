"""With the compilers of the extra ``aot``: every metric and method compiles for absent devices, within its budget.

Minutes for a GPU, longer for a TPU: ``python -m pytest -m aot tests/aot``. Budgets only go down:
``python -m tests.aot.budgets`` writes what is lower than before.
"""

import json
from importlib.resources import files

import jax
import pytest

from jaxdis import METRICS
from jaxdis._core.targets import TARGETS
from jaxdis.cli._estimates import TRAINED, Estimate, estimates, updates
from tests.aot.budgets import FILE, MEMBERS, TRAINED_MEMBERS, counts_of

# Compilers of the next version may need so much more.
TOLERANCE = 1.05


def available(target: str) -> bool:
    try:
        return bool(TARGETS[target].devices())
    except RuntimeError:
        return False


@pytest.fixture(autouse=True)
def no_flags(monkeypatch):
    """The compiler of a TPU reads XLA's flags when it is loaded, and ends the process at one that only CPUs have."""
    jax.devices("cpu")  # which have read theirs
    monkeypatch.delenv("XLA_FLAGS", raising=False)


@pytest.fixture(params=["h100", "v5e"])
def target(request):
    if not available(request.param):
        pytest.skip(f"must have the compiler of {request.param}: pip install '.[aot]'")
    return request.param


def check(row, target: str) -> None:
    assert isinstance(row, Estimate), row
    assert row.collectives == 0
    budget = json.loads(FILE.read_text())[target].get(row.name)
    assert budget is not None, f"python -m tests.aot.budgets {target} {row.name}"
    for name, count in counts_of(row).items():
        assert count <= TOLERANCE * budget[name], (row.name, name)


@pytest.mark.aot
@pytest.mark.slow
@pytest.mark.parametrize("name", METRICS)
def test_a_metric_compiles_within_its_budget(target, name):
    (row,) = estimates({name: METRICS[name]}, TARGETS[target], MEMBERS)
    check(row, target)


@pytest.mark.aot
@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_a_method_compiles_within_its_budget(target, name):
    (row,) = updates({name: TRAINED[name]}, TARGETS[target], TRAINED_MEMBERS)
    check(row, target)


@pytest.mark.aot
@pytest.mark.slow
@pytest.mark.parametrize("name", ["mig", "mcc", "vae_mlp"])
def test_four_chips_do_not_communicate(name):
    """Members are spread over them; each chip reads its own."""
    if not available("v5e"):
        pytest.skip("must have the compiler of v5e: pip install '.[aot]'")
    if name in METRICS:
        (row,) = estimates({name: METRICS[name]}, TARGETS["v5e"], 8, chips=4)
    else:
        (row,) = updates({name: TRAINED[name]}, TARGETS["v5e"], 8, chips=4)
    assert isinstance(row, Estimate), row
    assert row.collectives == 0


@pytest.mark.aot
@pytest.mark.slow
@pytest.mark.parametrize("name", ["dci_forest", "sap"])
def test_sums_into_places_known_at_run_time_have_one_order_on_request(name):
    """No two of them write the same place at once: samples are sorted by place, and each run is added up before."""
    if not available("h100"):
        pytest.skip("must have the compiler of h100: pip install '.[aot]'")
    found = {}
    for deterministic in (False, True):
        (row,) = estimates({name: METRICS[name]}, TARGETS["h100"], MEMBERS, 1000, deterministic=deterministic)
        found[deterministic] = row.atomic
    assert found[False] > 0
    assert found[True] == 0


def test_every_metric_has_a_budget_and_turns():
    turns = json.loads((files("jaxdis.cli") / "turns.json").read_text())
    assert METRICS.keys() <= json.loads(FILE.read_text())["h100"].keys() & turns.keys()
