"""What a study costs beside its work: cells whose making is trivial. Overhead per cell, resuming, the table.

The floor is two synchronous writes a cell (temporary file, link) on the disk beneath; the same run measures it.
"""

import concurrent.futures
import os
import time

import pytest

from jaxdis._core.store import publish
from jaxdis.models import Config, Mlp, Vae
from jaxdis.study import Sampling, Store, Study, Training
from jaxdis.study._definition import cells, encode_spec, score_spec, train_spec
from jaxdis.study._run_study import run, status
from jaxdis.study._trained_work import TrainedWork

METRICS = ("mig", "mig_sup", "med", "modularity", "sap_r2", "rmig", "mcc", "amari")


class Trivial(concurrent.futures.Executor):
    """Publishes a batch's cells with made-up results."""

    def submit(self, _, root, study, batch):
        store = Store(root)
        training = study.trainings[0]
        _, hyperparameters, labels = training.members()
        for member in batch.members:
            if batch.kind == "train":
                spec = train_spec(training, hyperparameters, labels[member.row], member.row)
                store.publish("train", spec, {"final_loss": 1.0, "stopped": -1})
            elif batch.kind == "encode":
                store.publish("encode", encode_spec(study, member.train), {"samples": 1})
            else:
                for name, _ in study.metrics:
                    result = {"columns": {name: 0.5}, "parts": {f"{name}.per_factor": [0.5] * 5}}
                    store.publish("score", score_spec(study, member.encode, name), result)
        future = concurrent.futures.Future()
        future.set_result(None)
        return future


def study_of(num_cells: int) -> Study:
    training = Training.of(Config(method=Vae(network=Mlp())), {"beta": {"beta": 1}}, num_cells // (2 + len(METRICS)))
    return Study.of("trivial", [training], METRICS, sampling=Sampling(128, 64))


@pytest.mark.parametrize("num_cells", [2_000, 20_000, 200_000])
def bench_cells(benchmark, tmp_path, num_cells):
    """Everything once: list, publish, tabulate; then the parts apart, in ``extra_info`` (seconds)."""
    benchmark.group = "study overhead"
    study = study_of(num_cells)
    benchmark.pedantic(lambda: run(study, tmp_path, executor=Trivial()), rounds=1)
    took = {
        "list": _timed(lambda: list(cells(study))),
        "status": _timed(lambda: status(study, tmp_path)),
        "resume": _timed(lambda: run(study, tmp_path, executor=Trivial())),
        "tabulate": _timed(lambda: TrainedWork(study).finish(Store(tmp_path))),
        "verify": _timed(lambda: list(Store(tmp_path).verify())),
        "floor of one cell": _timed(lambda: [publish(tmp_path / "floor" / str(i), b"x" * 500) for i in range(500)])
        / 500,
    }
    benchmark.extra_info |= took | {"cells": num_cells, "cores": os.cpu_count()}
    print("\n", num_cells, {name: round(seconds, 6) for name, seconds in took.items()})


def _timed(function) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
