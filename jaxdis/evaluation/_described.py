"""How scores were computed, as plain data that goes into every file with them."""

import json
import zlib
from typing import Any

import jax
import numpy as np

from jaxdis._core.version import __version__
from jaxdis.evaluation._null import NO_NULL, Null
from jaxdis.factors import Factors
from jaxdis.metrics._metric import Metric
from jaxdis.metrics._plan import Plan


def described(
    plan: Plan,
    shape: tuple[int, ...],
    factors: Factors,
    key,
    held_out: int | None,
    bootstrap: int,
    null: Null = NO_NULL,
    groups=None,
) -> dict:
    """Versions, how many samples and codes, the factors' sizes, the key, replicates, and metrics with all options.

    ``shape`` is what codes have, ``[…, n, d]``. ``options`` are those that differ from the version's defaults. A
    checksum tells groups ``[n]`` apart.
    """
    nominal = zip(factors.names, factors.nominal or (), strict=factors.nominal is not None)
    found = {
        "versions": {"jaxdis": __version__, "jax": jax.__version__},
        "samples": shape[-2],
        "held_out": held_out,
        "codes": shape[-1],
        "sizes": dict(zip(factors.names, factors.sizes, strict=True)),
        **({"without_order": [name for name, each in nominal if each]} if factors.nominal else {}),
        "key": jax.random.key_data(key).tolist(),
        "bootstrap": bootstrap,
        **({"null": null.count if null.kind == "permutation" else {null.kind: null.count}} if null.count else {}),
        **({} if groups is None else {"groups": _told_apart(np.asarray(groups))}),
        "options": {name: options for name, metric in plan if (options := _changed(metric))},
        "metrics": {name: metric.describe() for name, metric in plan},
    }
    return json.loads(json.dumps(found, default=str))


def _told_apart(groups: np.ndarray) -> dict[str, int]:
    return {"count": int(groups.max()) + 1, "checksum": zlib.crc32(groups.astype(np.int32).tobytes())}


def _changed(metric: Metric) -> dict[str, Any]:
    specs = [getattr(metric, role) for role in ("relation", "score", "function") if hasattr(metric, role)]
    return {option: value for spec in specs for option, value in spec.options}
