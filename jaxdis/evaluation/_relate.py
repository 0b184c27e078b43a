"""One relation from one representation."""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from jaxdis._core.lookup import look_up
from jaxdis._core.precision import single_precision
from jaxdis._core.spec import Spec
from jaxdis.evaluation._member import MemberCodes, Shared, roles_of
from jaxdis.evaluation._missing_values import joined_relations
from jaxdis.evaluation._request import Request
from jaxdis.evaluation._run import numbered
from jaxdis.metrics import Blend
from jaxdis.metrics._metric import apply
from jaxdis.relations import RELATIONS, Relation
from jaxdis.relations._samples import candidates


@single_precision
def relate(
    codes,
    factors,
    relation: str | Spec,
    key: PRNGKeyArray | int | None = None,
    *,
    test=None,
    validation=None,
    weights=None,
    variances=None,
    active=None,
    groups=None,
) -> Relation:
    """Compute one relation, by name (``RELATIONS`` lists them) or as a spec with options.

    Arguments and errors are as in :func:`evaluate`, with codes and variances ``[n, d]`` and ``active [d]``. An argument
    that the relation does not read is refused, except for ``groups``, which holds out whole groups if it reads held-out
    samples. The result's field ``chosen`` holds the option values that were chosen
    on validation samples. ``mutual_information_sampled`` samples only if it is given ``variances``: otherwise it takes
    each code as it is, which for posterior means is the information in the mean, not in the sampled code.
    """
    spec = relation if isinstance(relation, Spec) else look_up(relation, RELATIONS, "relation")
    arrays = {"test": test, "validation": validation, "weights": weights, "variances": variances, "active": active}
    for name, value in arrays.items():
        if value is not None and not getattr(spec.reads, name):
            raise ValueError(f"{name}: needs a relation that reads it, got {spec}")
    if spec.needs_validation and validation is None:
        candidates(spec.traits.chooses, spec.all_options[spec.traits.chooses], None)  # says among which values
    request = Request.of(codes, factors, key=key, plan=((spec.name, Blend(spec, "matching")),), **arrays, groups=groups)
    if not request.single:
        raise ValueError(f"codes: must have shape [n, d] (one member), got {request.members.codes.shape}")
    pieces = request.parts or (((), request.members, request.shared),)
    found = [_related(spec, members, numbered((spec,), shared)) for _, members, shared in pieces]
    return joined_relations(found, [columns for columns, *_ in pieces]) if request.parts else found[0]


def _related(spec: Spec, members: MemberCodes, shared: Shared) -> Relation:
    member, key = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), members), jax.random.fold_in(shared.key, 0)
    roles = roles_of(member, shared)
    sample = roles.train if spec.reads.test else roles.whole
    return _apply_jitted(
        spec, key, sample, roles.test, member.active, validation=roles.validation, offset=member.offset
    )


_apply_jitted = jax.jit(apply, static_argnums=0)
