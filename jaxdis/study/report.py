"""One HTML page of a study: pictures inlined, text escaped, nothing fetched from anywhere."""

import base64
import html
import json
import platform
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxdis
from jaxdis.data.show import traversals as factor_traversals
from jaxdis.evaluate import relate
from jaxdis.models.traversal import reconstructions, traversals
from jaxdis.scores import independent_groups
from jaxdis.study import analyse
from jaxdis.study.correlation import rank_correlation
from jaxdis.study.grid import Member, Study, cells
from jaxdis.study.make import member_zoo, samples_of
from jaxdis.study.store import Store, publish

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:62rem;padding:1rem;color:#1a1a1a}
h1{line-height:1.2}h2{margin-top:2.5rem;border-top:1px solid #ddd;padding-top:1rem}
img{max-width:100%;height:auto}.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .6rem;border-bottom:1px solid #e5e5e5;text-align:right;white-space:nowrap}
th{cursor:pointer;position:sticky;top:0;background:#fff}td:first-child,th:first-child{text-align:left}
nav ul{columns:2;padding-left:1.2rem}pre{background:#f6f6f6;padding:1rem;overflow-x:auto;font-size:.8rem}
@media(max-width:40rem){nav ul{columns:1}body{font-size:15px}}
@media print{nav{display:none}h2{break-after:avoid}img,table{break-inside:avoid}}
"""

_SORT = """
for(const head of document.querySelectorAll('th'))head.onclick=()=>{const body=head.closest('table').tBodies[0],
i=head.cellIndex,sign=head.dataset.sign=-(head.dataset.sign||1);[...body.rows].sort((a,b)=>{
const x=a.cells[i].innerText,y=b.cells[i].innerText;
return sign*(isNaN(x)||isNaN(y)?y.localeCompare(x):y-x)}).forEach(row=>body.append(row))};
"""


def write_report(study: Study, out: str | Path) -> Path:
    """Write ``report.html`` into a study's directory from its published cells and ``results.csv``."""
    from jaxdis.study import plots

    store, members = Store(out), list(cells(study))
    table = analyse.read_results(store.root / "results.csv")
    scores = [name for name, _ in study.metrics]
    names = [name for name in table if name.split(".")[0] in scores]
    strength = analyse.strengths(table)
    best = _best(table, names)
    sections = [
        ("Scores", _scores(table, names, plots, strength)),
        ("How metrics agree", _agreement(table, names, plots)),
        ("What explains a score", _explained(table, names)),
        ("Training", _training(study, store, members, plots)),
        (f"The member with the best {best[0]}", _closer(study, store, members[best[1]], plots)),
        ("All members", _table([*_labels(table), *names], table)),
        ("Configuration", _configuration(study)),
    ]
    path = store.root / "report.html"
    publish(path, _page(study.title or study.name, sections).encode(), replace=True)
    return path


def _page(title: str, sections: Sequence[tuple[str, str]]) -> str:
    links = "".join(f'<li><a href="#s{i}">{html.escape(name)}</a></li>' for i, (name, _) in enumerate(sections))
    bodies = "".join(f'<h2 id="s{i}">{html.escape(name)}</h2>{body}' for i, (name, body) in enumerate(sections))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style><h1>{html.escape(title)}</h1>"
        f'<nav><ul>{links}</ul></nav><p>All numbers: <a href="results.csv">results.csv</a></p>{bodies}'
        f"<script>{_SORT}</script></html>\n"
    )


def _scores(table, names, plots, strength) -> str:
    text = (
        f"<p>{len(table['id'])} members. Each point is a member; lines join the means of each strength. Strengths are"
        " ordered from weakest to strongest within each objective.</p>"
    )
    return text + _image(plots.scores_by_strength(table, strength, names), "scores against strength")


def _agreement(table, names, plots) -> str:
    matrix = rank_correlation(table, names)
    text = "<p>Spearman rank correlation of metrics over all members, in hundredths.</p>"
    return text + _image(plots.rank_map(matrix, names), "rank correlations of metrics")


def _explained(table, names) -> str:
    rows = {"metric": [], "objective": [], "objective × strength": []}
    for name in names:
        share = analyse.variance_explained(table, name)
        rows["metric"].append(name)
        rows["objective"].append(share.objective)
        rows["objective × strength"].append(share.objective_and_strength)
    columns = {name: np.array(values) for name, values in rows.items()}
    return (
        "<p>Share of each score's variance over members that the objective explains, and the objective with its"
        " strength; the rest is the seed's.</p>" + _table(list(columns), columns)
    )


def _training(study, store, members: Sequence[Member], plots) -> str:
    parts = []
    for position in range(len(study.trainings)):
        mine = [member for member in members if member.training == position]
        zoos = [member_zoo(store, member) for member in mine]
        labels = [_name(member.label) for member in mine]
        for field in ("reconstruction", "kl"):
            curves = [np.asarray(getattr(zoo.losses, field))[0] for zoo in zoos]
            parts.append(
                _image(plots.loss_curves(curves, labels, zoos[0].log_every, f"{field}, nats"), f"{field} loss")
            )
    return "".join(parts)


def _closer(study, store, member: Member, plots) -> str:
    """Relation, groups, reconstructions and traversals of one member."""
    zoo = member_zoo(store, member)
    training = study.trainings[member.training]
    data = training.config.data
    factors, render = samples_of(training, study.sampling)
    arrays = store.arrays("encode", member.encode)
    relation = relate(arrays["mean"], factors, "mutual_information")
    groups = jax.jit(independent_groups)(relation)
    shares = np.asarray(relation.strength) / np.asarray(relation.ceiling)
    images = np.asarray(render(factors.values[:10], jax.random.key(0)))
    pairs = reconstructions(zoo, images)[0]
    walked = traversals(zoo, images[:1], num_values=9)[0, 0]
    spread = arrays["mean"].std(axis=0)
    parts = [
        f"<p>{html.escape(_name(member.label))}, seed {member.label['seed']}.</p>",
        "<h3>What each code knows of each factor</h3>",
        "<p>Area: mutual information as a share of the factor's entropy.</p>",
        _image(plots.hinton(shares, factors.names), "Hinton diagram of the relation"),
        "<h3>Independent groups</h3>",
        _image(plots.groups_curve(*map(np.asarray, (groups.threshold, groups.groups, groups.discovered))), "groups"),
        "<h3>Images and what the member makes of them</h3>",
        _image(plots.image_grid(pairs.transpose(1, 0, 2, 3, 4), ("image", "made")), "reconstructions"),
        "<h3>Each code from −2 to 2</h3><p>With the standard deviation of its mean over the samples.</p>",
        _image(plots.image_grid(walked, [f"code {i} ({s:.2f})" for i, s in enumerate(spread)]), "latent traversals"),
    ]
    if data != "multi_dsprites":
        space = _space(data)
        sheet = np.asarray(render(jnp.asarray(factor_traversals(space, jax.random.key(0), 9)), jax.random.key(0)))
        parts += ["<h3>The data: each factor traversed</h3>", _image(plots.image_grid(sheet, space.names), "the data")]
    return "".join(parts)


def _space(data: str):
    from jaxdis import data as sets

    return getattr(sets, data)()[0]


def _configuration(study: Study) -> str:
    versions = {"jaxdis": jaxdis.__version__, "jax": jax.__version__, "python": platform.python_version()}
    text = json.dumps({"versions": versions, **study.describe()}, indent=1, ensure_ascii=False, default=str)
    return f"<pre>{html.escape(text)}</pre>"


def _table(names: Sequence[str], columns) -> str:
    head = "".join(f"<th>{html.escape(str(name))}</th>" for name in names)
    rows = zip(*(columns[name] for name in names), strict=True)
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value) -> str:
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.4g}"
    return html.escape(str(value))


def _labels(table) -> list[str]:
    first = next((name for name in table if name.startswith("final_")), None)
    names = list(table)
    return [name for name in names[: names.index(first)] if name != "id"] if first else names[1:4]


def _best(table, names: Sequence[str]) -> tuple[str, int]:
    """The metric that chooses the member shown (MIG if there), and that member's row."""
    name = "mig" if "mig" in names else names[0]
    return name, int(np.nanargmax(table[name])) if np.isfinite(table[name]).any() else 0


def _name(label: dict) -> str:
    settings = ", ".join(f"{key} {value:g}" for key, value in label.items() if key not in ("objective", "seed"))
    return f"{label['objective']} {settings}"


def _image(png: bytes, alt: str) -> str:
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return f'<p class="wide"><img alt="{html.escape(alt)}" src="{source}"></p>'
