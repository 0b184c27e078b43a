"""Published protocols end with a page, where small forms leave models out: WeakDE, and all models of slots."""

import dataclasses

import pytest

from jaxdis.encoders import Structured
from jaxdis.papers.dangnhu2022 import _slot_zoo as slot_zoo
from jaxdis.papers.harness import _paper as harness_paper
from jaxdis.papers.harness import _verdict as verdict
from jaxdis.papers.harness._paper import reproduce
from jaxdis.papers.harness._scale import Scale, scaled
from jaxdis.study.report import _report as report
from tests.papers.briefly import claims_of, paper_of

pytestmark = pytest.mark.usefixtures("brief")

# To score on; scenes with slots are fewer.
SAMPLES = {"mahon2024": 300, "dangnhu2022": 100}  # groups of at least ten
# Images of an update: all loops over parts of a batch still turn twice.
FEW_IMAGES = 8
# WeakDE would encode up to 30,720.
FEW_LABELLED = 64
# What the small forms leave out, and the only one of these that is also trained without "(R)".
MODELS = ("weak_de", "monet", "genesis", "iodine")
UNREGULARIZED = ("multi_dsprites", "monet")
# Numbers of channels and units, which are divided by eight; costs of every study trace the widths of the paper.
WIDTHS = {
    *("channels", "decoder_channels", "hidden", "decoder_hidden", "width", "opponents"),
    *("attention", "attention_hidden", "encoder", "encoder_hidden", "decoder", "mask_encoder", "mask_decoder"),
    *("features", "units", "prior_units", "refiner"),
}


def narrow_and_brief(study, scale):
    """The study at a scale, with methods as deep as published, but narrow, that see few images in an update."""
    study = scaled(study, scale)
    metrics = tuple((name, few_iterations(metric)) for name, metric in study.metrics)
    trainings = []
    for training in study.trainings:
        data, model = training.config.data, training.config.method.trained[0]
        if model in MODELS and (("regularized", "no") not in training.labels or (data, model) == UNREGULARIZED):
            config = dataclasses.replace(training.config, method=small(training.config.method))
            trainings.append(dataclasses.replace(training, config=config))
    return dataclasses.replace(study, trainings=tuple(trainings), metrics=metrics)


def small(part):
    """A method, or a part that is a dataclass."""
    values = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    few = {"batch_size": FEW_IMAGES, "num_labelled": FEW_LABELLED, "refinements": 2}
    for name, value in values.items():
        if name in WIDTHS:
            few[name] = tuple(width // 8 for width in value) if isinstance(value, tuple) else value // 8
        elif dataclasses.is_dataclass(value):
            few[name] = small(value)
    return dataclasses.replace(part, **{name: few[name] for name in few.keys() & values.keys()})


def few_iterations(metric):
    """Algorithm 1 with two of 100 iterations, and smaller forests."""
    if not isinstance(metric, Structured):
        return metric
    final = metric.final.with_options(trees=2, depth=4)
    return dataclasses.replace(metric, iterations=min(2, metric.iterations), final=final)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("key", SAMPLES)
def test_the_published_protocol_ends_with_a_page(key, tmp_path, monkeypatch):
    """Its models that the small form leaves out, scored by every metric after two updates of a few images."""
    monkeypatch.setattr(harness_paper, "scaled", narrow_and_brief)
    few = {name: few_iterations(metric) for name, metric in slot_zoo.SLOT_METRICS.items()}
    monkeypatch.setattr(slot_zoo, "SLOT_METRICS", few)
    # Tests of reports draw those of all kinds of studies.
    monkeypatch.setattr(report, "write_report", lambda *arguments: None)
    scale = Scale(updates=2, samples=SAMPLES[key], seeds=1)
    page = reproduce(paper_of(key), tmp_path, size="paper", scale=scale)
    assert "What differs from the paper" in page.read_text(encoding="utf-8")
    # Two updates refute nothing about trained models.
    assert all(row["verdict"] != verdict.FAILS for row in claims_of(key, tmp_path) if row["unmet"])
