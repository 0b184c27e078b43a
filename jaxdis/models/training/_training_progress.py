"""Losses in words, beside a training's bar."""

import numpy as np


def summary(losses) -> str:
    """``loss 61.2, reconstruction 40.1``: medians over finite members, and how many have stopped."""
    finite = np.isfinite(np.stack(losses)).all(0)
    if not finite.any():
        return "no member has a finite loss"
    medians = {name: np.median(field[finite]) for name, field in losses._asdict().items() if np.any(field[finite])}
    stopped = [f"{(~finite).sum()} stopped"] if (~finite).any() else []
    return ", ".join([f"{name} {median:.4g}" for name, median in medians.items()] + stopped)
