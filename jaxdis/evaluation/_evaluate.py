"""The ways in: scores of many members by many metrics, one relation, and scores during a training."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxdis._core.arrays import as_one_array
from jaxdis._core.display import Progress
from jaxdis._core.options import Count, checked_value, look_up, names_of, shown
from jaxdis._core.precision import single_precision
from jaxdis._core.spec import Spec
from jaxdis.evaluation._costs import OnMemory
from jaxdis.evaluation._member import roles_of
from jaxdis.evaluation._relation_parts import joined_relations
from jaxdis.evaluation._request import Request
from jaxdis.evaluation._run import numbered, run
from jaxdis.evaluation._scores import Scores
from jaxdis.factors import Factors
from jaxdis.metrics import Blend
from jaxdis.metrics._metric import apply
from jaxdis.metrics._plan import plan_of
from jaxdis.relations import RELATIONS, Relation
from jaxdis.relations._relation import candidates
from jaxdis.scores import SCORES


@single_precision
def evaluate(
    codes,
    factors,
    metrics: str | Sequence | Mapping = "standard",
    key: PRNGKeyArray | int | None = None,
    *,
    test=None,
    validation=None,
    weights=None,
    variances=None,
    active=None,
    groups=None,
    batch_size: int | None = None,
    devices: Sequence[jax.Device] | None = None,
    numbers: Sequence[int] | None = None,
    bootstrap: int = 0,
    null: int | str | tuple[str, int] = 0,
    progress: Progress = False,
    arrived: Callable[[Scores], None] | None = None,
    members=None,
    ragged: bool = False,
    preset: str | None = None,
    on_memory: OnMemory = "refuse",
    deterministic: bool = False,
    store: str | os.PathLike | None = None,
) -> Scores:
    """Score one representation, or every member of a zoo, with the given metrics.

    Args:
      codes: ``[n, d]``, or ``[m, n, d]`` for a zoo of ``m`` members on the same samples; usually posterior means. NumPy
        (also memory-mapped), JAX, DLPack (torch), or sparse ``[n, d]`` (SciPy, BCOO), which are made dense. Beyond 67
        million numbers, metrics that take codes one by one read blocks (``numpy.load(path, mmap_mode="r")`` then leaves
        the codes on disk).
      factors: :class:`Factors`, or class numbers ``[n, k]``. If codes have as many samples as the table read by
        :meth:`Factors.from_table` has rows, the rows that it kept are taken. If factors lack values
        (``missing="each"``), each is scored on the samples that have it, which compiles a program for every pattern in
        which values are missing; metrics that need all of a sample's factors are refused.
      metrics: ``"standard"``: MIG, modularity, SAP, MCC, explicitness and DCI by forests, less those that need classes
        where all factors are continuous; ``"all"``; a name; names (``METRICS`` lists them); or a mapping from column
        names to metrics: ``{"mig_30": METRICS["mig"].with_options(bins=30)}``. Columns are returned in this order.
      key: PRNG key for stochastic metrics, or a seed: ``jax.random.key(0)`` and 0 are the same, and the default.
      test: held-out ``(codes, factors)`` in the same shapes. When None, metrics that need them split the samples 2 : 1
        by the key, in the same way for all members.
      validation: other samples, ``(codes, factors)`` in the same shapes, on which metrics choose an option that was
        given several values, such as ``penalty`` in ``dci_lasso`` and ``depth`` in ``dci_forest``. Required by such
        metrics; others do not read them. :func:`relate` returns what is chosen.
      weights: ``[n]`` ≥ 0, one per sample. Refused if a metric cannot weight samples.
      variances: posterior variances, shaped like codes. Metrics that sample codes read them. Without them ``rmig``,
        ``jemmig`` and sampled representations take each code as it is; ``unibound``, ``sepin`` and its kin assume a
        deviation of ``noise`` times each code's own, and say so in a note. Other metrics read only the codes.
      active: which codes are scored, ``[d]`` or ``[m, d]``; all when None.
      groups: which samples belong together, ``[n]`` whole numbers or text, such as each frame's episode, each trial's
        session, or each copy's original. Splits, folds inside metrics, bootstrap replicates and
        permutations then move whole groups. Samples count as independent when None; a note says so if they seem not to
        be, as long as they are in order.
      batch_size: members computed at once per device; chosen by backend and memory when None.
      devices: when None, one per member from ``jax.devices()``. On CPU, given devices are all used, so that zoos large
        and small share a program.
      numbers: the members' integer ids, ``[m]``, folded into each member's random key; 0 … m − 1 when None.
      bootstrap: how many replicates to draw for :meth:`Scores.error` and :meth:`Scores.interval`, each of which costs
        an evaluation. All members share the drawn samples, so that differences between members are more certain than
        each score. Stochastic metrics draw new random numbers in every replicate: their own noise is part of the error.
      null: how many permutations to draw for :meth:`Scores.null`, :meth:`Scores.above_null` and :meth:`Scores.p_value`,
        each of which costs an evaluation: what the same codes score if samples get other samples' factors, the same
        permutation for all factors and members. The best among 65,536 codes that are noise is far from 0; this says how
        far. With ``groups``, whole groups exchange their factors. ``("shift", 100)`` turns the factors around in
        time, within each group if there are any, 100 times: for stationary series whose samples are in order. Where
        signals drift without end, shifts find relations that are none; permute whole sessions there (Harris 2020).
        Nulls are scored in the same batches and blocks as the scores, without replicates: ``bootstrap`` says how sure a
        score is, ``null`` what it would be by chance. Metrics that read codes alone have none; weights and factors that
        lack values are refused.
      progress: True draws a bar over metrics and members on a terminal or in a notebook; a function is called with how
        many members are finished, and how many there are, after every chunk; ``null`` counts them again and again.
      arrived: called with the scores by some metrics for a chunk's members as soon as they are computed. Metrics that
        share what they compute are compiled together, apart from the others, quick ones first.
      members: what is known about the members, for :attr:`Scores.members`: names, a dict for each (such as a zoo's
        labels), or columns in a mapping or a data frame, where ``member`` holds the names. They are numbered when None.
      preset: another library, whose numbers the metrics reproduce by their options: ``"disentanglement_lib"``,
        ``"disent"``, ``"carbonneau"``, ``"latte"``, ``"do2020"`` or ``"drvi"``; all its metrics, or those named. drvi's
        has a column for each score and relation, and asks for a code per class: :meth:`Factors.one_hot`.
      ragged: whether ``codes`` is a list of arrays ``[n, d]``, one per member, that differ in width, and likewise
        ``variances`` and the codes in ``test`` and ``validation``; :func:`jaxdis.stack` makes them one array.
      on_memory: what happens to a metric that needs more memory than is free on the host (within a container's limits)
        or on the device, by a formula for each metric. ``"refuse"`` raises an error before
        anything is computed; ``"skip"`` computes the others, its columns are NaN, and :attr:`Scores.notes` says why. An
        evaluation that will take more than a minute is announced by the logger ``jaxdis``.
      deterministic: whether scores must be the same bits in every run on a GPU. Some metrics add numbers there in an
        order that differs between runs, and with it the last digits. Other forms take longer: boosted trees take an
        estimated 70 ms a member instead of 16 on an H100. CPUs and TPUs always repeat their scores.
      store: a folder that keeps every member's numbers, found by content: its codes, the factors, the metric with its
        options, the key where chance plays a part. Called again, :func:`evaluate` computes what is missing: new or
        changed members, new metrics, other options; a call that was stopped loses half a minute at most. Processes may
        share a folder.

    Returns:
      :class:`Scores`, a mapping from columns to numbers (``[]``, or ``[m]`` for a zoo).

    Raises:
      ValueError: naming the argument, what it needs and what it got.

    A member with non-finite codes is reported by a warning, and its scores are NaN if they read these codes; other
    members are unaffected. A code whose largest value lies beyond 1e-30 … 1e30 is reported, too. Up to
    float32 rounding, no number depends on which other members or metrics are evaluated, on ``batch_size`` or on
    ``devices``.
    """
    request = Request.of(**locals())
    results = run(request, arrived and Scores.arriving(request))
    return Scores.of(request, results)


@single_precision
def blend_table(
    codes,
    factors,
    relations: Sequence[str] | None = None,
    scores: Sequence[str] | None = None,
    key: PRNGKeyArray | int | None = None,
    **arguments,
) -> Scores:
    """Compute every score from every relation; each relation is computed once.

    Args:
      relations: names; all when None.
      scores: names; all when None.
      arguments: passed to :func:`evaluate`.

    Returns:
      :class:`Scores` with columns ``relation/score`` and ``relation/score.field``.

    Reference: Locatello et al. 2020, §6.1 (every matrix under every aggregation). There the MIG aggregation divides any
    matrix by the factor's entropy; here each relation carries its own ceiling.
    """
    relations = names_of("all" if relations is None else relations, RELATIONS, "relation")
    scores = names_of("all" if scores is None else scores, SCORES, "score")
    check_arguments(arguments)
    table = {f"{relation}/{score}": Blend(relation, score) for relation in relations for score in scores}
    return evaluate(codes, factors, table, key, **arguments)


def check_arguments(arguments) -> dict:
    """What is passed on to :func:`evaluate`, by name."""
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise ValueError(f"arguments: must be a mapping of arguments of evaluate, got {shown(arguments)}")
    parameters = inspect.signature(evaluate).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    for name in arguments:
        if name not in names:
            raise ValueError(f"arguments: must have names among {', '.join(names)}, got {shown(name)}")
    return dict(arguments)


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
    pieces, found = request.parts or (((), request.members, request.shared),), []
    for _, members, shared in pieces:
        member, key = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), members), jax.random.fold_in(shared.key, 0)
        roles = roles_of(member, numbered((spec,), shared))
        arguments = roles.train if spec.reads.test else roles.whole, roles.test, member.active
        found.append(_apply_jitted(spec, key, *arguments, validation=roles.validation, offset=member.offset))
    return joined_relations(found, [columns for columns, *_ in pieces]) if request.parts else found[0]


_apply_jitted = jax.jit(apply, static_argnums=0)


class Monitor:
    """Score a validation set's codes, which come in batches, when an epoch ends.

    Batches must come in the factors' order: from a loader that does not shuffle.

    Args:
      factors: for all ``n`` samples, as in :func:`jaxdis.evaluate`.
      metrics, arguments: as :func:`jaxdis.evaluate`.
      every: epochs from one computation to the next; batches from the epochs between are not kept.

    Raises:
      ValueError: as :func:`jaxdis.evaluate`, and for batches that are not ``[b, d]`` or not ``n`` samples in all.

    Example:
      >>> values = np.random.default_rng(0).integers(0, 3, (200, 2))
      >>> monitor, log = jaxdis.Monitor(values, ["mig", "mcc"], every=2), []
      >>> for epoch in range(4):
      ...     for batch in np.split(values.astype(np.float32), 4):
      ...         monitor.update(batch)  # the codes of a batch
      ...     if (scores := monitor.compute()) is not None:
      ...         log.append(scores.to_dict(prefix="val/"))  # or wandb.log(…)
      >>> len(log), list(log[0])
      (2, ['val/mig', 'val/mcc'])

    With Lightning::

      class Model(lightning.LightningModule):
          def on_fit_start(self):
              self.monitor = jaxdis.Monitor(validation_factors, ["mig", "mcc"], every=10)

          def validation_step(self, batch, batch_idx):
              self.monitor.update(self.encode(batch).detach().cpu())

          def on_validation_epoch_end(self):
              if (scores := self.monitor.compute()) is not None:
                  self.log_dict(scores.to_dict(prefix="val/"))
    """

    def __init__(
        self, factors, metrics: str | Sequence | Mapping = "standard", key=None, *, every: int = 1, **arguments
    ):
        self.factors = Factors.checked(factors)
        plan_of(metrics)  # raises now, not after an epoch
        self._arguments = {"metrics": metrics, "key": key, **check_arguments(arguments)}
        self._every = checked_value("every", Count, every)
        self._epochs = 0
        self._batches: list[np.ndarray] = []

    @property
    def due(self) -> bool:
        """Whether this epoch is scored, so that its codes are needed."""
        return (self._epochs + 1) % self._every == 0

    def update(self, codes) -> None:
        """Add a batch's codes ``[b, d]``: NumPy, JAX or DLPack (torch)."""
        if not self.due:
            return
        batch = as_one_array(codes, "codes")
        widths = {batch.shape[-1], *(each.shape[1] for each in self._batches)} if batch.ndim else set()
        if batch.ndim != 2 or len(widths) != 1:
            needed = f"[b, {self._batches[0].shape[1]}]" if self._batches else "[b, d]"
            raise ValueError(f"codes: must have shape {needed} (samples, codes), got {batch.shape}")
        self._batches.append(np.array(batch))  # the next batch may be written into the same memory

    def compute(self) -> Scores | None:
        """Score this epoch's codes, and begin the next; None for an epoch that is not due."""
        batches, due = self._batches, self.due
        self._batches, self._epochs = [], self._epochs + 1
        if not due:
            return None
        count = sum(map(len, batches))
        if count not in (self.factors.num_samples, self.factors.num_rows):
            raise ValueError(
                f"codes: must be {self.factors.num_samples} samples in all, got {count}; call update first"
            )
        return evaluate(np.concatenate(batches), self.factors, **self._arguments)
