"""Count what a CPU compiles for a metric: ``python -m tests.aot.programs [NAME …] [--raise]`` lowers the budgets.

Compiling is the longest wait of most users. It takes as long as there are programs, and loops over arrays in them.
"""

import functools
import json
import re
import sys

import jax
import numpy as np

import jaxdis
from jaxdis._core import programs
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._member import score_member
from jaxdis.evaluation._run import shared_by
from jaxdis.metrics._plan import plan_of
from tests.aot.budgets import FILE
from tests.metrics.test_contracts import zoo

OPERATION = re.compile(r"^ +(?:%\S+ = |stablehlo\.|func\.return)", re.MULTILINE)


def counts_of(name: str) -> dict[str, int]:
    """How many programs an evaluation of one metric compiles in a new process, and operations of the metric itself."""
    codes, factors = zoo()
    compiled = []

    def count(event: str, _seconds: float, **_facts) -> None:
        compiled.extend([event] if event == "/jax/core/compile/backend_compile_duration" else [])

    jax.clear_caches()
    programs.keep_in(None)
    jax.config.update("jax_disable_most_optimizations", True)  # as many programs in a third of the time
    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        jaxdis.evaluate(codes, factors, name, variances=np.ones_like(codes))
    finally:
        jax.monitoring.unregister_event_duration_listener(count)
        jax.config.update("jax_disable_most_optimizations", False)
    plan = plan_of([name])
    members, shared, _ = bind(codes, factors, variances=np.ones_like(codes), split=True)
    of_all = jax.vmap(functools.partial(score_member, plan), in_axes=(0, None))
    text = jax.jit(of_all).lower(members, shared_by(plan, shared)).as_text()
    return {"programs": len(compiled), "operations": len(OPERATION.findall(text))}


def main(*names: str, may_rise: bool = False) -> None:
    budgets = json.loads(FILE.read_text())
    of_cpu = budgets.setdefault("cpu", {})
    for name in names or jaxdis.METRICS:
        counts, before = counts_of(name), of_cpu.get(name, {})
        kept = {key: count if may_rise else min(count, before.get(key, count)) for key, count in counts.items()}
        sys.stdout.write(f"{name}: {counts}{'' if kept == counts else f', more than {before}'}\n")
        of_cpu[name] = kept
        FILE.write_text(json.dumps(budgets, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--raise"]
    main(*arguments, may_rise="--raise" in sys.argv)
