"""Factors that share their most informative code, which a one-to-one alignment keeps apart, and their Hinton diagrams.

Mahon et al. 2024, §3.1, Appendix B, Figures 1 and 3 to 13.
"""

from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxdis._core.files import write_csv
from jaxdis._core.kernels.assignment import assign
from jaxdis.evaluation._relate import relate
from jaxdis.factors import Factors
from jaxdis.papers.mahon2024._run import NAMES
from jaxdis.papers.mahon2024._tables import write_tables
from jaxdis.study._compute_cells import samples_of
from jaxdis.study._definition import Study, cells
from jaxdis.study._store import Store, publish
from jaxdis.study._trained_work import TrainedWork

# The relation by which SNC aligns codes.
RELATION = "mutual_information_equal_count"


class Collision(NamedTuple):
    """A code that is the most informative about several factors, and the codes that the alignment gives to these.

    −1 stands for no code.
    """

    code: int
    factors: tuple[str, ...]
    aligned: tuple[int, ...]


def collisions(strength: np.ndarray, names: tuple[str, ...]) -> list[Collision]:
    """The collisions of a relation ``[d, k]``; factors whose column is not finite are left out."""
    finite = [j for j in range(len(names)) if np.isfinite(strength[:, j]).all()]
    best = {j: int(strength[:, j].argmax()) for j in finite}
    aligned = np.asarray(assign(jnp.asarray(strength), maximize=True).row)
    shared = [code for code in dict.fromkeys(best.values()) if list(best.values()).count(code) > 1]
    collided = []
    for code in shared:
        sharing = [j for j in finite if best[j] == code]
        collided.append(Collision(code, tuple(names[j] for j in sharing), tuple(int(aligned[j]) for j in sharing)))
    return collided


def strength_of(codes: np.ndarray, factors: Factors) -> np.ndarray:
    """``[d, k]``: the information of each code about each factor, nats."""
    return np.asarray(relate(codes, factors, RELATION).strength)


def write_alignments(study: Study, out: str | Path) -> list[Path]:
    """Write ``alignment.csv``, a row per collision, and a Hinton diagram of each model's first member that has one.

    Diagrams are PNG files in ``figures``, one per data set and model, however many seeds it has.
    """
    from jaxdis import plots  # matplotlib is not needed for tables
    from jaxdis.plots._canvas import png

    store = Store(out)
    store.check({**study.describe(), "name": store.description().get("name")})
    folder = store.root / "figures"
    folder.mkdir(exist_ok=True)
    rows, paths = [], []
    for member in cells(study):
        training = study.trainings[member.training]
        data, model = training.config.data, member.label["model"]
        factors = samples_of(training, study.sampling).train
        strength = strength_of(store.arrays("encode", member.encode)["mean"], factors)
        label = [member.train, data, model, str(member.label["seed"]), member.label.get("held_out", "")]
        collided = collisions(strength, factors.names)
        rows += [
            [*label, str(collision.code), " ".join(collision.factors), " ".join(map(str, collision.aligned))]
            for collision in collided
        ]
        path = folder / f"hinton_{model}_{data}.png"
        if collided and path not in paths:
            publish(path, png(plots.hinton(strength, factors.names)), replace=True)
            paths.append(path)
    table = store.root / "alignment.csv"
    head = ["id", "data", "model", "seed", "held_out", "code", "factors", "aligned"]
    write_csv(table, head, rows)
    return [table, *paths]


class CombinationsWork(TrainedWork):
    """See :class:`jaxdis.study.Work`."""

    def report(self, store: Store) -> Path:
        """The report of any study, the Hinton diagrams of collisions and, if it has their metrics, the tables."""
        if {*NAMES, "novel_combination"}.issubset(dict(self.study.metrics)):
            write_tables(self.study, store.root)
        write_alignments(self.study, store.root)
        return super().report(store)
