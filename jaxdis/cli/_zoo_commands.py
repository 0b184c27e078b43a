"""Commands that train a zoo of models, and encode images with it: ``jaxdis train`` and ``jaxdis encode``."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import tyro

from jaxdis._core.display import duration
from jaxdis.cli import _terminal as terminal
from jaxdis.cli._options import Cache, DataOptions, Sources, own_pictures

SWEPT = ("beta", "gamma", "capacity", "lambda_off_diagonal")


@dataclasses.dataclass(frozen=True)
class Train:
    """Train a zoo of models: every variant × setting × seed in one program.

    Running the same command again resumes training, or reports that it is complete. Published networks may take days on
    a CPU: see --plan first.
    """

    out: Path
    """Folder for this run only, with run.json, checkpoints/ and zoo.npz."""
    data: str = "dsprites"
    """Name of a data set of `jaxdis list data`, or folder:PATH for pictures of your own, which needs --factors."""
    factors: Path | None = None
    """Table of the factors of these pictures, with a column of their names or one row per file in order."""
    source: Sources = ()
    data_option: DataOptions = ()
    model: str = "vae"
    """Name of a model of `jaxdis list models`."""
    model_option: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE: an option of the model, for example num_codes=5 of pca. May be repeated.
    The command `jaxdis list models MODEL` shows all options of a model."""
    objective: tuple[str, ...] = ()
    """Names of `jaxdis list objectives`; several are trained together if they share a loss. By default beta."""
    beta: tuple[float, ...] = ()
    """Weights β of beta and beta_tc."""
    gamma: tuple[float, ...] = ()
    """Weights γ of factor, and of the deviation from the capacity of annealed."""
    capacity: tuple[float, ...] = ()
    """Final capacities of annealed, in nats."""
    lambda_off_diagonal: tuple[float, ...] = ()
    """Weights λ_od of dip_i and dip_ii."""
    learning_rate: float | None = None
    """Learning rate of all objectives; by default that of each objective's paper."""
    seeds: int = 1
    """Number of seeds (0, 1, …) per setting."""
    steps: int | None = None
    """Number of updates of each member; by default 3000 for autoencoders; for pca, one per pass."""
    network: Literal["mlp", "locatello", "burgess"] | None = None
    """Network of autoencoders: mlp, the default, trains in minutes on a laptop.
    The others are published convolutional networks."""
    keep: tuple[int, ...] = ()
    """Numbers of updates, multiples of 100, after which the models are kept as well, such as 0 1000 3000.
    Each is a member of the zoo with its own scores."""
    correlate: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """FACTOR:FACTOR:SPREAD: discrete factors whose values go together in training, for example x:y:0.2.
    May be repeated. The smaller the spread, the stronger the correlation."""
    hold_out: tuple[str, ...] = ()
    """A combination of values of factors that is never trained on, such as x=3 y=5."""
    plan: bool = False
    """Print the number of members, FLOPs and time, and train nothing."""
    cache: Cache = None

    @property
    def kept(self) -> str:
        names = [path.stem.removeprefix("step_") for path in self.out.glob("checkpoints/step_*.npz")]
        done = max((int(name) for name in names if name.isdigit()), default=0)
        return f"stopped; {self.out} keeps {done} updates: run the same command again to go on"

    def run(self) -> None:
        terminal.start(self.cache)
        from jaxdis import models
        from jaxdis.data import DATASETS
        from jaxdis.data._data_source import check_used, sources_of

        sources = sources_of(self.source, self.data_option, DATASETS)
        check_used(sources, (self.data,))
        method, own = self._method(), own_pictures(self.data, self.factors) or self._narrowed(sources)
        if self.data.startswith("folder:") and self.plan:
            raise ValueError("--plan: goes with a data set of `jaxdis list data`, got pictures of your own")
        config = models.Config(self.data, sources.get(self.data), method, self.steps)
        sweep = {name: self._settings(name) if self.model == "vae" else {} for name in method.trained}
        if self.plan:
            # What training costs, as `jaxdis study run --plan` estimates it.
            from jaxdis.models.training._train import resolved_config, resolved_source
            from jaxdis.study._definition import Training
            from jaxdis.study._trained_work import TRAINING_EFFICIENCY, model_cost, product_rate

            training = Training.of(config, sweep, self.seeds)
            source, (_, settings, labels) = resolved_source(config), training.members()
            resolved_config(config, source).method.check(settings, source, config.steps)
            cost, members = model_cost(training), len(labels)
            flops = members * config.steps * cost.update_flops
            time = duration(flops / (TRAINING_EFFICIENCY * product_rate()))
            words = (
                f"{members:,} member{'s' * (members > 1)} × {config.steps:,} updates of {cost.update_flops:.2g} FLOPs"
            )
            words = f"{words} and {cost.parameters:,} parameters: about {time} here; nothing was trained"
            terminal.write_line(words)
            return
        _, done = train_to_directory(config, sweep, self.seeds, self.out, data=own, keep=self.keep)
        terminal.write_line(done)

    def _narrowed(self, sources):
        """The data set with correlated factors and without a combination; None for all."""
        from jaxdis._core.options import look_up
        from jaxdis.data import DATASETS

        if not self.correlate and not self.hold_out:
            return None
        space, render = look_up(self.data, DATASETS, "data set").open(self.data, sources.get(self.data))
        for text in self.correlate:
            first, second, spread = (text.split(":") + ["", ""])[:3]
            try:
                space = space.correlated(first, second, float(spread))
            except ValueError as error:
                raise ValueError(f"--correlate: must be FACTOR:FACTOR:SPREAD, got {text!r} ({error})") from None
        if self.hold_out:
            pairs = [text.partition("=")[::2] for text in self.hold_out]
            if not all(value.isdigit() for _, value in pairs):
                raise ValueError(f"--hold-out: must be FACTOR=CLASS, such as x=3, got {' '.join(self.hold_out)}")
            space = space.without({name: int(value) for name, value in pairs})
        return space, render

    def _method(self):
        """The model with its options, after checking that it has those that are given, and that settings are numbers
        which some objective has."""
        from jaxdis import models
        from jaxdis._core.options import from_texts

        if self.model not in models.METHODS:
            raise ValueError(f"model: must be one of {', '.join(models.METHODS)}, got {self.model!r}")
        options = dict(option.partition("=")[::2] for option in self.model_option)
        if self.model != "vae":
            for name in ("objective", *SWEPT, "learning_rate", "network"):  # of variational autoencoders alone
                if getattr(self, name) not in (None, ()):
                    raise ValueError(f"{name}: must be given with the model vae, got {self.model}")
            return from_texts(models.METHODS[self.model], options)
        networks = {"mlp": models.Mlp, "locatello": models.locatello, "burgess": models.burgess}
        objectives = self.objective or ("beta",)
        used = {name for objective in objectives for name in self._settings(objective)}
        for name in SWEPT:
            values = getattr(self, name)
            if values and name not in used:
                raise ValueError(f"{name}: needs an objective that has it, got {', '.join(objectives)}")
            if not all(0 <= value < float("inf") for value in values):
                raise ValueError(f"{name}: must be numbers of at least 0, got {', '.join(map(str, values))}")
        if self.learning_rate is not None and not 0 < self.learning_rate < float("inf"):
            raise ValueError(f"learning_rate: must be a number above 0, got {self.learning_rate}")
        objective = objectives[0] if len(objectives) == 1 else objectives
        return from_texts(models.Vae, options, objective=objective, network=networks[self.network or "mlp"]())

    def _settings(self, objective: str) -> dict:
        """The settings on the command line that this objective has."""
        import inspect

        from jaxdis.models import OBJECTIVES

        if objective not in OBJECTIVES:
            raise ValueError(f"objective: must be one of {', '.join(OBJECTIVES)}, got {objective!r}")
        parameters = inspect.signature(OBJECTIVES[objective].settings).parameters
        settings = {name: getattr(self, name) for name in SWEPT if getattr(self, name) and name in parameters}
        return settings if self.learning_rate is None else {**settings, "learning_rate": self.learning_rate}


