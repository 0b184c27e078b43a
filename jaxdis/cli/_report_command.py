"""``jaxdis report``: a page on codes from models that were trained elsewhere."""

import dataclasses
from pathlib import Path

import tyro

from jaxdis.cli import _terminal as terminal
from jaxdis.cli._options import Cache
from jaxdis.cli._outputs import check_pictures


@dataclasses.dataclass(frozen=True)
class Report:
    """Score codes from models that were trained elsewhere, and write a page: which setting is best, and how sure that
    is.

    Codes are read as by `jaxdis score`. The table of --meta tells seeds and settings: columns file (or member), seed,
    and any hyperparameter; model and data, if there are several.
    """

    files: tyro.conf.Positional[tuple[str, ...]]
    """Files of codes, patterns such as 'runs/*.npz', or the folder of a zoo."""
    out: Path
    """Folder for report.html and results.csv."""
    meta: Path | None = None
    """CSV file with a row per model."""
    factors: Path | None = None
    """Factors, if files hold codes alone."""
    metrics: tuple[str, ...] = ("standard",)
    """Names of `jaxdis list metrics`, all, or standard. Options are written as mig:bins=30."""
    images: Path | None = None
    """.npy of the images [samples, height, width, channels] of the same samples, to show what codes encode."""
    title: str = "Which representation is disentangled?"
    """Title of the page."""
    seed: int = 0
    """Random seed."""
    cache: Cache = None

    def run(self) -> None:
        from jaxdis.cli._metric_texts import plan_of_texts
        from jaxdis.encoders import load
        from jaxdis.evaluation import evaluate
        from jaxdis.evaluation._score_sets import with_metadata
        from jaxdis.study.report._report import write_codes_report

        check_pictures()
        if self.out.exists() and not self.out.is_dir():
            raise ValueError(f"--out: must be a folder, got the file {self.out}")
        terminal.start(self.cache)
        plan = plan_of_texts(self.metrics)
        codes, factors, names = load(self.files, self.factors)
        codes = codes if codes.ndim == 3 else codes[None]
        members = [{"member": name} for name in names]
        members = members if self.meta is None else with_metadata(members, self.meta)
        terminal.first_sign("scoring")
        images = self._images(codes.shape[1])
        metrics = "standard" if self.metrics == ("standard",) else plan
        scores = evaluate(codes, factors, metrics, self.seed, members=members, progress=True)
        scored = {n: metric for n, metric in plan.items() if any(column.metric == n for column in scores)}
        self.out.mkdir(parents=True, exist_ok=True)
        path = write_codes_report(self.out, scores, scored, codes, factors, self.title, images)
        terminal.write_line(f"table:  {self.out / 'results.csv'}")
        terminal.write_line(f"report: {path.resolve().as_uri()}")

    def _images(self, samples: int):
        """The images, after checking that there is one per sample."""
        from jaxdis.evaluation._arrays_file import read_images

        if self.images is None:
            return None
        images, _ = read_images(self.images)
        if images.ndim != 4 or len(images) != samples:
            raise ValueError(f"--images: must be [{samples}, height, width, channels], got {images.shape}")
        return images
