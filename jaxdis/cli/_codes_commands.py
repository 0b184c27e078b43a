"""Commands on codes and their scores: ``jaxdis show``, ``compare``, ``report`` and ``sensitivity``."""

import dataclasses
import html
import zipfile
from pathlib import Path
from typing import Literal

import tyro

from jaxdis._core.files import read_csv_columns
from jaxdis._core.store import scored
from jaxdis.cli import _terminal as terminal
from jaxdis.cli._options import Cache
from jaxdis.cli._terminal import number

# From nothing to all of a factor's entropy.
SHADES = " ▁▂▃▄▅▆▇█"
LONGEST_NAME = 10


@dataclasses.dataclass(frozen=True)
class Show:
    """Show which code encodes which factor: a table with bars in the terminal, and on request a picture.

    Bars show mutual information as a share of the factor's entropy, or another relation.
    """

    file: tyro.conf.Positional[Path]
    """File of codes and factors, as for `jaxdis score`; or a folder of its --out, whose table is printed again."""
    factors: Path | None = None
    """Factors, if FILE holds codes alone, as for `jaxdis score`."""
    columns: tuple[str, ...] = ()
    """Columns of a table of factors, and what they hold, as for `jaxdis score`; all by default."""
    missing: Literal["error", "drop", "each"] = "error"
    """How to treat missing values of factors: error refuses them, drop leaves out their rows of factors and codes.
    With each, every factor is scored on the rows where it is known."""
    member: int = 0
    """The member to show, for a file with several."""
    out: Path | None = None
    """PNG file to write: a Hinton diagram, and each code against each factor."""
    relation: str = "mutual_information"
    """A name of `jaxdis list relations`."""
    cache: Cache = None

    def run(self) -> None:
        if scored(self.file) is not None:
            from jaxdis.cli._score_tables import print_members

            columns = read_csv_columns(self.file / "results.csv")
            print_members(columns.pop("member").tolist(), columns)
            return
        if self.out is not None:
            terminal.check_pictures()
            terminal.check_not_input("--out", self.out, (self.file, self.factors))
        terminal.start(self.cache)
        import numpy as np

        from jaxdis.evaluation._arrays_file import in_words, load_arrays
        from jaxdis.evaluation._evaluate import relate

        arrays = load_arrays(self.file, self.factors, self.columns, self.missing)
        terminal.write_sentence(f"factors: {in_words(arrays.factors)}")
        codes = np.asarray(arrays.codes)
        codes = codes if codes.ndim == 3 else codes[None]
        if not 0 <= self.member < len(codes):
            raise ValueError(f"--member: must be a number from 0 to {len(codes) - 1}, got {self.member}")
        codes = codes[self.member]
        relation = relate(codes, arrays.factors, self.relation)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = np.nan_to_num(np.asarray(relation.strength) / np.asarray(relation.ceiling))
        if self.out is not None:
            from jaxdis import plots

            factors = arrays.factors
            there = True if factors.present is None else factors.present
            values = np.where(there, np.asarray(factors.values), np.nan)  # what is missing is not drawn
            picture = plots.codes_and_factors(shares, codes, values, factors.names, factors.classes)
            terminal.make_room("--out", self.out)
            terminal.write_figure(self.out, picture)
        shares[~np.isfinite(codes).all(axis=0)] = np.nan
        heads = ["code", *(terminal.one_line(name)[:LONGEST_NAME] for name in arrays.factors.names)]
        rows = [
            [str(code), *("nan" if share != share else f"{_block(share)} {share:.2f}" for share in row)]
            for code, row in enumerate(shares.tolist())
        ]
        terminal.print_table(heads, rows, box=None, caption="share of each factor that a code tells")
        if self.out is not None:
            terminal.write_line(f"wrote {self.out}")


def _block(share: float) -> str:
    """A block whose height is a share from 0 to 1."""
    return SHADES[round(min(max(share, 0.0), 1.0) * (len(SHADES) - 1))]