def train_to_directory(config, sweep: Mapping, seeds: int, out: Path, *, progress: bool = True, **arguments):
    """Train every combination of settings and seeds into ``out``: ``run.json``, ``checkpoints/`` and ``zoo.npz``.

    Returns the zoo, and a sentence that says what was done (trained, resumed, or already complete).
    """
    from jaxdis._core.files import DamagedFile, read_arrays
    from jaxdis.models import members, train
    from jaxdis.models.training._train import saved_updates

    keys, hyperparameters, labels = members(sweep, seeds, config.method)
    steps, before, file = config.steps, saved_updates(out), out / "zoo.npz"
    zoo = train(config, keys, hyperparameters, labels=labels, directory=out, progress=progress, **arguments)
    done = f"resumed from update {before} to {steps}" if before else f"trained for {steps} updates"
    if before >= steps:
        try:
            read_arrays(file)
            done = f"already complete, {steps} updates"
        except (DamagedFile, FileNotFoundError):
            done = f"written again from the checkpoint of update {steps}"
    if not done.startswith("already"):
        zoo.save(file)
    stopped = ", ".join(f"{row} at update {step}" for row, step in enumerate(zoo.stopped) if step >= 0)
    remark = f"; stopped by a number that is not finite: {stopped}" if stopped else ""
    return zoo, f"{done}: {len(zoo)} members in {file}{remark}"


