"""How scores were computed, as plain data that goes into every file with them."""

import json
from typing import Any

import jax

from jaxdis._core.version import __version__
from jaxdis.factors import Factors
from jaxdis.metrics._metric import Metric
from jaxdis.metrics._plan import Plan


def described(
    plan: Plan, shape: tuple[int, ...], factors: Factors, key, held_out: int | None, bootstrap: int, null: int = 0
) -> dict:
    """Versions, how many samples and codes, the factors' sizes, the key, replicates, and metrics with all options.

    ``shape`` is what codes have, ``[…, n, d]``. ``options`` are those that differ from the version's defaults.
    """
    found = {
        "versions": {"jaxdis": __version__, "jax": jax.__version__},
        "samples": shape[-2],
        "held_out": held_out,
        "codes": shape[-1],
        "sizes": dict(zip(factors.names, factors.sizes, strict=True)),
        "key": jax.random.key_data(key).tolist(),
        "bootstrap": bootstrap,
        **({"null": null} if null else {}),
        "options": {name: options for name, metric in plan if (options := _changed(metric))},
        "metrics": {name: metric.describe() for name, metric in plan},
    }
    return json.loads(json.dumps(found, default=str))


def _changed(metric: Metric) -> dict[str, Any]:
    specs = [getattr(metric, role) for role in ("relation", "score", "function") if hasattr(metric, role)]
    return {option: value for spec in specs for option, value in spec.options}
