"""What .github/CONTRIBUTING.md promises: one function and one row, and the rest comes by itself."""

import functools
import re
from typing import NamedTuple

import jax.numpy as jnp
import pytest
from jaxtyping import Array, Bool, Float

import jaxdis
from jaxdis import METRICS, RELATIONS, SCORES, Blend, Direct, Relation, Spec, models
from jaxdis._core.arrays import finite_codes
from jaxdis._core.options import Positive
from jaxdis.cli import main
from jaxdis.data import DATASETS, DataSet, FactorSpace, Render
from jaxdis.factors import Codes, Factors, Sample
from jaxdis.metrics import metric
from jaxdis.metrics._metric import About
from jaxdis.models.objectives._losses import OBJECTIVES, Objective
from jaxdis.study import STUDIES
from jaxdis.study._definition import Sampling, Study, Training
from tests.metrics import test_contracts as contracts


def toy_relation(
    codes: Codes, factors: Factors, *, power: Positive = 1.0, active: Bool[Array, " d"] | None = None
) -> Relation:
    """Absolute covariance of each code with each factor, to a power.

    Options:
      power: exponent.
    """
    finite, values = finite_codes(codes), factors.values.astype(jnp.float32)
    centered = jnp.where(finite[None, :], codes, 0.0)
    centered = centered - centered.mean(axis=0)[None, :]
    strength = jnp.abs(centered.T @ (values - values.mean(axis=0)[None, :]) / len(values)) ** power
    varies = (values.max(axis=0) > values.min(axis=0)).astype(jnp.float32)
    return Relation.of(strength, varies, active=active, finite=finite)


class ToyScore(NamedTuple):
    """``score []``."""

    score: Float[Array, ""]


@metric(errors=("score",))
def toy_score(relation: Relation) -> ToyScore:
    """Largest strength."""
    valid = (relation.ceiling > 0)[None, :]
    return ToyScore(jnp.where(valid, relation.strength, 0.0).max())


def toy_metric(
    codes: Codes, factors: Factors, *, test: Sample, scale: float = 1.0, active: Bool[Array, " d"] | None = None
) -> ToyScore:
    """Mean absolute held-out code.

    Options:
      scale: multiplies the codes.
    """
    shown = finite_codes(codes) if active is None else active
    used = jnp.where(shown[None, :], test.codes, 0.0)
    return ToyScore(jnp.where(finite_codes(codes).all(), jnp.abs(scale * used).mean(), jnp.nan))


@pytest.fixture
def rows(monkeypatch):
    about = About("Toy", "Is this a toy?", ("higgins2017",))
    monkeypatch.setitem(RELATIONS, "toy_relation", Spec(toy_relation, title="Toy relation"))
    monkeypatch.setitem(SCORES, "toy_score", Spec(toy_score, title="Toy score"))
    monkeypatch.setitem(METRICS, "toy_blend", Blend("toy_relation", "toy_score", about=about))
    monkeypatch.setitem(METRICS, "toy_direct", Direct(Spec(toy_metric), about=about))
    monkeypatch.setitem(contracts.INVARIANT_UNDER, "toy_relation", "nothing")
    contracts.scores_of_family.cache_clear()


@pytest.mark.parametrize("name", ["toy_blend", "toy_direct"])
def test_a_metric_meets_the_contracts(rows, name):
    for contract in (
        contracts.test_scores_are_numbers_with_the_right_shape,
        contracts.test_batches_on_two_devices_equal_members_one_by_one,
        contracts.test_one_member_alone_equals_it_in_the_zoo,
        contracts.test_the_key_alone_decides,
        contracts.test_nan_in_one_member_leaves_the_others_bit_identical,
        contracts.test_a_constant_code_is_legal,
        *(
            functools.partial(contracts.test_fewer_codes_than_factors_and_a_single_factor_are_legal, variant=variant)
            for variant in ("one factor", "one code")
        ),
        contracts.test_ten_calls_trace_once_and_products_are_of_full_precision,
    ):
        contract(name)


def test_a_relation_meets_the_contracts(rows):
    for contract in (
        contracts.test_an_inactive_code_relates_to_nothing,
        contracts.test_relation_is_invariant_as_it_promises,
    ):
        contract("toy_relation")


def test_a_row_is_listed_scored_and_blended(rows, capsys):
    for what, name in (("metrics", "toy_blend"), ("metrics", "toy_direct"), ("relations", "toy_relation")):
        assert main(["list", what]) == 0
        assert name in capsys.readouterr().out
        assert main(["list", what, name]) == 0
        assert "1.0" in capsys.readouterr().out
    assert METRICS["toy_blend"].errors
    assert not METRICS["toy_direct"].errors
    codes, factors = contracts.zoo()
    assert jaxdis.evaluate(codes, factors, ["toy_blend", "toy_direct"])["toy_blend"].shape == (3,)
    table = jaxdis.blend_table(codes, factors, ["toy_relation", "r2"], ["toy_score", "gap"])
    assert set(table) >= {"toy_relation/toy_score", "toy_relation/gap", "r2/toy_score"}


