"""The studies in Dang-Nhu 2022: slot models, regularized and not, scored at every level of structure."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from jaxdis._core.options import Count, checked
from jaxdis.data import DataSource
from jaxdis.encoders._slot_metrics import SLOT_METRICS, SlotMetric, Structured
from jaxdis.models import (
    About,
    Adam,
    Config,
    Genesis,
    Iodine,
    Monet,
    RmsProp,
    members,
)
from jaxdis.papers.harness._presets import Preset, Run
from jaxdis.study._definition import Sampling, Study, Training

# Objects and background have a slot each; see the notes of :func:`dangnhu2022`.
_CLEVR_SLOTS = 7
# Goals of GECO per data set (appendix C.2), where the paper has one.
_MONET_GOALS = {"multi_dsprites": -1.78, "clevr6": -1.75}
_GENESIS_GOALS = {"multi_dsprites": 0.5655, "clevr6": -1.428}


@checked
def runs(
    data: Literal["multi_dsprites", "clevr6"] = "multi_dsprites",
    *,
    seeds: int | Sequence[int] = 3,
    steps: int | None = None,
    regularized: bool = True,
    as_released: bool = True,
) -> tuple[Run, ...]:
    """Dang-Nhu (2022), appendix C.2: MONet with either mask, GENESIS and, on Multi-dSprites, IODINE.

    Batches of 32 for 200 epochs, about 300,000 updates on Multi-dSprites and 450,000 on CLEVR6. What the paper leaves
    open was chosen as follows.

    - Five slots on Multi-dSprites, by the chance level of its Table 1, and seven on CLEVR6, as in prior work.
    - GENESIS's pixel deviation on CLEVR6: with its authors' 0.7, no error is as low as the goal, −1.428. Here it is
      0.09, which can meet it.
    - IODINE has the kernels of the paper that introduced it.

    Args:
      data: a data set's name.
      seeds: how many seeds (0, 1, …), or the seeds themselves.
      steps: updates of each member; None: the paper's.
      regularized: False leaves out KL divergences of codes, "(R)", but not MONet's mask loss.
      as_released: MONet by Adam, as in the released code with which the paper trained; False: by RMSProp, as in
        MONet's own paper, which the text says it follows.
    """
    clevr = data == "clevr6"
    steps = steps or (450_000 if clevr else 300_000)
    shared = {"num_slots": _CLEVR_SLOTS if clevr else 5, "regularized": regularized}
    optimizer = Adam() if as_released else RmsProp()
    attention = (32, 32, 32, 64, 64, 64) if clevr else (32, 32, 64, 64, 64)
    monets = [Monet(decoder_masks=d, attention=attention, optimizer=optimizer, **shared) for d in (False, True)]
    genesis = Genesis(mask_strides=(2, 2, 2, 1, 1) if clevr else (1, 2, 1, 2, 1), **shared)
    rows = [(method, {"goal": _MONET_GOALS[data]}) for method in monets]
    rows.append((genesis, {"goal": _GENESIS_GOALS[data], "deviation": 0.09 if clevr else 0.7}))
    rows += [] if clevr else [(Iodine(**shared), {})]
    configs = [(Config(data, method=method, steps=steps), settings) for method, settings in rows]
    return tuple(Run(c, members({c.method.trained[0]: settings}, seeds, c.method)) for c, settings in configs)


PRESET = Preset(
    runs,
    About(
        "Evaluating Disentanglement of Structured Representations",
        "MONet with masks of attention and of the decoder, GENESIS and IODINE, with one setting each.",
        ("dangnhu2022",),
    ),
)


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

    Scenes for scoring lie in local groups of 5,000. The paper has ten groups for Multi-dSprites and five for CLEVR6
    (``train_samples=25_000``, without IODINE), each a study of its own here. By default all slot metrics,
    ``structured_printed``: Algorithm 1 as printed, from the model's order with 100 iterations, 20 on CLEVR6 alone, and
    ``structured_given``: structure without Algorithm 1, with slots in the model's order.

    - The column ``masks`` tells MONet (Att.) from MONet (Dec.), and ``regularized`` is ``no`` for "(R)".
    - Probing of ``structured_slots`` starts from the best of several orders.
    - Within a group, four fifths of the scenes fit regressors and one fifth evaluates them; the paper has 4,000, 500 to
      validate and 500.

    Raises:
      ValueError: for data other than Multi-dSprites and CLEVR6.
    """
    if unknown := [name for name in data if name not in POOLS]:
        raise ValueError(f"data: must be some of {', '.join(POOLS)}, got {unknown[0]!r}")
    trainings = [
        _training(run, seeds, regularized, (sources or {}).get(name))
        for name in data
        for regularized in (True, False)
        for run in runs(name, seeds=1, steps=steps, regularized=regularized)
    ]
    printed = Structured(start="given", iterations=20 if data == ("clevr6",) else 100)
    given = Structured(start="given", iterations=0)
    plan = {**SLOT_METRICS, "structured_printed": printed, "structured_given": given} if metrics is None else metrics
    return Study.of(
        "dangnhu2022",
        trainings,
        plan,
        sampling=Sampling(train_samples, 10, groups=max(1, train_samples // GROUP)),
        title="Slots at every level of structure: MONet, GENESIS and IODINE",
    )


def _training(run: Run, seeds: int, regularized: bool, source: DataSource | None) -> Training:
    config = dataclasses.replace(run.config, source=source)
    [label] = run.members.labels
    settings = {name: value for name, value in label.items() if name not in ("model", "seed")}
    labels = {"regularized": "yes" if regularized else "no"}
    if isinstance(config.method, Monet):
        labels["masks"] = "decoder" if config.method.decoder_masks else "attention"
    return Training.of(config, {label["model"]: settings}, seeds, POOLS[config.data], labels=labels)
