"""What the calls on the pages of metrics print: ``python notebooks/outputs.py`` writes ``outputs.json``.

The call is that of ``CALL``, for all metrics at once, which gives the same numbers as one after the other.
"""

import json
from pathlib import Path

import jaxdis

RECORD = Path(__file__).with_name("outputs.json")
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


if __name__ == "__main__":
    text = json.dumps(computed(list(jaxdis.METRICS)), indent=1, ensure_ascii=False)
    RECORD.write_text(text + "\n", encoding="utf-8")
