"""How many samples a ranking of models needs: ``python -m benchmarks.rankings FOLDER`` trains, scores and counts.

On each of three data sets, 45 perceptrons (three objectives, five strengths, three seeds) are trained on pictures that
are 32 pixels wide. Their ranking by each column on a few samples is compared with that on many others. This takes two
hours on a core; the same command resumes it, since trainings have checkpoints and scores are kept in the folder. The
scores are written to ``rankings.npz``; ``--page FILE`` writes the page of what follows from them, with its figures.
"""

import argparse
import functools
import itertools
import textwrap
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np

import jaxdis
from jaxdis import plots
from jaxdis._core.files import read_arrays, write_arrays, write_text
from jaxdis.metrics._plan import lower_is_better

RECORD = Path(__file__).with_suffix(".npz")
SWEEP = {
    "beta": {"beta": [0.02, 0.25, 1.0, 2.0, 4.0], "learning_rate": 1e-3},
    "beta_tc": {"beta": [2.0, 4.0, 8.0, 16.0, 32.0], "learning_rate": 1e-3},
    "dip_ii": {"lambda_off_diagonal": [0.3, 1.0, 1.7, 3.0, 10.0], "learning_rate": 1e-3},
}
SEEDS, UPDATES = 3, 5_000
DATA = ("dsprites", "shapes3d", "teapots")
TRAINED_ON, LARGE = 10_000, 5_000
BINS = 10
# Samples, and how many times so many are drawn from those that the large ranking does not use. With few, classes are
# missing, and programs are compiled for each draw.
DRAWS = {100: 2, 300: 2, 1000: 3, 2500: 2, 5000: 1}
# Rows whose learners take a second a model are scored on fewer draws, and those that take longer on none.
SLOW_DRAWS = {100: 2, 300: 2, 1000: 2, 2500: 1}
SLOW = ("linear_probe", "dci_forest")
LEFT_OUT = ("dci", "dci_es", "downstream_trees", "mlp_probe", "nk", "structured", "unibound")
QUICK = tuple(name for name in jaxdis.METRICS if name not in {*SLOW, *LEFT_OUT})
BINNED = ("mig", "mig_sup", "dcimig", "modularity")
# What the figures show.
CURVES = (
    "mcc", "mig", "mig_ksg", "modularity", "dci_forest.disentanglement", "explicitness", "linear_probe",
    "edi.modularity", "irs", "sap",
)  # fmt: skip
MAPPED = (
    "mig", "mig, 10 bins", "mig, 40 bins", "mig_ksg", "modularity", "modularity, 10 bins", "modularity, 40 bins",
    "mcc", "sap", "sap_r2", "dci, histogram.disentanglement", "dci_forest.disentanglement",
    "dci_logistic.disentanglement", "dci_lasso.disentanglement", "edi.modularity", "explicitness", "linear_probe",
    "snc", "irs",
)  # fmt: skip
BY_BINS = [[name, f"{name}, 10 bins", f"{name}, 40 bins"] for name in ("mig", "modularity")]
HOURS = "two"
# A ranking is taken for that of many samples when Kendall's τ between both is at least this.
ENOUGH = 0.9
RESAMPLES = 500


