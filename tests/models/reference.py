"""The losses of variational autoencoders written out in NumPy float64, from the papers and independent of the library.

The network is linear so that everything fits in a few lines: x → (μ, lv) = x A + a, z = μ + e^{lv/2} ε, r = z B + b.
"""

import numpy as np


def forward(params, images, noise):
    x = images.reshape(len(images), -1)
    mean = x @ params["mean"] + params["mean_bias"]
    log_variance = x @ params["log_variance"] + params["log_variance_bias"]
    codes = mean + np.exp(log_variance / 2) * noise
    return x, mean, log_variance, codes, codes @ params["out"] + params["out_bias"]


def cross_entropy(x, logits):
    p = 1 / (1 + np.exp(-logits))
    return -(x * np.log(p) + (1 - x) * np.log(1 - p)).sum() / len(x)


def kl(mean, log_variance):
    return 0.5 * (mean**2 + np.exp(log_variance) - log_variance - 1).sum() / len(mean)


def log_density(z, mean, log_variance):
    return -0.5 * (z - mean) ** 2 / np.exp(log_variance) - 0.5 * log_variance - 0.5 * np.log(2 * np.pi)


def weights(estimator, n, num_data):
    """[j, i]: weight of posterior i in the estimate of q(z_j), from the papers' text and their code's indexing."""
    rest = n - 1
    strange = (num_data - rest) / (num_data * rest)
    if estimator == "locatello2020":
        return np.ones((n, n))
    if estimator == "mws":
        return np.full((n, n), 1 / (num_data * n))
    table = np.full((n, n), 1 / rest)
    if estimator == "mss":
        for j in range(n):
            table[j, j] = 1 / num_data
            table[j, (j + 1) % n] = strange
    else:
        flat = table.reshape(-1)
        flat[:: rest + 1] = 1 / num_data
        flat[1 :: rest + 1] = strange
        table[rest - 1, 0] = strange
    return table


def parts(codes, mean, log_variance, num_data, estimator):
    """(mutual information, total correlation, dimension-wise KL) with plain sums of probabilities and loops."""
    n, d = codes.shape
    table = weights(estimator, n, num_data)
    own = joint = marginals = prior = 0.0
    for j in range(n):
        density = np.exp(
            [[log_density(codes[j, k], mean[i, k], log_variance[i, k]) for k in range(d)] for i in range(n)]
        )
        power = d if estimator == "mahon2024" else 1
        joint += np.log((table[j] ** power * density.prod(1)).sum()) / n
        marginals += sum(np.log((table[j] * density[:, k]).sum()) for k in range(d)) / n
        own += np.log(density[j].prod()) / n
        prior += log_density(codes[j], 0.0, 0.0).sum() / n
    return own - joint, joint - marginals, marginals - prior


def off_and_on(covariance, target=1.0):
    d = len(covariance)
    off = sum(covariance[i, j] ** 2 for i in range(d) for j in range(d) if i != j)
    return off, sum((covariance[i, i] - target) ** 2 for i in range(d))


def loss(objective, settings, params, images, noise, *, step=0, num_data=40, estimator="mss", ratio=None):
    """The loss of one objective by its paper's own formula. ``ratio``: codes → mean of logit₀ − logit₁."""
    x, mean, log_variance, codes, logits = forward(params, images, noise)
    reconstruction, divergence = cross_entropy(x, logits), kl(mean, log_variance)
    if objective == "beta":
        return reconstruction + settings["beta"] * divergence
    if objective == "annealed":
        capacity = min(settings["capacity"], settings["capacity"] * step / settings["capacity_steps"])
        return reconstruction + settings["gamma"] * abs(divergence - capacity)
    if objective == "factor":
        return reconstruction + divergence + settings["gamma"] * ratio(codes)
    if objective == "beta_tc":
        information, correlation, dimension_wise = parts(codes, mean, log_variance, num_data, estimator)
        return reconstruction + divergence + (settings["beta"] - 1) * correlation
    covariance = np.cov(mean.T, bias=True)
    if objective == "dip_ii":
        covariance = covariance + np.diag(np.exp(log_variance).mean(0))
    off, on = off_and_on(covariance)
    diagonal = settings["lambda_off_diagonal"] * {"dip_i": 10, "dip_ii": 1}[objective]
    return reconstruction + divergence + settings["lambda_off_diagonal"] * off + diagonal * on


def gradient(function, params, step=1e-6):
    """Central differences in float64."""
    found = {}
    for name, value in params.items():
        found[name] = np.zeros_like(value)
        moved = {**params, name: value.copy()}
        for place in np.ndindex(value.shape):
            moved[name][place] = value[place] + step
            above = function(moved)
            moved[name][place] = value[place] - step
            found[name][place] = (above - function(moved)) / (2 * step)
            moved[name][place] = value[place]
    return found
