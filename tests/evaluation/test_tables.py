"""Tables of factors and of codes: what is read, as what, and what is refused."""

import datetime
import gzip
import json
import os
import re
from typing import NamedTuple

import jax
import ml_dtypes
import numpy as np
import pytest

import jaxdis
from jaxdis import Direct, Spec, evaluate, structured
from jaxdis._core.table_columns import columns_of
from jaxdis.evaluation import sample_curve
from jaxdis.evaluation._arrays_file import in_words, load_arrays
from jaxdis.factors import Factors

ROWS = 60
SHAPES, SIZES = np.arange(ROWS) % 3, np.arange(ROWS) % 4
CODES = np.random.default_rng(0).normal(size=(ROWS, 3))


def csv(*columns, head=None, separator=","):
    """Lines of columns, under a head."""
    lines = [separator.join(map(str, row)) for row in zip(*columns, strict=True)]
    return "\n".join([head, *lines] if head else lines) + "\n"


def saved(folder, text, name="labels.csv"):
    (folder / name).write_text(text)
    return folder / name


def test_columns_are_read_by_their_names_and_kinds(tmp_path):
    text = "shape,size,angle,id\nheart,2,0.5,1\nsquare,4,0.25,2\nheart,2,1.5,3\n"
    table = Factors.from_table(saved(tmp_path, text), ("size", "shape", "angle"))
    assert table.names == ("size", "shape", "angle")
    assert table.sizes == (2, 2, None)
    assert table.classes == ((2, 4), ("heart", "square"), None)
    np.testing.assert_array_equal(np.asarray(table.values), [[0, 0, 0.5], [1, 1, 0.25], [0, 0, 1.5]])
    assert in_words(table) == "size (2 classes), shape (2 classes: heart, square), angle (continuous)"
    other = Factors.from_table(tmp_path / "labels.csv", kinds={"size": "continuous", "angle": "classes"})
    assert other.sizes == (2, None, 3, 3)
    np.testing.assert_array_equal(np.asarray(other.values)[:, 1], [2, 4, 2])
    with pytest.raises(ValueError, match="labels.csv: kinds: must name columns among shape, size, angle, id"):
        Factors.from_table(tmp_path / "labels.csv", kinds={"sise": "classes"})


@pytest.mark.parametrize("index", [None, "row"])
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_the_index_of_a_data_frame_is_no_factor(form, index, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"shape": SHAPES, "size": SIZES}).sample(frac=1, random_state=0)
    path = tmp_path / f"labels.{form}"
    if form == "csv":
        frame.to_csv(path)
        frame = pandas.read_csv(path)  # now named "Unnamed: 0"
        frame.to_csv(path)
    else:
        frame.rename_axis(index).to_parquet(path)
    factors = Factors.from_table(path)
    assert factors.names == ("shape", "size")
    assert factors.sizes == (3, 4)
    if form == "parquet" and index:
        assert Factors.from_table(path, ("row",), {"row": "continuous"}).names == ("row",)


