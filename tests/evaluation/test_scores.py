"""Scores as a table: members, selections, files, and what other table tools make of them."""

import copy
import csv
import io
import json
import pickle
from html.parser import HTMLParser

import numpy as np
import pytest

import jaxdis
from jaxdis import Scores, evaluate
from jaxdis._core.files import DamagedFile, write_arrays
from jaxdis.evaluation._score_core import as_json
from tests.draws import representations

pandas = pytest.importorskip("pandas")
CODES, VALUES = representations()
FACTORS = jaxdis.Factors.of(VALUES, names=("shape", "<b>size"))
LABELS = ({"model": "<i>beta", "seed": 0}, {"model": "=1+1", "seed": 1}, {"model": "beta", "seed": np.int64(2)})


def table(count: int = 3, labels=LABELS) -> Scores:
    """Two columns of known numbers, one with a part per factor, one with a part per code and factor."""
    mig = np.arange(count) / 4
    parts = {"mig.per_factor": mig[:, None] + [0.0, 1.0], "dci.matrix": np.arange(6.0 * count).reshape(count, 3, 2)}
    return Scores(
        {"mig": mig, "dci.informativeness": 1 - mig},
        parts,
        ("shape", "<b>size"),
        members=jaxdis.evaluation._score_core.member_rows(labels, count),
        axes={"mig.per_factor": ("k",), "dci.matrix": ("d", "k")},
        notes=(("mig", "a <note>"),),
        evaluation={"samples": 120, "metrics": {"mig": {}, "dci": {}}},
    )


def same(one: Scores, other: Scores) -> bool:
    return one.to_csv() == other.to_csv() and json.dumps(as_json(one)) == json.dumps(as_json(other))


def test_a_row_per_member_with_its_metadata():
    frame = table().to_pandas()
    assert list(frame) == ["member", "model", "seed", "mig", "dci.informativeness"]
    assert frame.mig.tolist() == [0, 0.25, 0.5]
    assert frame.seed.tolist() == [0, 1, 2]


def test_a_row_per_number_with_factors_and_codes():
    frame = table().to_pandas(long=True)
    assert len(frame) == 3 * (1 + 1 + 2 + 6)
    size = frame[(frame.field == "per_factor") & (frame.factor == "<b>size")]
    assert size.value.tolist() == [1, 1.25, 1.5]
    assert size.metric.unique().tolist() == ["mig"]
    matrix = frame[frame.field == "matrix"].sort_values(["seed", "code", "factor"], ascending=[True, True, False])
    assert matrix.value.tolist() == list(range(18))
    assert frame[frame.field == "score"].value.tolist() == [0, 0.25, 0.5]
    alone = table()[1].to_pandas(long=True)
    assert alone.value.tolist() == frame[frame.seed == 1].value.tolist()


def test_pandas_and_arrow_read_the_scores():
    assert pandas.DataFrame(table()).to_dict("list") == {"mig": [0, 0.25, 0.5], "dci.informativeness": [1, 0.75, 0.5]}
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    assert polars.DataFrame(table())["mig"].to_list() == [0, 0.25, 0.5]
    assert dict(table()).keys() == {"mig", "dci.informativeness"}

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return table().__arrow_c_stream__(requested_schema)

    assert polars.DataFrame(Stream()).columns == list(table().to_pandas())


def test_columns_and_members_are_selected():
    some = table()[["dci"]]
    assert list(some) == ["dci.informativeness"]
    assert list(some.parts) == ["dci.matrix"]
    assert some.notes == ()
    assert table()[["mig"]].notes == table().notes
    assert table()[1]["mig"] == table()[-2]["mig"] == 0.25
    assert table()[2].part("dci.matrix").shape == (3, 2)
    assert table()[2].members == ({"member": 2, "model": "beta", "seed": 2},)
    named = table(labels=["a", "b", "c"])
    assert named["b"]["mig"] == 0.25
    assert named["b"].single
    with pytest.raises(KeyError, match="no column 'd'"):
        named["d"]
    with pytest.raises(KeyError, match="no column 'sap'; the columns are"):
        named[["mig", "sap"]]
    with pytest.raises(IndexError, match="must be a place among 3 members, got 3"):
        named[3]


