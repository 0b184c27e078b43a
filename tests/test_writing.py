"""Files are written whole: CSV, text where a user wants it, and new versions of files under a temporary name."""

import csv
import os
import threading

import pytest

from jaxdis._core.files import csv_text, read_csv, replacing, write_text


def test_csv_is_read_back(tmp_path):
    rows = [["a,b", 0.1 + 0.2], ["two\nlines", 1e-300]]
    csv_text(["name", "value"], iter(rows), tmp_path / "new" / "table.csv")
    with open(tmp_path / "new" / "table.csv", newline="", encoding="utf-8") as file:
        head, *found = csv.reader(file)
    assert head == ["name", "value"]
    assert [[name, float(value)] for name, value in found] == rows


def test_cells_of_mappings_are_in_the_order_of_the_head():
    assert csv_text(("b", "a"), [{"a": 1, "b": 2}, {"a": 3}, {"b": None, "c": 4}]) == "b,a\n2,1\n,3\n,\n"


def test_names_that_look_like_formulas_are_harmless_in_files_and_read_as_they_were(tmp_path):
    head, row = ["-rf", "=1+1", "'quoted", "-0.5"], ["@sum", "-1.5", "'", "a"]
    csv_text(head, [row], tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text() == "'-rf,'=1+1,'quoted,-0.5\n'@sum,-1.5,',a\n"
    assert read_csv(tmp_path / "table.csv") == [dict(zip(head, row, strict=True))]


def test_what_fails_half_way_leaves_the_old_file(tmp_path):
    path = tmp_path / "table.csv"

    def rows():
        yield [1]
        raise KeyboardInterrupt

    def half():
        with replacing(path) as temporary:
            temporary.write_text("new")
            raise KeyboardInterrupt

    csv_text(["old"], [], path)
    for write in (half, lambda: csv_text(["new"], rows(), path)):
        with pytest.raises(KeyboardInterrupt):
            write()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old\n"]


def test_a_new_version_has_the_name_at_the_end(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == tmp_path
    assert [path.read_text() for path in tmp_path.iterdir()] == ["new"]


def test_text_follows_links_and_goes_into_pipes(tmp_path):
    (tmp_path / "here").mkdir()
    target, link, pipe = tmp_path / "there.csv", tmp_path / "here" / "link.csv", tmp_path / "pipe"
    link.symlink_to(target)
    write_text(link, "one")
    assert link.is_symlink()
    assert target.read_text() == "one"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "two")
    reader.join(timeout=10)
    assert read == ["two"]