@pytest.mark.parametrize("marker", ["", "NA", "N/A", "n/a", "null", "None", "?", "-", "nan", "NaN", " NA "])
def test_missing_values_are_no_classes(marker, tmp_path):
    columns = [list(map(str, column)) for column in (SHAPES, SIZES, CODES[:, 0])]
    for column in columns[1:]:
        column[3] = column[50] = marker
    path = saved(tmp_path, csv(*columns, head="shape,size,x"))
    words = "labels.csv: must have a value in every row, got none in 2 of 60 rows of size, x (first in row 4); missing="
    with pytest.raises(ValueError, match=re.escape(words)):
        Factors.from_table(path)
    table = Factors.from_table(path, missing="drop")
    kept = np.delete(np.arange(ROWS), [3, 50])
    assert table.sizes == (3, 4, None)
    np.testing.assert_array_equal(table.rows, kept)
    np.testing.assert_array_equal(np.asarray(table.values)[:, 1], SIZES[kept])
    np.save(tmp_path / "codes.npy", CODES)
    arrays = load_arrays(tmp_path / "codes.npy", path, ("size", "x:classes"), "drop")
    np.testing.assert_array_equal(arrays.codes, CODES[kept])
    assert arrays.factors.sizes == (4, 58)
    assert in_words(arrays.factors).endswith("; 2 of 60 rows lack a value and are left out")
    np.save(tmp_path / "codes.npy", CODES[kept])
    with pytest.raises(ValueError, match="codes.npy: must have as many samples as the table of factors has rows, 60"):
        load_arrays(tmp_path / "codes.npy", path, ("size",), "drop")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n3\n", "must have rows of 2 distinct columns, got line 3 has 1"),
        ("a,a\n1,2\n", "must have rows of 2 distinct columns"),
        ("a,b\n", "must have rows of 2 distinct columns"),
        ("a,b\n1,2\n", "labels.csv: must have at least 2 rows in which no value is missing, got 1 of 1"),
        ("", "must have comma-separated text with a head"),
        ("a,b\n1,inf\n2,2\n", "labels.csv: column 'b' must hold finite numbers, got inf in row 1"),
        ("a,b\n1,x\n2,y\n", "labels.csv: column 'b' must hold classes that repeat, got 2 different texts"),
        ("a,b\n1,1\n2," + "9" * 400, "labels.csv: column 'b' must hold finite numbers, got inf in row 2"),
        ("a;b\n1;2\n", "labels.csv: must have commas between columns, got ';'"),
        ("1.0 2.0\n3.0 4.0\n", "labels.csv: must have commas between columns, got ' '"),
        ("a,c\n1,2\n", "columns: must be among a, c, got 'b'"),
        ("0,1\n1,0\n0,0\n", "labels.csv: must begin with names of columns, got 0, 1, which may be a head or a row"),
        (
            csv(SHAPES, np.arange(ROWS) * 7, head="a,b"),
            "column 'b' must hold classes that repeat, got 60 different whole numbers in 60 rows; choose others",
        ),
        (csv(SHAPES, np.r_[CODES[:59, 0], 0].astype(str).tolist()[:59] + ["broken"], head="a,b"), "'broken' in row 60"),
        (
            csv(SHAPES, [*SIZES[:59], "unknown"], head="a,b"),
            "column 'b' must hold numbers alone or text alone, got 'unk",
        ),
    ],
)
def test_tables_that_do_not_hold_factors_are_refused(text, words, tmp_path):
    with pytest.raises(ValueError, match=re.escape(words)):
        Factors.from_table(saved(tmp_path, text), () if text.startswith("0") else ("a", "b"))


def test_a_column_without_a_name_that_holds_classes_is_refused_unless_others_are_chosen(tmp_path):
    path = saved(tmp_path, ",a\n0,1\n0,0\n")
    with pytest.raises(ValueError, match="labels.csv: needs a name for every column"):
        Factors.from_table(path)
    assert Factors.from_table(path, ("a",)).names == ("a",)


def test_large_whole_numbers_stay_apart(tmp_path):
    text = csv([2**60 + number for number in SIZES], head="id")
    assert Factors.from_table(saved(tmp_path, text)).classes == ((2**60, 2**60 + 1, 2**60 + 2, 2**60 + 3),)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels.csv", csv(SHAPES, SIZES, head="shape,size")),
        ("labels.csv", "\n" + csv(SHAPES, SIZES, head="shape,size") + "\n\n"),
        ("labels.csv", "\ufeff" + csv(SHAPES, SIZES, head="shape, size", separator=", ")),
        ("labels.tsv", csv(SHAPES, SIZES, head="shape\tsize", separator="\t")),
        ("labels.txt", csv(SHAPES, SIZES, head="shape,size")),
        ("labels.txt", csv(SHAPES, SIZES, head="shape\tsize", separator="\t")),
        ("labels.txt", csv(SHAPES, SIZES, head="  shape  size", separator="   ")),
        ("labels.txt", csv(SHAPES, SIZES, head="# shape size", separator=" ")),
        # CelebA's list of attributes: a count, a head with a blank at its end, and names of files.
        ("labels.txt", f"{ROWS}\n" + csv(SHAPES, SIZES, head="shape\tsize", separator="\t")),
        (
            "labels.txt",
            f"{ROWS}\n" + csv([f"{n:06d}.jpg" for n in range(ROWS)], SHAPES, SIZES, head="shape size ", separator="  "),
        ),
    ],
)
def test_text_is_read_with_its_separators(name, text, tmp_path):
    factors = Factors.from_table(saved(tmp_path, text, name))
    assert factors.names == ("shape", "size")
    np.testing.assert_array_equal(np.asarray(factors.values), np.c_[SHAPES, SIZES])


@pytest.mark.parametrize("separator", [",", "\t", " "])
def test_a_first_line_of_numbers_is_a_row(separator, tmp_path):
    text = csv(SHAPES + 1, SIZES / 3, separator=separator)
    factors = Factors.from_table(saved(tmp_path, text, {",": "a.csv", "\t": "a.tsv", " ": "a.txt"}[separator]))
    assert factors.names == ("factor_0", "factor_1")
    assert factors.num_samples == ROWS


