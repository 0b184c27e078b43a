"""``jaxdis compare``: which of several score sets is higher, and how sure that is."""

import dataclasses
import html
import zipfile
from pathlib import Path

import tyro

from jaxdis.cli import _terminal as terminal
from jaxdis.cli._options import Cache
from jaxdis.cli._outputs import check_outputs
from jaxdis.cli._terminal import number


@dataclasses.dataclass(frozen=True)
class Compare:
    """Compare scores between sets of models: differences in means, their intervals, and tests.

    Each set holds a row per model, such as one per seed: a CSV or JSON file by `jaxdis score`, or what `Scores.save`
    wrote. A folder with codes, or with trained zoos, is scored first. More than two sets are compared with the best.
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
        from rich.table import Table

        from jaxdis._core.files import write_text
        from jaxdis.evaluation import compare

        check_outputs({"--csv": self.csv, "--out": self.out}, [*map(Path, self.sets), self.meta])
        sets, scored = self._sets()
        metrics = None if scored or not self.metrics else self.metrics
        how = {"paired": self.paired, "by": self.by, "across": self.across, "meta": self.meta}
        stems = [Path(text).stem for text in self.sets]
        names = stems if len(set(stems)) == len(stems) else list(self.sets)
        found = compare(*sets, metrics=metrics, names=names, **how)
        table = Table("", "sets", "means", "difference", "interval", "p", "adjusted", title=found.test, box=None)
        for row in found.rows:
            pairs = ((row.first, row.second), (row.low, row.high))
            means, within = (", ".join(number(value, ".3f") for value in pair) for pair in pairs)
            tests = (number(p, ".2g") for p in (row.p, row.adjusted))
            table.add_row(row.metric, ", ".join(row.sets), means, number(row.difference, ".3f"), within, *tests)
        terminal.console().print(table)
        for sentence in found.sentences():
            terminal.write_sentence(sentence)
        if self.csv is not None:
            found.to_csv(self.csv)
        if self.out is not None:
            write_text(self.out, _page(found))

    def _sets(self) -> tuple[list, bool]:
        """The sets, where folders with codes are scored, and whether any was."""
        from jaxdis.study._store import Store

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

    def has_codes(path: Path) -> bool:
        return path.suffix == ".npy" or (zipfile.is_zipfile(path) and "codes.npy" in zipfile.ZipFile(path).namelist())

    return (folder / ZOO_FILE).exists() or any(has_codes(path) for path in folder.glob("*.np[yz]"))


def _scored(text: str, factors: Path | None, metrics: tuple[str, ...]):
    """The scores for the codes in a folder, under their files' names."""
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


def _page(found) -> str:
    from jaxdis.study.report._html import page, table

    rows = [row._replace(sets=" / ".join(row.sets)) for row in found.rows]
    columns = {name: [getattr(row, name) for row in rows] for name in rows[0]._fields} if rows else {}
    said = "".join(f"<li>{html.escape(sentence)}.</li>" for sentence in found.sentences())
    sections = [("Numbers", table(list(columns), columns))]
    return page("Comparison of scores", sections, f"<p>{html.escape(found.test)}.</p><ul>{said}</ul>", note="")