@dataclasses.dataclass(frozen=True)
class Compare:
    """Compare scores between sets of models: differences in means, their intervals, and tests.

    Each set holds a row per model, such as one per seed: a CSV or JSON file by `jaxdis score`, or what `Scores.save`
    wrote, or the folder of `jaxdis score --out`. A folder with codes, or with trained zoos, is scored first. More than
    two sets are compared with the best.
    """

    sets: tyro.conf.Positional[tuple[str, ...]]
    """Scores of each set: .csv, .json or .npz; or folders of such files, or of codes. One set alone needs --by."""
    paired: str | None = None
    """A column whose equal values make pairs, such as seed. Without it, the sets are independent."""
    by: str | None = None
    """A column, such as a hyperparameter: models with each of its values are a set."""
    across: str | None = None
    """A column, such as the data set: sets are also ranked at each of its values."""
    meta: Path | None = None
    """CSV file of what is known of the models: a column file or member, and seed, hyperparameters and so on."""
    factors: Path | None = None
    """Factors, if folders hold codes alone."""
    metrics: tuple[str, ...] = ()
    """Columns to compare; all that every set has by default. For folders, metrics to compute; standard by default."""
    csv: Path | None = None
    """CSV file to write, with a row per comparison."""
    out: Path | None = None
    """Page to write."""
    cache: Cache = None

    def run(self) -> None:
        from jaxdis._core.files import write_text
        from jaxdis.evaluation import compare

        terminal.check_outputs({"--csv": self.csv, "--out": self.out}, [*map(Path, self.sets), self.meta])
        sets, scored = self._sets()
        metrics = None if scored or not self.metrics else self.metrics
        how = {"paired": self.paired, "by": self.by, "across": self.across, "meta": self.meta}
        stems = [Path(text).stem for text in self.sets]
        names = stems if len(set(stems)) == len(stems) else list(self.sets)
        found = compare(*sets, metrics=metrics, names=names, **how)
        rows = []
        for row in found.rows:
            pairs = ((row.first, row.second), (row.low, row.high))
            means, within = (", ".join(number(value, ".3f") for value in pair) for pair in pairs)
            tests = (number(p, ".2g") for p in (row.p, row.adjusted))
            rows.append((row.metric, ", ".join(row.sets), means, number(row.difference, ".3f"), within, *tests))
        heads = "", "sets", "means", "difference", "interval", "p", "adjusted"
        terminal.print_table(heads, rows, title=found.test, box=None)
        for sentence in found.sentences():
            terminal.write_sentence(sentence)
        if self.csv is not None:
            found.to_csv(self.csv)
        if self.out is not None:
            from jaxdis.study.report._html import listed, page, table_of

            table = table_of([row._replace(sets=" / ".join(row.sets)) for row in found.rows])
            opening = f"<p>{html.escape(found.test)}.</p>{listed(found.sentences())}"
            write_text(self.out, page("Comparison of scores", [("Numbers", table)], opening, note=""))

    def _sets(self) -> tuple[list, bool]:
        """The sets, where folders with codes are scored, and whether any was."""
        from jaxdis._core.store import Store

        folders = [text for text in self.sets if Path(text).is_dir()]
        of_studies = {text: Path(text) / "results.csv" for text in folders if Store(Path(text)).begun}
        of_codes = [text for text in folders if text not in of_studies and _holds_codes(Path(text))]
        if of_codes:
            terminal.start(self.cache)
        scored = {text: _scored(text, self.factors, self.metrics) for text in of_codes}
        return [(of_studies | scored).get(text, text) for text in self.sets], bool(of_codes)


def _holds_codes(folder: Path) -> bool:
    """Whether a folder is a zoo, or holds codes in files instead of scores."""
    from jaxdis._core.files import ZOO_FILE

    return (folder / ZOO_FILE).exists() or any(
        path.suffix == ".npy" or (zipfile.is_zipfile(path) and "codes.npy" in zipfile.ZipFile(path).namelist())
        for path in folder.glob("*.np[yz]")
    )