def test_an_index_alone_and_a_column_named_twice_are_refused(tmp_path):
    path = saved(tmp_path, csv(range(ROWS), head="Unnamed: 0"))
    with pytest.raises(ValueError, match="labels.csv: must have columns besides an index, got none"):
        Factors.from_table(path)
    path = saved(tmp_path, csv(SHAPES, head="shape"))
    with pytest.raises(ValueError, match="columns: must be named once each, got shape, shape"):
        Factors.from_table(path, ("shape", "shape"))


def test_a_list_that_is_cut_short_is_refused(tmp_path):
    path = saved(tmp_path, "99\n" + csv(SHAPES, SIZES, head="shape size", separator=" "), "labels.txt")
    with pytest.raises(ValueError, match="labels.txt: must have 99 rows, as its first line says, got 60"):
        Factors.from_table(path)


@pytest.mark.parametrize(
    "entries",
    [
        [datetime.datetime(2024, 1, 1 + n % 5) for n in range(ROWS)],
        [datetime.timedelta(days=n % 3) for n in range(ROWS)],
        [[n % 3, 1] for n in range(ROWS)],
        [{"a": n % 3} for n in range(ROWS)],
        [bytes([n % 3]) for n in range(ROWS)],
    ],
    ids=["date", "duration", "list", "struct", "bytes"],
)
def test_columns_of_neither_numbers_nor_text_are_refused_by_name(entries, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"shape": SHAPES, "odd": entries}), tmp_path / "labels.parquet")
    with pytest.raises(ValueError, match="labels.parquet: column 'odd' must hold numbers, text or truth values, got"):
        Factors.from_table(tmp_path / "labels.parquet")
    assert Factors.from_table(tmp_path / "labels.parquet", ("shape",)).sizes == (3,)


def test_codes_and_factors_may_come_in_any_format(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame, labels = pandas.DataFrame(CODES), pandas.DataFrame({"shape": SHAPES, "size": SIZES})
    frame.sample(frac=1, random_state=0).sort_index().to_parquet(tmp_path / "codes.parquet")
    frame.to_csv(tmp_path / "codes.csv")
    frame.to_csv(tmp_path / "bare.csv", index=False)
    np.savetxt(tmp_path / "codes.txt", CODES)
    np.savetxt(tmp_path / "codes.tsv", CODES, delimiter="\t")
    np.save(tmp_path / "codes.npy", CODES)
    np.savez(tmp_path / "codes.npz", codes=CODES)
    labels.to_csv(tmp_path / "labels.csv", index=False)
    labels.to_parquet(tmp_path / "labels.parquet")
    np.save(tmp_path / "labels.npy", labels.to_numpy())
    np.savez(tmp_path / "labels.npz", factors=labels.to_numpy(), names=["shape", "size"])
    for codes in ("codes.parquet", "codes.csv", "bare.csv", "codes.txt", "codes.tsv", "codes.npy", "codes.npz"):
        for factors in ("labels.csv", "labels.parquet", "labels.npy", "labels.npz"):
            arrays = load_arrays(tmp_path / codes, tmp_path / factors)
            np.testing.assert_allclose(arrays.codes, CODES, rtol=1e-12)
            np.testing.assert_array_equal(np.asarray(arrays.factors.values), labels.to_numpy())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            csv(["a.png"] * ROWS, CODES[:, 0], head="file,z0"),
            "codes.csv: column 'file' must hold numbers, got 'a.png' in",
        ),
        (
            csv(range(7, 7 + ROWS), CODES[:, 0], head="id,z0"),
            "codes.csv: column 'id' must hold a code, got row numbers",
        ),
    ],
)
def test_columns_that_are_no_codes_are_refused(text, words, tmp_path):
    np.save(tmp_path / "labels.npy", SHAPES)
    with pytest.raises(ValueError, match=words):
        load_arrays(saved(tmp_path, text, "codes.csv"), tmp_path / "labels.npy")
    with pytest.raises(ValueError, match="--factors: must be another file than the codes"):
        load_arrays(tmp_path / "codes.csv", tmp_path / "codes.csv")


