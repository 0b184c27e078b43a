"""Notes beside scores that do not mean what they seem to."""

import math

import jax
import numpy as np
import pytest

from jaxdis import METRICS, Factors, evaluate
from jaxdis.cli import main
from jaxdis.evaluation._arrays_file import in_words
from jaxdis.evaluation._notes import Known, bounds, notes_of, notes_on_codes
from jaxdis.evaluation._request import Request
from tests.draws import representations

RNG = np.random.default_rng(0)
PLAIN = [Known("shape", 3, 3, math.log(3)), Known("size", 4, 4, math.log(4))]


def notes(metric: str, *, column: str | None = None, score=0.7, factors=PLAIN, samples=10_000, **options) -> list[str]:
    plan = ((metric, METRICS[metric].with_options(**options) if options else METRICS[metric]),)
    return [note for _, note in notes_of(plan, {column or metric: np.float32(score)}, factors, samples)]


def test_an_ordinary_score_has_none():
    for name in ("mig", "sap", "mcc", "explicitness", "modularity"):
        assert notes(name) == []


def test_factors_that_do_not_vary_are_named():
    values = np.stack([np.arange(600) % 3, np.zeros(600, int)], axis=1)
    codes = values + RNG.normal(size=values.shape)
    scores = evaluate(codes, Factors.of(values, names=("shape", "color")), ["mig", "total_correlation"])
    (note,) = scores.notes
    assert note == ("mig", "color has one value alone, of which codes can know nothing; it is left out")
    assert note[1] in repr(scores)
    assert note[1] in scores._repr_html_()


def test_more_classes_than_bins_limit_information():
    """With log(20) of log(40) nats, as of the orientations of dSprites."""
    codes = np.arange(4000)[:, None] % 40
    scores = evaluate(codes, Factors.of(codes, names=("angle",)), ["mig", "mig_sup"])
    assert [name for name, text in scores.notes if "angle has 40 classes in 20 bins" in text] == ["mig", "mig_sup"]
    angle = [Known("angle", 40, 40, math.log(40))]
    (note,) = notes("mig", factors=angle)
    assert note.startswith("angle has 40 classes in 20 bins: mutual information reaches at most 0.81 of its entropy")
    assert scores["mig"] == pytest.approx(math.log(20) / math.log(40), abs=1e-3)
    assert notes("mig", factors=angle, bins=40) == []
    assert notes("mcc", factors=angle) == []


def test_scores_at_chance_are_counted():
    values = RNG.integers(0, 3, size=(2000, 2))
    zoo = np.stack([RNG.normal(size=(2000, 2)), values + 0.1 * RNG.normal(size=(2000, 2))])
    scores = evaluate(zoo, values, ["mig", "explicitness"])
    assert [name for name, _ in scores.notes] == ["mig", "explicitness"]
    assert all(text.startswith("1 of 2 members are at chance level") for _, text in scores.notes)
    assert notes("mig", score=0.02) == ["0.02 is at chance level (0 to 0.03)"]
    assert notes("mig", score=0.05) == []
    assert notes("snc", score=0.3) == []  # chance depends on how frequent classes are
    assert notes("mig", score=0.02, bins=10) == []  # the chance of other options is not known


def test_few_samples_are_told_from_enough():
    (few,) = notes("mig", samples=50)
    assert few.startswith("50 samples are few for 20 bins and the 4 classes of size: codes of noise seem to have about")
    noise = evaluate(RNG.normal(size=(50, 6)), RNG.integers(0, 4, (50, 2)), "infoe")
    assert noise["infoe"] > 0.1 > METRICS["infoe"].about.chance["score"][1]
    assert noise.notes == (("infoe", "50 samples are few: codes of noise may score far above chance"),)
    many = [Known("id", 200, 200, math.log(200))]
    assert notes("sap", factors=many, samples=1000) == ["1,000 samples are few for the 200 classes of id, 5 each"]
    assert notes("sap", factors=many, samples=2000) == []


def test_a_ceiling_tells_nothing_apart():
    assert notes("mcc", score=1.0) == ["the score is at the best possible value; this metric cannot rank better "
                                       "representations"]  # fmt: skip
    assert notes("mcc", score=0.99) == []
    assert "scores above 1 occur with continuous factors" in notes("mig_ksg", score=1.2)[0]