def test_tables_are_joined():
    named = table(labels=["a", "b", "c"])
    joined = Scores.concat([named, table(1, ["d"])[0]])
    assert joined["mig"].tolist() == [0, 0.25, 0.5, 0]
    assert joined["d"].part("mig.per_factor").tolist() == [0, 1]
    assert joined.evaluation == named.evaluation
    numbered = Scores.concat([table(2, None), table(2, None)])
    assert [row["member"] for row in numbered.members] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="must have names that differ, got 'a' more than once"):
        Scores.concat([named, named])
    with pytest.raises(ValueError, match=r"must have the same columns, got mig in some; select by scores\[\[…\]\]"):
        Scores.concat([named, named[["dci"]]])
    with pytest.raises(ValueError, match=r"tables: must be at least one Scores, got \[\]"):
        Scores.concat([])


def test_one_file_holds_everything(tmp_path):
    path = tmp_path / "scores.npz"
    whole = evaluate(np.stack([CODES, -CODES]), FACTORS, "mig", bootstrap=4, members=["plus", "minus"])
    for scores in (table(), table()[0], whole):
        scores.save(path)
        assert same(Scores.load(path), scores)
    assert Scores.load(path).interval("mig").tolist() == whole.interval("mig").tolist()
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DamagedFile):
        Scores.load(path)


@pytest.mark.parametrize(
    "fields", [{}, {"members": [{}, {}]}, {"axes": [1]}, {"order": ["columns/sap"]}, {"notes": ["text"]}]
)
def test_files_of_anything_else_are_refused(fields, tmp_path):
    whole = {"order": ["columns/mig"], "members": [{}], "axes": {}, "notes": [], "evaluation": {}, "factor_names": []}
    arrays, path = {"columns/mig": np.zeros(1)}, tmp_path / "scores.npz"
    write_arrays(path, {"scores": 1, "fields": json.dumps(whole)}, arrays)
    assert Scores.load(path)["mig"] == 0
    write_arrays(path, {"scores": 1, "fields": json.dumps(whole | fields)} if fields else {"format": 1}, arrays)
    with pytest.raises(DamagedFile, match=r"must be a file written by Scores\.save, got"):
        Scores.load(path)


def test_csv_and_json_hold_parts_and_how_scores_were_computed(tmp_path):
    metrics = {"mig": jaxdis.METRICS["mig"].with_options(bins=4)}
    scores = evaluate(CODES, FACTORS, metrics, 7, members="mine", test=(CODES[:90], VALUES[:90]))
    (row,) = csv.DictReader(io.StringIO(scores.to_csv()))
    assert row["member"] == "mine"
    assert float(row["mig.per_factor[shape]"]) == pytest.approx(scores.part("mig.per_factor")[0])
    how = json.loads(row["evaluation"])
    assert (how["samples"], how["held_out"], how["codes"], how["key"]) == (200, 90, 3, [0, 7])
    assert how["versions"]["jaxdis"] == jaxdis.__version__
    assert how["options"] == {"mig": {"bins": 4}}
    assert how["sizes"] == {"shape": 3, "<b>size": 4}
    found = json.loads(json.dumps(as_json(scores), allow_nan=False))
    assert found["parts"]["mig.per_factor"] == pytest.approx(scores.part("mig.per_factor").tolist())
    assert found["evaluation"]["metrics"]["mig"]["relation"]["options"]["bins"] == 4
    long = list(csv.DictReader(io.StringIO(scores.to_csv(tmp_path / "long.csv", long=True))))
    assert [row["factor"] for row in long] == ["", "shape", "<b>size"]
    assert (tmp_path / "long.csv").read_text() == scores.to_csv(long=True)


def test_text_from_data_is_harmless():
    assert "'=1+1" in table().to_csv()
    found = table()._repr_html_()
    assert "&lt;i&gt;beta" in found
    assert "a &lt;note&gt;" in found
    alone = table()[0]._repr_html_()
    assert "&lt;b&gt;size" in alone
    assert not {"<i>", "<b>", "<note>"} & set(Tags().of(found) + Tags().of(alone))


class Tags(HTMLParser):
    def of(self, text: str) -> list[str]:
        self.opened, self.closed = [], []
        self.feed(text)
        assert sorted(self.opened) == sorted(self.closed)
        return [f"<{tag}>" for tag in self.opened]

    def handle_starttag(self, tag, attrs):
        self.opened.append(tag)

    def handle_endtag(self, tag):
        self.closed.append(tag)


def test_what_stands_beside_a_score_is_said():
    zoo = table(30, None)
    assert "± is the standard deviation over members" in repr(zoo)
    assert "± is the standard deviation over members" in zoo._repr_html_()
    assert f"{np.mean(zoo['mig']):.4f} ± {np.std(zoo['mig']):.4f}" in repr(zoo)
    assert "2 more rows are not shown" in zoo._repr_html_()  # of 30, after the mean and the spread
    drawn = evaluate(CODES, FACTORS, "mig", bootstrap=4)
    low, high = drawn.interval("mig")
    assert f"{drawn['mig']:.4f} [{low:.4f}, {high:.4f}]" in repr(drawn)
    assert "[low, high] is the 95 % interval by bootstrap" in repr(drawn)
    assert "±" not in repr(drawn)


