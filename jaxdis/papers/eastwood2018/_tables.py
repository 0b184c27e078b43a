"""Tables 1, 3, 4 and 5 of Eastwood & Williams 2018 from the published cells of a study, next to the printed numbers."""

from collections.abc import Iterator, Sequence

from jaxdis.papers.eastwood2018._published import FACTORS, Printed, printed
from jaxdis.study._definition import Member
from jaxdis.study._store import Store, number

REGRESSORS = {"lasso": ("1a", "3", "5a"), "forest": ("1b", "4", "5b")}


def name_of(label: dict) -> str:
    """The paper's name of a member's model: ``pca``, ``vae``, ``beta_vae`` or ``infogan``."""
    if label["model"] != "resnet_vae":
        return label["model"]
    return "vae" if label["beta"] == 1 else "beta_vae"


def scores_of(store: Store, member: Member) -> dict[str, dict]:
    """What the metrics of a member found, by metric: numbers, and lists of them."""
    found: dict[str, dict] = {}
    for score in member.scores:
        result = store.result("score", score)
        for name, value in {**result["columns"], **result["parts"]}.items():
            metric, _, field = name.partition(".")
            found.setdefault(metric, {})[field or "score"] = value
    return found


def rows_of(store: Store, members: Sequence[Member]) -> list[dict]:
    """One row per printed number: table, model, seed, regressor, quantity, what it is of, ours and the published."""
    rows = []
    for member in members:
        scores, model = scores_of(store, member), name_of(member.label)
        for regressor in REGRESSORS:
            of_paper = printed(regressor, model)
            head = {"model": model, "seed": member.label["seed"], "regressor": regressor}
            both = scores[regressor], scores[f"{regressor}_unseen"]
            for table, quantity, of, ours, published in _entries(regressor, *both, of_paper):
                known = "" if published is None else published
                entry = {"table": table, **head, "quantity": quantity, "of": of, "ours": number(ours)}
                rows.append({**entry, "published": known})
    return rows


def _entries(regressor: str, seen: dict, unseen: dict, printed: Printed | None) -> Iterator[tuple]:
    first, full, zero_shot = REGRESSORS[regressor]
    codes = [f"c{i}" for i in range(len(seen["per_code"]))]

    def means(table: str):
        yield table, "disentanglement", "mean", seen["disentanglement"], printed and printed.disentanglement
        yield table, "completeness", "mean", seen["completeness"], printed and printed.completeness
        yield table, "error", "mean", seen["score"], printed and printed.mean_error

    def each(table: str, quantity: str, names, ours, published):
        for place, name in enumerate(names):
            is_printed = published is not None and place < len(published)
            yield table, quantity, name, ours[place], published[place] if is_printed else None

    yield from means(first)
    yield from each(f"{full}a", "disentanglement", codes, seen["per_code"], printed and printed.per_code)
    yield from each(f"{full}b", "completeness", FACTORS, seen["per_factor"], printed and printed.per_factor)
    yield from each(f"{full}c", "error", FACTORS, seen["error"], printed and printed.error)
    yield from each(zero_shot, "error", FACTORS, unseen["error"], printed and printed.unseen)
    yield zero_shot, "error", "mean", unseen["score"], printed and printed.mean_unseen
