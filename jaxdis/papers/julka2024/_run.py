"""What the reproduction of Julka et al. 2024 runs: synthetic representations of known properties, a zoo on Shapes3D."""

from typing import Any

from jaxdis.data import DataSource
from jaxdis.metrics import METRICS
from jaxdis.papers.harness._paper import Size, Sources
from jaxdis.papers.julka2024._study import julka2024 as agreement_study
from jaxdis.papers.julka2024._table_two import agreement_metrics, table_two_metrics
from jaxdis.study.certificate._calibration import Calibration

HALF_SIZE = DataSource(options=(("pool", 2),))
# Parts of a calibration that a study leaves out.
NO_CASES, NO_SIZES = {"case_samples": 0}, {"sizes": ()}
NO_SWEEPS: dict[str, tuple] = {"warp": (), "rotation": (), "noise": ()}
POINTS = {"warp": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0), "rotation": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)}
POINTS["noise"] = POINTS["warp"]
# Sizes of the small forms.
SMALL_CASES = {"seeds": 5, "case_samples": 5000}
SMALL_SWEEPS = {"seeds": 3, "sweep_samples": 2000}
SMALL_COST = {"sizes": (1000, 5000), "full_size": 20_000, "size_seeds": 3}
SMALL_AGREEMENT = {"seeds": 2, "steps": 2500, "train_samples": 4000, "test_samples": 2000}


def runs(size: Size, sources: Sources) -> dict[str, Any]:
    """Table II, Figures 1 to 3, Figure 4 and Figure 5, each a study; small: fewer samples, seeds and points."""
    if size == "paper":
        return {
            "cases": Calibration.of(table_two_metrics(), seeds=50, **NO_SWEEPS, **NO_SIZES),
            "sweeps": Calibration.of(sweep_metrics(), seeds=50, **NO_CASES, **NO_SIZES),
            "cost": Calibration.of(cost_metrics(exact=True), **NO_CASES, **NO_SWEEPS),
            "agreement": agreement_study(sources=sources),
        }
    metrics = agreement_metrics()
    metrics["dci"] = metrics["dci"].with_options(splitter="histogram")
    return {
        "cases": Calibration.of(table_two_metrics(), **SMALL_CASES, **NO_SWEEPS, **NO_SIZES),
        "sweeps": Calibration.of(sweep_metrics(), **SMALL_SWEEPS, **NO_CASES, **NO_SIZES, **POINTS),
        "cost": Calibration.of(cost_metrics(exact=False), **NO_CASES, **NO_SWEEPS, **SMALL_COST),
        "agreement": agreement_study(
            **SMALL_AGREEMENT,
            network="mlp",
            sources={"shapes3d": HALF_SIZE} | dict(sources or {}),
            metrics=metrics,
        ),
    }


def sweep_metrics() -> dict:
    """The metrics of Figures 1 to 3. MINE, a network for each pair, is left out: EDI uses nearest neighbors.

    Nothing is pruned and EDI has no guard against noise, as in the paper: both would end curves before α = 1.
    """
    bins = {"bins": 30}
    return {
        "beta_vae": METRICS["beta_vae"],
        "factor_vae": METRICS["factor_vae"].with_options(prune=0.0),
        "sap_r2": METRICS["sap_r2"],
        "mig": METRICS["mig"].with_options(**bins),
        "mig_ksg": METRICS["mig_ksg"],
        "mig_sup": METRICS["mig_sup"].with_options(**bins, normalize="code"),
        "dci_lasso": METRICS["dci_lasso"],
        "modularity_ksg": METRICS["modularity_ksg"],
        "dcimig": METRICS["dcimig"].with_options(**bins),
        "edi": METRICS["edi"].with_options(noise=0.0),
    }


def cost_metrics(*, exact: bool) -> dict:
    """The metrics of Figure 4, with boosted trees for DCI."""
    splitter = {} if exact else {"splitter": "histogram"}
    return {**table_two_metrics(), "dci": METRICS["dci"].with_options(**splitter)}
