"""Run the Python of pages where the package is installed, at small sizes: ``python .ci/readme.py README.md …``."""

import re
import sys
from pathlib import Path

SMALLER = {"steps=3000": "steps=20", "seeds=3": "seeds=1", "(10_000, 3)": "(500, 3)", "10_000, 10": "500, 10"}

for page in map(Path, sys.argv[1:]):
    text = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    for size, smaller in SMALLER.items():
        text = text.replace(size, smaller)
    exec(compile(text, page.name, "exec"), {})
