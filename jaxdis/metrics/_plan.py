"""The literature as one table, METRICS, name → metric; and plans: metrics under their columns' names, checked, and what
they ask from samples and kinds of factors.

Most rows apply a score to a relation. What a row says in words stands in ``metrics.toml``. Presets are the options by
which metrics equal other libraries', and the columns that these report.
"""

import dataclasses
import importlib.resources
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from jaxdis._core.arrays import safe_divide
from jaxdis._core.options import look_up, names_of, shown, some_of
from jaxdis._core.spec import Spec
from jaxdis.factors import Factors
from jaxdis.metrics import _dependent_gaps as dependent
from jaxdis.metrics import _identifiability as identifiability
from jaxdis.metrics import _separation as separated
from jaxdis.metrics._dependent_gaps import factor_paths, monotonicity, smoothness
from jaxdis.metrics._downstream import downstream_trees, explicitness, infoe
from jaxdis.metrics._extended_dci import dci_es
from jaxdis.metrics._metric import About, Blend, Column, Direct, Metric
from jaxdis.metrics._probe_accuracy import linear_probe, mlp_probe, nk, snc
from jaxdis.metrics._separation import unibound
from jaxdis.metrics._unsupervised import code_information, total_correlation
from jaxdis.metrics.interventions import beta_vae, consistency, factor_vae, irs, restrictiveness, z_max
from jaxdis.relations import RELATIONS, Relation
from jaxdis.scores import SCORES
from jaxdis.scores._gaps import FactorScore
from jaxdis.scores._reading import mean_over_factors, only_valid, read, top_two_gap
from jaxdis.scores._structured_score import structured_score

_TEN_NEIGHBORS = RELATIONS["mutual_information_neighbors"].with_options(neighbors=10)
_CONCENTRATION = SCORES["concentration"]
_LINEAR, _PATHS = Spec(identifiability.linear_prediction), Spec(factor_paths)
_R2 = Spec(identifiability.explained_variance)


def _direct(*functions: Callable) -> dict[str, Metric]:
    return {function.__name__: Direct(Spec(function)) for function in functions}


def _blends(relation: Spec, *scores: Callable) -> dict[str, Metric]:
    return {score.__name__: Blend(relation, Spec(score)) for score in scores}


_ROWS: dict[str, Metric] = {
    "mig": Blend("mutual_information", "gap"),
    "mig_sup": Blend("mutual_information", "factor_gap"),
    "med": Blend("mutual_information", SCORES["entropy"].with_options(normalize="factor")),
    "dcimig": Blend("mutual_information", "strongest"),
    "modularity": Blend("mutual_information", "modularity"),
    "sap": Blend("svm_accuracy", "gap"),
    "sap_r2": Blend("r2", "gap"),
    "dci": Blend("boosted_trees", "entropy"),
    "dci_forest": Blend("random_forest", "entropy"),
    "dci_lasso": Blend("lasso_importance", "entropy"),
    "dci_logistic": Blend("logistic_importance", "entropy"),
    "structured": Blend("random_forest", Spec(structured_score)),
    "rmig": Blend("mutual_information_sampled", "gap"),
    "jemmig": Blend("mutual_information_sampled", "joint_gap"),
    "mcc": Blend("correlation", "matching"),
    **_direct(explicitness, downstream_trees, snc, nk, linear_probe, mlp_probe, factor_vae, beta_vae, irs),
    **_direct(total_correlation, code_information),
    "amari": Blend("correlation", "amari"),
    "infom": Blend(_TEN_NEIGHBORS, _CONCENTRATION.with_options(over="codes")),
    **_direct(infoe),
    "infoc": Blend(_TEN_NEIGHBORS, _CONCENTRATION.with_options(over="factors")),
    "mig_ksg": Blend("mutual_information_neighbors", "gap"),
    "mig_sup_ksg": Blend("mutual_information_neighbors", "factor_gap"),
    "dcimig_ksg": Blend("mutual_information_neighbors", "strongest"),
    "modularity_ksg": Blend("mutual_information_neighbors", "modularity"),
    "edi": Blend("impact_intensity", "exclusivity"),
}
# Studies with "all" metrics leave these out, so that what is stored stays complete.
_NOT_IN_STUDIES: dict[str, Metric] = {
    "r2_linear": Blend(_LINEAR, _R2),
    "mcc_linear": Blend(_LINEAR, Spec(identifiability.prediction_correlation)),
    "r2_kernel": Blend(Spec(identifiability.kernel_prediction), _R2),
    "mcc_test": Direct(Spec(identifiability.mcc_test)),
    **_blends(Spec(dependent.dependent_information), dependent.xmig, dependent.dmig, dependent.dlig),
    "axis_alignment": Blend("mutual_information", "axis_alignment"),
    **_blends(Spec(separated.separation), separated.sepin, separated.wsepin, separated.indin, separated.windin),
    **_direct(z_max, consistency, restrictiveness, unibound),
    **_blends(_PATHS, monotonicity, smoothness),
    **_direct(dci_es),
}
NOT_IN_STUDIES = frozenset(_NOT_IN_STUDIES)