def test_a_missing_code_is_not_finite(tmp_path):
    np.save(tmp_path / "labels.npy", SHAPES)
    entries = [*map(str, CODES[:-1, 0]), ""]
    arrays = load_arrays(saved(tmp_path, csv(entries, SIZES, head="a,b"), "codes.csv"), tmp_path / "labels.npy")
    np.testing.assert_array_equal(np.isnan(arrays.codes[:, 0]), np.arange(ROWS) == ROWS - 1)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x.pt", "x = torch.load('x.pt').numpy(); numpy.save('{}.npy', x)"),
        ("x.pkl", "x = pickle.load(open('x.pkl', 'rb')); numpy.save('{}.npy', x)"),
        ("x.mat", "x = scipy.io.loadmat('x.mat')['{0}']; numpy.save('{0}.npy', x)"),
        ("x.h5", "x = h5py.File('x.h5')['{0}'][:]; numpy.save('{0}.npy', x)"),
        ("x.h5mu", "x = mudata.read_h5mu('x.h5mu')['rna']; x.write_h5ad('x.h5ad')"),
        ("x.csv.xz", "x = pandas.read_csv('x.csv.xz', sep=None, engine='python'); "),
        ("x.jsonl", "x = pandas.read_json('x.jsonl', lines=True); "),
        ("x.npy.gz", "must be .npz, .npy, .safetensors, "),
    ],
)
def test_other_formats_are_refused_with_two_lines_that_convert_them(name, words, tmp_path):
    path = saved(tmp_path, "", name)
    with pytest.raises(ValueError, match=re.escape(words.format("codes"))):
        load_arrays(path)
    np.save(tmp_path / "codes.npy", CODES)
    words = words.format("factors").replace(".npz, .npy, .safetensors, ", ".csv, .tsv, .txt, .csv.gz, ")
    with pytest.raises(ValueError, match=re.escape(words)) as refused:
        load_arrays(tmp_path / "codes.npy", path)
    assert ("x.to_csv('factors.csv', index=False)" in str(refused.value)) == ("pandas" in words)
    assert ("unpack it" in str(refused.value)) == (name == "x.npy.gz")


def lists_of(kind, pyarrow):
    if kind == "list":
        return pyarrow.array([row.tolist() for row in CODES])
    flat = pyarrow.array(CODES.ravel().astype(np.float16 if kind == "half" else np.float32))
    return pyarrow.FixedSizeListArray.from_arrays(flat, 3)


@pytest.mark.parametrize("kind", ["list", "fixed", "half"])
@pytest.mark.parametrize("ending", ["parquet", "feather", "arrow"])
def test_a_column_of_lists_holds_codes(kind, ending, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    feather, parquet = pytest.importorskip("pyarrow.feather"), pytest.importorskip("pyarrow.parquet")
    path, write = tmp_path / f"both.{ending}", parquet.write_table if ending == "parquet" else feather.write_feather
    write(pyarrow.table({"vector": lists_of(kind, pyarrow), "shape": SHAPES, "size": SIZES}), path)
    np.save(tmp_path / "labels.npy", SHAPES)
    rtol = 1e-3 if kind == "half" else 1e-6
    for given, columns in ((tmp_path / "labels.npy", ()), (path, ("shape",)), (None, ("shape",)), (path, ())):
        arrays = load_arrays(path, given, columns)
        np.testing.assert_allclose(arrays.codes, CODES, rtol=rtol, atol=rtol)
        np.testing.assert_array_equal(np.asarray(arrays.factors.values)[:, 0], SHAPES)
        assert arrays.factors.num_factors == (1 if given is None or columns or given != path else 2)
    assert load_arrays(f"{path}:vector", path, ("size",)).factors.sizes == (4,)
    write(pyarrow.table({"vector": lists_of(kind, pyarrow), "other": lists_of("list", pyarrow)}), path)
    with pytest.raises(ValueError, match=f"name the column of codes, got 2 of lists; there is both.{ending}:vector"):
        load_arrays(path, tmp_path / "labels.npy")
    np.testing.assert_allclose(load_arrays(f"{path}:other", tmp_path / "labels.npy").codes, CODES)
    write(pyarrow.table({"vector": [[1.0, 2.0]] * (ROWS - 1) + [[1.0]]}), path)
    with pytest.raises(ValueError, match="column 'vector' must hold lists of one length, got 1 to 2 entries"):
        load_arrays(path, tmp_path / "labels.npy")


def test_columns_of_one_table_are_factors_or_codes(tmp_path):
    path = saved(tmp_path, csv(SHAPES, *CODES.T, head="shape,z0,z1,z2"), "both.csv")
    arrays = load_arrays(path, columns=("shape",))
    np.testing.assert_allclose(arrays.codes, CODES)
    assert arrays.factors.names == ("shape",)
    with pytest.raises(ValueError, match="--columns must name the factors among shape, z0, z1, z2, got"):
        load_arrays(path, path)
    lists = [f'"{row.tolist()}"' for row in CODES]
    with pytest.raises(ValueError, match="numpy.stack"):
        load_arrays(saved(tmp_path, csv(lists, SHAPES, head="vector,shape"), "both.csv"), columns=("shape",))


def test_arrays_of_lists_in_python_say_how_they_are_stacked():
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    for codes in (pandas.Series(list(CODES)), pandas.DataFrame({"z": list(CODES)}), pyarrow.array(CODES.tolist())):
        with pytest.raises(ValueError, match="codes: must be an array of numbers, .*numpy.stack"):
            evaluate(codes, SHAPES, "mig")

    class Dataset:
        """As Hugging Face's, with a way to pandas alone."""

        column_names = ("shape",)

        def to_pandas(self):
            return pandas.DataFrame({"shape": SHAPE_NAMES})

    assert Factors.from_table(Dataset()).classes == (("heart", "square"),)
    with pytest.raises(ValueError, match="got Dataset; give one column by numpy.stack"):
        evaluate(Dataset(), SHAPES, "mig")


@pytest.mark.parametrize("ending", ["csv", "tsv", "txt"])
def test_packed_text_is_read(ending, tmp_path):
    separator = {"csv": ",", "tsv": "\t", "txt": " "}[ending]
    path = tmp_path / f"labels.{ending}.gz"
    path.write_bytes(gzip.compress(csv(SHAPES, SIZES, head=f"shape{separator}size", separator=separator).encode()))
    np.testing.assert_array_equal(np.asarray(Factors.from_table(path).values), np.c_[SHAPES, SIZES])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="must have text in columns"):
        Factors.from_table(path)


