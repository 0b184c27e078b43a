"""Estimates for accelerators that are not here, and the measurements to make first on one that is."""

import json
import math

import pytest

from jaxdis import METRICS
from jaxdis._core.accelerators import TARGETS, Cost
from jaxdis.cli import _accelerators as accelerators
from jaxdis.cli import main
from jaxdis.cli._accelerators import Scored, Trained
from jaxdis.models import Mlp, Vae
from tests.aot.test_compiles import available

H100 = TARGETS["h100"]


@pytest.mark.parametrize(
    ("cost", "bytes_each", "bound", "seconds"),
    [
        (Cost(1000.0, 0.0, 3352e6, 1e6), 0, "launches", 1000 * 3e-6),
        (Cost(1.0, 100.0, 3352e6, 1e6), 0, "launches", 3e-6 + 100 * 10e-6),
        (Cost(1.0, 0.0, 4 * 3352320e6, 1e6), 0, "memory", 4.0),
        (Cost(1.0, 0.0, 1e3, 120e12), 0, "products", 2.0),
        (Cost(1.0, 0.0, 1e3, 1e3), 9e9, "copy", 8 * 1.0),
    ],
)
def test_the_longest_time_decides(cost, bytes_each, bound, seconds):
    row = accelerators.judged("name", cost, 0.0, 8e6, bytes_each, 8, H100)
    assert (row.bound, row.members) == (bound, 8)
    assert row.ms == pytest.approx(1e3 * seconds / 8, rel=1e-6)
    assert row.fits == int(0.8 * 84929347584 / (1e6 + bytes_each))


def test_half_of_the_roof_is_reached_where_kernels_take_as_long_as_their_work():
    row = accelerators.judged("name", Cost(1000.0, 0.0, 8 * 3352.32e6, 0.0), 0.0, 8e6, 0, 8, H100)
    assert row.half == 3  # 3 ms of kernels, and 1 ms of work per member


def test_turns_are_those_of_the_metric():
    of_dci = accelerators.turns_of("dci_logistic")
    assert of_dci("jit(f)/vmap()/turns:newton/while") > 1
    assert of_dci("jit(f)/while") == accelerators.UNKNOWN_TURNS
    assert accelerators.turns_of("nk")("jit(f)/vmap(vmap(turns:epochs))/while") > 20
    assert accelerators.turns_of("dci_lasso")("jit(f)/turns:sweeps/while") > 20
    assert accelerators.turns_of("dci_lasso")("jit(f)/turns:sweeps/while/body/while") == accelerators.UNKNOWN_TURNS
    inner = of_dci("jit(f)/turns:newton/while/body/turns:products/while")
    counted = json.loads((accelerators.files("jaxdis.cli") / "turns.json").read_text())
    assert inner == counted["dci_logistic"]["products"]


@pytest.fixture
def rows():
    one = accelerators.judged("mig <b>", Cost(20.0, 0.0, 1e9, 1e9), 1.5, 1e6, 6e5, 64, H100)
    return [one, accelerators.Failure("dci", "no <tile>")]


def test_a_page_says_that_nothing_was_measured(rows):
    pytest.importorskip("matplotlib")
    page = accelerators.to_page(H100, rows)
    assert "not measured" in page
    assert "mig &lt;b&gt;" in page
    assert "<tile>" not in page
    assert page.count("data:image/png") == 1
    contents = json.loads(accelerators.to_json(H100, rows))
    assert contents["measured"] is False
    assert [row["name"] for row in contents["rows"]] == ["mig <b>", "dci"]


@pytest.mark.parametrize("target", TARGETS)
def test_without_compilers_the_way_to_them_is_named(target, capsys):
    if available(target):
        pytest.skip("the compilers are here")
    assert main(["benchmark", "--target", target, "--metrics", "mig"]) == 2
    assert 'pip install "jaxdis[aot]"' in " ".join(capsys.readouterr().err.split())


def test_unknown_methods_are_refused(capsys):
    assert main(["benchmark", "--target", "h100", "--methods", "vea"]) == 2
    assert "vae_conv" in capsys.readouterr().err


def test_the_first_hour_goes_on_where_it_was(tmp_path, monkeypatch):
    ran = []

    def step(name):
        def run(*_):
            ran.append(name)
            yield {"rows": {name: 1.0}}
            if name == "copies" and ran.count(name) == 1:
                raise KeyboardInterrupt
            yield {"rows": {name: 2.0}, "finished": True}

        return run

    for name in accelerators.STEPS:
        monkeypatch.setitem(accelerators.STEPS, name, step(name))
    with pytest.raises(KeyboardInterrupt):
        accelerators.measure_first(tmp_path)
    assert json.loads((tmp_path / "copies.json").read_text()) == {"rows": {"copies": 1.0}}
    result = json.loads(accelerators.measure_first(tmp_path).read_text())
    assert ran == ["programs", "copies", "copies", "scores", "training"]
    assert result["missing"] == []
    assert result["scores"]["rows"] == {"scores": 2.0}


def test_rows_that_were_measured_are_not_measured_again():
    def measured(row):
        if row == "b":
            raise ValueError("too small")
        return {"ms": 1.0}

    *_, last = accelerators._rows({"rows": {"a": {"ms": 3.0}}}, ["a", "b", "c"], measured, math.inf)
    assert last == {"rows": {"a": {"ms": 3.0}, "b": {"error": "too small"}, "c": {"ms": 1.0}}, "finished": True}
    assert list(accelerators._rows({}, ["a"], measured, -math.inf)) == []


def test_an_hour_that_is_over_names_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(accelerators.time, "monotonic", iter(range(0, 10_000, 60)).__next__)
    for name in accelerators.STEPS:
        monkeypatch.setitem(accelerators.STEPS, name, lambda *_: iter([{"finished": True}]))
    result = json.loads(accelerators.measure_first(tmp_path, minutes=2.0).read_text())
    assert result["missing"] == ["copies", "scores", "training"]


def test_the_first_hour_on_this_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(accelerators, "UPDATES", (1, 3))
    monkeypatch.setattr(accelerators, "COPIED_BYTES", 1 << 20)
    trained = Trained("vae_mlp", Vae(network=Mlp((8,))), 1, 2, 2)
    monkeypatch.setattr(accelerators, "plan", lambda samples: [Scored("mig", 3, samples)])
    monkeypatch.setattr(accelerators, "trainings", lambda: [trained])
    result = json.loads(accelerators.measure_first(tmp_path, samples=300).read_text())
    assert result["missing"] == []
    assert result["programs"]["compiled"].keys() == {"mig, 3 members", str(trained)}
    (row,) = result["scores"]["rows"].values()
    assert row["ratio"] > 0
    assert row["between_runs"] == 0.0
    assert row["from_cpu"] < 1e-6
    (row,) = result["training"]["rows"].values()
    assert row["ms_per_update"] > 0
    assert row["finite"]


def test_metrics_that_share_a_fit_are_not_added_up():
    """A forest for two of them: together at least the longer, at most both; a failure counts nothing."""
    rows = [
        accelerators.judged(name, Cost(0.0, 0.0, bytes, 0.0), 0.0, 8e6, 0, 1, H100)
        for name, bytes in (("dci_forest", 3352.32e6), ("structured", 2 * 3352.32e6), ("mig", 3352.32e6))
    ]
    plan = {name: METRICS[name] for name in ("dci_forest", "structured", "mig", "sap")}
    least, most = accelerators.together(plan, [*rows, accelerators.Failure("sap", "no tile sizes")])
    assert least == pytest.approx(rows[1].ms + rows[2].ms)
    assert most == pytest.approx(sum(row.ms for row in rows))
