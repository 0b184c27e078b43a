"""Multinomial logistic regression of every factor at once, with a penalty that is given or cross-validated."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis._core.arrays import safe_divide, stable_order
from jaxdis._core.factorizations import reflected, reflections
from jaxdis._core.loops import repeat
from jaxdis._core.precision import exact_products
from jaxdis._learners.classes import Groups
from jaxdis._learners.logistic_descent import STILL, descend
from jaxdis._learners.logistic_hessian import is_wide
from jaxdis._learners.logistic_problem import Point, Problem, from_largest, penalties, problem_of

# The most Newton steps, and the most products with the Hessian in each.
STEPS = 100
PRODUCTS = 100
# With at least this many blocks, and few codes, descent begins on this share of them, until a step would gain this
# share.
MANY_BLOCKS = 5
FEW = 0.2
STILL_OF_FEW = 1e-2
# Descent on all samples starts elsewhere than on few of them where that is worse than this share.
MARGIN = 1e-3
# scikit-learn's ``Cs=10``.
INVERSE_PENALTIES = tuple(float(f"{10 ** (-4 + 8 * i / 9):.6g}") for i in range(10))


class Logistic(NamedTuple):
    """``coefficients [d, s]`` and ``intercepts [s]``; ``s`` runs over all factors' values."""

    coefficients: Float[Array, "d s"]
    intercepts: Float[Array, " s"]

    @classmethod
    def of(cls, parameters: Float[Array, "s e"]) -> "Logistic":
        """The model with these coefficients and, in the last column, intercepts."""
        return cls(parameters[:, :-1].T, parameters[:, -1])


@exact_products
def fit_logistic(
    codes: Float[Array, "n d"],
    classes: Int[Array, "n k"],
    sizes: tuple[int, ...],
    *,
    inverse_penalty: float | Float[Array, ""] | Float[Array, " k"] = 1.0,
    weights: Float[Array, " n"] | Float[Array, "n k"] | None = None,
    steps: int | Int[Array, ""] = STEPS,
) -> Logistic:
    """Minimize ``inverse_penalty · Σ_n w_n cross-entropy + ½ ‖W‖²`` for each factor; intercepts are not penalized.

    ``inverse_penalty`` may differ between factors (infinity means no penalty), and so may ``weights``. This is
    scikit-learn's ``LogisticRegression(C=inverse_penalty)``. All factors share one program, in which the logits ``[n,
    s]`` are a single product. The method is a truncated Newton method: conjugate gradients solve for each step, which
    is halved until the objective falls. They are preconditioned by the Hessian's blocks that belong to single classes,
    plus its restriction to the contrast along which a factor's class means differ most; near the optimum, by those from
    an earlier step. Each factor has its own step sizes and stops by itself, after ``steps`` at the latest. If there are
    many samples, a fifth gives the point from which descent on all starts.

    With more than 64 codes, quasi-Newton steps of limited memory come first, and mostly suffice; what they have learned
    of the Hessian is the preconditioner. They start from the Hessian along the 128 principal directions of the codes,
    where classes are coupled along the first few, and from a mean curvature of each class in all others. With more
    codes than samples, descent is among their ``n`` coordinates in the span of the samples, where the optimum is, and
    from the curvature along each of these.

    Contract:

    - A class that does not occur has probability 0 up to rounding; constant codes get coefficient 0.
    - Each factor has its own objective, and its parameters stay fixed once it has converged. The other factors help to
      decide when preconditioners are renewed, and move the result only within the tolerance that follows.
    - The objective's relative distance from its optimum is at most 1e-6 for inverse penalties up to 100, and mostly
      below 2e-5 without a penalty where the overlap of classes keeps parameters finite. Areas under the ROC curve agree
      to 1e-4 for inverse penalties from 0.01 to 100 and without a penalty. Among few samples with codes 10⁵ times as
      large as the others, rounding may end descent as much as 20 % above the optimum.
    - With more than 64 codes, the objective may lie 3e-8 nats per sample above this, and with an inverse penalty of 100
      and codes whose scales differ by 1,000, a share of 5e-4.
    - Separable classes without a penalty have no optimum: descent ends where a step is expected to gain less than
      ``STILL_PER_SAMPLE`` nats per sample. Probabilities there are stable, coefficients are not.
    - Deterministic.

    Reference: Nocedal & Wright 2006, algorithm 7.1; Hager & Zhang 2005, §2 (when a step is accepted).
    """
    n, d = codes.shape
    if d > n:
        # An orthonormal basis of the span changes neither products nor lengths. Coordinates come from a decomposition
        # of the codes, not of their Gram matrix, in which large codes would drown small ones. The basis stays in the
        # form of reflections: to write it out takes as long as to find it.
        vectors, scales = reflections(codes.T)
        arguments = {"inverse_penalty": inverse_penalty, "weights": weights, "steps": steps}
        model = fit_logistic(jnp.tril(vectors[:, :n]), classes, sizes, **arguments)
        coefficients = jnp.pad(model.coefficients, ((0, d - n), (0, 0)))
        return model._replace(coefficients=reflected(vectors, scales, coefficients))
    problem = problem_of(codes, classes, sizes, inverse_penalty, weights)
    blocks = len(problem.inputs)
    stages = [(blocks, STILL)]
    if blocks >= MANY_BLOCKS and not is_wide(problem):
        stages = [(max(1, round(FEW * blocks)), STILL_OF_FEW), *stages]
    count, still = (np.array(column) for column in zip(*stages, strict=True))

    def stage(parameters, settings):
        count, still = settings
        share = count.astype(jnp.float32) / blocks
        subproblem = problem._replace(count=count, penalty=share * problem.penalty)
        return descend(subproblem, _no_worse(subproblem, parameters), steps, PRODUCTS, still=still).parameters, None

    settings = jnp.asarray(count, jnp.int32), jnp.asarray(still, jnp.float32)
    return Logistic.of(jax.lax.scan(stage, problem.start(), settings)[0])


