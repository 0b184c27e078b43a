"""Scores for how codes move when a factor is held, FactorVAE, BetaVAE, IRS and consistency, or varies alone, Z-max and
restrictiveness.

Here they read codes and factors from a table; :func:`jaxdis.evaluate_encoder` intervenes in a simulator.
"""

from jaxdis.metrics.interventions._changes import Changes, consistency, restrictiveness
from jaxdis.metrics.interventions._robustness import Group, Robustness, group_by_value, irs
from jaxdis.metrics.interventions._votes import (
    Draws,
    Intervened,
    Votes,
    beta_vae,
    draw_batches,
    draw_pairs,
    draw_varied,
    factor_vae,
    z_max,
)

__all__ = ["Changes", "Draws", "Group", "Intervened", "Robustness", "Votes", "beta_vae", "consistency", "draw_batches"]
__all__ += ["draw_pairs", "draw_varied", "factor_vae", "group_by_value", "irs", "restrictiveness", "z_max"]
