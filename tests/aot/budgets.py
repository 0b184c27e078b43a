"""Lower the budgets of compiled programs: ``python -m tests.aot.budgets TARGET [NAME …] [--raise]``.

A budget is what a program launches, moves and holds, per call and per member. Without ``--raise``, what has become more
is reported and not written.
"""

import json
import sys
from pathlib import Path

from jaxdis import METRICS
from jaxdis._core.accelerators import TARGETS
from jaxdis.cli._accelerators import TRAINED, Estimate, estimates, updates

FILE = Path(__file__).with_name("budgets.json")
# Members of a call.
MEMBERS, TRAINED_MEMBERS = 64, 16


def counts_of(row: Estimate) -> dict[str, float]:
    """What is bounded: kernels of a call, and bytes moved and held per member."""
    return {"launches": round(row.launches), "bytes": round(row.bytes), "memory": round(row.memory)}


def main(target: str, *names: str, may_rise: bool = False) -> None:
    budgets = json.loads(FILE.read_text()) if FILE.exists() else {}
    of_target = budgets.setdefault(target, {})
    names = names or (*METRICS, *TRAINED)
    rows = [
        *estimates({name: METRICS[name] for name in names if name in METRICS}, TARGETS[target], MEMBERS),
        *updates({name: TRAINED[name] for name in names if name in TRAINED}, TARGETS[target], TRAINED_MEMBERS),
    ]
    for row in rows:
        if not isinstance(row, Estimate):
            sys.stdout.write(f"{row.name}: {row.error}\n")
            continue
        counts, before = counts_of(row), of_target.get(row.name, {})
        for name, count in counts.items():
            if count > before.get(name, count) and not may_rise:
                sys.stdout.write(f"{row.name}: {name} rises from {before[name]:,} to {count:,}\n")
                counts[name] = before[name]
        of_target[row.name] = counts
        FILE.write_text(json.dumps(budgets, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--raise"]
    main(*arguments, may_rise="--raise" in sys.argv)