def test_an_argument_that_is_neither_an_option_nor_known_is_refused():
    def misspelt(codes, factors, *, wieghts=None, active: Bool[Array, " d"] | None = None):
        """A name of no array; it has a default, so it is an option."""

    def typed(codes, factors, *, wieghts: Float[Array, " n"] | None = None):
        """An array under a name that nobody fills."""

    def bare(codes, factors, *, tset):
        """No default."""

    assert Spec(misspelt).all_options == {"wieghts": None}
    for function, name in ((typed, "wieghts"), (bare, "tset")):
        with pytest.raises(ValueError, match=f"argument '{name}' needs a default"):
            Spec(function)


@pytest.mark.parametrize("table", [RELATIONS, SCORES, METRICS], ids=["relations", "scores", "metrics"])
def test_every_option_is_explained(table):
    for row in table.values():
        parts = [getattr(row, name) for name in ("relation", "score", "function") if hasattr(row, name)]
        for spec in parts if isinstance(row, Blend | Direct) else [row]:
            _, _, section = (spec.function.__doc__ or "").partition("Options:\n")
            entries = section.split("\n\n")[0]
            named = {
                name.strip() for line in entries.split("\n") if ":" in line for name in line.split(":")[0].split(",")
            }
            assert set(spec.all_options) <= named, (spec.name, set(spec.all_options) - named)


class ToyHyperparameters(NamedTuple):
    weight: float = 1.0
    learning_rate: float = 1e-3


def toy_loss(terms, hyperparameters):
    return terms.reconstruction * hyperparameters.weight


def draw_bars(tables, factors, key):
    place = jnp.arange(8, dtype=jnp.int32)
    rows, columns = (place[None] == 2 * factors[:, j, None] for j in range(2))
    return (rows[:, :, None] | columns[:, None, :]).astype(jnp.float32)[..., None]


def two_bars(source=None):
    """Each at one of four places."""
    space = FactorSpace.of(first=4, second=4)

    return space, Render((), draw_bars, space.sizes, (8, 8, 1))


def test_an_objective_a_data_set_and_a_study_train_and_are_listed(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(OBJECTIVES, "toy", Objective(ToyHyperparameters, "weight", toy_loss))
    row = DataSet(
        title="Toy",
        description="two bars",
        space=two_bars()[0],
        shape=(8, 8, 1),
        renders=True,
        reads="",
        origin="made for tests",
        make=two_bars,
    )
    monkeypatch.setitem(DATASETS, "toy_bars", row)

    def toy_study(*, seeds: int = 1, metrics=None) -> Study:
        """Two bars."""
        config = models.Config(
            data="toy_bars", method=models.Vae(objective="toy", network=models.Mlp((8,), num_codes=2)), steps=4
        )
        training = Training.of(config, {"toy": {"weight": (1.0, 2.0)}}, seeds)
        return Study.of("toy_study", [training], metrics or ["mig"], sampling=Sampling(100, 50))

    monkeypatch.setitem(STUDIES, "toy_study", toy_study)
    assert main(["list", "data"]) == 0
    assert "toy_bars" in capsys.readouterr().out
    assert main(["study", "run", "toy_study", "--out", str(tmp_path / "study")]) == 0
    assert (tmp_path / "study" / "results.csv").exists()


# What a user may write, and lines that a type checker must refuse: the latter are marked.
DOWNSTREAM = """
import numpy as np
import jaxdis
from jaxdis import Blend, Factors, Scores, Spec, models
codes = np.zeros((3, 10, 2), np.float32)
factors: Factors = Factors.of(np.zeros((10, 1), int), sizes=(2,))
scores: Scores = jaxdis.evaluate(codes, factors, ['mig'])
metric: Blend = Blend('r2', 'gap')
spec: Spec | str = metric.score
config = models.Config('hearts', steps=3)
zoo: models.Zoo = models.train(config, *models.members({'beta': {'beta': (1, 4)}}))
space, render = jaxdis.data.dsprites()
sizes: tuple[int | None, ...] = space.sizes
evaluated: int = jaxdis.evaluate(codes, factors)  # wrong
jaxdis.evalute(codes, factors)  # wrong
trained: int = models.train(config, *models.members({}))  # wrong
drawn: int = jaxdis.data.dsprites()  # wrong
structure: int = jaxdis.structured.Structure.of(('object',), [('slot',)], [('thing',)])  # wrong
"""


def test_a_downstream_file_type_checks(tmp_path):
    mypy = pytest.importorskip("mypy.api", reason="mypy is not installed")
    path = tmp_path / "user.py"
    path.write_text(DOWNSTREAM)
    output, errors, code = mypy.run([str(path), "--no-incremental", "--follow-imports=silent"])
    assert errors == ""
    refused = [int(number) for number in re.findall(r"user\.py:(\d+): error", output)]
    assert refused == [n for n, line in enumerate(DOWNSTREAM.split("\n"), 1) if line.endswith("# wrong")], output