def _scored(text: str, factors: Path | None, metrics: tuple[str, ...]):
    from jaxdis._core.files import ZOO_FILE
    from jaxdis.cli._metric_texts import plan_of_texts
    from jaxdis.encoders import load
    from jaxdis.evaluation import evaluate

    path = Path(text)
    files = path
    if not (path / ZOO_FILE).exists():
        files = sorted(file for file in path.iterdir() if file.suffix in (".npz", ".npy"))
    codes, read, names = load(files, factors)
    codes = codes if codes.ndim == 3 else codes[None]
    terminal.write_sentence(f"{text}: scoring {len(codes)} models")
    return evaluate(codes, read, plan_of_texts(metrics) if metrics else "standard", members=list(names), progress=True)


def _asked(files: tuple[str, ...], factors: Path | None, texts: tuple[str, ...]) -> tuple:
    """The folder of scores that a command is given, whose numbers it need not compute again, or None; the metrics that
    are asked for, as texts too, by default the standard ones, or that folder's; codes, factors, names, and how they
    are scored."""
    from jaxdis.cli._metric_texts import plan_of_texts
    from jaxdis.encoders._load import load, load_scored
    from jaxdis.metrics._plan import preset_metrics

    folder = Path(files[0]) if len(files) == 1 and scored(Path(files[0])) is not None else None
    record = {} if folder is None or texts else scored(folder)
    texts = texts or tuple(record.get("metrics", ("standard",)))
    plan = preset_metrics(record["preset"], texts) if record.get("preset") else plan_of_texts(texts)
    (codes, given, names), how = (load(files, factors), {}) if folder is None else load_scored(folder, factors)
    return folder, texts, plan, codes, given, names, how


@dataclasses.dataclass(frozen=True)
class Report:
    """Score codes from models that were trained elsewhere, and write a page: which setting is best, and how sure that
    is.

    Codes are read as by `jaxdis score`. The table of --meta tells seeds and settings: columns file (or member), seed,
    and any hyperparameter; model and data, if there are several.
    """

    files: tyro.conf.Positional[tuple[str, ...]]
    """Files of codes, patterns such as 'runs/*.npz', or the folder of a zoo or of `jaxdis score --out`."""
    out: Path
    """Folder for report.html and results.csv."""
    meta: Path | None = None
    """CSV file with a row per model."""
    factors: Path | None = None
    """Factors, if files hold codes alone; those of a folder of scores are known."""
    metrics: tuple[str, ...] = ()
    """Names of `jaxdis list metrics`, all, or standard; by default standard, or those of the folder of scores.
    Options are written as mig:bins=30."""
    images: Path | None = None
    """.npy of the images [samples, height, width, channels] of the same samples, to show what codes encode."""
    title: str = "Which representation is disentangled?"
    """Title of the page."""
    seed: int | None = None
    """Random seed; 0, or that of the folder of scores, by default."""
    cache: Cache = None

    def run(self) -> None:
        from jaxdis.evaluation import evaluate
        from jaxdis.evaluation._arrays_file import read_images
        from jaxdis.evaluation._comparison import with_metadata
        from jaxdis.study.report._report import write_codes_report

        terminal.check_pictures()
        if self.out.exists() and not self.out.is_dir():
            raise ValueError(f"--out: must be a folder, got the file {self.out}")
        terminal.start(self.cache)
        folder, texts, plan, codes, factors, names, how = _asked(self.files, self.factors, self.metrics)
        codes = codes if codes.ndim == 3 else codes[None]
        members = [{"member": name} for name in names]
        members = members if self.meta is None else with_metadata(members, self.meta)
        terminal.first_sign("scoring")
        images = None if self.images is None else read_images(self.images)[0]
        if images is not None and (images.ndim != 4 or len(images) != codes.shape[1]):
            raise ValueError(f"--images: must be [{codes.shape[1]}, height, width, channels], got {images.shape}")
        metrics = "standard" if texts == ("standard",) else plan
        seed = self.seed if self.seed is not None else 0 if folder is None else scored(folder)["seed"]
        scores = evaluate(codes, factors, metrics, seed, members=members, progress=True, **how)
        used = {n: metric for n, metric in plan.items() if any(column.metric == n for column in scores)}
        self.out.mkdir(parents=True, exist_ok=True)
        path = write_codes_report(self.out, scores, used, codes, factors, self.title, images)
        terminal.write_line(f"table:  {self.out / 'results.csv'}")
        terminal.write_line(f"report: {path.resolve().as_uri()}")


