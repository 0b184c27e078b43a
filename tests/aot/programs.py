"""Count operations of the program of a metric: ``python -m tests.aot.programs [NAME …] [--raise]`` lowers the budgets.

Compiling is the longest wait of most users. It takes as long as there are operations, and loops over arrays in them.
"""

import functools
import json
import re
import sys

import jax
import numpy as np

import jaxdis
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._member import score_member
from jaxdis.evaluation._run import shared_by
from jaxdis.metrics._plan import plan_of
from tests.aot.budgets import FILE
from tests.metrics.test_contracts import zoo

OPERATION = re.compile(r"^ +(?:%\S+ = |stablehlo\.|func\.return)", re.MULTILINE)


def operations_of(name: str) -> int:
    codes, factors = zoo()
    plan = plan_of([name])
    members, shared, _ = bind(codes, factors, variances=np.ones_like(codes), split=True)
    of_all = jax.vmap(functools.partial(score_member, plan), in_axes=(0, None))
    return len(OPERATION.findall(jax.jit(of_all).lower(members, shared_by(plan, shared)).as_text()))


def main(*names: str, may_rise: bool = False) -> None:
    budgets = json.loads(FILE.read_text())
    of_cpu = budgets.setdefault("cpu", {})
    for name in names or jaxdis.METRICS:
        count, before = operations_of(name), of_cpu.get(name, sys.maxsize)
        sys.stdout.write(f"{name}: {count:,}{f', more than {before:,}' if count > before else ''}\n")
        of_cpu[name] = count if may_rise else min(count, before)
        FILE.write_text(json.dumps(budgets, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(*(argument for argument in sys.argv[1:] if argument != "--raise"), may_rise="--raise" in sys.argv)
