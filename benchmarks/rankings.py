"""How many samples a ranking of models needs: ``python -m benchmarks.rankings FOLDER`` trains, scores and counts.

On each of three data sets, 45 perceptrons (three objectives, five strengths, three seeds) are trained on pictures that
are 32 pixels wide. Their ranking by each metric on a few samples is compared with that on many others. This takes an
hour on two cores; the same command resumes it, since trainings have checkpoints and scores are kept in the folder.
With ``--page FILE`` it writes the page of the results.
"""

import argparse
import itertools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxdis
from jaxdis._core.files import write_json, write_text
from jaxdis.metrics._plan import lower_is_better

SWEEP = {
    "beta": {"beta": [0.02, 0.25, 1.0, 2.0, 4.0], "learning_rate": 1e-3},
    "beta_tc": {"beta": [2.0, 4.0, 8.0, 16.0, 32.0], "learning_rate": 1e-3},
    "dip_ii": {"lambda_off_diagonal": [0.3, 1.0, 1.7, 3.0, 10.0], "learning_rate": 1e-3},
}
SEEDS, UPDATES = 3, 5_000
DATA = ("dsprites", "shapes3d", "teapots")
TRAINED_ON, LARGE = 10_000, 5_000
# Samples, and how many times so many are drawn from those that the large ranking does not use.
DRAWS = {100: 5, 300: 5, 1000: 5, 2500: 2, 5000: 1}
BINS = 10
METRICS = (
    "mig", "mig_sup", "dcimig", "med", "modularity", "sap", "sap_r2", "mcc", "explicitness", "dci_forest",
    "dci_logistic", "dci_lasso", "r2_linear", "linear_probe", "edi", "jemmig",
)  # fmt: skip
VARIANTS = {f"{name}, {bins} bins": (name, {"bins": bins}) for name in ("mig", "modularity") for bins in (10, 40)}
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


def scores_of(codes, factors, store: Path) -> dict[str, dict[int, np.ndarray]]:
    """Of each column, the scores ``[draws, 45]`` by how many samples; under 0 those on the other samples."""
    plan = {name: jaxdis.METRICS[name] for name in METRICS}
    plan |= {name: jaxdis.METRICS[of].with_options(**options) for name, (of, options) in VARIANTS.items()}
    found: dict[str, dict[int, list]] = {}
    rows = [(0, np.arange(LARGE))]
    for count, draws in DRAWS.items():
        for draw in range(draws):
            order = np.random.default_rng(draw).permutation(LARGE)[:count]
            rows.append((count, LARGE + np.sort(order)))
    for count, chosen in rows:
        given = codes[:, chosen], factors.take(jnp.asarray(chosen))
        scores = jaxdis.evaluate(*given, plan, 0, store=store, progress=True)
        for column, values in scores.items():
            found.setdefault(column, {}).setdefault(count, []).append(values)
    return {column: {count: np.array(values) for count, values in of.items()} for column, of in found.items()}


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


def summary(scores: dict[str, dict[str, dict[int, np.ndarray]]]) -> dict:
    """By column: τ at each number of samples, and the samples needed with a 95 % interval over models and draws."""
    rng, rows = np.random.default_rng(0), {}
    columns = [column for column in scores[DATA[0]] if all(column in scores[data] for data in DATA)]
    for column in columns:
        of_data = {}
        for data in DATA:
            large = scores[data][column][0][0]
            if not np.isfinite(large).all() or np.ptp(large) == 0:
                continue
            chosen = rng.integers(0, len(large), (RESAMPLES, len(large)))
            chosen[0] = np.arange(len(large))
            taus = {}
            for count, draws in DRAWS.items():
                each = np.stack([agreement(scores[data][column][count][draw], large, chosen) for draw in range(draws)])
                picked = rng.integers(0, draws, (draws, RESAMPLES))
                picked[:, 0] = np.arange(draws)
                taus[count] = np.take_along_axis(each, picked, axis=0).mean(0)
            of_data[data] = taus
        if of_data:
            mean = {count: np.mean([taus[count] for taus in of_data.values()], axis=0) for count in DRAWS}
            ends = {data: needed(taus) for data, taus in (*of_data.items(), ("all", mean))}
            rows[column] = {
                "tau": {str(count): round(float(values[0]), 3) for count, values in mean.items()},
                "needed": {data: interval(values) for data, values in ends.items()},
                "error": lower_is_better(column),
            }
    return rows


