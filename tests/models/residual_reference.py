"""The networks and losses of Eastwood & Williams (2018) in NumPy float64, step by step from appendix A and the code.

Convolutions, pooling and enlargement are separate here, and derivatives are differences of values.
"""

import numpy as np

from tests.models.methods.slots.written_out import correlate, log_normal, relu


def convolution(x, layer):
    return correlate(x, layer["kernel"], padding=len(layer["kernel"]) // 2) + layer.get("bias", 0)


def pooled(x):
    return (x[:, ::2, ::2] + x[:, 1::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, 1::2]) / 4


def enlarged(x):
    return x.repeat(2, 1).repeat(2, 2)


def layer_norm(params, x, _):
    axes = tuple(range(1, x.ndim))
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * params["scale"] + params["bias"]


class BatchNorm:
    """Over the batch, keeping its moments by layer."""

    def __init__(self):
        self.moments = {}

    def __call__(self, params, x, name):
        axes = tuple(range(x.ndim - 1))
        mean, variance = x.mean(axes), x.var(axes)
        *above, last = name.split("/")
        moments = self.moments.setdefault(above[0], {}) if above else self.moments
        moments[last] = {"mean": mean, "var": variance}
        return (x - mean) / np.sqrt(variance + 1e-5) * params["scale"] + params["bias"]


def encoder(params, x, blocks, norm):
    """Outputs for images in [−1, 1]."""
    x = convolution(x, params["first"])
    for i in range(blocks):
        name, block = f"block{i}", params[f"block{i}"]
        shortcut = convolution(pooled(x), block["short"])
        y = relu(norm(block["norm1"], x, f"{name}/norm1"))
        y = convolution(y, block["conv1"])
        y = relu(norm(block["norm2"], y, f"{name}/norm2"))
        x = shortcut + pooled(convolution(y, block["conv2"]))
    return x.reshape(len(x), -1) @ params["last"]["kernel"] + params["last"]["bias"]


def decoder(params, codes, blocks, smallest, norm):
    x = codes @ params["first"]["kernel"] + params["first"]["bias"]
    x = relu(norm(params["first_norm"], x, "first_norm")).reshape(-1, *smallest)
    for i in range(blocks):
        name, block = f"block{i}", params[f"block{i}"]
        shortcut = convolution(enlarged(x), block["short"])
        y = x if i == 0 else relu(norm(block["norm1"], x, f"{name}/norm1"))
        y = convolution(enlarged(y), block["conv1"])
        y = relu(norm(block["norm2"], y, f"{name}/norm2"))
        x = shortcut + convolution(y, block["conv2"])
    return np.tanh(convolution(relu(norm(params["norm"], x, "norm")), params["last"]))


def vae_loss(params, images, noise, beta, blocks, smallest):
    """``(loss, reconstruction, kl)``, and moments of the batch."""
    x, encoding, decoding = 2 * (images - 0.5), BatchNorm(), BatchNorm()
    out = encoder(params["encoder"], x, blocks, encoding)
    d = out.shape[1] // 2
    mean, deviation = out[:, :d], np.exp(0.5 * out[:, d:])
    decoded = decoder(params["decoder"], mean + deviation * noise, blocks, smallest, decoding)
    reconstruction = ((x - decoded) ** 2).reshape(len(x), -1).sum(1).mean()
    kl = (0.5 * (mean**2 + deviation**2 - 2 * np.log(deviation) - 1)).sum(1).mean()
    moments = {"encoder": encoding.moments, "decoder": decoding.moments}
    return (reconstruction + beta * kl, reconstruction, kl), moments


def information(codes, means):
    return (log_normal(codes, means, 1) - log_normal(codes, 0, 1)).sum(1).mean()


def penalty(critic, points, blocks, step=1e-5):
    """Mean of (‖∇D‖ − 1)², with the gradient by differences in every pixel."""
    shape = points.shape[1:]
    moves = step * np.eye(int(np.prod(shape))).reshape(-1, *shape)

    def values(sign):
        moved = (points[:, None] + sign * moves[None]).reshape(-1, *shape)
        return encoder(critic, moved, blocks, layer_norm)[:, 0].reshape(len(points), -1)

    slopes = (values(1) - values(-1)) / (2 * step)
    return ((np.sqrt((slopes**2).sum(1)) - 1) ** 2).mean()


def critic_loss(critic, codes, fakes, images, places, weights, blocks):
    """``(loss, distance, penalty, information)``; images and fakes in [−1, 1]."""
    of_fakes, of_images = (encoder(critic, x, blocks, layer_norm) for x in (fakes, images))
    distance, told = of_images[:, 0].mean() - of_fakes[:, 0].mean(), information(codes, of_fakes[:, 1:])
    rough = penalty(critic, images + places * (fakes - images), blocks)
    return -distance + weights[1] * rough - weights[0] * told, distance, rough, told


def generator_loss(generator, critic, codes, weights, blocks, smallest):
    images = decoder(generator, codes, blocks, smallest, BatchNorm())
    out = encoder(critic, images, blocks, layer_norm)
    return -out[:, 0].mean() - weights[0] * information(codes, out[:, 1:])