def _about(words: dict[str, Any]) -> About:
    """What a row of ``metrics.toml`` says."""
    claims, chance = (
        {field: tuple(each) for field, each in words.get(kind, {}).items()} for kind in ("claims", "chance")
    )
    return About(**words | {"references": tuple(words["references"]), "claims": claims, "chance": chance})


_WORDS = tomllib.loads(importlib.resources.files(__package__).joinpath("metrics.toml").read_text(encoding="utf-8"))
METRICS: dict[str, Metric] = {
    name: dataclasses.replace(metric, about=_about(_WORDS[name])) for name, metric in (_ROWS | _NOT_IN_STUDIES).items()
}

_BINS = {"bins": 10}
_INFORMATION = RELATIONS["mutual_information"].with_options(**_BINS)
_OF_CELLS = {
    "SMI": _INFORMATION,
    "SPN": RELATIONS["neighbor_alignment"],
    "ASC": RELATIONS["correlation"].with_options(kind="spearman"),
}


def gap_of_codes(relation: Relation) -> FactorScore:
    """Average over factors the gap between the two largest shares of a code's entropy that inform about the factor.

    MIG divides by the factor's entropy; the code released with Carbonneau et al. 2022 divides by the code's.
    """
    reading = read(relation)
    share = safe_divide(reading.strength, jnp.broadcast_to(relation.code_ceiling[:, None], reading.strength.shape))
    per_factor = top_two_gap(share, axis=0)
    return FactorScore(mean_over_factors(per_factor, reading), only_valid(per_factor, reading))


def _of(names, **options) -> dict[str, Metric]:
    return {name: METRICS[name].with_options(**options) for name in names}


PRESETS: dict[str, dict[str, Metric]] = {
    "disentanglement_lib": {  # what the defaults of the library are
        **_of(("mig", "modularity", "sap", "dci", "explicitness", "irs")),
        **_of(("factor_vae", "beta_vae", "downstream_trees", "total_correlation")),
    },
    "disent": _of(("mig", "sap", "sap_r2", "total_correlation", "code_information")),
    "carbonneau": {
        "mig": Blend(_INFORMATION, Spec(gap_of_codes)),
        "mig_sup": METRICS["mig_sup"].with_options(normalize="code", **_BINS),
        **_of(("dcimig", "modularity"), **_BINS),
        "jemmig": Blend(_INFORMATION, "joint_gap", about=METRICS["jemmig"].about),
        "irs": METRICS["irs"].with_options(factor_bins=10, quantile=1.0),
        "z_max": METRICS["z_max"].with_options(rescale=True),
    },
    "latte": {
        "mig": METRICS["mig_ksg"],
        "modularity": METRICS["modularity_ksg"],
        "sap": METRICS["sap"].with_options(inverse_penalty=1.0, balanced=False),
        **_of(("xmig", "dmig", "dlig"), estimator="neighbors"),
    },
    "do2020": _of(("rmig", "jemmig", "sepin", "wsepin", "indin", "windin")),
    "drvi": {
        f"{column}-{similarity}": Blend(relation, score)
        for column, score in (("LMS", "matching"), ("MSAS", "maximum"), ("MSGS", "gap"))
        for similarity, relation in _OF_CELLS.items()
    },
}


