"""What can be held of the language: verbs first, short sentences, few nouns in chains, American spelling."""

import ast
import importlib
import inspect
import json
import re
from pathlib import Path

import pytest

import jaxdis
from tests.test_public import public_modules

ROOT = Path(__file__).parent.parent
PACKAGES = [
    "codes", "data", "data.synthetic", "encoders", "evaluation", "metrics", "models", "papers", "plots", "relations",
    "scores", "structured", "study",
]  # fmt: skip
VERBS = re.compile(
    "Add|Assign|Average|Bend|Bound|Choose|Classify|Combine|Compare|Compute|Correlate|Count|Declare|Decode|Draw|Estimate|"
    "Explain|Find|Fit|Join|Keep|Knock|Load|Make|Mask|Measure|Mix|Predict|Present|Put|Rank|Read|Render|Run|Score|Set|"
    "Show|Sum|Take|Tell|Train|Wrap"
)
BRITISH = re.compile(
    r"\b(colour\w*|behaviour\w*|neighbour\w*|centre[ds]?|grey\w*|favour\w*|analysed?|modelling|travell\w*|"
    r"(?:normal|optim|random|regular|general|summar|initial|visual|minim|maxim|categor|recogn|organ|factor|standard)is"
    r"(?:e|ed|es|ing|ation|ations)|licence\w*|catalogue\w*|programme\w*|artefact\w*|whilst|towards)\b",
    re.IGNORECASE,
)
# "of" per 100 words, at most. What docstrings have goes down only; where "of" reads best, it is right.
MOST_OF = {"README.md": 3.5, "CHANGELOG.md": 3.5, "docstrings": 2.0, "public docstrings": 2.0}
MOST_WORDS = 40


def plain(text: str) -> str:
    """Markdown without code, tables, headings, pictures and addresses."""
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"^(\||#|!\[|<|:::|\[).*$", "\n", text, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def texts() -> dict[str, str]:
    """Prose by the name of its file; all docstrings together."""
    found = {name: plain((ROOT / name).read_text()) for name in ("README.md", "CHANGELOG.md")}
    found |= {path.name: plain(path.read_text()) for path in sorted((ROOT / "notebooks").glob("*.md"))}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = (cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "markdown")
        found[path.name] = plain("\n\n".join("".join(cell["source"]) for cell in cells))
    found["docstrings"] = "\n\n".join(docstrings())
    found["public docstrings"] = "\n\n".join(public_docstrings())
    return found


def docstrings() -> list[str]:
    """Docstrings of the package, without the examples."""
    kinds = (ast.FunctionDef, ast.ClassDef, ast.Module)
    trees = (ast.parse(path.read_text()) for path in sorted((ROOT / "jaxdis").rglob("*.py")))
    found = (ast.get_docstring(node) for tree in trees for node in ast.walk(tree) if isinstance(node, kinds))
    return [without_examples(text) for text in found if text]


def public_docstrings() -> list[str]:
    """Docstrings of public functions, classes and their public methods, without the examples."""
    modules = [importlib.import_module(name) for name in public_modules()]
    public = [getattr(module, name) for module in modules for name in module.__all__]
    things = {id(one): one for one in public if inspect.isclass(one) or inspect.isfunction(one)}.values()
    kinds = [
        kind for thing in things if inspect.isclass(thing) for kind in thing.__mro__ if "jaxdis" in kind.__module__
    ]
    members = [one for kind in dict.fromkeys(kinds) for name, one in vars(kind).items() if name[0] != "_"]
    methods = [one for one in members if inspect.isfunction(one) or isinstance(one, classmethod | property)]
    return [without_examples(inspect.getdoc(one)) for one in (*things, *methods) if one.__doc__]


def without_examples(text: str) -> str:
    return re.sub(r"^ *(>>>|\.\.\.).*$", "", text, flags=re.MULTILINE)


def words_in(text: str) -> list[str]:
    return re.findall(r"[A-Za-z][A-Za-z'-]*", re.sub(r"`[^`]*`", " x ", text))


def sentences(text: str) -> list[str]:
    """Sentences; items of lists, entries for arguments and parts before a semicolon or a colon count as such."""
    text = re.sub(r":\w+:`[^`]*`|``?[^`]*``?", "x", text)
    paragraphs = re.split(r"\n\s*\n|\n\s*[-*] |\n\s*(?=[\w, ]{1,60}: )|^\s*(?:=|\|).*$", text, flags=re.MULTILINE)
    return [part for one in paragraphs for part in re.split(r"(?<=[.!?:;])\s+", " ".join(one.split()))]


@pytest.fixture(scope="module")
def prose():
    return texts()


def test_docstrings_of_public_functions_begin_with_a_verb():
    modules = [jaxdis, *(importlib.import_module(f"jaxdis.{name}") for name in PACKAGES)]
    public = [getattr(module, name) for module in modules for name in module.__all__]
    firsts = [inspect.getdoc(function).split()[0] for function in public if inspect.isfunction(function)]
    assert len(firsts) > 150
    others = [first for first in firsts if not VERBS.fullmatch(first)]
    assert len(others) <= 0.05 * len(firsts), others


@pytest.mark.parametrize("name", MOST_OF)
def test_few_nouns_hang_on_each_other(prose, name):
    words = words_in(prose[name])
    assert 100 * sum(word == "of" for word in words) / len(words) <= MOST_OF[name]


def test_public_docstrings_name_what_is_public():
    modules = [importlib.import_module(name).__doc__ for name in public_modules()]
    named = [name for text in (*public_docstrings(), *modules) for name in re.findall(r":\w+:`~?([\w.]+)`", text)]
    assert len(named) > 200
    assert not [name for name in named if "._" in name]


def test_sentences_are_short(prose):
    said = [(name, one) for name, text in prose.items() for one in sentences(text) if "Σ" not in one]
    long = [(name, one) for name, one in said if len(one.split()) > MOST_WORDS]
    assert not long, "\n".join(f"{name}: {one}" for name, one in long)


def test_spelling_is_american(prose):
    found = [(name, match.group()) for name, text in prose.items() for match in BRITISH.finditer(text)]
    assert not found