def interval(values: np.ndarray) -> list[float | None]:
    """The value on all models, and the 2.5 and 97.5 % quantiles over resamples; None for more than were tried."""
    ends = [values[0], *np.quantile(values, [0.025, 0.975], method="nearest")]
    return [None if np.isinf(end) else float(f"{end:.2g}") for end in ends]


def agreements_between(scores: dict) -> dict[str, float]:
    """Kendall's τ between the large rankings by two columns, the mean over data sets."""
    found, whole = {}, np.arange(len(next(iter(scores[DATA[0]].values()))[0][0]))[None]
    for one, other in itertools.combinations(("mig", "sap", "dci_forest.disentanglement", "modularity", "mcc"), 2):
        signs = [float(agreement(scores[d][one][0][0], scores[d][other][0][0], whole)[0]) for d in DATA]
        found[f"{one}, {other}"] = round(float(np.mean(signs)), 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    record = Path(__file__).with_suffix(".json")
    if arguments.page is None:
        scores = {}
        for data in DATA:
            codes, factors, _ = codes_of(data, arguments.folder)
            scores[data] = scores_of(codes, factors, arguments.folder / "scores")
        write_json(record, {"columns": summary(scores), "between": agreements_between(scores)})
        return
    write_text(arguments.page, page(json.loads(record.read_text())))


PROSE = """# How many samples does a ranking need?

```{{index}} ! how many samples, ! stability of rankings, ! Kendall's tau of rankings, ! minimum sample size
```

Models are ranked by a metric on some samples. Would other samples rank them alike? On each of three data sets
({data}), {models} autoencoders were trained (perceptrons on pictures 32 pixels wide: β-VAE, β-TCVAE and DIP-VAE-II,
five strengths, three seeds). Their ranking on few samples is compared with that on {large:,} others, by Kendall's
τ-b, the mean over draws and data sets. *Needed* is from how many samples on τ is at least {enough}, on a line over
logarithms between the numbers that were tried, with a 95 % interval over models and draws; "more" means more than
{most:,}. Columns in brackets are the three data sets apart.

{table}

{rows} columns in all. {sentences}

These are models of one kind, after {updates:,} updates, and factors with up to 40 classes; teapots' continuous
factors are cut into ten. A ranking of models that differ less needs more samples. The numbers are repeated by

```sh
python -m benchmarks.rankings FOLDER
```

which takes an hour on two cores, may be stopped, and keeps scores in FOLDER/scores: {{doc}}`thousands`. To see what
your own models need, call `jaxdis.sample_curve(codes, factors, "mig")`, or `jaxdis.sensitivity` with `samples=`.

Next: {{doc}}`how_sensitive`
"""


def page(record: dict) -> str:
    """The table of all columns, those that need the fewest samples first, and what follows."""
    rows = sorted(record["columns"].items(), key=lambda row: -sum(row[1]["tau"].values()))
    counts = [str(count) for count in DRAWS]
    head = ["column", *(f"τ at {int(count):,}" for count in counts), "needed", *(f"({data})" for data in DATA)]
    lines = [
        [
            f"`{name}`" if "," not in name else name,
            *(f"{row['tau'][count]:.2f}".replace("0.", ".", 1) for count in counts),
            in_words(row["needed"]["all"]),
            *(in_words(row["needed"][data]).split(" ")[0] if data in row["needed"] else "" for data in DATA),
        ]
        for name, row in rows
    ]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines))
    enough = [name for name, row in rows if (row["needed"]["all"][0] or np.inf) <= 1000]
    never = [name for name, row in rows if row["needed"]["all"][0] is None]
    between = [f"| `{pair.replace(', ', '` and `')}` | {value:.2f} |" for pair, value in record["between"].items()]
    sentences = [
        f"With 1,000 samples, {len(enough)} of them rank models as {LARGE:,} others do; {len(never)} do not with "
        f"{max(DRAWS):,}.",
        f"Rankings by two metrics agree less, on all {LARGE:,}:\n\n| metrics | τ |\n| --- | --- |",
    ]
    words = " ".join(sentences) + "\n" + "\n".join(between)
    return PROSE.format(
        data=", ".join(DATA), models=SEEDS * sum(len(next(iter(s.values()))) for s in SWEEP.values()), large=LARGE,
        enough=ENOUGH, most=max(DRAWS), table=table, rows=len(rows), sentences=words, updates=UPDATES,
    )  # fmt: skip


def in_words(ends: list[float | None]) -> str:
    """``420 (300 to 900)``."""
    value, low, high = (f"{end:,.0f}" if end is not None else "more" for end in ends)
    return f"{value} ({low} to {high})"


if __name__ == "__main__":
    main()
