"""What the calls on the pages of metrics print, and what their figures show, of all models of the example.

``python notebooks/outputs.py`` writes ``outputs.json`` and ``zoo.json``. The call is that of ``CALL``, for all metrics
at once, which gives the same numbers as one after the other.
"""

import json
from pathlib import Path

import jaxdis

RECORD = Path(__file__).with_name("outputs.json")
ZOO = Path(__file__).with_name("zoo.json")
# β-VAE with β = 1 and 4, β-TCVAE with β = 16, and DIP-VAE-II with 10.
MODELS = [4, 8, 16, 28]
CALL = f"""import jaxdis

codes, factors, table = jaxdis.data.example()
four = {MODELS}  # β-VAE with β = 1 and 4, β-TCVAE, DIP-VAE-II
scores = jaxdis.evaluate(codes[four], factors, "NAME")
for name, column in scores.items():
    print(name, *(f"{{score:.2f}}" for score in column))
"""


def computed(names: list[str]) -> dict[str, str]:
    """What the call prints for each metric."""
    codes, factors, _ = jaxdis.data.example()
    scores = jaxdis.evaluate(codes[MODELS], factors, names)
    lines = {name: [] for name in names}
    for name, column in scores.items():
        lines[name.metric].append(
            " ".join([name, *(f"{score:.2f}" for score in column)])
        )
    return {name: "\n".join(each) for name, each in lines.items()}


def of_zoo(names: list[str]) -> dict[str, list[float]]:
    """Each column of some metrics, for all models: three digits, which are enough for a figure.

    Models of the call have the numbers that they have there, by which random numbers are drawn.
    """
    codes, factors, _ = jaxdis.data.example()
    numbers = list(range(len(codes)))
    for place, model in enumerate(MODELS):
        numbers[place], numbers[model] = model, place
    scores = jaxdis.evaluate(codes, factors, names, numbers=numbers)
    return {
        name: [float(f"{score:.3g}") for score in column]
        for name, column in scores.items()
    }


def record() -> None:
    """Write both files."""
    text = json.dumps(computed(list(jaxdis.METRICS)), indent=1, ensure_ascii=False)
    RECORD.write_text(text + "\n", encoding="utf-8")
    write_zoo(of_zoo(list(jaxdis.METRICS)))


def write_zoo(columns: dict[str, list[float]]) -> None:
    """A line per column."""
    lines = (
        f" {json.dumps(column)}: {json.dumps(numbers)}"
        for column, numbers in columns.items()
    )
    ZOO.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    record()
