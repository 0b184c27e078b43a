"""``jaxdis report``: a page on codes that were made elsewhere, of which one setting is best by construction."""

import csv

import numpy as np
import pytest

from jaxdis.cli import main
from tests.draws import representations

rng = np.random.default_rng(0)
FACTORS = representations()[1]
NOISE = {0.5: 0.2, 4.0: 1.5}  # strength → noise of the codes


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    """Drawing takes most of the time of a page."""
    monkeypatch.setattr("jaxdis.plots.png", lambda figure: b"")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Codes of two strengths under three seeds in files, and the table of their settings."""
    folder = tmp_path_factory.mktemp("runs")
    rows = []
    for strength, noise in NOISE.items():
        for seed in range(3):
            name = f"run{len(rows)}.npz"
            codes = (FACTORS + noise * rng.normal(size=FACTORS.shape)).astype(np.float32)
            np.savez(folder / name, codes=codes, factors=FACTORS, names=np.array(["<b>", "size"]))
            rows.append({"file": name, "model": "mine & yours", "strength": strength, "seed": seed})
    with (folder / "runs.csv").open("w") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder


def test_the_page_names_the_best_setting(runs, tmp_path):
    np.save(tmp_path / "images.npy", np.zeros((200, 4, 4, 1), np.uint8))
    arguments = ["--meta", str(runs / "runs.csv"), "--metrics", "mig", "modularity", "--out", str(tmp_path / "out")]
    arguments += ["--images", str(tmp_path / "images.npy")]
    assert main(["report", str(runs / "*.npz"), *arguments]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<strong>mine &amp; yours, strength = 0.5</strong> has the best average rank of 2 settings" in page
    assert "(significant, p" in page
    assert "<b>" not in page
    assert "Images from the lowest to the highest value" in page
    assert "Codes of the member run" in page
    rows = list(csv.DictReader((tmp_path / "out" / "results.csv").read_text().splitlines()))
    assert [float(row["strength"]) for row in rows] == [0.5] * 3 + [4.0] * 3
    assert all(float(row["mig"]) > 0.3 for row in rows[:3])


def test_settings_without_a_model_are_called_by_their_values(runs, tmp_path):
    """In the words and below the axes, with one row per member folded away where there are many."""
    rows = [f"run{number}.npz,{(1, 4)[number > 2]},{number % 3}" for number in range(6)]
    (tmp_path / "settings.csv").write_text("\n".join(["file,beta,seed", *rows]) + "\n")
    arguments = ["--meta", str(tmp_path / "settings.csv"), "--metrics", "mig", "--out", str(tmp_path / "out")]
    assert main(["report", str(runs / "*.npz"), *arguments]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<strong>beta = 1</strong> has the best average rank of 2 settings" in page
    assert "Compactness: beta = 1 leads beta = 4 by" in page
    assert "Best member of the best setting: run" in page
    assert "medians of each value of beta" in page
    assert "model, beta" not in page


def test_each_data_set_has_its_own_winner(runs, tmp_path):
    """The strength that goes with little noise is 1 on apples and 4 on pears."""
    rows = ["run0.npz,apples,1", "run3.npz,apples,4", "run1.npz,pears,4", "run4.npz,pears,1"]
    (tmp_path / "settings.csv").write_text("\n".join(["file,data,beta", *rows]) + "\n")
    files = [str(runs / row.partition(",")[0]) for row in rows]
    arguments = ["--meta", str(tmp_path / "settings.csv"), "--metrics", "mig", "--out", str(tmp_path / "out")]
    assert main(["report", *files, *arguments]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    apples, pears = page.index("best on apples?"), page.index("best on pears?")
    assert apples < page.index("<strong>beta = 1</strong> has the best average rank of 2 settings") < pears
    assert pears < page.index("<strong>beta = 4</strong> has the best average rank of 2 settings")


def test_what_has_no_row_is_refused(runs, tmp_path, capsys):
    (tmp_path / "some.csv").write_text("file,seed\nrun0.npz,0\n")
    arguments = ["--meta", str(tmp_path / "some.csv"), "--out", str(tmp_path / "out")]
    assert main(["report", str(runs / "*.npz"), *arguments]) == 2
    assert "meta: must have a row for every member, got none for 'run1.npz'" in capsys.readouterr().err
    np.save(tmp_path / "few.npy", np.zeros((3, 4, 4, 1)))
    assert main(["report", str(runs / "*.npz"), "--images", str(tmp_path / "few.npy"), "--out", str(tmp_path)]) == 2
    assert "--images: must be [200, height, width, channels]" in capsys.readouterr().err


def test_folders_of_codes_are_scored_and_compared(runs, tmp_path, capsys):
    sets = []
    for name, numbers in (("weak", range(3)), ("strong", range(3, 6))):
        sets.append(tmp_path / name)
        sets[-1].mkdir()
        for number in numbers:
            (sets[-1] / f"run{number}.npz").write_bytes((runs / f"run{number}.npz").read_bytes())
    arguments = ["--paired", "seed", "--meta", str(runs / "runs.csv"), "--metrics", "mig"]
    assert main(["compare", *map(str, sets), *arguments]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "strong minus weak, 3 pairs of the same seed" in printed
    assert "mig: lower by" in printed
