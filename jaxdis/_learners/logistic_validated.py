"""Multinomial logistic regression whose penalty is chosen by cross-validation, for every factor at once."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis._core.arrays import safe_divide, stable_order
from jaxdis._core.precision import exact_products
from jaxdis._learners.logistic import PRODUCTS, STEPS, Logistic, fit_logistic, predict
from jaxdis._learners.logistic_descent import descend
from jaxdis._learners.logistic_problem import penalties, problem_of

# scikit-learn's ``Cs=10``.
INVERSE_PENALTIES = tuple(float(f"{10 ** (-4 + 8 * i / 9):.6g}") for i in range(10))


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
    judged = counted if groups is None else _of_whole_groups(groups, lengths, place, counted)
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


def _of_whole_groups(groups: Int[Array, " n"], lengths: np.ndarray, place: np.ndarray, counted) -> Float[Array, "f l"]:
    """1 for the samples in a fold whose group lies in this fold alone; groups are sorted."""
    fold = jnp.asarray(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths))
    first = fold[jnp.searchsorted(groups, groups, side="left")]
    last = fold[jnp.searchsorted(groups, groups, side="right") - 1]
    whole = counted * jnp.take((first == last).astype(jnp.float32), place, axis=0, mode="clip")
    return jnp.where(whole.sum() > 0, whole, counted)
