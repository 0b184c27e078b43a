"""Figures 2 to 6 of Eastwood & Williams 2018, as PNG bytes, and a study's own as files."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis import plots
from jaxdis.data import DATASETS
from jaxdis.data._teapot import SPACE, Gap
from jaxdis.models import Zoo
from jaxdis.models._encoding import decodes
from jaxdis.models._traversal import traversals
from jaxdis.papers.eastwood2018._claims import REGRESSORS, name_of, scores_of
from jaxdis.plots._canvas import Figure, png
from jaxdis.study._compute_cells import member_zoo
from jaxdis.study._definition import Member, Study
from jaxdis.study._store import Store, publish

_COLUMNS = 10
# Values that a code takes: of a normal prior, and of a uniform one.
_REACH = {"resnet_vae": 3.0, "infogan": 1.0}


def samples(render, key, *, rows: int = 2) -> Figure:
    """Figure 2: random teapots."""
    return _sheet(render, SPACE.sample(key, rows * _COLUMNS), rows)


def left_out(render, key, *, rows: int = 2, rule: str = "released") -> Figure:
    """Figure 4: teapots of the gap, the most extreme of many samples first."""
    inside = np.asarray(SPACE.inside(Gap(rule)).sample(key, 50 * rows * _COLUMNS))
    redness = inside[:, 2] - np.maximum(inside[:, 3], inside[:, 4]) + inside[:, 1] / (np.pi / 2)
    return _sheet(render, inside[np.argsort(-redness)[: rows * _COLUMNS]], rows)


def importances(importance: np.ndarray) -> Figure:
    """Figure 3: a Hinton diagram of importances ``[d, k]``."""
    return plots.hinton(importance, SPACE.names)


def factors_against_codes(codes: np.ndarray, factors: np.ndarray, importance: np.ndarray) -> Figure:
    """Figure 5: factors ``[n, 5]`` against the most important ``codes [n, d]``, the azimuth against three of them."""
    order = np.argsort(-np.nan_to_num(importance), axis=0)
    pairs = [(0, code) for code in order[:3, 0]] + [(j, order[0, j]) for j in range(1, len(SPACE.names))]
    panels = [(f"code {code}", SPACE.names[j], codes[:5000, code], factors[:5000, j]) for j, code in pairs]
    return plots.point_clouds(panels)


def ordered_traversals(zoo: Zoo, images: np.ndarray, importance: np.ndarray) -> Figure:
    """Figure 6: an image with one code at a time over its range, ordered by the factor that the code encodes best.

    ``zoo`` has one member, a VAE or InfoGAN; ``images [1, h, w, c]``, ``importance [d, 5]``.
    """
    reach = _REACH[zoo.config.method.trained[0]]
    moved = traversals(zoo, images, values=np.linspace(-reach, reach, _COLUMNS))[0, 0]
    importance = np.nan_to_num(importance)
    factor_of_code = importance.argmax(axis=1)
    order = np.lexsort((-importance.max(axis=1), factor_of_code))
    return plots.image_grid(moved[order], [f"c{code} {SPACE.names[factor_of_code[code]]}" for code in order])


def write_figures(study: Study, store: Store, members: Sequence[Member]) -> None:
    """Figures 2 and 4, and 3, 5 and 6 of every member, in the folder ``figures`` of the study."""
    folder = store.root / "figures"
    folder.mkdir(exist_ok=True)

    def write(name: str, figure: Figure) -> None:
        publish(folder / f"{name}.png", png(figure), replace=True)

    config, key = study.trainings[0].config, jax.random.key(study.sampling.seed)
    _, render = DATASETS[config.data].open(config.data, config.source)
    write("figure_2", samples(render, key))
    write("figure_4", left_out(render, key))
    image = np.asarray(render(SPACE.sample(key, 1)))
    for member in members:
        scores, arrays, zoo = (
            scores_of(store, member),
            store.arrays("encode", member.encode),
            member_zoo(study, store, member),
        )
        name = f"{name_of(member.label)}_{member.label['seed']}"
        importances_by_regressor = {
            regressor: np.array(scores[regressor]["importance"], float) for regressor in REGRESSORS.values()
        }
        for regressor, importance in importances_by_regressor.items():
            write(f"figure_3_{regressor}_{name}", importances(importance))
        importance = importances_by_regressor["forest"]
        write(f"figure_5_{name}", factors_against_codes(arrays["mean"], arrays["factors"], importance))
        if zoo.config.method.trained[0] in _REACH and decodes(zoo.config.method):
            write(f"figure_6_{name}", ordered_traversals(zoo, image, importance))


def _sheet(render, factors, rows: int) -> Figure:
    images = np.asarray(render(jnp.asarray(factors)), np.float32)
    return plots.image_grid(images.reshape(rows, _COLUMNS, *images.shape[1:]))
