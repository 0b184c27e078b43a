"""The same bits whether or not JAX has 64-bit types: training, encoding, rendering and studies.

Contracts of metrics (``tests/metrics/test_contracts.py``) say it of scoring.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdis.data
from jaxdis import METRICS, RELATIONS, SCORES, evaluate, models
from jaxdis.factors import Sample
from jaxdis.study._run_study import run
from tests.metrics.test_contracts import SHORT, zoo
from tests.models.conftest import same
from tests.programs import compiled_whole
from tests.study.tiny import tiny


def test_training_encoding_and_decoding_have_the_same_bits():
    space, render = jaxdis.data.DATASETS["dsprites"].make()
    keys, hyperparameters, labels = models.members({"beta": {"beta": [1.0, 4.0]}}, seeds=2)
    method = models.Vae(network=models.Mlp((16,), 3), batch_size=8)
    config = models.Config(data="dsprites", method=method, steps=4)
    made = []
    for wide in (False, True):
        with jax.enable_x64(wide):
            zoo = models.train(config, keys, hyperparameters, labels=labels)
            factors = np.asarray(space.sample(jax.random.key(1), 20))
            images = np.asarray(render(factors))
            made.append((zoo, factors, images, zoo.encode(images), zoo.decode(zoo.encode(images).mean)))
    assert same(made[0][0], made[1][0])
    for one, other in zip(jax.tree.leaves(made[0][1:]), jax.tree.leaves(made[1][1:]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_study_has_the_same_results(tmp_path):
    for wide in (False, True):
        with jax.enable_x64(wide):
            run(tiny(metrics=("mig", "factor_vae")), tmp_path / str(wide))
    assert (tmp_path / "True" / "results.csv").read_bytes() == (tmp_path / "False" / "results.csv").read_bytes()


@pytest.mark.parametrize("name", [name for name, row in jaxdis.data.DATASETS.items() if row.renders])
def test_every_data_set_renders_the_same_bits(name):
    made = []
    for wide in (False, True):
        with jax.enable_x64(wide):
            space, render = jaxdis.data.DATASETS[name].make(**{"cached": False} if name == "shapes3d" else {})
            factors = space.sample(jax.random.key(0), 3)
            drawn = jax.jit(lambda factors, render=render: render(factors, jax.random.key(1)))
            made.append((np.asarray(factors), np.asarray(drawn(factors))))
    np.testing.assert_array_equal(made[0][0], made[1][0])
    np.testing.assert_array_equal(made[0][1], made[1][1])


def test_wide_codes_far_from_0_keep_their_digits():
    """Whether they are NumPy's or, with 64-bit types, JAX's."""
    codes, factors = zoo()
    near = evaluate(codes[0], factors, "mig")["mig"]
    with jax.enable_x64(True):
        far = jnp.asarray(codes[0].astype(np.float64) + 1e10)
        # The offset leaves 2e-6 of a code of deviation 3.
        assert evaluate(far, factors, "mig")["mig"] == pytest.approx(float(near), abs=0.01)


ROWS = {
    spec.name: spec
    for table in (METRICS, RELATIONS)
    for row in table.values()
    for spec in [getattr(row, "source", row)]
}
OTHERS = {name: getattr(jaxdis.metrics, name) for name in jaxdis.metrics.__all__ if name not in {*ROWS, "metric"}}
OTHERS = {name: function for name, function in OTHERS.items() if inspect.isfunction(function)}


@pytest.mark.parametrize("name", [*ROWS, *OTHERS])
def test_functions_called_directly_compute_in_single_precision(name):
    """Alone and in a program, where 64 bits made some results wide, and loops fail whose carries became wide."""
    arrays, factors = zoo()
    spec = ROWS.get(name)
    function = OTHERS[name] if spec is None else spec.function
    reads = inspect.signature(function).parameters
    with jax.enable_x64(True):
        codes, key = jnp.asarray(arrays[0], jnp.float32), [jax.random.key(0)] * ("key" in reads)
        given = [codes, factors] * (2 if "test_codes" in reads else 1)
        given = [jnp.asarray(arrays, jnp.float32)] if "factors" not in reads and name not in ROWS else given
        given = [codes, codes] if "second" in reads else given
        how = {option: value for option, value in {**SHORT, "depth": 2}.items() if option in reads}
        how |= {"test": Sample(codes, factors)} if "test" in reads else {}
        if "prepared" in reads:
            how["prepared"] = spec.prepare(jax.random.key(0), factors)
        made = jax.make_jaxpr(lambda *arrays: function(*arrays, **how))(*key, *given)
    assert {each.dtype.itemsize for each in made.out_avals} <= {1, 4}


def test_scores_called_directly_compute_in_single_precision():
    codes, factors = zoo()
    with jax.enable_x64(True):
        relation = compiled_whole(RELATIONS["mutual_information"])(jnp.asarray(codes[0], jnp.float32), factors)
        for spec in SCORES.values():
            made = jax.make_jaxpr(spec.function)(relation)
            assert {each.dtype.itemsize for each in made.out_avals} <= {1, 4}, spec.name
