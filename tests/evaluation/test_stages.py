"""A plan of metrics is computed in stages: which metrics are together, in which order, and what of it is reused."""

import itertools

import jax
import numpy as np
import pytest

from jaxdis import METRICS, RELATIONS, SCORES, Blend, evaluate
from jaxdis._core import executor
from jaxdis.evaluation._costs import usual_seconds
from jaxdis.evaluation._run import stages_of
from jaxdis.metrics._plan import plan_of
from tests.draws import representations

pytestmark = pytest.mark.two_devices

QUICK = ("sap_r2", "mig", "amari", "med")


@pytest.fixture
def arrays():
    return representations(3)


def stage_of(name: str) -> int:
    (number,) = (i for i, stage in enumerate(stages_of(plan_of("all"))) if name in dict(stage))
    return number


def test_every_metric_is_in_one_stage():
    plan = plan_of("all")
    stages = stages_of(plan)
    assert sorted(name for stage in stages for name, _ in stage) == sorted(METRICS)
    assert dict(itertools.chain(*stages)) == dict(plan)


def test_metrics_that_share_a_result_are_together():
    for one, other in itertools.combinations(METRICS, 2):
        source, another = METRICS[one].source, METRICS[other].source
        if source == another or source == another.base or another == source.base:
            assert stage_of(one) == stage_of(other), (one, other)


def test_options_of_one_function_are_together():
    """They share what does not depend on the options, such as sorted codes."""
    plan = plan_of({str(bins): METRICS["mig"].with_options(bins=bins) for bins in (5, 10, 20)})
    assert len(stages_of(plan)) == 1


def test_quick_metrics_come_first():
    seconds = [max(usual_seconds(metric) for _, metric in stage) for stage in stages_of(plan_of("all"))]
    assert seconds == sorted(seconds)
    assert "mig" in dict(stages_of(plan_of("all"))[0])


def test_a_metric_of_ones_own_has_a_stage_of_its_own():
    own = Blend(RELATIONS["r2"], SCORES["entropy"])
    assert stages_of(plan_of({"dci": "dci", "own": own})) == ((("own", own),), (("dci", METRICS["dci"]),))


@pytest.mark.parametrize("members", [None, 1, 6])
def test_scores_arrive_before_all_are_known(arrays, members):
    codes, values = arrays
    codes, arrived = (codes[0] if members is None else np.tile(codes, (2, 1, 1))[:members]), []
    scores = evaluate(codes, values, QUICK, devices=jax.devices()[:1], arrived=arrived.append)
    assert [tuple(part) for part in arrived] == [
        ("sap_r2",),
        ("mig", "med.disentanglement", "med.completeness"),
        ("amari",),
    ]
    for part in arrived:
        for column in part:
            np.testing.assert_array_equal(part[column], scores[column])
    assert list(scores) == ["sap_r2", "mig", "amari", "med.disentanglement", "med.completeness"]


def test_chunks_arrive_one_by_one(arrays):
    codes, values = arrays
    codes, arrived, one = np.concatenate([codes] * 7), [], jax.devices()[:1]
    scores = evaluate(codes, values, ("mig", "mcc"), devices=one, bootstrap=2, arrived=arrived.append)
    sizes = [len(next(iter(part.values()))) for part in arrived]
    assert sizes == [8, 8, 8, 8, 5, 5]  # 21 members in chunks of 8, two stages each
    for column in scores:
        parts = [part for part in arrived if column in part]
        np.testing.assert_array_equal(np.concatenate([part[column] for part in parts]), scores[column])
        np.testing.assert_array_equal(np.concatenate([part.error(column) for part in parts]), scores.error(column))


def test_programs_serve_every_plan(arrays):
    """When metrics of other functions join or leave a plan, nothing is compiled again, and no number changes."""
    codes, values = arrays
    jax.clear_caches()
    whole = evaluate(codes, values, ("mig", "monotonicity", "sap_r2"))
    compiled = executor._run._cache_size()
    assert compiled == 3
    for part in (("mig",), ("sap_r2", "mig"), ("monotonicity",)):
        scores = evaluate(codes, values, part)
        for column in scores:
            np.testing.assert_array_equal(scores[column], whole[column])
    assert executor._run._cache_size() == compiled
