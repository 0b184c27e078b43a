"""``jaxdis train``: a zoo of autoencoders."""

import dataclasses
from pathlib import Path
from typing import Literal

from jaxdis.cli import terminal

STRENGTHS = ("beta", "gamma", "capacity", "lambda_off_diagonal")


@dataclasses.dataclass(frozen=True)
class Train:
    """Train a zoo of autoencoders: every objective × setting × seed in one program.

    Run the same command again and it carries on where it stopped, or says that it is complete.
    """

    out: Path
    """The run's own folder: run.json, checkpoints/, zoo.npz."""
    data: str = "dsprites"
    """A data set that can be drawn, as `jaxdis list data` shows them."""
    objective: tuple[str, ...] = ("beta",)
    """Rows of `jaxdis list models`; several train together when they share a loss."""
    beta: tuple[float, ...] = ()
    """Strengths of beta and beta_tc."""
    gamma: tuple[float, ...] = ()
    """Strengths of factor (and the weight of annealed's capacity)."""
    capacity: tuple[float, ...] = ()
    """Final capacities of annealed."""
    lambda_off_diagonal: tuple[float, ...] = ()
    """Strengths of dip_i and dip_ii."""
    learning_rate: float | None = None
    """Of all objectives; each has its paper's default."""
    seeds: int = 1
    """Seeds 0, 1, … of every setting."""
    steps: int = 3000
    """Updates of each member."""
    network: Literal["mlp", "locatello", "burgess"] = "mlp"
    """mlp trains in minutes on a laptop; the others are the papers' convolutions."""
    cache: Path | None = None
    """Folder for compiled programs."""

    def run(self) -> None:
        terminal.start(self.cache)
        from jaxdis import models
        from jaxdis.cli.run_directory import train_to_directory

        networks = {"mlp": models.Mlp, "locatello": models.locatello, "burgess": models.burgess}
        self._check_settings()
        objective = self.objective[0] if len(self.objective) == 1 else self.objective
        config = models.Config(data=self.data, objective=objective, network=networks[self.network](), steps=self.steps)
        sweep = {name: self._settings(name) for name in self.objective}
        finished = train_to_directory(
            config, sweep[objective] if isinstance(objective, str) else sweep, self.seeds, self.out
        )
        terminal.console().print(finished.message, markup=False)

    def _check_settings(self) -> None:
        """Make sure that every setting given is a number that some objective takes."""
        used = {name for objective in self.objective for name in self._settings(objective)}
        for name in STRENGTHS:
            values = getattr(self, name)
            if values and name not in used:
                raise ValueError(f"{name}: needs an objective that has it, got {', '.join(self.objective)}")
            if not all(0 <= value < float("inf") for value in values):
                raise ValueError(f"{name}: needs numbers of at least 0, got {', '.join(map(str, values))}")
        if self.learning_rate is not None and not 0 < self.learning_rate < float("inf"):
            raise ValueError(f"learning_rate: needs a number above 0, got {self.learning_rate}")

    def _settings(self, objective: str) -> dict:
        """The settings given that this objective has."""
        import inspect

        from jaxdis.models import OBJECTIVES

        if objective not in OBJECTIVES:
            raise ValueError(f"objective: needs one of {', '.join(OBJECTIVES)}, got {objective!r}")
        known = inspect.signature(OBJECTIVES[objective].settings).parameters
        settings = {name: getattr(self, name) for name in STRENGTHS if getattr(self, name) and name in known}
        return settings if self.learning_rate is None else {**settings, "learning_rate": self.learning_rate}
