"""Tables of Mahon et al. 2024 from scores whose tables are known."""

import json
from pathlib import Path

import numpy as np
import pytest

from jaxdis.data import DATASETS
from jaxdis.papers.mahon2024 import _tables as tables
from jaxdis.papers.mahon2024._run import MODELS
from jaxdis.papers.mahon2024._tables import Scored, chance, collisions, per_factor_tables, size_and_shape

PAPER = json.loads((Path(__file__).parents[1] / "golden/mahon2024_tables.json").read_text())
# shape, scale, orientation, x, y of dSprites; the table shows x, y, size, orientation, shape.
ACCURACY = np.array([0.9, 0.5, 0.2, 0.7, 0.8])


def joint(value):
    table = np.zeros((5, 5))
    table[1, 0] = table[0, 1] = value
    return table


def member(model="beta", data="dsprites", pair=None, seed=0, shift=0.0, **columns):
    """One member with the same accuracies everywhere, moved by ``shift``."""
    accuracy = ACCURACY + shift if data == "dsprites" else np.linspace(0.1, 0.8, len(DATASETS[data].space.sizes))
    parts = {
        f"{name}.accuracy": accuracy + more
        for name, more in {"snc": -0.1, "linear_probe": -0.05, "mlp_probe": 0, "novel_combination": -0.15}.items()
    }
    parts |= {"novel_combination.linear_accuracy": accuracy - 0.2, "nk.knocked": accuracy - 0.02}
    if data == "dsprites":
        parts |= {"mlp_probe.joint": joint(0.45), "snc.joint": joint(0.3), "linear_probe.joint": joint(0.4)}
    given = {"snc": 0.3 + shift, "nk": 0.1, "novel_combination.both": 0.25, "novel_combination.linear_both": 0.01}
    return Scored(data, model, seed, pair, {**given, **columns}, parts)


def test_table_2_has_means_and_deviations_over_runs_of_the_normal_test_set():
    members = [member(seed=0), member(seed=1, shift=0.04), member(pair=(0, 0), shift=0.1), member("labelled_partition")]
    rows = tables.table_2(members)
    assert all(list(row) == ["beta"] for row in rows.values())
    np.testing.assert_allclose(rows["dsprites", "SNC"]["beta"], [32, 4 / np.sqrt(2)])
    np.testing.assert_allclose(rows["dsprites", "MLP"]["beta"], [100 * (ACCURACY.mean() + 0.02), 4 / np.sqrt(2)])
    np.testing.assert_allclose(rows["dsprites", "linear"]["beta"], [100 * (ACCURACY.mean() - 0.03), 4 / np.sqrt(2)])
    np.testing.assert_allclose(rows["dsprites", "NK"]["beta"], [10, 0], atol=1e-9)


def test_table_3_takes_chance_off_the_mean_over_combinations():
    members = [
        member(pair=(0, 0)),
        member(pair=(5, 2), shift=-0.5),
        member(),
        member("labelled_partition", pair=(0, 0)),
    ]
    rows = tables.table_3(members)
    heads = ["dsprites shape", "dsprites size", "dsprites both"]
    assert all(list(row) == heads for row in rows.values())
    shape, size = 0.9 - 0.25 - 0.15, 0.5 - 0.25 - 0.15
    expected = [100 * (shape - 1 / 3) / (2 / 3), 0.0, 100 * (0.25 - 1 / 18) / (17 / 18)]
    assert size < 1 / 6  # below chance
    np.testing.assert_allclose([*rows["beta", "CG"].values()], expected)
    assert rows["beta", "linear CG"]["dsprites both"] == 0
    np.testing.assert_allclose(rows["beta", "normal test set"]["dsprites both"], 100 * (0.45 - 1 / 18) / (17 / 18))
    assert np.isnan(rows["labelled_partition", "normal test set"]["dsprites both"])
    assert [model for model, _ in rows] == ["beta"] * 3 + ["labelled_partition"] * 3


def test_table_8_has_products_and_means_over_size_and_shape():
    rng = np.random.default_rng(0)
    scores = rng.random((2, 5))
    parts = {
        "mig.per_factor": scores[0],
        "sap.per_factor": scores[1],
        "dci.per_factor": scores[0],
        "dci.fit": scores[1],
    }
    normal = {"snc.per_factor": np.array([0.4, 0.5, 0, 0, 0]), "nk.adjusted": np.array([-0.1, 0.5, 0, 0, 0])}
    columns = {f"dci.{field}": value for field, value in zip(tables.DCI_FIELDS, (0.3, 0.5, 0.7), strict=True)}
    novel = Scored("dsprites", "beta", 0, (0, 0), {"mig": 0.2, **columns}, parts)
    table = tables.table_8([novel, Scored("dsprites", "beta", 0, None, {}, normal)])
    found = {name: row["dsprites beta"] for (name,), row in table.items()}
    np.testing.assert_allclose(found["SNC"], 100 * 0.4 * 0.5)
    assert found["NK"] == 0  # a negative one counts 0
    np.testing.assert_allclose(found["MIG2p"], scores[0, 0] * scores[0, 1])
    np.testing.assert_allclose(found["SAP2m"], scores[1, :2].mean())
    np.testing.assert_allclose(found["I2p"], scores[1, 0] * scores[1, 1])
    np.testing.assert_allclose([found[name] for name in ("MIG", "D", "C", "I", "DCI")], [0.2, 0.3, 0.5, 0.7, 0.5])
    assert np.isnan(found["MED"])
    assert list(found) == tables._TABLE_8


