"""One member of a report in detail: what its codes encode, and how they change an image."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis import plots
from jaxdis.data import DATASETS
from jaxdis.data._contact_sheet import traversals as factor_traversals
from jaxdis.evaluation._relate import relate
from jaxdis.models._encoding import decodes
from jaxdis.models._images import Images
from jaxdis.models._traversal import reconstructions, traversals
from jaxdis.scores import independent_groups
from jaxdis.study._cells import Member
from jaxdis.study._definition import Study
from jaxdis.study._make import member_zoo, samples_of
from jaxdis.study._store import Store
from jaxdis.study.report._html import folded, image, side_by_side

# Values of a traversal.
STEPS = 9


_draw = jax.jit(lambda images, rows, key: images(rows, key))


class _Closer:
    """A member's zoo, samples and codes, and the pictures made of them."""

    def __init__(self, study: Study, store: Store, member: Member):
        training = study.trainings[member.training]
        self.member, self.data = member, training.config.data
        self.zoo = member_zoo(study, store, member)
        self.factors, _, _, self.render = samples_of(training, study.sampling)
        self.arrays = store.arrays("encode", member.encode)
        self.relation = relate(self.arrays["mean"], self.factors, "mutual_information")
        self.shares = np.asarray(self.relation.strength) / np.asarray(self.relation.ceiling)

    def at_a_glance(self) -> str:
        """How each code changes an image, next to what it encodes."""
        encodes = (
            "<p>The larger a square, the more a code (row) tells about a factor (column): mutual information as a share"
            " of the factor's entropy.</p>" + image(plots.hinton(self.shares, self.factors.names), "Hinton diagram")
        )
        walked = self._traversals()
        if not walked:
            return encodes
        return side_by_side(f"<div>{walked}</div>", f"<div>{encodes}</div>")

    def at_length(self) -> str:
        """The numbers behind the diagram, independent groups, reconstructions and the data."""
        groups = jax.jit(independent_groups)(self.relation)
        codes = [f"code {i}" for i in range(len(self.shares))]
        parts = [
            "<h3>Mutual information as a share of entropy</h3>",
            image(plots.heat_map(self.shares, codes, self.factors.names, most=1.0), "shares"),
            "<h3>Independent groups</h3>",
            image(plots.groups_curve(*map(np.asarray, (groups.threshold, groups.groups, groups.discovered))), "groups"),
            "<p>Two factors are joined at the threshold at which one code encodes both.</p>",
            image(
                plots.dendrogram(*map(np.asarray, (groups.merge_pair, groups.merge_threshold)), self.factors.names),
                "joins",
            ),
        ]
        if decodes(self.zoo.config.method):
            pairs = reconstructions(self.zoo, self._images(10))[0].transpose(1, 0, 2, 3, 4)
            sheet = image(plots.image_grid(pairs, ("image", "made")), "reconstructions")
            parts.append(f"<h3>Images and what the member makes of them</h3>{sheet}")
        if DATASETS[self.data].scenes is None:
            parts.append(f"<h3>The data: each factor traversed</h3>{self._sheet()}")
        return folded("More about this member", "".join(parts))

    def _traversals(self) -> str:
        if not decodes(self.zoo.config.method):
            return ""
        has_prior = self.zoo.config.method.has_prior
        shown = self._images(1 if has_prior else 10)
        walked = traversals(self.zoo, shown, num_values=STEPS, relative=not has_prior)[0, 0]
        unit = "" if has_prior else " standard deviations"
        labels = [f"code {i}" for i in range(len(walked))]
        return f"<p>Each row changes one code from −2 to 2{unit} and keeps the others.</p>" + image(
            plots.image_grid(walked, labels), "latent traversals"
        )

    def _images(self, count: int) -> np.ndarray:
        return np.asarray(_draw(Images.of(self.render), self.factors.values[:count], jax.random.key(0)))

    def _sheet(self) -> str:
        space = DATASETS[self.data].space
        rows = jnp.asarray(factor_traversals(space, jax.random.key(0), STEPS))
        sheet = np.asarray(_draw(Images.of(self.render), rows, jax.random.key(0)))
        return image(plots.image_grid(sheet, space.names), "the data")


def closer(study: Study, store: Store, member: Member) -> str:
    """A member's pictures: what is seen at a glance, and more to unfold."""
    view = _Closer(study, store, member)
    return view.at_a_glance() + view.at_length()