@dataclasses.dataclass(frozen=True)
class Encode:
    """Encode images with every member in a trained zoo, and write codes and factors to an .npz.

    The images are drawn from a data set, by default the zoo's own, or read from a file. With slots, scenes are drawn in
    two groups of similar ones, in which `jaxdis score` can find how slots are ordered.
    """

    zoo: tyro.conf.Positional[Path]
    """Folder that `jaxdis train` wrote, or its zoo.npz."""
    out: Path
    """The .npz to write: codes [members, samples, codes], variances, and factors, names and sizes if they are known.
    Of slots, codes [members, samples, slots, codes] and segments, the slot of each pixel."""
    data: str | None = None
    """Name of a data set of `jaxdis list data`; by default the one on which the zoo was trained.
    Or folder:PATH for pictures of your own, which needs --factors; all of them are encoded, in order."""
    factors: Path | None = None
    """Table of the factors of these pictures, with a column of their names or one row per file in order."""
    source: Path | None = None
    """The data set's official file, for one that is read from it."""
    images: Path | None = None
    """.npy of images [n, height, width, channels], uint8 or in [0, 1], instead of a data set.
    Or an .npz with such an array `images` and optionally `factors`, `names` and `sizes`, which are copied."""
    samples: int = 10_000
    """Number of images drawn from the data set."""
    seed: int = 0
    """Random seed of the samples."""
    cache: Cache = None

    def run(self) -> None:
        from jaxdis._core.options import Count, Seed, checked_value

        checked_value("--seed", Seed, self.seed)
        checked_value("--samples", Count, self.samples)
        if self.images is not None and self.data is not None:
            raise ValueError("--images: must be left out with --data, got both")
        terminal.check_not_input("--out", self.out, (self.zoo, self.images, self.source))
        terminal.start(self.cache)
        import numpy as np

        from jaxdis._core.files import write_whole, zoo_file
        from jaxdis.models import Slots, load

        terminal.make_room("--out", self.out)
        zoo = load(zoo_file(self.zoo))
        terminal.first_sign("encoding")
        if zoo.config.method.represents is Slots:
            arrays = self._of_slots(zoo)
        else:
            representation, arrays = self._of_images(zoo)
            arrays = {"codes": representation.mean, "variances": representation.variance, **arrays}
        write_whole(self.out.resolve(), lambda file: np.savez(file, **arrays))
        units = ("members", "samples", *(("slots",) if arrays["codes"].ndim == 4 else ()), "codes")
        counts = (f"{count:,} {unit}" for count, unit in zip(arrays["codes"].shape, units, strict=True))
        words = f"{' × '.join(counts)} in {self.out}"
        after = f"; score them by: jaxdis score {self.out}" if "factors" in arrays else ""
        terminal.write_line(words + after)

    def _of_images(self, zoo):
        """Representations for images in a file or from a data set, and what is known about their factors."""
        import numpy as np

        from jaxdis.encoders._load import by_chunks, encoded_by_zoo, encoded_pictures
        from jaxdis.evaluation._arrays_file import read_images

        with terminal.bar("encoding", "images") as progress:
            if self.images is not None:
                images, arrays = read_images(self.images)
                return by_chunks(lambda places: zoo.encode(images[places]), len(images), progress), arrays
            own = own_pictures(self.data, self.factors)
            if own is not None:
                representation, factors = encoded_pictures(zoo, *own, progress)
            else:
                representation, factors = encoded_by_zoo(zoo, self.samples, self.seed, self.data, self.source, progress)
        sizes = np.array([size or 0 for size in factors.sizes])
        return representation, {"factors": factors.values, "names": np.array(factors.names), "sizes": sizes}

    def _of_slots(self, zoo) -> dict:
        """The arrays with slots: for scenes from a data set, or for images in a file.

        Codes are ``[m, n, s, d]``, and segments, each pixel's slot, ``[m, n, h, w]``.
        """
        import numpy as np

        from jaxdis.encoders._evaluate_slots import drawn_scenes, slots_of_zoo
        from jaxdis.evaluation._arrays_file import read_images

        with terminal.bar("encoding", "images") as progress:
            if self.images is not None:
                images, arrays = read_images(self.images)
                codes, segments = slots_of_zoo(zoo, images, progress=progress)
                return {"codes": codes, "segments": segments, **arrays}
            source = self.source or (zoo.config.source if self.data is None else None)
            samples = self.samples // 2 * 2
            scenes = drawn_scenes(self.data or zoo.config.data, source, samples, groups=2, key=self.seed)
            codes, segments = slots_of_zoo(zoo, scenes.rows, scenes.render, self.seed, progress)
        drawn = scenes.samples()
        names = [".".join(pair) for pair in drawn.labels]  # of a factor by its place in each level: cube.color
        return {
            "codes": codes,
            "segments": segments,
            "factors": np.asarray(drawn.factors.values),
            "names": np.array(names),
            "sizes": np.array([size or 0 for size in drawn.factors.sizes]),
            "levels": np.array(["object", "property"]),
            "groups": np.array(2),
            "background": np.array(drawn.background or ""),
            "categorical": np.array([names[j] for j in drawn.categorical], dtype=np.str_),
        }
