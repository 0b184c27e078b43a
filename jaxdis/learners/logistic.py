"""Multinomial logistic regression of every factor at once, to its regularised optimum, and areas under ROC curves."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from jaxdis.arrays import ordered_keys, safe_divide

# Steps remembered by the quasi-Newton method, and how many it takes: the gradient then is some 1e-3 of its start.
MEMORY = 6
STEPS = 40
# Samples whose logits are held at one time: the fastest of 250, 500 and 1,000 on a CPU.
ROWS = 500
# Longer runs of equal scores are counted by cumulative sums, shorter ones by comparing neighbours.
FEW_TIES = 4
# Beyond this a float32 exponential overflows; probabilities there are 0 or 1 to 34 digits.
LARGEST_LOGIT = 80.0
# The intercept of a class that does not occur: no probability, and no gradient.
ABSENT = -60.0


# scikit-learn's ``Cs=10``, and how many steps each takes from the solution before.
STRENGTHS = tuple(float(f"{10 ** (-4 + 8 * i / 9):.6g}") for i in range(10))
PATH_STEPS = 8


class Logistic(NamedTuple):
    """``coefficients [d, s]`` and ``intercepts [s]``; ``s`` runs over the values of all factors."""

    coefficients: Float[Array, "d s"]
    intercepts: Float[Array, " s"]


class Groups(NamedTuple):
    """Which of the ``s`` columns belong to which of ``k`` factors, as the 0/1 matrix ``member [s, k]``."""

    member: Float[np.ndarray, "s k"]
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, sizes: tuple[int, ...]) -> "Groups":
        member = np.repeat(np.eye(len(sizes), dtype=np.float32), sizes, axis=0)
        return cls(member, tuple(int(start) for start in np.cumsum([0, *sizes[:-1]])), tuple(sizes))

    def slices(self) -> list[slice]:
        return [slice(start, start + size) for start, size in zip(self.offsets, self.sizes, strict=True)]


def one_hot_of(classes: Int[Array, "n k"], sizes: tuple[int, ...]) -> Float[Array, "n s"]:
    """Each factor's class as a block of 0/1 columns."""
    return jnp.concatenate([jax.nn.one_hot(classes[:, j], size) for j, size in enumerate(sizes)], axis=1)


def fit_logistic(
    codes: Float[Array, "n d"],
    classes: Int[Array, "n k"],
    sizes: tuple[int, ...],
    *,
    strength: float | Float[Array, ""] | Float[Array, " k"] = 1.0,
    weights: Float[Array, " n"] | Float[Array, "n k"] | None = None,
    steps: int = STEPS,
) -> Logistic:
    """Minimise ``strength · Σ_n w_n cross-entropy + ½ ‖W‖²`` for each factor; intercepts are free.

    ``strength`` may differ between factors (infinity: no penalty), and so may ``weights``. That is scikit-learn's
    ``LogisticRegression(C=strength)``. All factors are one program: logits ``[n, s]``
    are a single product. The method is L-BFGS with Böhning's bound on the curvature as preconditioner, a full step at a
    time and without line search; a factor whose objective rises goes back and forgets its memory, which makes the next
    step one of the bound's own, and that never rises.

    Contract: a class that does not occur gets no probability worth naming; constant codes get coefficient 0;
    deterministic. Agrees with the optimum to about 1e-3 in coefficients and 1e-4 in areas under the ROC curve.

    Reference: Böhning 1992 (the bound); Nocedal & Wright 2006, algorithm 7.4.
    """
    return _descend(codes, classes, sizes, strength, weights, None, steps).model


class _Descent(NamedTuple):
    """``model``; the last ``moves [j, d + 1, s]`` and the ``turns`` of the gradient of the likelihood alone."""

    model: Logistic
    moves: Float[Array, "j e s"]
    turns: Float[Array, "j e s"]


