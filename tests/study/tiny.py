"""A study that takes seconds: six members of a tiny network, three updates, 64 samples."""

from jaxdis.models import Config, Mlp, Pca, Vae
from jaxdis.study import Sampling, Study, Training


def tiny(steps: int = 3, seeds: int = 2, metrics=("mig", "med"), **fields) -> Study:
    sweep = {"beta": {"beta": (1, 4)}, "dip_ii": {"lambda_off_diagonal": 5}}
    config = Config(method=Vae(objective=tuple(sweep), network=Mlp((8,), num_codes=3), batch_size=4), steps=steps)
    training = Training.of(config, sweep, seeds, pool=64)
    return Study.of("tiny", [training], metrics, **{"sampling": Sampling(64, 32), **fields})


def mixed() -> Study:
    """Two autoencoders and principal components of two seeds, on one pool of images."""
    sweep = {"beta": {"beta": 1}, "dip_ii": {"lambda_off_diagonal": 5}}
    vae = Config(method=Vae(objective=tuple(sweep), network=Mlp((8,), num_codes=3), batch_size=4), steps=3)
    trainings = [
        Training.of(vae, sweep, 1, pool=64),
        Training.of(Config(method=Pca(num_codes=3, passes=6)), {"pca": {}}, 2, pool=64),
    ]
    return Study.of("mixed", trainings, ["mig", "med"], sampling=Sampling(64, 64))
