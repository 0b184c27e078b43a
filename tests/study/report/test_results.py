"""The questions of the papers, against oracles."""

import numpy as np
import pytest

from jaxdis._core.files import read_csv_columns
from jaxdis.models import OBJECTIVES
from jaxdis.study.report import _statistics as results


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    objective = np.repeat(["beta", "dip_ii"], 12)
    beta = np.where(objective == "beta", np.tile(np.repeat([1.0, 4.0, 8.0], 4), 2), np.nan)
    off = np.where(objective == "dip_ii", np.tile(np.repeat([1.0, 5.0, 10.0], 4), 2), np.nan)
    mig = (objective == "beta") * 0.3 + np.nan_to_num(beta) * 0.05 + rng.normal(size=24) * 0.1
    return {"model": objective, "beta": beta, "lambda_off_diagonal": off, "mig": mig, "sap": rng.normal(size=24)}


def test_variance_explained_is_that_of_least_squares_on_one_hot_groups(table):
    groups = np.array(
        [f"{o}{s}" for o, s in zip(table["model"], results.regularizations(table, OBJECTIVES), strict=True)]
    )

    def share(labels):
        design = (labels[:, None] == np.unique(labels)[None, :]).astype(float)
        fitted = design @ np.linalg.lstsq(design, table["mig"], rcond=None)[0]
        return 1 - ((table["mig"] - fitted) ** 2).sum() / ((table["mig"] - table["mig"].mean()) ** 2).sum()

    assert results.explained(table, "mig") == pytest.approx(share(table["model"]))
    by = results.regularizations(table, OBJECTIVES)
    assert results.explained(table, "mig", by) == pytest.approx(share(groups))


def test_regularizations_are_of_each_members_own_setting(table):
    np.testing.assert_array_equal(results.regularizations(table, OBJECTIVES)[[0, 11, 12, 23]], [1, 8, 1, 10])


def test_results_come_back_as_columns(tmp_path):
    (tmp_path / "r.csv").write_text("model,mig\nbeta,0.5\ndip_i,\n")
    table = read_csv_columns(tmp_path / "r.csv")
    assert table["model"].tolist() == ["beta", "dip_i"]
    assert table["mig"][0] == 0.5
    assert np.isnan(table["mig"][1])
