"""``jaxdis score``: scores for codes in files, and for trained zoos."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import tyro

from jaxdis.cli import _terminal as terminal
from jaxdis.cli._options import Cache, Executor, own_pictures

# Files whose factors are told, if they differ.
MOST_SAID = 5


@dataclasses.dataclass(frozen=True)
class Score:
    """Score codes in files, or trained zoos, with disentanglement metrics.

    A file of codes is an .npz with arrays `codes` [samples, codes] or [members, samples, codes] and `factors` [samples,
    factors] (class numbers), and optionally `names`, `sizes` (0 marks a continuous factor) and `variances`. A zoo is a
    folder that `jaxdis train` wrote; its members encode new images of its data set, and FactorVAE, BetaVAE and IRS
    intervene in it. A zoo on your own pictures needs --data folder:PATH and --factors.
    """

    files: tyro.conf.Positional[tuple[str, ...]] = ()
    """.npz or .safetensors files, .npy or tables of codes alone together with --factors, or folders of zoos.
    Of one table with both, --columns names the factors; the others, or a column of lists, are the codes.
    Of cells, cells.h5ad:X_pca is a representation (obsm, X or layers/NAME; .zarr too), and annotations are the factors.
    Patterns such as 'runs/*.npz' are allowed. Several are reported in one table, under the names of their files."""
    data: str | None = None
    """For zoos: folder:PATH, pictures of your own, with the table of their factors as --factors."""
    factors: Path | None = None
    """Factors, if files hold codes alone: a .csv, .tsv, .txt (or .gz of these), .parquet, .json, .npy or .npz file."""
    columns: tuple[str, ...] = ()
    """Columns of such a file, or of an .h5ad; all by default.
    Whole numbers and text are classes, those of text without order; other numbers are continuous.
    For another kind, write it after the name: angle:continuous, scale:nominal or size:ordered=low,medium,high."""
    missing: Literal["error", "drop", "each"] = "error"
    """How to treat missing values of factors: error refuses them, drop leaves out their rows of factors and codes.
    With each, every factor is scored on the rows where it is known."""
    test: Path | None = None
    """.npz of held-out codes and factors, for metrics that train learners; by default these hold out a third."""
    metrics: tuple[str, ...] = ("standard",)
    """Names of `jaxdis list metrics`, all, or standard: one or two of each family, in seconds.
    Options are written as mig:bins=30 or dci:splitter=histogram:stages=5."""
    list_options: bool = False
    """Print the options of the metrics, and compute nothing."""
    bootstrap: int = 0
    """Number of bootstrap replicates for standard errors and 95 % intervals; each costs one evaluation."""
    null: int | str = 0
    """Permute the factors this many times; report the chance level of each score, and a p value.
    Each costs one evaluation of a file of codes; 20 is enough for a first look.
    Of a stationary series in order, shift:20 shifts the factors in time 20 times."""
    groups: str | None = None
    """Column of the factors' table, or array in an .npz, that says which rows belong together, such as episode.
    Whole groups are held out, drawn again by a bootstrap, and permuted by --null. The column is no factor."""
    samples: int = 10_000
    """For zoos: number of images on which metrics are computed; half as many are held out.
    Interventions draw at most as many batches of images."""
    preset: str | None = None
    """A library whose numbers the metrics reproduce: disentanglement_lib, disent, carbonneau, latte, do2020 or drvi."""
    levels: tuple[str, ...] = ()
    """Of slots, codes [samples, slots, codes] in any order: names of the two levels of their structure.
    With --levels object property the factors have names such as cube.color."""
    slot_groups: int | None = None
    """Of slots: number of groups of equal length in which samples were drawn, one after the other; 1 by default."""
    csv: Path | None = None
    """CSV file to write, with one row per member: scores, those of each factor, and how they were computed."""
    json: Path | None = None
    """JSON file to write, with one list per column, the arrays behind scores, and how they were computed."""
    append: Path | None = None
    """CSV or Parquet file to which these rows are added, with the names of the files."""
    out: Path | None = None
    """Folder that keeps every number by content, for files of codes, and results.csv.
    A run that is stopped goes on from there, and a later one computes what is new: files, metrics, options."""
    executor: Executor = None
    by: str | None = None
    """With --out: the column by which the table on the terminal is sorted while it grows; the first one by default."""
    seed: int = 0
    """Random seed."""
    batch_size: int | None = None
    """Members per batch on each device; by default chosen by backend and memory."""
    on_memory: Literal["refuse", "skip"] = "refuse"
    """What becomes of metrics that need more memory than is free: skip leaves them out and says why."""
    deterministic: bool = False
    """Repeat scores bit by bit on a GPU, where some metrics then take longer."""
    cache: Cache = None

    def run(self) -> None:
        from jaxdis._core.options import Seed, checked_value, printable
        from jaxdis._core.table_files import matching, named_files
        from jaxdis.cli import _score_tables as tables
        from jaxdis.cli._metric_texts import options_in_words
        from jaxdis.evaluation._request import Null
        from jaxdis.evaluation._run import turns_of

        checked_value("--seed", Seed, self.seed)
        null = Null.of(self.null, weights=None)
        if self.groups is not None and self.levels:
            raise ValueError(f"--groups: the number of groups of slots is --slot-groups, got --groups {self.groups}")
        if self.list_options:
            terminal.write(options_in_words(self._plan()), wrap=False)
            return
        paths = matching(self.files)
        if self.out is not None:
            self._score_into(self.out, named_files(paths))
            return
        self._check_outputs(paths)
        terminal.start(self.cache)
        plan, named, several = self._plan(), named_files(paths), len(paths) > 1
        terminal.first_sign("scoring")
        file_scores, factors, refused, notes, said = {}, {}, {}, [], set()
        write = tables.now_and_then(lambda scores: self._write(scores, factors, several, last=False))
        at_once = not several or self.levels or self._metrics(plan) == "standard"
        whole = []  # the first groups, as long as they are few
        for number, some in enumerate([plan] if at_once else map(dict, turns_of(tuple(plan.items())))):
            notes.append([])
            left = {name: path for name, path in named.items() if name not in refused}
            for group in whole if number and len(whole) == 1 else self._groups(left, refused, several):
                first, *others = group
                if number == 0:
                    self._say_factors(group, factors)
                    whole = [*whole, group][:2]
                if several and number == 0 and group is whole[0]:
                    tables.say_seconds(group[first], plan, len(paths), self.bootstrap, null.count)
                try:
                    name = f"{first} and {len(others)} more" if others else first
                    with terminal.naming(name, said) if several else contextlib.nullcontext():
                        scored = self._scored(group, some, file_scores, write, several)
                except ValueError as error:
                    if not several:
                        raise
                    refused |= dict.fromkeys(group, str(error).removeprefix(f"{printable(named[first])}: "))
                    continue
                for name, scores in scored.items():
                    before = [file_scores[name]] if name in file_scores else []
                    file_scores[name] = tables.merged([*before, scores], plan)
                notes[-1].append((scored[first].notes, sum(len(scores.members) for scores in scored.values())))
                write(lambda: file_scores)
        if file_scores:
            for last in (False, True):
                self._write(file_scores, factors, several, last=last)  # before a terminal that may fail
            if self.append is not None:
                tables.append(self.append, file_scores, factors)
            tables.print_scores(file_scores, notes, several=several, out=self.csv)
        if refused:
            raise ValueError(_refusal(refused, len(paths)))

    def _check_outputs(self, paths: Sequence[Path]) -> None:
        """Check options that say what is written, before hours of scoring."""
        if self.executor is not None or self.by is not None:
            raise ValueError("--executor, --by: go with --out DIR, got none")
        outputs = {"--csv": self.csv, "--json": self.json, "--append": self.append}
        terminal.check_outputs(outputs, (*paths, self.factors, self.test))
        if self.append is not None and self.append.suffix not in (".csv", ".parquet"):
            raise ValueError(f"--append: must be a .csv or .parquet file, got {self.append}")
        if self.csv is not None and self.json is not None and self.csv.resolve() == self.json.resolve():
            raise ValueError(f"--json: must be another file than --csv, got {self.json}")

    @property
    def cells(self) -> str | None:
        """Where finished numbers are, below the folder."""
        return None if self.out is None else ""

    def _score_into(self, out: Path, named: Mapping[str, Path]) -> None:
        """Score files into a folder that keeps every number, here or by an executor."""
        from jaxdis.cli import _score_tables as tables
        from jaxdis.evaluation._kept import opened as store_of
        from jaxdis.evaluation._score_core import together
        from jaxdis.study import _given_codes as given_codes
        from jaxdis.study._executors import opened

        for name in ("csv", "json", "append", "levels", "slot_groups", "data"):
            if getattr(self, name) not in (None, ()):
                words = "results.csv is in the folder" if name in ("csv", "json", "append") else "files of codes alone"
                raise ValueError(f"--{name.replace('_', '-')}: must be left out with --out ({words})")
        terminal.start(self.cache)
        plan, folder = self._plan(), out.resolve()
        names = {"factors": "factors_path", "columns": "columns", "missing": "missing", "groups": "groups"}
        reading = {argument: getattr(self, name) for name, argument in names.items()}
        options = "bootstrap", "null", "batch_size", "on_memory", "deterministic"
        how, standard = {name: getattr(self, name) for name in options}, self._metrics(plan) == "standard"
        rest = self.test, self.seed, how, self.preset
        given = given_codes.Given(folder, tuple(plan.items()), standard, reading, *rest)
        store_of(folder)  # refuses one that holds something else, before anything is read
        terminal.first_sign("scoring")
        with opened(self.executor, self.cache) as executor, tables.growing(self.by, folder) as told:
            table = given_codes.score_given(given, named, executor, told)
        changed = given_codes.changed_files(folder, table)
        if table.members:
            table.write(folder)
            given_codes.write_files(given, named, table)
            columns = table.columns()
            tables.print_members(columns.pop("member"), columns)
            for line in together(table.notes()):
                terminal.write_sentence(line)
            terminal.write_line(f"table: {out / given_codes.TABLE}")
        if changed:
            words = f"{len(changed)} files hold other codes than in the last run and were scored anew"
            terminal.write_sentence(f"{words}: {', '.join(changed[:MOST_SAID])}{', …' * (len(changed) > MOST_SAID)}")
        if table.refused:
            raise ValueError(_refusal(table.refused, len(named)))

    def _plan(self) -> dict:
        from jaxdis.cli._metric_texts import plan_of_texts
        from jaxdis.metrics._plan import preset_metrics

        if self.preset is None:
            return plan_of_texts(self.metrics)
        words = self.metrics[0] if self.metrics in (("standard",), ("all",)) else self.metrics
        return preset_metrics(self.preset, words)

    def _write(self, file_scores: Mapping, factors: Mapping[str, str], several: bool, *, last: bool) -> None:
        """Write what has been scored: files every time, pipes only the last time."""
        from jaxdis._core.files import write_text
        from jaxdis.cli._score_tables import to_csv, to_json

        for path, text_of in ((self.csv, to_csv), (self.json, to_json)):
            if path is not None and last == (path.exists() and not path.is_file()):
                write_text(path, text_of(file_scores, factors, several=several))

    def _groups(self, paths: Mapping[str, Path], refused: dict[str, str], several: bool) -> Iterator[dict]:
        """Read files: a zoo's path alone, or the codes from files that can be scored as members in one zoo."""
        from jaxdis._core.files import is_zoo
        from jaxdis.evaluation._arrays_file import grouped, load_arrays, read_files

        def load(path):
            given = self.factors, self.columns, self.missing
            return path if is_zoo(path) else load_arrays(path, *given, slots=bool(self.levels), groups=self.groups)

        return grouped(read_files(paths, load, refused if several else None))

    def _say_factors(self, group: Mapping, factors: dict[str, str]) -> None:
        """Print how a group's factors were read, if no group before it had the same."""
        from jaxdis.evaluation._arrays_file import in_words

        first, arrays = next(iter(group.items()))
        if isinstance(arrays, Path):
            return
        words, known = in_words(arrays.factors), set(factors.values())
        if words not in known and len(known) == MOST_SAID:
            terminal.write("factors: of more files they are other ones again, as --csv and --json say")
        elif words not in known and len(known) < MOST_SAID:
            with contextlib.suppress(Exception):  # scores are computed for files even if nothing can be printed
                terminal.write_sentence(f"{first + ': ' if factors else ''}factors: {words}")
        factors |= dict.fromkeys(group, words)

    def _scored(self, group: Mapping, plan: Mapping, known: Mapping, write: Callable, several: bool) -> dict:
        """Scores by file name. A file's numbers do not depend on the others in its group."""
        import jax

        from jaxdis.cli._score_tables import in_brief
        from jaxdis.evaluation._arrays_file import together
        from jaxdis.evaluation._costs import said_before
        from jaxdis.evaluation._evaluate import evaluate
        from jaxdis.evaluation._run import stages_of

        key = jax.random.key(self.seed)
        how = {name: getattr(self, name) for name in ("bootstrap", "batch_size", "on_memory", "deterministic")}
        (name, first), *others = group.items()
        if isinstance(first, Path):
            kept_too = functools.partial(self._kept_too, names=[name], known=known, write=write)
            return {name: self._score_zoo(first, plan, key, how, kept_too)}
        if self.data is not None:
            raise ValueError(f"--data: goes with a zoo, got the codes of {terminal.one_line(name)}")
        if first.codes.ndim == 4 and self.groups is not None:
            raise ValueError(f"--groups: the number of groups of slots is --slot-groups, got --groups {self.groups}")
        if self.levels or first.codes.ndim == 4:
            for option, given in (("test", self.test), ("null", self.null), ("bootstrap", self.bootstrap)):
                if given not in (None, 0):
                    raise ValueError(f"--{option}: goes with codes without slots, got a file of slots")
            if self.metrics not in (("standard",), ("structured_slots",)):
                wanted = "structured_slots for a file of slots"
                raise ValueError(f"--metrics: must be {wanted}, got {' '.join(self.metrics)}")
            with terminal.bar("scoring", "members") as progress:
                return {name: score_slots(first, self.levels, self.slot_groups, key, progress, self.batch_size)}
        codes, variances, test = together(group, self.test)
        if others:
            how["numbers"] = [0] * len(group)  # each file is the member 0 that it would be alone
        stages = [tuple(dict(stage)) for stage in stages_of(tuple(plan.items()))]
        with terminal.latest_scores(stages, in_brief) as (arrived, bar):
            how |= {"arrived": self._kept_too(arrived, list(group), known, write), "progress": bar("members")}
            how |= {"null": self.null, "groups": first.groups}
            with said_before() if several else contextlib.nullcontext():
                scores = evaluate(codes, first.factors, self._metrics(plan), key, test=test, variances=variances, **how)
        if not others:
            return {name: scores}
        return {each: dataclasses.replace(scores[row], members=()) for row, each in enumerate(group)}  # numbered anew

    def _score_zoo(self, path: Path, plan: Mapping, key, how: Mapping, kept_too: Callable):
        from jaxdis._core.files import zoo_file
        from jaxdis.cli._score_tables import in_brief
        from jaxdis.encoders import evaluate_slots
        from jaxdis.encoders._evaluate_encoder import evaluate_encoder, names_in_turn
        from jaxdis.metrics._plan import STANDARD, STANDARD_OF_ENCODERS, plan_of
        from jaxdis.models import Slots, load

        own = own_pictures(self.data, self.factors) if self.data else None
        if self.data and own is None:
            raise ValueError(f"--data: must be folder:PATH, or left out for a zoo of a data set, got {self.data}")
        for name in ("test", "columns", "null", "groups", *(() if own else ("factors",))):
            if getattr(self, name) not in (None, 0, ()):
                raise ValueError(f"--{name}: goes with files of codes; a zoo encodes images of its own data set")
        zoo = load(zoo_file(path))
        standard = STANDARD if own else STANDARD_OF_ENCODERS
        of_zoo = dict(plan_of(standard)) if self._metrics(plan) == "standard" else plan
        if zoo.config.method.represents is Slots:
            metrics = "all" if self.metrics == ("standard",) else self.metrics
            given = {"source": zoo.config.source, "samples": self.samples // 2 * 2}  # in two groups
            return evaluate_slots(zoo, zoo.config.data, metrics, key, **given)
        data, source = own or zoo.config.data, zoo.config.source
        if own is None and data.startswith("folder:"):
            raise ValueError(f"--data: must be given for a zoo that was trained on {data}, together with --factors")
        samples = {"samples": self.samples, "test_samples": max(1, self.samples // 2)}
        with terminal.latest_scores(names_in_turn(of_zoo), in_brief) as (arrived, bar):
            how |= {"arrived": kept_too(arrived), "progress": bar("images encoded")}
            return evaluate_encoder(zoo, data, self._metrics(plan), key, source=source, **samples, **how)

    def _metrics(self, plan: Mapping) -> Mapping | str:
        """The standard metrics by that name: which these are depends on the factors and on interventions."""
        return "standard" if self.metrics == ("standard",) and self.preset is None else plan

    def _kept_too(self, told: Callable, names: list[str], known: Mapping, write: Callable):
        """A callback that also writes what has arrived of the files that are being scored, beside what is known."""
        if not (self.csv or self.json):
            return told
        from jaxdis.cli._score_tables import by_file, merged

        tables = []

        def all_known():
            found = by_file(tables, names)
            return {**known, **{n: merged([known[n], own]) if n in known else own for n, own in found.items()}}

        def write_too(scores):
            tables.append(scores)
            write(all_known)
            told(scores)

        return write_too


def _refusal(refused: Mapping[str, str], count: int) -> str:
    """What was wrong with some files, or with all alike."""
    if len(refused) == count and len(set(refused.values())) == 1:
        return next(iter(refused.values()))
    reasons = "; ".join(f"{name}: {words}" for name, words in refused.items())
    return f"{len(refused)} of {count} files were not scored: {reasons}"


def score_slots(arrays, levels: Sequence[str], groups: int | None, key, progress, batch_size: int | None):
    """Score a file's slots, codes ``[n, s, d]`` or ``[m, n, s, d]``, at each level of their structure.

    ``levels`` and ``groups`` are the shell's; the file's if empty and None.
    """
    import numpy as np

    from jaxdis._core.options import shown
    from jaxdis.encoders._evaluate_slots import named
    from jaxdis.evaluation._scores import Scores
    from jaxdis.structured import Structure, evaluate_structured

    codes, factors, layout = np.asarray(arrays.codes), arrays.factors, arrays.slots
    levels = tuple(levels or map(str, layout.get("levels", ())))
    groups = int(layout.get("groups", 1)) if groups is None else groups
    if len(levels) != 2 or codes.ndim not in (3, 4):
        must = "must be the two levels of slots [samples, slots, codes], such as object property"
        raise ValueError(f"--levels: {must}, got {' '.join(levels) or 'none'} for codes of shape {codes.shape}")
    labels = [tuple(name.split(".")) for name in factors.names]
    if odd := [name for name, parts in zip(factors.names, labels, strict=True) if len(parts) != 2]:
        raise ValueError(f"--levels: must go with factors named {'.'.join(levels)}, got {shown(odd[0])}; rename it")
    places = [(f"slot {s + 1}", f"dim {i + 1}") for s in range(codes.shape[-2]) for i in range(codes.shape[-1])]
    how = {"key": key, "groups": groups, "batch_size": batch_size, "progress": progress}
    how["background"] = str(layout.get("background", "")) or None
    how["categorical"] = tuple(map(str, layout.get("categorical", ())))
    scores = evaluate_structured(codes, factors, Structure.of(levels, places, labels), **how)
    kept = {name: part for name, part in scores.parts.items() if not name.startswith("probing.")}
    return named("structured_slots", Scores(scores.columns, kept, scores.factor_names))