def preset_metrics(preset: str | None, metrics):
    """A preset's metrics: all for ``"standard"`` and ``"all"``, otherwise those named.

    Without a preset, the metrics as they are given.
    """
    if preset is None:
        return metrics
    table = look_up(preset, PRESETS, "preset")
    if isinstance(metrics, Mapping):
        raise ValueError(f"preset: must be left out where metrics come with their options, got {preset!r}")
    return dict(table) if metrics in ("standard", "all") else {n: table[n] for n in names_of(metrics, table, "metric")}


Plan = tuple[tuple[str, Metric], ...]

# The metrics that are computed when none are named: one or two of each family, in 3 s per member of 10,000 samples.
# Boosted trees for DCI would take 7 s, and 27 s instead of 10 s to compile.
STANDARD = ("mig", "modularity", "sap", "mcc", "explicitness", "dci_forest")
# With an encoder, also one that intervenes and draws few images.
STANDARD_OF_ENCODERS = (*STANDARD, "irs")
# The column of member numbers in tables.
RESERVED = "member"
# Metrics that are not of the codes of one member: what they read, and where they are.
ELSEWHERE = {
    "udr": "compares the seeds of a setting: name it in a study, or call jaxdis.metrics.udr",
    "linear_cka": "compares members with each other: call jaxdis.metrics.linear_cka",
    "matched_cosine": "compares two sets of directions: call jaxdis.metrics.matched_cosine",
    "svcca": "compares members with each other: call jaxdis.metrics.svcca",
    "structured_slots": "reads slots: score a zoo of slots without --metrics, or call jaxdis.evaluate_slots",
    "segmentation": "reads masks of slots: score a zoo of slots without --metrics, or call jaxdis.evaluate_slots",
}
# Fields that a bootstrap and permutations add to a column.
ADDED = ("error", "bias", "low", "high", "null", "above_null", "p")
_INSTEAD = {"weights": ", on samples drawn in proportion to their weights"}


def plan_of(metrics) -> Plan:
    """Names and metrics in order, each checked."""
    if isinstance(metrics, str) and metrics in METRICS:
        return ((metrics, METRICS[metrics]),)
    if not isinstance(metrics, Mapping):
        names = STANDARD if isinstance(metrics, str) and metrics == "standard" else metrics
        return tuple((name, METRICS[name]) for name in names_of(names, METRICS, "metric", ELSEWHERE))
    if not metrics:
        raise ValueError(f"metrics: must have at least one metric, got none; the metrics are {', '.join(METRICS)}")
    plan = {name: _metric(name, metric) for name, metric in metrics.items()}
    for name in plan:  # `a` has columns `a.field`: no other metric may have such a name
        for place in (place for place, letter in enumerate(name) if letter == "."):
            stem, field = name[:place], name[place + 1 :]
            if stem in plan and field in (*plan[stem].axes, *plan[stem].scalar_fields, *ADDED):
                raise ValueError(f"metrics: must have names whose columns differ, got {name!r}, a column of {stem!r}")
    return tuple(plan.items())


def _metric(name, metric) -> Metric:
    if not isinstance(name, str) or not name or name == RESERVED:
        raise ValueError(f"metrics: must have column names that are text other than {RESERVED!r}, got {shown(name)}")
    if isinstance(metric, str):
        return look_up(metric, METRICS, "metric", elsewhere=ELSEWHERE)
    if not isinstance(metric, Metric):
        raise ValueError(f"metrics: must be a Blend, a Direct or a name for {shown(name)}, got {shown(metric)}")
    return metric