def drawn(data: str, count: int, seed: int) -> tuple[np.ndarray, jaxdis.Factors]:
    """Pictures, uint8 ``[count, 32, 32, channels]``, and their factors, continuous ones cut into classes."""
    space, render = getattr(jaxdis.data, data)()
    rows = space.sample(jax.random.key(seed), count)

    @jax.jit
    def halved(rows):
        images = jnp.asarray(render(rows), jnp.float32)
        return jnp.round(255 * images.reshape(-1, 32, 2, 32, 2, images.shape[-1]).mean((2, 4))).astype(jnp.uint8)

    images = np.concatenate([np.asarray(halved(part)) for part in np.split(np.asarray(rows), count // 500)])
    factors = space.wrap(rows)
    return images, factors.binned(BINS) if None in factors.sizes else factors


def codes_of(data: str, folder: Path) -> tuple[np.ndarray, jaxdis.Factors, tuple[dict, ...]]:
    """The models' codes ``[45, 2 × LARGE, 8]`` on pictures that none was trained on."""
    network = jaxdis.models.Mlp(hidden=(64, 64), num_codes=8)
    method = jaxdis.models.Vae(objective=tuple(SWEEP), network=network, batch_size=32)
    config = jaxdis.models.Config(data=f"{data}, 32 x 32", method=method, steps=UPDATES)
    members = jaxdis.models.members(SWEEP, SEEDS, jaxdis.models.Vae)
    how = {"directory": folder / data, "checkpoint_every": 1000, "progress": True}
    zoo = jaxdis.models.train(config, *members, data=drawn(data, TRAINED_ON, 0)[0], **how)
    images, factors = drawn(data, 2 * LARGE, 1)
    return np.asarray(zoo.encode(images).mean), factors, zoo.labels


def plans() -> list[tuple[dict, dict[int, int]]]:
    """Metrics by the column's name, with how many draws they are scored on; quick ones first."""
    quick = {name: jaxdis.METRICS[name] for name in QUICK}
    for bins in (10, 40):
        quick |= {f"{name}, {bins} bins": jaxdis.METRICS[name].with_options(bins=bins) for name in BINNED}
    histogram = {"dci, histogram": jaxdis.METRICS["dci"].with_options(splitter="histogram")}
    slow = [histogram, *({name: jaxdis.METRICS[name]} for name in SLOW)]
    return [(quick, DRAWS), *((plan, SLOW_DRAWS) for plan in slow)]


def scores_of(codes, factors, plan: dict, draws: dict[int, int], store: Path) -> dict[str, np.ndarray]:
    """Of each column the scores ``[1 + draws, 45]``: on the large part first, then on draws from the other."""
    parts = [np.arange(LARGE)]
    for count, seed in drawings(draws):
        parts.append(LARGE + np.sort(np.random.default_rng(seed).permutation(LARGE)[:count]))
    given = [(codes[:, chosen], factors.take(jnp.asarray(chosen))) for chosen in parts]
    scores = [jaxdis.evaluate(*each, plan, 0, store=store, progress=True) for each in given]
    return {column: np.array([each[column] for each in scores], np.float32) for column in scores[0]}


def drawings(draws: dict[int, int]) -> list[tuple[int, int]]:
    """Samples and seed of each draw."""
    return [(count, seed) for count, times in draws.items() for seed in range(times)]


def agreement(one: np.ndarray, other: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Kendall's τ-b between two rankings ``[m]`` for each resample of members ``[resamples, m]``."""
    signs = [
        np.sign(scores[:, None] - scores[None, :])[chosen[:, :, None], chosen[:, None, :]] for scores in (one, other)
    ]
    both, first, second = ((a * b).sum((1, 2)) for a, b in [signs, signs[:1] * 2, signs[1:] * 2])
    return both / np.sqrt(np.maximum(first * second, 1))


def needed(taus: dict[int, np.ndarray]) -> np.ndarray:
    """From how many samples on τ is enough, for each resample, between the counts on a line over their logarithms."""
    counts = np.log(sorted(taus))
    means = np.stack([taus[count] for count in sorted(taus)])
    found, enough = np.full(means.shape[1], np.inf), np.ones(means.shape[1], bool)
    for row in reversed(range(len(counts))):
        enough &= means[row] >= ENOUGH
        below = means[row - 1] if row else means[row]
        share = np.clip((ENOUGH - below) / np.maximum(means[row] - below, 1e-9), 0, 1)
        step = (1 - share) * (counts[row] - counts[row - 1]) if row else 0.0
        found = np.where(enough, np.exp(counts[row] - step), found)
    return found


def taus_of(scores: np.ndarray, rng: np.random.Generator) -> dict[int, np.ndarray] | None:
    """By samples, τ with the large ranking, the mean over draws; first of all models, then of resamples of both."""
    draws = {1 + len(drawings(draws)): draws for draws in (DRAWS, SLOW_DRAWS)}[len(scores)]
    large, taus = scores[0], {}
    if not np.isfinite(large).all() or np.ptp(large) == 0:
        return None
    chosen = rng.integers(0, len(large), (RESAMPLES, len(large)))
    chosen[0] = np.arange(len(large))
    for count, times in draws.items():
        rows = [row for row, (each, _) in enumerate(drawings(draws), 1) if each == count]
        each = np.stack([agreement(scores[row], large, chosen) for row in rows])
        picked = rng.integers(0, times, (times, RESAMPLES))
        picked[:, 0] = np.arange(times)
        taus[count] = np.take_along_axis(each, picked, axis=0).mean(0)
    return taus


class Row(NamedTuple):
    """A column: τ at each number of samples, the mean over data sets, and from how many samples on it is enough."""

    name: str
    taus: dict[int, np.ndarray]
    needed: dict[str, list[float]]


def rows_of(record: dict[str, np.ndarray]) -> list[Row]:
    """Columns that rank models on each data set, those that need the fewest samples first."""
    rng, rows = np.random.default_rng(0), []
    for column in dict.fromkeys(name.split("/")[1] for name in record):
        taus = {data: taus_of(record[f"{data}/{column}"], rng) for data in DATA if f"{data}/{column}" in record}
        if len(taus) == len(DATA) and None not in taus.values():
            mean = {count: np.mean([each[count] for each in taus.values()], axis=0) for count in taus[DATA[0]]}
            ends = {data: interval(needed(each)) for data, each in ({"all": mean} | taus).items()}
            rows.append(Row(column, mean, ends))
    return sorted(rows, key=lambda row: (row.needed["all"][0], -row.taus[1000][0]))


def interval(values: np.ndarray) -> list[float]:
    """The value on all models, and the 2.5 and 97.5 % quantiles over resamples; infinite for more than were tried."""
    return [values[0], *np.quantile(values, [0.025, 0.975], method="nearest")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    if arguments.page is not None:
        write_page(arguments.page, read_arrays(RECORD)[1])
        return
    record, given = {}, {data: codes_of(data, arguments.folder) for data in DATA}
    for plan, draws in plans():
        for data in DATA:
            scores = scores_of(*given[data][:2], plan, draws, arguments.folder / "scores")
            record |= {f"{data}/{column}": values for column, values in scores.items()}
        write_arrays(RECORD, {}, record)


PROSE = """# How many samples does a ranking need?

```{{index}} ! how many samples, ! stability of rankings, ! Kendall's tau of rankings, ! minimum sample size
```

Models are ranked by a metric on some samples. Would other samples rank them alike? On each of three data sets
({data}), {models} autoencoders were trained (perceptrons on pictures 32 pixels wide: β-VAE, β-TCVAE and DIP-VAE-II,
five strengths, three seeds). Their ranking on few samples is compared with that on {large:,} others, by Kendall's
τ-b, the mean over draws and data sets. *Needed* is from how many samples on τ is at least {enough}, on a line over
logarithms between the numbers that were tried, with a 95 % interval over models and draws. ">" means more than were
tried, and "≤" that the fewest suffice. Columns in brackets are the three data sets apart.

{table}

{sentences}

![τ with the ranking on other samples grows with their number, for {curves} columns.](_static/{stem}_samples.svg)

The bands are one standard deviation over resamples of the models. Which metric, bins or learner is chosen changes a
ranking as well. {words} τ between columns on the {large:,} samples, in hundredths, the mean over data sets:

![A matrix of numbers, one row and one column for each of {mapped} columns.](_static/{stem}_between.svg)

These are models of one kind, after {updates:,} updates, and factors with up to 40 classes; teapots' continuous
factors are cut into ten. A ranking of models that differ less needs more samples. {left_out} The numbers are repeated
by

```sh
python -m benchmarks.rankings FOLDER
python -m benchmarks.rankings --page notebooks/rankings.md
```

which takes {hours} CPU hours, may be stopped, and keeps scores in FOLDER/scores: {{doc}}`thousands`. All scores of the
models are in `benchmarks/rankings.npz`. To see what your own models need, call
`jaxdis.sample_curve(codes, factors, "mig")`, or `jaxdis.sensitivity` with `samples=`.

Next: {{doc}}`how_sensitive`
"""


def write_page(path: Path, record: dict[str, np.ndarray]) -> None:
    """The table of all columns, what follows, and two figures beside the page."""
    rows = rows_of(record)
    counts = sorted(set(DRAWS))
    head = ["column", "needed", *(f"({data})" for data in DATA), *(f"τ at {count:,}" for count in counts)]
    lines = [
        [
            f"`{row.name}`" if "," not in row.name else row.name,
            in_words(row, "all"),
            *(in_words(row, data).split(" ")[0] for data in DATA),
            *(tau_in_words(row.taus.get(count, [np.nan])[0]) for count in counts),
        ]
        for row in rows
    ]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines))
    enough = sum(row.needed["all"][0] <= 1000 for row in rows)
    never = sum(np.isinf(row.needed["all"][0]) for row in rows)
    sentences = (
        f"Of {len(rows)} columns, {enough} rank models with 1,000 samples as {LARGE:,} others do, and {never} do not "
        "with as many as were tried."
    )
    curves, mapped = ([name for name in names if f"{DATA[0]}/{name}" in record] for names in (CURVES, MAPPED))
    taus = {row.name: row.taus for row in rows}
    shown = {name: taus[name] for name in curves}
    common = sorted(set.intersection(*(set(each) for each in shown.values())))
    values = {name: np.stack([each[count] for count in common]) for name, each in shown.items()}
    figure = plots.curves(common, values, "samples", "τ with the ranking on other samples")
    figure.axes[0].set(xscale="log", xticks=common, xticklabels=[f"{count:,}" for count in common])
    figure.axes[0].axhline(ENOUGH, color="gray", lw=0.8, ls=":")
    save(figure, path, "samples")
    whole = np.arange(len(record[f"{DATA[0]}/{mapped[0]}"][0]))[None]
    between = [
        [np.mean([agreement(*(sign(n) * record[f"{d}/{n}"][0] for n in pair), whole)[0] for d in DATA]) for pair in row]
        for row in ([(one, other) for other in mapped] for one in mapped)
    ]
    save(plots.rank_map(between, mapped), path, "between")
    left_out = f"Not among the columns are {', '.join(f'`{name}`' for name in LEFT_OUT)}: their learners take longest."
    alike = [
        [between[mapped.index(one)][mapped.index(other)] for one, other in itertools.combinations(group, 2)]
        for group in (BY_BINS[0], BY_BINS[1], [name for name in mapped if name.startswith("dci")])
    ]
    words = (
        f"Numbers of bins matter least (at least {min(alike[0] + alike[1]):.2f} for MIG and modularity). DCI's "
        f"learners agree by {min(alike[2]):.2f} to {max(alike[2]):.2f}; metrics that ask different questions hardly do."
    )
    page = PROSE.format(
        data=", ".join(DATA), models=SEEDS * sum(len(next(iter(s.values()))) for s in SWEEP.values()), large=LARGE,
        enough=ENOUGH, table=table, sentences=sentences, updates=UPDATES, stem=path.stem, left_out=left_out,
        curves=len(curves), mapped=len(mapped), hours=HOURS, words=words,
    )  # fmt: skip
    wrapped = functools.partial(textwrap.fill, width=120, break_on_hyphens=False)
    paragraphs = [part if part[0] in "#|`!" else wrapped(part) for part in page.split("\n\n")]
    write_text(path, "\n\n".join(paragraphs).rstrip() + "\n")


def sign(column: str) -> int:
    """−1 for errors, which are best when they are low."""
    return -1 if lower_is_better(column.split(",")[0]) else 1


def save(figure, page: Path, name: str) -> None:
    """Write a figure beside a page, the same bytes for the same numbers."""
    with matplotlib.rc_context({"svg.hashsalt": "0"}):
        figure.savefig(page.parent / f"_static/{page.stem}_{name}.svg", metadata={"Date": None}, bbox_inches="tight")


def in_words(row: Row, data: str) -> str:
    """``420 (300 to 900)``."""
    fewest, most = min(row.taus), max(row.taus)

    def words(end: float) -> str:
        if np.isinf(end):
            return f">\u00a0{most:,}"
        return f"≤\u00a0{fewest}" if end < 1.001 * fewest else f"{float(f'{end:.2g}'):,.0f}"

    return "{} ({} to {})".format(*map(words, row.needed[data]))


def tau_in_words(tau: float) -> str:
    """``.87``; nothing where a score is not defined for some models, or was not computed."""
    return "" if np.isnan(tau) else f"{tau:.2f}".replace("0.", ".", 1)


if __name__ == "__main__":
    main()
