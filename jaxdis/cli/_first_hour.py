"""The measurements to make first on a new accelerator: within an hour, resumable, one file of results.

Each step writes a file of its own when it is done, so that a run which is stopped goes on with the next step.
"""

import json
import time
from pathlib import Path

import jax
import numpy as np

from jaxdis._core.executor import Layout, _run
from jaxdis._core.files import read_json, write_whole
from jaxdis._core.progress import tell_now_and_then
from jaxdis._core.roofline import cost_of
from jaxdis._core.targets import TARGETS
from jaxdis.cli import _throughput as throughput
from jaxdis.cli._estimates import judged, turns_of
from jaxdis.evaluation._evaluate import evaluate
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._member import score_member_often
from jaxdis.evaluation._stages import shared_by, stages_of
from jaxdis.metrics import METRICS
from jaxdis.models import Config, Vae, locatello, members, train

# Metrics of which each shows another kind of program: products, sorts, loops over trees, Newton steps, training.
KINDS = ("mig", "sap", "snc", "factor_vae", "dci_logistic", "explicitness", "dci_forest", "dci", "nk")
# Of the hour, the share of the first step, which measures all metrics.
SHARE = 0.5
SIZES = 16, 64, 256
UPDATES = 100, 300
# Members that train, and that are scored to test the estimates.
MEMBERS, SCORED = 16, 64


def measure_first(folder: Path, *, samples: int = 10_000, minutes: float = 60.0) -> Path:
    """Run the steps that have no file yet, and write ``first_hour.json``; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * minutes
    for name, step in STEPS.items():
        path = folder / f"{name}.json"
        if not path.exists() and time.monotonic() < end:
            tell_now_and_then(f"first hour: {name}")
            _write(path, step(samples, end))
    finished = {name: read_json(folder / f"{name}.json") for name in STEPS if (folder / f"{name}.json").exists()}
    result = folder / "first_hour.json"
    _write(result, {"machine": throughput.machine(), **finished, "missing": sorted(STEPS.keys() - finished.keys())})
    return result


def _write(path: Path, contents: object) -> None:
    write_whole(path.resolve(), lambda file: file.write((json.dumps(contents, indent=1) + "\n").encode()))


def _scores(samples: int, end: float) -> object:
    """Members scored per second by every metric at several zoo sizes, and what compiling takes."""
    minutes = SHARE * (end - time.monotonic()) / 60
    return json.loads(throughput.to_json(throughput.measure(None, SIZES, minutes=minutes, samples=samples)))


def _against_cpu(samples: int, end: float) -> dict[str, float]:
    """The largest difference of each column from that of the CPU."""
    return _differences(samples, end, None, jax.devices("cpu")[:1])


def _between_runs(samples: int, end: float) -> dict[str, float]:
    """The largest difference of each column between two runs of the same program, whose sums may take another order."""
    return _differences(samples, end, None, None)


def _differences(samples: int, end: float, *runs) -> dict[str, float]:
    """The largest difference of each column between two runs on these devices."""
    codes, factors = throughput.zoo(4, samples, seed=0)
    test = throughput.zoo(4, samples // 2, seed=1)
    differences = {}
    for name in KINDS:
        if time.monotonic() > end:
            break
        first, second = (evaluate(codes, factors, name, test=test, devices=devices) for devices in runs)
        differences |= {column: float(np.nanmax(np.abs(first[column] - second[column]))) for column in first}
    return differences


def _training(samples: int, end: float) -> dict[str, list[dict]]:
    """Seconds of an update of a zoo of convolutional VAEs, one by one and together, at full and at fast precision."""
    rows = []
    for execution in ("vmap", "map"):
        for precision in ("float32", "tensorfloat32"):
            if time.monotonic() > end:
                return {"rows": rows}
            method = Vae(network=locatello(as_released=False), precision=precision)
            zoo = members({"beta": {"beta": 4.0}}, MEMBERS, method)
            seconds = []
            for steps in (UPDATES[0], *UPDATES):  # the first run compiles
                start = time.perf_counter()
                train(Config("dsprites", method=method, steps=steps), *zoo, log_every=UPDATES[0], execution=execution)
                seconds.append(time.perf_counter() - start)
            update = (seconds[2] - seconds[1]) / (UPDATES[1] - UPDATES[0])
            rows.append(
                {"execution": execution, "precision": precision, "members": MEMBERS, "seconds_per_update": update}
            )
    return {"rows": rows}


def _estimates(samples: int, end: float) -> dict[str, list[dict]]:
    """The seconds that programs take beside the estimate from their text, whose ratio is the error of the model."""
    device = jax.devices()[0]
    target = next((one for key, one in TARGETS.items() if key in device.device_kind.lower()), TARGETS["h100"])
    codes, factors = throughput.zoo(SCORED, samples, seed=0)
    test = throughput.zoo(SCORED, samples // 2, seed=1)
    rows = []
    for name in KINDS:
        if time.monotonic() > end:
            break
        (stage,) = stages_of(((name, METRICS[name]),))
        inputs = bind(codes, factors, test=test)
        layout = Layout((device,), SCORED)
        many, counts = layout.place(inputs.members), np.full(1, SCORED, np.int32)
        arguments = (stage, 0), layout, many, counts, layout.share(shared_by(stage, inputs.shared))
        text = _run.lower(score_member_often, *arguments).compile().as_text()
        jax.block_until_ready(_run(score_member_often, *arguments))
        start = time.perf_counter()
        jax.block_until_ready(_run(score_member_often, *arguments))
        measured = (time.perf_counter() - start) / SCORED
        bytes_each = sum(leaf.nbytes for leaf in jax.tree.leaves(inputs.members)) / SCORED
        estimate = judged(name, cost_of(text, turns_of(name)), 0.0, 0.0, bytes_each, SCORED, target)
        rows.append({"measured_ms": 1e3 * measured, "ratio": 1e3 * measured / estimate.ms, **estimate._asdict()})
    return {"rows": rows}


STEPS = {
    "scores": _scores,
    "cpu": _against_cpu,
    "repeats": _between_runs,
    "training": _training,
    "estimates": _estimates,
}
