"""One relation from one representation."""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from jaxdis._core.lookup import look_up
from jaxdis._core.precision import single_precision
from jaxdis._core.spec import Spec
from jaxdis.evaluation._each import joined_relations, lack_values, parts_of
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._left_out import check_circular
from jaxdis.evaluation._member import MemberCodes, Shared, samples_of, train_and_test, validation_of
from jaxdis.evaluation._numbering import numbered
from jaxdis.factors import Factors
from jaxdis.metrics._metric import apply
from jaxdis.metrics._plan import check_neighbors
from jaxdis.relations import RELATIONS, Relation


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
    arrays["groups"] = groups
    if isinstance(factors, Factors):
        check_circular({spec.name: spec}, factors)
    if lack_values(factors, test, validation):
        parts, _ = parts_of(codes, factors, **arrays)
        relations = [relate(part.codes, part.factors, spec, key, **part.arguments) for part in parts]
        return joined_relations(relations, parts)
    members, shared, single = bind(codes, factors, key, **arrays, split=spec.reads.test)
    if not single:
        raise ValueError(f"codes: must have shape [n, d] (one member), got {members.codes.shape}")
    check_neighbors(spec.all_options, spec.name, shared.factors.num_samples)
    return _relate(spec, jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), members), numbered((spec,), shared))


def _relate(spec: Spec, member: MemberCodes, shared: Shared) -> Relation:
    key = jax.random.fold_in(shared.key, 0)
    all_samples = samples_of(member, shared)
    train, held_out = train_and_test(all_samples, member, shared)
    sample = train if spec.reads.test else all_samples
    return _apply_jitted(
        spec, key, sample, held_out, member.active, validation=validation_of(member, shared), offset=member.offset
    )


_apply_jitted = jax.jit(apply, static_argnums=0)
