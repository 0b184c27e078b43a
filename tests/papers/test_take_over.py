"""Studies that were run elsewhere, as a whole or in parts, and the papers that read them."""

import pytest

from jaxdis.cli._study_commands import Reproduce
from jaxdis.study import StoreError, run, status, work_of
from tests.study.tiny import tiny


def test_what_was_run_elsewhere_is_not_run_again(tmp_path, monkeypatch):
    run(tiny(seeds=1), tmp_path / "parts" / "first")
    work = work_of(tiny(seeds=2))
    command = Reproduce("mahon2024", tmp_path / "out", study=(tmp_path / "parts",))
    command._take_over(work, tmp_path / "out", False)
    found = status(work, tmp_path / "out")
    for kind, total in found.total.items():
        assert found.done[kind] == total // 2
    run(work, tmp_path / "out")
    monkeypatch.setattr(type(work), "compute", lambda *_: pytest.fail("nothing is missing"))
    other = Reproduce("mahon2024", tmp_path / "again", study=(tmp_path / "out",))
    other._take_over(work, tmp_path / "again", False)
    run(work, tmp_path / "again")
    tables = [(tmp_path / folder / "results.csv").read_text() for folder in ("out", "again")]
    assert tables[0] == tables[1]


def test_folders_without_studies_are_refused(tmp_path):
    with pytest.raises(StoreError, match="study: must be folders of studies"):
        Reproduce("mahon2024", tmp_path / "out", study=(tmp_path,))._take_over(None, tmp_path / "out", False)