def _descend(codes, classes, sizes, strength, weights, start: _Descent | None, steps: int) -> _Descent:
    """:func:`fit_logistic`, from where another descent of the same likelihood ended and with what it learned."""
    n, d = codes.shape
    groups = Groups.of(sizes)
    member = jnp.asarray(groups.member)
    hot = one_hot_of(classes, sizes)
    weights = jnp.ones(n) if weights is None else weights
    by_factor = weights.ndim == 2
    # [n, 1] or one column for each of the s logits, and the same for the k likelihoods.
    weigh_columns, weigh_factors = (weights @ member.T, weights) if by_factor else (weights[:, None], weights[:, None])
    inputs = jnp.concatenate([codes, jnp.ones((n, 1))], axis=1)
    # The objective divided by the strength: cross-entropy plus this much of each coefficient's square. Two classes
    # share one vector in scikit-learn, ours are its two halves: twice the penalty makes them equal.
    occurs = (weigh_columns * hot).sum(axis=0) > 0
    double = jnp.where(occurs.astype(jnp.float32) @ member == 2, 2.0, 1.0) @ member.T
    each = member @ jnp.broadcast_to(1 / jnp.asarray(strength, jnp.float32), (len(sizes),))
    penalty = jnp.concatenate([jnp.ones(d), jnp.zeros(1)])[:, None] * (each * double)[None, :]
    if by_factor:  # a bound of its own for each factor
        products = jnp.einsum("nd,nk,ne->kde", inputs, weights, inputs)
        grams = jax.vmap(lambda gram, part: _bound(gram, part), (0, 0))(
            products, jnp.stack([penalty[:, part].min(axis=1) for part in groups.slices()])
        )
        inverses = jnp.linalg.inv(grams)

        def precondition(q):
            return jnp.concatenate([inverses[j] @ q[:, part] for j, part in enumerate(groups.slices())], axis=1)
    else:
        factorised = jax.scipy.linalg.cho_factor(_bound(inputs.T @ (weights[:, None] * inputs), penalty.min(axis=1)))

        def precondition(q):
            return jax.scipy.linalg.cho_solve(factorised, q)

    true_columns = classes.astype(jnp.int32) + np.array(groups.offsets, np.int32)[None]
    blocks = tuple(_cut(array, n) for array in (inputs, hot, true_columns, weigh_columns, weigh_factors))

    def of_block(parameters, inputs, hot, true_columns, weigh_columns, weigh_factors):
        logits = jnp.clip(inputs @ parameters, -LARGEST_LOGIT, LARGEST_LOGIT)
        exponentials = jnp.exp(logits)
        normaliser = exponentials @ member
        true = jnp.take_along_axis(logits, true_columns, axis=1, mode="clip")
        error = exponentials * ((1 / normaliser) @ member.T) - hot
        value = (weigh_factors * (jnp.log(normaliser) - true)).sum(axis=0)
        return value, inputs.T @ (weigh_columns * error)

    def objective(parameters):
        def add(sums, block):
            return jax.tree.map(jnp.add, sums, of_block(parameters, *block)), None

        start = jnp.zeros(len(sizes)), jnp.zeros_like(parameters)
        value, gradient = jax.lax.scan(add, start, blocks)[0]
        return value + 0.5 * (penalty * parameters**2).sum(axis=0) @ member, gradient + penalty * parameters

    def dot(a, b):
        return (a * b).sum(axis=0) @ member  # one inner product a factor

    def spread(values):
        return (values @ member.T)[None, :]

    def direction(gradient, moves, turns, rho):
        """The two-loop recursion, newest pair first, every factor by itself."""
        q, alphas = gradient, []
        for j in range(MEMORY):
            alpha = rho[j] * dot(moves[j], q)
            alphas.append(alpha)
            q = q - spread(alpha) * turns[j]
        q = precondition(q)
        curvature = dot(turns[0], precondition(turns[0]))
        scale = jnp.where(rho[0] > 0, safe_divide(dot(moves[0], turns[0]), curvature), 1.0)
        q = spread(scale) * q
        for j in reversed(range(MEMORY)):
            beta = rho[j] * dot(turns[j], q)
            q = q + moves[j] * spread(alphas[j] - beta)
        return q

    def step(_, state):
        parameters, value, gradient, moves, turns, rho = state
        moved = parameters - direction(gradient, moves, turns, rho)
        new_value, new_gradient = objective(moved)
        accepted = new_value <= value + 1e-6 * jnp.abs(value)
        taken = spread(accepted.astype(jnp.float32)) > 0
        move, turn = moved - parameters, new_gradient - gradient
        curvature = dot(move, turn)
        newest = jnp.where(curvature > 1e-12, 1 / jnp.maximum(curvature, 1e-12), 0.0)
        rho = jnp.concatenate([newest[None], rho[:-1]]) * accepted.astype(jnp.float32)[None, :]
        return (
            jnp.where(taken, moved, parameters),
            jnp.where(accepted, new_value, value),
            jnp.where(taken, new_gradient, gradient),
            jnp.concatenate([move[None], moves[:-1]]),
            jnp.concatenate([turn[None], turns[:-1]]),
            rho,
        )

    first = jnp.zeros((d + 1, sum(sizes))).at[-1].set(jnp.where(occurs, 0.0, ABSENT))
    moves = turns = jnp.zeros((MEMORY, *first.shape))
    if start is not None:
        first = jnp.concatenate([start.model.coefficients, start.model.intercepts[None, :]])
        moves, turns = start.moves, start.turns + penalty[None] * start.moves
    curvatures = jax.vmap(dot)(moves, turns)
    rho = jnp.where(curvatures > 1e-12, 1 / jnp.maximum(curvatures, 1e-12), 0.0)
    state = jax.lax.fori_loop(0, steps, step, (first, *objective(first), moves, turns, rho))
    fitted, _, _, moves, turns, _ = state
    return _Descent(Logistic(fitted[:-1], fitted[-1]), moves, turns - penalty[None] * moves)