def of_classes(plan: Plan, sizes: tuple[int | None, ...]) -> tuple[str, ...]:
    """The names of metrics that need classes, if there are none: they leave continuous factors out."""
    return () if any(sizes) else tuple(name for name, metric in plan if metric.source.needs_classes)


def check_validation(plan: Plan, given: bool) -> None:
    """Metrics that choose among several option values need validation samples."""
    needing = [name for name, metric in plan if metric.source.needs_validation]
    if needing and not given:
        raise ValueError(f"validation: needs samples on which {', '.join(needing)} can choose an option, got none")


def check_plan(plan: Plan, n: int, sizes: tuple[int | None, ...], given: Collection[str], *, halved: bool) -> None:
    """Check that the metrics can read what is given, and can do without what is not.

    ``given`` are the names of arrays; ``halved``: whether a bootstrap passes half the samples to metrics that need
    distinct ones.
    """
    for argument in ("weights", "active"):
        unread = [name for name, metric in plan if not getattr(metric.source.reads, argument)]
        if argument in given and unread:
            raise ValueError(
                f"{argument}: needs metrics that read it, got {len(unread)} of {len(plan)} that do not "
                f"({some_of(unread)}); evaluate those in a call of their own without {argument}"
                + _INSTEAD.get(argument, "")
            )
    check_validation(plan, "validation" in given)
    for name, metric in plan:
        neighbors = metric.all_options.get("neighbors", 0)
        if halved and metric.source.distinct_samples and neighbors >= n // 2:
            raise ValueError(
                f"bootstrap: must have more than {2 * neighbors + 1} samples for {name}, whose replicates are halves "
                f"of them, got {n}"
            )
        if neighbors >= n:
            raise ValueError(f"neighbors: must have fewer than the {n} samples, got {neighbors} for {name}")
    if not any(sizes) and (needing := of_classes(plan, sizes)):
        raise ValueError(
            f"factors: must have at least one discrete factor for {', '.join(needing)}, got continuous ones alone; "
            "cut them into classes by Factors.binned, or leave these metrics out"
        )


def without_order(source: Spec) -> str:
    """What a function does with a factor whose classes have no order, in words."""
    if source.needs_order:
        return "are left out"
    return "have an indicator for each class" if source.traits.of_values else "count by class"


def on_a_line(sources: Mapping[str, Spec]) -> list[str]:
    """Who reads continuous factors as numbers on a line."""
    return [
        name
        for name, source in sources.items()
        if source.traits.on_a_line or "neural" in dict(source.options).values()  # the estimator of an option
    ]


def check_circular(sources: Mapping[str, Spec], factors: Factors) -> None:
    """Check that none of the metrics, by what reads the samples, reads a circular factor as a number on a line."""
    angles = [name for name, kind in zip(factors.names, factors.kinds, strict=True) if kind == "circular"]
    refused = on_a_line(sources)
    if angles and refused:
        raise ValueError(
            f"factors: must not be circular for {', '.join(refused)}, got {some_of(angles)}; leave these metrics "
            f"out, or read the table with kinds={{{angles[0]!r}: 'continuous'}} or 'classes'"
        )


def left_out_of(plan: Plan, sizes: Sequence[int | None], periods: Sequence[float | None] | None) -> dict[str, str]:
    """Why metrics are left out, by metric; ``sizes`` and ``periods`` are the factors'."""
    reasons = dict.fromkeys(
        of_classes(plan, tuple(sizes)), "it needs classes and was left out; Factors.binned makes some"
    )
    if any(periods or ()):
        lines = on_a_line({name: metric.source for name, metric in plan})
        reasons |= dict.fromkeys(lines, "it reads an angle as a number on a line and was left out")
    return reasons


def lower_is_better(column: str) -> bool:
    """Whether a column from the library's metrics is best when low; others are taken as best when high."""
    column = Column.read(column, METRICS)
    metric = column.metric.partition(":")[0]  # less options, as in a shell's columns
    return metric in METRICS and column.field in METRICS[metric].errors