def _no_worse(problem: Problem, parameters: Float[Array, "s e"]) -> Point:
    """The point at the parameters; a factor for which equal probabilities are better starts from these."""
    start, occurs = problem.start(), problem.occurs.astype(jnp.float32)
    at_start = problem.weight() * jnp.log(occurs @ problem.groups.member)

    def attempt(state):
        number, parameters, _, _ = state
        point = problem.at(parameters)
        worse = problem.value(point) > (1 + MARGIN) * at_start
        return number + 1, jnp.where(problem.spread(worse) > 0, start, parameters), point, worse.any()

    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(problem.at, parameters))
    begin = jnp.int32(0), parameters, nothing, jnp.array(True)
    return repeat("no_worse", lambda state: (state[0] < 2) & state[3], attempt, begin)[2]


@exact_products
def log_probabilities(model: Logistic, codes: Float[Array, "n d"], sizes: tuple[int, ...]) -> Float[Array, "n s"]:
    """Every factor's log probability of each value."""
    member = Groups.of(sizes).member
    logits = model.coefficients.T @ codes.T + model.intercepts[:, None]  # samples last: they fill vector registers
    shifted, _ = from_largest(logits, Groups.of(sizes))
    return (shifted - member @ jnp.log(member.T @ jnp.exp(shifted))).T


def predict(model: Logistic, codes: Float[Array, "n d"], sizes: tuple[int, ...]) -> Int[Array, "n k"]:
    """The most probable value of every factor."""
    logits = codes @ model.coefficients + model.intercepts[None, :]
    best = [jnp.argmax(logits[:, part], axis=1) for part in Groups.of(sizes).slices()]
    return jnp.stack(best, axis=1).astype(jnp.int32)


class Chosen(NamedTuple):
    """``model``; ``inverse_penalty [k]``, chosen for each factor; ``accuracy [c, k]`` of each, mean over folds."""

    model: Logistic
    inverse_penalty: Float[Array, " k"]
    accuracy: Float[Array, "c k"]