def test_continuous_factors_that_are_left_out_are_named():
    mixed = [*PLAIN, Known("angle", None, 900, math.log(900))]
    assert notes("snc", factors=mixed) == ["angle is continuous and left out; Factors.binned cuts it into classes"]
    assert notes("mcc", factors=mixed) == []


def test_the_command_prints_each_note_once(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("jaxdis.cli._terminal.start", lambda cache: None)
    values = np.stack([np.arange(600) % 3, np.zeros(600, int)], axis=1)
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", codes=RNG.normal(size=(600, 2)), factors=values)
    out = tmp_path / "scores.json"
    files = [str(tmp_path / "a.npz"), str(tmp_path / "b.npz")]
    assert main(["score", *files, "--metrics", "mig", "sap_r2", "--json", str(out)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count("factor_1 has one value alone") == 1
    assert "mig, sap_r2: factor_1 has one value alone" in printed
    assert "factor_1 has one value alone" in out.read_text()


def test_a_deviation_that_is_assumed_is_named():
    codes = RNG.normal(size=(200, 2)).astype(np.float32)
    values = (codes[:, :1] > 0).astype(int)
    plan = {"u": METRICS["unibound"].with_options(noise=0.2), "sepin": METRICS["sepin"], "rmig": METRICS["rmig"]}
    told = [name for name, text in evaluate(codes, values, plan).notes if text.startswith("without variances")]
    assert told == ["u", "sepin"]
    given = evaluate(codes, values, plan, variances=np.full_like(codes, 0.01))
    assert not [text for _, text in given.notes if text.startswith("without variances")]


def many_factors(k, n=60):
    """Factors and codes of which only a few vary, under long names, and one code for each."""
    rng = np.random.default_rng(0)
    values = np.where(np.arange(k) < 4, rng.normal(size=(n, k)), 0.0)
    return values, Factors.of(values, (None,) * k, [f"a_rather_long_name_of_latent_{j}" for j in range(k)])


def test_no_text_grows_with_the_number_of_factors(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("jaxdis.cli._terminal.start", lambda cache: None)
    lengths = []
    for k in (30, 60):
        codes, factors = many_factors(k)
        scores = evaluate(codes, factors, "mcc")
        lengths.append([max(len(note) for _, note in scores.notes), len(repr(scores)), len(in_words(factors))])
        assert any("latent_4" in note and f"{k - 4 - 8} more" in note for _, note in scores.notes)
        with pytest.warns(RuntimeWarning) as told:
            evaluate(codes, factors.take(np.zeros(60, int)), "mcc")
        lengths[-1] += [len(str(told[0].message))]
        np.savez(tmp_path / "pair.npz", codes=codes, factors=codes, sizes=np.zeros(k, int), names=list(factors.names))
        assert main(["score", str(tmp_path / "pair.npz"), "--metrics", "mcc"]) == 0
        lengths[-1] += [len(capsys.readouterr().out)]
        with pytest.raises(ValueError, match="factor: must be one of") as refused:
            scores.top("no")
        table = dict.fromkeys(factors.names, codes[:, 0])
        with pytest.raises(ValueError, match="columns: must be among") as unknown:
            Factors.from_table(table, ["no"])
        lengths[-1] += [len(str(refused.value)), len(str(unknown.value))]
    assert np.all(np.abs(np.subtract(*lengths)) < 20)
    assert np.max(lengths) < 3000


def test_many_factors_with_many_classes_are_noted_once():
    many = [Known(f"factor_{j}", 50, 50, math.log(50)) for j in range(30)]
    found = [note for note in notes("mig", factors=many, samples=2000) if "more classes than 20 bins hold" in note]
    assert len(found) == 1
    assert "factor_7 and 22 more" in found[0]


def told(codes, values, metrics, *words):
    """The metrics in whose notes on codes all words occur; nothing is computed."""
    request = Request.of(codes, values, metrics)
    notes = notes_on_codes(request.plan, request.members)
    return [name for name, text in notes if all(word in text for word in words)]


def test_whole_numbers_that_bins_merge_are_noted():
    """Indices of a code book, whose neighbors mean different things; not of measurements, or of few values."""
    values = RNG.integers(0, 4, (3000, 2))
    entry = RNG.permutation(256)
    codes = entry[values * 64 + RNG.integers(0, 64, values.shape)]
    family = ("mig", "axis_alignment", "xmig", "mcc")
    binned = ["mig", "axis_alignment", "xmig"]
    for given in (codes, codes.astype(float), codes + 100_000.0):
        assert told(given, values, family, "20 bins merge up to 256 whole numbers", "bins=256") == binned
    exact = {"mig": METRICS["mig"].with_options(bins=256)}
    assert told(codes, values, exact, "whole numbers") == []
    scores = evaluate(codes, values, {"exact": exact["mig"], "mig": METRICS["mig"]})
    assert scores["exact"] > 0.8 > 0.5 > scores["mig"]
    assert [name for name, text in scores.notes if "20 bins merge up to 256 whole numbers" in text] == ["mig"]
    late = codes + 0.5 * (np.arange(3000) >= 200)[:, None]  # whole at first
    late[0] = 0
    for other in (codes + RNG.normal(size=codes.shape), values, RNG.permutation(6000).reshape(3000, 2), late):
        assert told(other, values, family, "whole numbers") == []


def test_codes_beyond_bins_that_are_fixed_are_noted():
    values = RNG.integers(0, 4, (500, 2))
    codes = (values - 1.5 + 0.1 * RNG.normal(size=values.shape)).astype(np.float32)
    sampled = ("rmig", "jemmig", "mig")
    assert told(codes, values, sampled, "beyond the bins") == []
    for moved in (codes + 50, codes.astype(float) + 50, codes * 10):
        assert told(moved, values, sampled, "beyond the bins from −4 to 4") == ["rmig", "jemmig"]
    wider = {"rmig": METRICS["rmig"].with_options(limit=60.0)}
    assert told(codes + 50, values, wider, "beyond the bins") == []


def test_codes_of_which_float32_keeps_few_digits_are_noted():
    values = RNG.integers(0, 4, (500, 2))
    codes = values + 0.1 * RNG.normal(size=values.shape)
    assert told(codes + 1e5, values, ("mig", "mcc"), "float32") == []  # shifted before it is rounded
    assert told((codes + 1e5).astype(np.float32), values, ("mig", "mcc"), "code 0, code 1", "float32") == ["mig", "mcc"]
    assert told((codes + 100).astype(np.float32), values, ("mig", "mcc"), "float32") == []
    gaps = Factors.from_table({"a": [None, *values[1:, 0].tolist()], "b": values[:, 1].tolist()}, missing="each")
    assert told(codes + 1e5, gaps, ("mig", "mcc"), "float32") == []
    assert told((codes + 1e5).astype(np.float32), gaps, ("mig", "mcc"), "float32") == ["mig", "mcc"]


@pytest.mark.parametrize("on_device", [False, True])
def test_notes_compile_nothing(on_device, compiled):
    """Samples of a new size compile the split, the metric and little more, and where codes are on a device, a choice:
    before, the notes on held-out samples alone compiled twelve programs."""
    values = RNG.integers(0, 3, (150, 2))
    codes = RNG.normal(size=(2, 150, 3)).astype(np.float32)
    evaluate(*representations(2), "r2_linear", 0)  # what no size matters to
    compiled.clear()
    evaluate(jax.numpy.asarray(codes) if on_device else codes, values, "r2_linear", 0)
    assert len(compiled) <= 4 + 2 * on_device


@pytest.mark.parametrize("samples", [1, 63, 64, 1000])
def test_bounds_of_codes_are_those_of_all_samples(samples):
    codes = np.random.default_rng(0).normal(size=(2, samples, 3)).astype(np.float32)
    codes[0, -1, 1], codes[1, 0, 2] = np.nan, 100
    for found, expected in zip(bounds(codes), (codes.min(axis=1), codes.max(axis=1)), strict=True):
        np.testing.assert_array_equal(found, expected)