def _cut(array: Num[Array, "n c"], n: int) -> Num[Array, "b r c"]:
    """Into blocks of samples, whose logits stay in cache; rows of zeros, hence of no weight, fill the last."""
    blocks = -(-n // ROWS)
    rows = -(-n // blocks)
    return jnp.pad(array, ((0, blocks * rows - n), (0, 0))).reshape(blocks, rows, -1)


def _bound(gram: Float[Array, "e e"], penalty: Float[Array, " e"]) -> Float[Array, "e e"]:
    """Böhning's bound on the curvature, made invertible."""
    e = gram.shape[0]
    ridge = 1e-6 * jnp.trace(gram) / e + 1e-12
    return 0.5 * gram + jnp.diag(penalty) + ridge * jnp.eye(e)


class Chosen(NamedTuple):
    """``model``; ``strength [k]``, chosen for each factor; ``accuracy [c, k]``, over folds, of each strength."""

    model: Logistic
    strength: Float[Array, " k"]
    accuracy: Float[Array, "c k"]


def fit_logistic_validated(
    codes: Float[Array, "n d"],
    classes: Int[Array, "n k"],
    sizes: tuple[int, ...],
    *,
    strengths: tuple[float, ...] = STRENGTHS,
    folds: int = 5,
    steps: int = PATH_STEPS,
) -> Chosen:
    """Logistic regression of each factor at the strength that names most held-out samples, refitted on all samples.

    ``folds`` unshuffled folds; on each a path over the strengths, from the weakest to the strongest, each started at
    the solution before; the mean of the folds' accuracies decides, the smaller strength among equals. That is
    scikit-learn's ``LogisticRegressionCV(Cs=10, cv=KFold(5))``. Fewer samples than folds: as many folds as samples.

    Contract: a class that a fold's training samples do not hold is never named there; with a single sample, the
    smallest strength. Deterministic. A fold is one ``[n, s]`` problem with the samples left out weighing nothing, so
    that all folds share one shape; folds run one after the other.

    Reference: Locatello et al. 2020, §4.2.8 and §7 (released code: ``utils.py``).
    """
    n, count = codes.shape[0], min(folds, codes.shape[0])
    # As KFold cuts them: the first n mod folds are one sample longer.
    fold = jnp.asarray(np.repeat(np.arange(count), [n // count + (i < n % count) for i in range(count)]))
    order = np.argsort(np.array(strengths))
    path = jnp.asarray(np.array(strengths, np.float32)[order])

    seen = one_hot_of(classes, sizes)

    def one_fold(number):
        weights = (fold != number).astype(jnp.float32)
        judged = 1 - weights
        first = jnp.where(weights @ seen > 0, 0.0, ABSENT)

        def one_strength(state, strength):
            state = _descend(codes, classes, sizes, strength, weights, state, steps)
            return state, judged @ _right(state.model, codes, seen, sizes) / judged.sum()

        memory = jnp.zeros((MEMORY, codes.shape[1] + 1, sum(sizes)))
        start = _Descent(Logistic(jnp.zeros((codes.shape[1], sum(sizes))), first), memory, memory)
        return jax.lax.scan(one_strength, start, path)[1]

    accuracy = jax.lax.map(one_fold, jnp.arange(count)).mean(axis=0)
    # Means of the same folds' shares in another order may differ by rounding: those are equals.
    chosen = path[jnp.argmax(accuracy > accuracy.max(axis=0, keepdims=True) - 1e-6, axis=0)]
    return Chosen(fit_logistic(codes, classes, sizes, strength=chosen), chosen, accuracy)


def log_probabilities(model: Logistic, codes: Float[Array, "n d"], sizes: tuple[int, ...]) -> Float[Array, "n s"]:
    """Log probability of every value of every factor."""
    logits = codes @ model.coefficients + model.intercepts[None, :]
    return jnp.concatenate([jax.nn.log_softmax(logits[:, part], axis=1) for part in Groups.of(sizes).slices()], axis=1)


def predict(model: Logistic, codes: Float[Array, "n d"], sizes: tuple[int, ...]) -> Int[Array, "n k"]:
    """The most probable value of every factor."""
    logits = codes @ model.coefficients + model.intercepts[None, :]
    best = [jnp.argmax(logits[:, part], axis=1) for part in Groups.of(sizes).slices()]
    return jnp.stack(best, axis=1).astype(jnp.int32)


def _right(model: Logistic, codes, hot: Float[Array, "n s"], sizes: tuple[int, ...]) -> Float[Array, "n k"]:
    """1 where the true value is (among) the most probable; several times faster on CPU than naming it."""
    logits = codes @ model.coefficients + model.intercepts[None, :]
    parts = Groups.of(sizes).slices()
    largest = jnp.stack([logits[:, part].max(axis=1) for part in parts], axis=1)
    true = jnp.stack([(logits[:, part] * hot[:, part]).sum(axis=1) for part in parts], axis=1)
    return (true >= largest).astype(jnp.float32)


def roc_auc(scores: Float[Array, "c n"], positive: Bool[Array, "c n"]) -> Float[Array, " c"]:
    """Area under the ROC curve of each row, ties sharing the middle; NaN for a row of one class.

    One sort of integer keys, the label in the lowest bit (so that scores are told apart to 2⁻²² of themselves).
    """
    keys = jax.lax.sort((ordered_keys(scores) & ~1) | positive.astype(jnp.int32), dimension=1, is_stable=True)
    label = (keys & 1).astype(jnp.float32)
    score = keys >> 1
    ones, zeros = label.sum(axis=1), (1 - label).sum(axis=1)
    # A positive beats every negative before it: as many as its place, less the positives before it. Of a tie, where
    # negatives come first, that is half a win too many.
    place = jnp.arange(scores.shape[1], dtype=jnp.float32)
    wins = label @ place - ones * (ones - 1) / 2

    def few(_):
        return sum((_ties(score, by) * (1 - label[:, :-by]) * label[:, by:]).sum(axis=1) for by in range(1, FEW_TIES))

    tied = jax.lax.cond(_ties(score, FEW_TIES).any(), lambda _: _tied_pairs(score, label), few, None)
    return jnp.where(ones * zeros > 0, (wins - tied / 2) / jnp.maximum(ones * zeros, 1.0), jnp.nan)


def _ties(score: Int[Array, "c n"], by: int) -> Float[Array, "c m"]:
    """1 where an ordered score equals the one so many places on."""
    return (score[:, by:] == score[:, :-by]).astype(jnp.float32)


def _tied_pairs(score: Int[Array, "c n"], label: Float[Array, "c n"]) -> Float[Array, " c"]:
    """How many pairs of a negative and a positive have one score; scores in order."""
    negatives = jnp.cumsum(1 - label, axis=1)
    edge = score[:, 1:] != score[:, :-1]
    first = jnp.concatenate([jnp.ones((score.shape[0], 1), bool), edge], axis=1)
    before = jax.lax.cummax(jnp.where(first, negatives - (1 - label), 0.0), axis=1)
    return (label * (negatives - before)).sum(axis=1)