def test_types_that_files_forget_are_read_or_named(tmp_path):
    half, factors = CODES.astype(ml_dtypes.bfloat16), np.c_[SHAPES, SIZES]
    expected = float(evaluate(half.astype(np.float32), factors, "sap_r2")["sap_r2"])
    np.savez(tmp_path / "codes.npz", codes=half, factors=factors)
    np.save(tmp_path / "codes.npy", half)
    for path, given in (("codes.npz", None), ("codes.npy", Factors.of(factors))):
        arrays = load_arrays(tmp_path / path, given)
        assert float(evaluate(arrays.codes, arrays.factors, "sap_r2")["sap_r2"]) == expected
    eighth = CODES.astype(ml_dtypes.float8_e4m3fn)
    expected = float(evaluate(eighth.astype(np.float32), factors, "sap_r2")["sap_r2"])
    assert float(evaluate(eighth, factors, "sap_r2")["sap_r2"]) == expected
    np.savez(tmp_path / "codes.npz", codes=eighth, factors=factors)
    for codes, words in (
        (load_arrays(tmp_path / "codes.npz").codes, r"got dtype |V1; .*x.view(ml_dtypes.float8_e4m3fn)"),
        (half.view("V2"), r"got dtype |V2; .*x.view(ml_dtypes.bfloat16)"),
        (CODES + 1j, "got dtype complex128; .*numpy.concatenate([x.real, x.imag], axis=-1)"),
    ):
        with pytest.raises(ValueError, match=".*".join(map(re.escape, words.split(".*")))):
            evaluate(codes, factors, "sap_r2")


def test_safetensors_are_read(tmp_path):
    numpy_files = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "acts.safetensors"
    numpy_files.save_file({"codes": CODES, "factors": np.c_[SHAPES, SIZES]}, path)
    arrays = load_arrays(path)
    np.testing.assert_array_equal(arrays.codes, CODES)
    np.testing.assert_array_equal(np.asarray(Factors.from_table(path).values), np.c_[SHAPES, SIZES])
    numpy_files.save_file({"resid": CODES.astype(np.float32), "mlp": -CODES}, path)
    np.testing.assert_array_equal(load_arrays(f"{path}:mlp", arrays.factors).codes, -CODES)
    with pytest.raises(ValueError, match="name another .acts.safetensors:mlp, acts.safetensors:resid."):
        load_arrays(path, arrays.factors)
    numpy_files.save_file({"resid": CODES}, path)
    np.testing.assert_array_equal(load_arrays(path, arrays.factors).codes, CODES)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ValueError, match="acts.safetensors: is damaged"):
        load_arrays(path, arrays.factors)


@pytest.mark.parametrize("name", ["pipe.csv", "pipe.npy", "pipe.npz", "pipe"])
def test_pipes_are_refused_as_such(name, tmp_path):
    os.mkfifo(tmp_path / name)
    np.save(tmp_path / "codes.npy", CODES)
    with pytest.raises(ValueError, match=f"{name}: must be a regular file, got a pipe or a device"):
        load_arrays(tmp_path / "codes.npy", tmp_path / name)
    with pytest.raises(ValueError, match=f"{name}: must be a regular file, got a pipe or a device"):
        load_arrays(tmp_path / name, tmp_path / "codes.npy")


