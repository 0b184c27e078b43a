"""Eastwood & Williams (2018): PCA, VAEs and InfoGAN on teapots, their DCI and their zero-shot transfer."""