def test_members_are_names_labels_or_columns():
    columns = {"member": ["a", "b", "c"], "beta": np.array([1.0, 4.0, 16.0])}
    expected = tuple({"member": name, "beta": beta} for name, beta in zip("abc", (1.0, 4.0, 16.0), strict=True))
    zoo = np.stack([CODES] * 3)
    for given in (columns, pandas.DataFrame(columns), expected):
        assert evaluate(zoo, FACTORS, "mig", members=given).members == expected
    for library in ("polars", "pyarrow"):
        made = getattr(pytest.importorskip(library), {"polars": "DataFrame", "pyarrow": "table"}[library])(columns)
        assert evaluate(zoo, FACTORS, "mig", members=made).members == expected
    for wrong, words in (
        (["a", "b"], "must be 3 names, dicts, or columns of as many entries, one per member, got 2"),
        ([1.5, 2.5, 3.5], r"must be 3 names, .* got \[1.5, 2.5, 3.5\]"),
        ({"beta": [1, 2, 3], "seed": [1]}, "must be 3 names"),
        (["a", "b", "a"], "must have names that differ, got 'a' more than once"),
        ({"mig": [1, 2, 3]}, "must have columns that are no scores, got 'mig'; rename it"),
        ({"mig.low": [1, 2, 3]}, "must have columns that are no scores, got 'mig.low'"),
    ):
        with pytest.raises(ValueError, match=f"members: {words}"):
            evaluate(zoo, FACTORS, "mig", members=wrong)


def test_a_prefix_makes_a_flat_dict_of_numbers():
    assert table()[1].to_dict("val/") == {"val/mig": 0.25, "val/dci.informativeness": 0.75}
    flat = table(2, ["a", "b"]).to_dict("val/")
    assert flat == {
        "val/a/mig": 0,
        "val/a/dci.informativeness": 1,
        "val/b/mig": 0.25,
        "val/b/dci.informativeness": 0.75,
    }
    assert all(isinstance(value, float) for value in flat.values())


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda scores: pickle.loads(pickle.dumps(scores))])
def test_copies_know_whose_field_a_column_is(copied):
    scores = copied(table(2, ["a", "b"]))
    assert [(column.metric, column.field) for column in scores] == [("mig", "score"), ("dci", "informativeness")]
    assert scores["b"].to_dict() == table(2, ["a", "b"])["b"].to_dict()


def test_scores_stay_as_they_were_computed():
    scores = table()
    for change in (
        lambda: scores.update(mig=0.0),
        lambda: scores.pop("mig"),
        lambda: scores.clear(),
        lambda: scores.setdefault("other", 1.0),
        lambda: scores.__setitem__("mig", 0.0),
        lambda: scores.__delitem__("mig"),
    ):
        with pytest.raises(TypeError, match="must stay as computed"):
            change()
    assert same(scores, table())


def test_members_are_ranked_by_a_column_or_by_all():
    columns = {"mig": np.array([0.2, 0.5, 0.5, np.nan]), "r2_linear": np.array([0.1, 0.3, 0.2, 0.4])}
    columns["mcc_test"] = columns["r2_linear"]
    scores = Scores(columns, {}, members=tuple({"member": name} for name in "abcd"))
    assert [(row["rank"], row["member"]) for row in scores.rank("mig")] == [(1, "b"), (1, "c"), (3, "a"), (4, "d")]
    assert scores.best("mig").members == ({"member": "b"},)
    assert [row["member"] for row in scores.rank()] == ["b", "d", "c", "a"]
    for name in ("dci", ""):
        with pytest.raises(KeyError, match=f"no column '{name}'"):
            scores.rank(name)
    with pytest.raises(ValueError, match="which is NaN for all"):
        scores["d"].best("mig")


def test_an_error_is_best_when_it_is_low():
    scores = Scores({"amari": np.array([0.5, 0.1])}, {}, members=({"member": "far"}, {"member": "near"}))
    assert scores.best("amari").members[0]["member"] == "near"


def test_what_would_change_scores_is_not_offered():
    assert not {"clear", "pop", "popitem", "setdefault", "update"} & set(dir(Scores({"mig": np.float32(1)}, {})))