SHAPE_NAMES = ["heart" if shape else "square" for shape in SHAPES]
TABLE = {"shape": SHAPE_NAMES, "on": [bool(size % 2) for size in SIZES], "sign": [int(size) * 2 - 3 for size in SIZES]}
TABLE["x"] = CODES[:, 0].tolist()
EXPECTED = np.c_[SHAPES == 0, SIZES % 2, SIZES, CODES[:, 0]].astype(np.float32)


def as_form(form, table, tmp_path):
    """The same table as a user may have it."""
    if form == "mapping":
        return table
    if form == "arrays":
        return {name: np.array(column) for name, column in table.items()}
    if form == "json":
        return saved(tmp_path, json.dumps(table), "labels.json")
    if form == "json rows":
        rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        return saved(tmp_path, json.dumps(rows), "labels.json")
    if form == "npz":
        np.savez(tmp_path / "labels.npz", **{name: np.array(column) for name, column in table.items()})
        return tmp_path / "labels.npz"
    if form == "csv":
        return str(saved(tmp_path, csv(*table.values(), head=",".join(table))))
    if form == "arrow":
        return pytest.importorskip("pyarrow").table(table)
    if form.startswith("polars"):
        return pytest.importorskip("polars").DataFrame(table)
    frame = pytest.importorskip("pandas").DataFrame(table)
    return frame.convert_dtypes() if form == "pandas nullable" else frame


class Exchanged:
    """A table that offers a protocol and nothing else."""

    def __init__(self, table, protocol):
        setattr(type(self), protocol, lambda self, *args, **kwargs: getattr(table, protocol)(*args, **kwargs))


