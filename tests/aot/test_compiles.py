"""With the compilers of the extra ``aot``: every metric and method compiles for absent devices, within its budget.

Minutes for a GPU, longer for a TPU: ``python -m pytest -m aot tests/aot``. Budgets only go down:
``python -m tests.aot.budgets`` writes what is lower than before.
"""

import functools
import json
from importlib.resources import files

import jax
import numpy as np
import pytest

from jaxdis import METRICS
from jaxdis._core.accelerators import TARGETS, cost_of, placed
from jaxdis._core.executor import AXIS, Layout
from jaxdis._core.platforms import tracing_for
from jaxdis.cli._accelerators import TRAINED, Estimate, estimates, updates
from jaxdis.data import DATASETS
from jaxdis.models import Config
from jaxdis.models._images import Images
from jaxdis.models._zoo import _encode
from jaxdis.models.training._image_source import as_source
from jaxdis.models.training._train import resolved_config
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
@pytest.mark.parametrize("name", METRICS)
def test_a_metric_compiles_within_its_budget(target, name):
    (row,) = estimates({name: METRICS[name]}, TARGETS[target], MEMBERS)
    check(row, target)


@pytest.mark.aot
@pytest.mark.parametrize("name", TRAINED)
def test_a_method_compiles_within_its_budget(target, name):
    (row,) = updates({name: TRAINED[name]}, TARGETS[target], TRAINED_MEMBERS)
    check(row, target)


@pytest.mark.aot
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
@pytest.mark.parametrize("name", [name for name, row in DATASETS.items() if row.renders])
def test_a_data_set_is_drawn(target, name):
    space, render = DATASETS[name].make(**{"cached": False} if name == "shapes3d" else {})
    kind, layout = TARGETS[target], Layout(tuple(TARGETS[target].devices()[:1]))
    inputs = placed((render, space.sample(jax.random.key(0), 64), jax.random.key(1)), layout)
    with tracing_for(kind.platform):
        traced = jax.jit(lambda render, factors, key: render(factors, key)).trace(*inputs)
    compiled = traced.lower(lowering_platforms=(kind.lowering,)).compile()
    assert cost_of(compiled.as_text(), lambda scope: 1.0).launches > 0


@pytest.mark.aot
@pytest.mark.parametrize("chips", [1, 4])
def test_encoding_communicates_nothing_but_images(chips):
    """Chips draw a share of the images each, which all members encode."""
    if not available("v5e"):
        pytest.skip("must have the compiler of v5e: pip install '.[aot]'")
    kind, layout = TARGETS["v5e"], Layout(tuple(TARGETS["v5e"].devices()[:chips]), 8)
    space, render = DATASETS["dsprites"].make()
    method, _ = TRAINED["vae_mlp"]
    source = as_source(np.zeros((512, 64, 64, 1), np.uint8))
    method = resolved_config(Config(method=method), source).method
    keys = jax.random.split(jax.random.key(0), 8 * chips)
    params = jax.eval_shape(jax.vmap(lambda key: method.begin(key).params), keys)
    whole = functools.partial(placed, layout=layout)
    rows, start = space.sample(jax.random.key(0), 256), np.uint32(0)
    traced = _encode.trace(
        method, "represent", None, layout, placed(params, layout, AXIS), whole(Images.of(render)),
        whole(jax.random.key(1)), whole(rows), whole(start),
    )  # fmt: skip
    text = traced.lower(lowering_platforms=(kind.lowering,)).compile().as_text()
    assert cost_of(text, lambda scope: 1.0).collectives == (chips > 1)


@pytest.mark.aot
@pytest.mark.parametrize("name", ["dci", "dci_forest", "sap"])
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
    turns, budgets = json.loads((files("jaxdis.cli") / "turns.json").read_text()), json.loads(FILE.read_text())
    assert METRICS.keys() == budgets["cpu"].keys() <= budgets["h100"].keys() & turns.keys()