@dataclasses.dataclass(frozen=True)
class Sensitivity:
    """Compute how far the models' ranking by each metric depends on options, sample sizes and seeds.

    Codes are read as by `jaxdis score`; several files, or members in one file, are the models that are ranked.
    """

    files: tyro.conf.Positional[tuple[str, ...]]
    """Files of codes, patterns such as 'runs/*.npz', or the folder of a zoo or of `jaxdis score --out`.
    The latter keeps what is computed, so that a run which is stopped goes on."""
    factors: Path | None = None
    """Factors, if files hold codes alone; those of a folder of scores are known."""
    metrics: tuple[str, ...] = ()
    """Names of `jaxdis list metrics`, or standard; by default standard, or those of the folder of scores.
    Options that stay are written as mig:bins=30."""
    options: tuple[str, ...] = ()
    """Values to try for options of the metrics, such as bins=10,20,50."""
    samples: tuple[int, ...] = ()
    """Numbers of samples to try; all samples by default."""
    seeds: int = 1
    """How many seeds to try; each draws other samples and other random numbers."""
    seed: int = 0
    """Random seed of everything."""
    csv: Path | None = None
    """CSV file to write, with a row for every value that was tried."""
    out: Path | None = None
    """Page to write."""
    cache: Cache = None

    def run(self) -> None:
        from jaxdis._core.files import write_text
        from jaxdis.cli._metric_texts import values_of_texts
        from jaxdis.evaluation import sensitivity

        terminal.check_outputs({"--csv": self.csv, "--out": self.out}, map(Path, self.files))
        if self.out is not None:
            terminal.check_pictures()
        terminal.start(self.cache)
        options = values_of_texts(self.options)
        folder, _, plan, codes, factors, _, kept = _asked(self.files, self.factors, self.metrics)
        how = {"options": options, "samples": self.samples or None, "seeds": self.seeds, "progress": True}
        how |= {"groups": kept.get("groups"), "arguments": {"store": folder}}
        found = sensitivity(codes, factors, plan, self.seed, **how)
        heads, rows = _choices(found)
        terminal.print_table(heads, rows, title="which choices move the ranking", box=None)
        for sentence in found.sentences():
            terminal.write_sentence(sentence)
        if self.csv is not None:
            found.to_csv(self.csv)
        if self.out is not None:
            write_text(self.out, _page_of_choices(found))


def _choices(found) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    heads = "metric", "choice", "default", "share of variance", "lowest τ", "most pairs reversed"
    return heads, [
        (each.metric, each.choice, str(each.default), number(each.share, ".1%"), number(each.tau, ".2f"))
        + (number(each.flipped, ".1%"),)
        for each in found.choices
    ]


# What the columns of the tables mean.
WORDS_OF_CHOICES = (
    "<p>Each metric is computed by default and with one choice changed at a time. <em>Share of variance</em>: how much "
    "of the variance between members comes from a choice, alone or with others (Sobol's total effect); what shifts all "
    "members alike does not count. <em>τ</em>: Kendall's rank correlation between the members' scores and those by "
    "default; 1 is the same ranking. <em>Pairs reversed</em>: the share of pairs of members whose order changes. "
    "<em>Mean change</em>: the members' mean score minus that by default.</p>"
)


def _page_of_choices(found) -> str:
    from jaxdis.study.report._html import image, listed, page, table

    heat = image(found.plot(), "share of the variance between models that each choice explains, by metric")
    heads, rows = _choices(found)
    every = [
        (each.metric, each.choice, str(each.value), number(each.tau, ".2f"), number(each.flipped, ".1%"))
        + (number(each.shift, "+.3g"),)
        for each in found.settings
    ]
    heads_of_all = "metric", "choice", "value", "τ", "pairs reversed", "mean change"
    tables = [
        table(names, dict(zip(names, zip(*body, strict=True), strict=True)) if body else dict.fromkeys(names, ()))
        for names, body in ((heads, rows), (heads_of_all, every))
    ]
    sections = [("Shares of variance", WORDS_OF_CHOICES + heat + tables[0]), ("Every value", tables[1])]
    return page("How far do rankings depend on choices?", sections, listed(found.sentences()), note="")