def printed():
    """Members whose Tables 3 and 8 are the paper's."""
    pairs = [(data, model) for data in ("dsprites", "shapes3d", "mpi3d") for model in MODELS[:-1]]
    for i, (data, model) in enumerate(pairs):
        size, shape = size_and_shape(data)
        r = chance(data)[0] * chance(data)[1]
        columns = {"novel_combination.both": r + PAPER["compositional_generalization_both"][i] / 100 * (1 - r)}
        columns |= {"mig": PAPER["MIG"][i], "sap": PAPER["SAP"][i], "irs": PAPER["IRS"][i]}
        columns |= {f"dci.{field}": PAPER[name][i] for field, name in zip(tables.DCI_FIELDS, "DCI", strict=True)}
        columns["med.disentanglement"] = PAPER["MED"][i]
        parts = {}
        for name, part in (("SNC", "snc.per_factor"), ("NK", "nk.adjusted")):
            parts[part] = np.zeros(len(DATASETS[data].space.sizes))
            parts[part][size], parts[part][shape] = PAPER[name][i] / 100, 1
        yield Scored(data, model, 0, (0, 0), columns, {})
        yield Scored(data, model, 0, None, {}, parts)


def test_table_4_follows_from_the_papers_tables_3_and_8():
    """Three decimals of per cent each: what rounding leaves open is < .001."""
    rows = {over: row for (over,), row in tables.table_4(list(printed())).items()}
    assert list(rows) == ["dsprites", "shapes3d", "mpi3d", "all"]
    for name in ("SNC", "NK", "MIG", "SAP", "IRS", "D", "C", "I", "MED"):
        assert rows["all"][name] == pytest.approx(PAPER["recomputed_here_all"][name], abs=5.1e-4)
        assert rows["shapes3d"][name] == pytest.approx(PAPER["recomputed_here_3dshapes"][name], abs=5.1e-4)
    by_metric = tables.table_6(list(printed()))
    assert by_metric["SNC",] == {over: row["SNC"] for over, row in rows.items()}


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("table_09_beta_dsprites", ["x", "y", "size", "orient", "shape", "both"]),
        ("table_18_parted_vae_shapes3d", ["floor h", "wall h", "size", "orient", "shape", "obj h", "both"]),
        ("table_36_parted_vae_shapes3d", ["floor h", "wall h", "size", "orient", "obj h", "shape", "both"]),
        ("table_26_weak_de_mpi3d", ["hor", "vert", "size", "obj h", "shape", "cam he", "bg h", "both"]),
        ("table_47_labelled_partition_mpi3d", ["hor", "vert", "size", "obj h", "shape", "cam he", "bg h", "both"]),
    ],
)
def test_tables_per_factor_have_the_papers_numbers_and_columns(name, columns):
    sets = ("dsprites", "shapes3d", "mpi3d")
    members = [member(model, data, pair) for data in sets for model in MODELS for pair in (None, (0, 0))]
    found = per_factor_tables(members)
    assert len(found) == 39
    assert {int(name.split("_")[1]) for name in found} == set(range(9, 48))
    assert all(list(row) == columns for row in found[name].values())


def test_rows_per_factor_are_raw_accuracies_in_the_papers_order():
    found = per_factor_tables([member(), member(pair=(5, 2))])
    in_order = 100 * ACCURACY[[3, 4, 1, 2, 0]]
    normal = found["table_09_beta_dsprites"]
    assert list(normal) == [("normal test set 0", row) for row in ("SNC", "linear", "NK1", "MLP")]
    np.testing.assert_allclose([*normal["normal test set 0", "MLP"].values()], [*in_order, 45])
    *without, both = normal["normal test set 0", "NK1"].values()
    np.testing.assert_allclose(without, in_order - 2)
    assert np.isnan(both)
    novel = found["table_27_beta_dsprites"]
    assert list(novel) == [("NC 5-2", "CG linear"), ("NC 5-2", "CG")]
    np.testing.assert_allclose([*novel["NC 5-2", "CG linear"].values()], [*(in_order - 20), 1])
    np.testing.assert_allclose([*novel["NC 5-2", "CG"].values()], [*(in_order - 15), 25])


def test_collisions_are_what_an_alignment_keeps_apart():
    """The example of Figure 1: factors a and b share code 2, and the alignment gives a the next best."""
    strength = np.array([[0.1, 0.0, 0.9], [0.5, 0.1, 0.1], [0.6, 0.8, 0.0]], np.float32)
    [one] = collisions(strength, ("a", "b", "c"))
    assert one == (2, ("a", "b"), (1, 2))
    assert collisions(np.eye(3, dtype=np.float32), ("a", "b", "c")) == []
