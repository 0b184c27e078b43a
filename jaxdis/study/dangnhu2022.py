"""Dang-Nhu 2022: models of slots, regularized and not, scored at every level of structure."""

import dataclasses
from collections.abc import Mapping, Sequence

from jaxdis.data import DataSource
from jaxdis.models import Monet, presets
from jaxdis.options import Count, checked
from jaxdis.structured.metrics import SLOT_METRICS, SlotMetric, Structured
from jaxdis.study.definition import Sampling, Study, Training

# Training images, drawn once: those of Multi-dSprites as released, and those of CLEVR with at most six objects.
POOLS = {"multi_dsprites": 50_000, "clevr6": 70_000}
# Scenes of a local group.
GROUP = 5000


@checked
def dangnhu2022(
    *,
    seeds: int = 3,
    steps: Count | None = None,
    train_samples: int = 10 * GROUP,
    data: tuple[str, ...] = ("multi_dsprites",),
    sources: Mapping[str, DataSource] | None = None,
    metrics: Sequence[str] | Mapping[str, SlotMetric] | None = None,
) -> Study:
    """Dang-Nhu 2022, §5: MONet with two kinds of masks, GENESIS and IODINE, regularized and not, "(R)".

    Scenes for scoring lie in local groups of 5,000. The paper has ten groups of Multi-dSprites and five of CLEVR6
    (``train_samples=25_000``, without IODINE), each a study of its own here. By default all metrics of slots, and
    ``structured_given``: structure without Algorithm 1, with slots in the order of the model.

    - The column ``masks`` tells MONet (Att.) from MONet (Dec.), and ``regularized`` is ``no`` for "(R)".
    - Probing starts from the best of several orders; in the paper, from that of the model.
    - Within a group, four fifths of the scenes fit regressors and one fifth evaluates them; the paper has 4,000, 500 to
      validate and 500.

    Raises:
      ValueError: for data other than Multi-dSprites and CLEVR6.
    """
    if unknown := [name for name in data if name not in POOLS]:
        raise ValueError(f"data: needs some of {', '.join(POOLS)}, got {unknown[0]!r}")
    trainings = [
        _training(run, seeds, regularized, (sources or {}).get(name))
        for name in data
        for regularized in (True, False)
        for run in presets.dangnhu2022(name, seeds=1, steps=steps, regularized=regularized)
    ]
    plan = {**SLOT_METRICS, "structured_given": Structured(start="given", iterations=0)} if metrics is None else metrics
    return Study.of(
        "dangnhu2022",
        trainings,
        plan,
        sampling=Sampling(train_samples, 10, groups=max(1, train_samples // GROUP)),
        title="Slots at every level of structure: MONet, GENESIS and IODINE",
    )


def _training(run: presets.Run, seeds: int, regularized: bool, source: DataSource | None) -> Training:
    config = dataclasses.replace(run.config, source=source)
    [label] = run.members.labels
    settings = {name: value for name, value in label.items() if name not in ("model", "seed")}
    labels = {"regularized": "yes" if regularized else "no"}
    if isinstance(config.method, Monet):
        labels["masks"] = "decoder" if config.method.decoder_masks else "attention"
    return Training.of(config, {label["model"]: settings}, seeds, POOLS[config.data], labels=labels)