FORMS = ["mapping", "arrays", "json", "json rows", "npz", "csv", "arrow", "polars", "pandas", "pandas nullable"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_table_holds_the_same_factors(form, tmp_path):
    factors = Factors.from_table(as_form(form, TABLE, tmp_path))
    np.testing.assert_allclose(np.asarray(factors.values), EXPECTED, rtol=1e-6)
    assert factors.names == tuple(TABLE)
    assert factors.kinds == ("classes", "classes", "classes", "continuous")
    on = ("False", "True") if form == "csv" else (False, True)
    assert factors.classes == (("heart", "square"), on, (-3, -1, 1, 3), None)
    assert factors.rows is None


@pytest.mark.parametrize("protocol", ["__arrow_c_stream__", "__dataframe__"])
def test_tables_of_other_libraries_are_read_by_their_protocol(protocol):
    pyarrow = pytest.importorskip("pyarrow")
    kind = type("Foreign", (Exchanged,), {})
    factors = Factors.from_table(kind(pyarrow.table({"shape": SHAPE_NAMES, "size": SIZES}), protocol))
    np.testing.assert_array_equal(np.asarray(factors.values), np.c_[SHAPES == 0, SIZES])


def test_categories_keep_their_declared_order():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    order = ["small", "medium", "large", "huge"]
    entries = ["large", None, "small", "medium", "large"]
    for column in (pandas.Categorical(entries, order), polars.Series(entries, dtype=polars.Enum(order))):
        frame = {"size": column} if isinstance(column, polars.Series) else pandas.DataFrame({"size": column})
        factors = Factors.from_table(frame, missing="drop")
        assert factors.classes == (tuple(order),)
        assert factors.sizes == (4,)
        np.testing.assert_array_equal(np.asarray(factors.values)[:, 0], [2, 0, 1, 2])
        np.testing.assert_array_equal(factors.rows, [0, 2, 3, 4])


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("form", ["frame", "parquet", "groups", "feather", "arrow"])
def test_what_declares_categories_says_whether_they_are_ordered(form, ordered, tmp_path):
    """The same from a data frame and from its files, in which a class that never occurs is kept as well."""
    pandas = pytest.importorskip("pandas")
    order, entries = ["small", "medium", "large", "huge"], ["large", None, "small", "medium", "large", "small"]
    table = pandas.DataFrame(
        {"size": pandas.Categorical(entries, order, ordered), "n": [3, 1, 2, 3, 1, 2], "t": "word"}
    )
    table["n"] = table["n"].astype(pandas.CategoricalDtype([1, 2, 3], ordered))
    path = tmp_path / f"labels.{'feather' if form == 'feather' else 'parquet'}"
    if form in ("parquet", "groups"):
        table.to_parquet(path, row_group_size=2 if form == "groups" else None)
    if form == "feather":
        table.to_feather(path)
    if form == "arrow":
        path = pytest.importorskip("pyarrow").Table.from_pandas(table)
    columns = columns_of(table if form == "frame" else path)
    assert columns["size"].entries == entries
    assert columns["size"].order == tuple(order)
    assert columns["n"].entries == [3, 1, 2, 3, 1, 2]
    assert [columns[name].ordered for name in ("size", "n", "t")] == [ordered, ordered, None]


def test_other_libraries_declare_orders_too(tmp_path):
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    entries, order = ["b", "a", "b"], ("c", "b", "a")
    table = polars.DataFrame({"enum": polars.Series(entries, dtype=polars.Enum(order)), "text": entries})
    table = table.with_columns(category=polars.Series(entries, dtype=polars.Categorical))
    table.write_parquet(tmp_path / "labels.parquet")
    table.write_ipc(tmp_path / "labels.arrow")
    for given in (table, table.to_arrow(), tmp_path / "labels.parquet", tmp_path / "labels.arrow"):
        columns = columns_of(given)
        assert [columns[name].order for name in ("enum", "category", "text")] == [order, None, None]
        assert [columns[name].ordered for name in ("enum", "category", "text")] == [True, False, None]
        assert all(column.entries == entries for column in columns.values())
    assert columns_of(pyarrow.table({"x": pyarrow.array(entries).dictionary_encode()}))["x"].order is None


def test_kinds_columns_and_names_decide():
    kinds = {"sign": "continuous", "x": "classes"}
    factors = Factors.from_table(TABLE, ["x", "sign"], kinds, names=["position", "sign"])
    assert factors.names == ("position", "sign")
    assert factors.sizes == (ROWS, None)
    np.testing.assert_array_equal(np.asarray(factors.values)[:, 1], TABLE["sign"])
    angles = {"angle": [0.0, 90.0, 180.0, 270.0] * 2, "free": np.linspace(0, 1, 8)}
    given = Factors.from_table(angles, kinds={"angle": "circular", "free": ("circular", 6.5)})
    assert given.kinds == ("circular", "circular")
    assert given.periods == (360.0, 6.5)  # the range and one step of the grid


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (
            {"day": np.array(["2024-01-01"] * 4, "M8[ns]")},
            "column 'day' must hold numbers, text or truth values, got d",
        ),
        ({"box": [[1, 2]] * 4}, "column 'box' must hold numbers, text or truth values, got list"),
        ({"z": np.ones(4, complex)}, "column 'z' must hold numbers, text or truth values, got complex128; convert it"),
        ({"a": [0, 1, 1], "b": [0, 1]}, "must have columns of equal length"),
        ({"a": np.zeros((4, 2))}, "column 'a' must have one entry per row, got shape"),
        ({"a": "text"}, "column 'a' must hold one entry per row"),
        ({}, "must have columns of equal length, got none"),
        ({"a": [0, 1, None]}, "table: must have a value in every row, got none in 1 of 3 rows of a (first in row 3)"),
        ({"a": [0.5, 1, np.inf]}, "table: column 'a' must hold finite numbers, got inf in row 3"),
        (np.zeros((4, 2)), "table: must be a data frame, an Arrow table, a mapping"),
        ("labels.xml", "labels.xml: no such file"),
    ],
)
def test_what_is_no_table_of_factors_is_refused(form, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        Factors.from_table(form)
    with pytest.raises(ValueError, match="columns: must be among shape, on, sign, x, got 'size'"):
        Factors.from_table(TABLE, ["size"])


def test_arrays_with_declared_sizes_keep_them(tmp_path):
    np.savez(tmp_path / "f.npz", factors=np.c_[SHAPES, SIZES, SIZES], names=["a", "b", "c"], sizes=[5, 0, 4])
    factors = Factors.from_table(tmp_path / "f.npz")
    assert factors.sizes == (5, None, 4)
    assert factors.names == ("a", "b", "c")
    np.savez(tmp_path / "f.npz", factors=np.c_[SHAPES, SIZES], names=["a", "b"], sizes=[2, 4])
    with pytest.raises(ValueError, match=r"f.npz: column 'a' must be among its declared classes .0, 1., got 2"):
        Factors.from_table(tmp_path / "f.npz")
    np.savez(tmp_path / "f.npz", factors=np.c_[SHAPES, SIZES], names=["a", "a"])
    with pytest.raises(ValueError, match="names, sizes: must have 2 entries, one per factor"):
        Factors.from_table(tmp_path / "f.npz")


def test_rows_that_a_table_kept_are_taken_from_codes_and_all_beside_them():
    gappy = {"shape": [None, *SHAPES[1:]], "size": [*SIZES[:-1], None]}
    factors = Factors.from_table(gappy, missing="drop")
    kept = np.arange(1, ROWS - 1)
    np.testing.assert_array_equal(factors.rows, kept)
    ones, key = np.arange(ROWS) % 3 + 1.0, jax.random.key(0)
    whole = evaluate(CODES, factors, "mig", key, weights=ones, test=(CODES, factors))
    cut = evaluate(CODES[kept], factors, "mig", key, weights=ones[kept])
    assert whole.to_dict() == cut.to_dict()
    zoo = evaluate(np.stack([CODES] * 2), factors, "mig", key)
    np.testing.assert_array_equal(zoo["mig"], evaluate(CODES[kept], factors, "mig", key)["mig"])
    with pytest.raises(ValueError, match="as many samples as factors, got 59"):
        evaluate(CODES[:59], factors, "mig", key)


def test_held_out_classes_are_numbered_as_those_of_training():
    train = Factors.from_table({"shape": ["a", "b", "c"] * 20, "size": SIZES})
    test = Factors.from_table({"size": SIZES, "shape": ["c", "b"] * 30})
    right = Factors.of(np.c_[np.tile([2, 1], 30), SIZES], sizes=(3, 4))
    found = evaluate(CODES, train, "sap", test=(CODES, test)).to_dict()
    assert found == evaluate(CODES, train, "sap", test=(CODES, right)).to_dict()
    unknown = Factors.from_table({"size": SIZES, "shape": ["c", "d"] * 30})
    with pytest.raises(ValueError, match="test: must have classes of shape that training has, got 'd'"):
        evaluate(CODES, train, "sap", test=(CODES, unknown))
    with pytest.raises(ValueError, match="test: must have the factors shape, size, got size"):
        evaluate(CODES, train, "sap", test=(CODES, Factors.from_table({"size": SIZES})))


def test_tables_with_other_class_names_run_the_same_program():
    traces = []

    class Seen(NamedTuple):
        score: jax.Array

    def seen(codes, factors):
        traces.append((factors.classes, factors.rows))
        return Seen(codes.mean())

    for first in ("heart", "ellipse"):
        table = {"shape": [None, *(np.array([first, "square"])[SHAPES[1:] % 2])]}
        evaluate(CODES, Factors.from_table(table, missing="drop"), {"seen": Direct(Spec(seen))})
    assert traces == [(None, None)]


OF_ROWS = {
    "relate": lambda codes, factors: jaxdis.relate(codes[0], factors, "r2"),
    "blend_table": lambda codes, factors: jaxdis.blend_table(codes[0], factors, ("r2",), ("gap",)),
    "sample_curve": lambda codes, factors: sample_curve(codes, factors, "mig", sizes=(20,)),
    "sensitivity": lambda codes, factors: jaxdis.sensitivity(codes, factors, ["mig"], options={"bins": (4, 8)}),
    "monitor": lambda codes, factors: seen(jaxdis.Monitor(factors, ("mig",)), codes[0]),
    "block_identifiability": lambda codes, factors: structured.block_identifiability(
        codes[0], factors, test=(codes[1], factors), blocks=((0, 1), (2, 3)), factor_blocks=((0,), (1,))
    ),
    "slot_identifiability": lambda codes, factors: structured.slot_identifiability(
        slots(codes)[0], factors, test=(slots(codes)[1], factors), objects=((0,), (1,))
    ),
    "evaluate_structured": lambda codes, factors: dict(
        jaxdis.evaluate_structured(
            slots(codes), factors, structured.Structure.slots(2, 2, objects=2, properties=("hue",)), final="r2"
        )
    ),
}


def slots(codes):
    return codes.reshape(*codes.shape[:2], 2, 2)


def seen(monitor, codes):
    for batch in np.array_split(codes, 3):
        monitor.update(batch)
    return dict(monitor.compute())


@pytest.mark.parametrize("name", OF_ROWS)
def test_rows_that_a_table_leaves_out_are_left_out_of_codes(name):
    hues = [None if row in (3, 40) else int(hue) for row, hue in enumerate(SHAPES)]
    table = {"object1.hue": hues, "object2.hue": SIZES}
    factors = Factors.from_table(table, missing="drop")
    codes = np.random.default_rng(0).normal(size=(3, ROWS, 4)).astype(np.float32)
    found = OF_ROWS[name](codes, factors)
    expected = OF_ROWS[name](codes[:, factors.rows], factors)
    assert str(found) == str(expected)