@exact_products
def fit_logistic_validated(
    codes: Float[Array, "n d"],
    classes: Int[Array, "n k"],
    sizes: tuple[int, ...],
    *,
    inverse_penalties: tuple[float, ...] = INVERSE_PENALTIES,
    folds: int = 5,
    steps: int | Int[Array, ""] = STEPS,
    groups: Int[Array, " n"] | None = None,
) -> Chosen:
    """Fit logistic regression to each factor at the inverse penalty with the best cross-validated accuracy.

    On each of ``folds`` unshuffled folds, a model is fitted at every inverse penalty, in ascending order, each fit
    starting from the one before. The inverse penalty with the highest mean accuracy over folds is chosen, the smallest
    one in a tie, and the model is refitted on all samples. This is scikit-learn's
    ``LogisticRegressionCV(Cs=10, cv=KFold(5))``, run to convergence. With fewer samples than folds, there are as many
    folds as samples.

    Contract:

    - No fit of a fold reads the samples that it leaves out, neither as data nor through its starting point.
    - Each fit ends at its optimum, as :func:`~jaxdis._learners.logistic.fit_logistic` does, or after ``steps`` steps.
    - A class that is missing in the training samples of a fold is never predicted there.
    - A single sample gives the smallest inverse penalty. Deterministic.
    - Folds run one after another and skip the blocks of the samples that they leave out.
    - Of samples that belong together, which ``groups`` numbers alike, those in two folds are not left out to judge:
      these are whole groups of one fold, unless no fold has one.

    Reference: Locatello et al. 2020, §4.2.8 and §7 (released code: ``utils.py``).
    """
    n, count = codes.shape[0], min(folds, codes.shape[0])
    if groups is not None:
        rows = stable_order(groups)
        codes, classes, groups = codes[rows], classes[rows], groups[rows]
    # As KFold cuts them: the first n mod folds are one sample longer.
    lengths = np.array([n // count + (i < n % count) for i in range(count)])
    most = int(lengths[0])
    # A row for each fold; the last ones are a sample longer than there are, which has no weight.
    place = (np.cumsum(lengths) - lengths)[:, None] + np.arange(most)
    counted = jnp.asarray(np.arange(most)[None] < lengths[:, None], jnp.float32)
    of_folds = [jnp.take(array, place, axis=0, mode="clip") for array in (codes, classes.astype(jnp.int32))]
    judged = counted
    if groups is not None:  # 1 for the samples in a fold whose group lies in this fold alone
        of_fold = jnp.asarray(np.repeat(np.arange(count, dtype=np.int32), lengths))
        start = of_fold[jnp.searchsorted(groups, groups, side="left")]
        end = of_fold[jnp.searchsorted(groups, groups, side="right") - 1]
        whole = counted * jnp.take((start == end).astype(jnp.float32), place, axis=0, mode="clip")
        judged = jnp.where(whole.sum() > 0, whole, counted)
    path = jnp.asarray(sorted(inverse_penalties), jnp.float32)

    flat = [array.reshape(count * most, -1) for array in of_folds]
    full = problem_of(*flat, sizes, 1.0, counted.reshape(-1), parts=count)
    blocks, d = len(full.inputs) // count, codes.shape[1]
    # How often each class occurs in each fold.
    classes_of = (full.class_weights * full.hot).reshape(count, blocks, sum(sizes), -1).sum(axis=(1, 3))

    def accuracies(fold):
        number, judged, left_out, true = fold
        occurs = classes_of.sum(axis=0) > classes_of[number]
        problem = full._replace(first=(number + 1) * blocks, count=jnp.int32((count - 1) * blocks), occurs=occurs)

        def one_penalty(parameters, inverse_penalty):
            penalized = problem._replace(penalty=penalties(inverse_penalty, occurs, full.groups, d))
            parameters = descend(penalized, penalized.at(parameters), steps, PRODUCTS).parameters
            right = predict(Logistic.of(parameters), left_out, sizes) == true
            return parameters, safe_divide(judged @ right.astype(jnp.float32), judged.sum())

        return jax.lax.scan(one_penalty, problem.start(), path)[1]

    by_fold = jax.lax.map(accuracies, (jnp.arange(count, dtype=jnp.int32), judged, *of_folds))
    accuracy = by_fold.sum(axis=0) / (judged.sum(axis=1) > 0).sum(dtype=jnp.float32)
    # Means of the same folds' shares in another order may differ by rounding: those are equals.
    best = path[jnp.argmax(accuracy > accuracy.max(axis=0, keepdims=True) - 1e-6, axis=0)]
    model = fit_logistic(codes, classes, sizes, inverse_penalty=best, steps=steps)
    return Chosen(model, best, accuracy)
