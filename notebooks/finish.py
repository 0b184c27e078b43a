"""What is done to all pages at the end: long entries fold, pictures and pages are described, search finds sections."""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

# Pages of packages, whose entries fold after their first paragraph, and pages whose sections fold.
FOLDED = re.compile(r"reference/api/")
FOLDED_SECTIONS = {"measurements": 2, "contributing": 2, "changelog": 3}
MOST_OF_A_DESCRIPTION = 160
# Signatures with more characters show so many, and all within what folds.
LONG_SIGNATURE, SHOWN_OF_IT = 120, 60
# Words by which notebooks, and tables that programs write, are found; other pages have them in directives.
TERMS = {
    "add_your_own": "custom metric, own metric, own loss, own objective, extend the library, plugin",
    "agreement": "compare libraries, reference implementation, validation against other libraries",
    "changelog": "changes, release notes, versions, what is new",
    "contributing": "contribute, development, run the tests, pull request",
    "every_metric": "table of metrics, range of a metric, cost of a metric",
    "growth": "scaling, complexity, large data",
    "how_sensitive": "number of bins, number of samples, sample size, choice of estimator",
    "measurements": "benchmark notes, floors",
    "properties": "planted cases, properties of metrics, rotation, redundancy",
    "score_a_sparse_autoencoder": "SAE, SAEs, sparse autoencoder, SAELens, wide SAE, dead latents, dead features, "
    "absorption, feature splitting, dictionary learning, monosemantic features",
    "stability": "backward compatibility, deprecation, API changes",
    "train_a_zoo": "β, beta, strength of β, reconstruction, latent traversal",
    "which_metric_should_i_trust": "metrics disagree, trust a metric, certificate",
    "which_slot_holds_which_object": "slots, object-centric, MONet, ARI",
    "words": "glossary, terms, definitions, notation",
    "your_own_arrays": "PyTorch codes, is it disentangled, Hinton diagram",
}


class Terms(SphinxTransform):
    """Put terms into the index, before Sphinx collects it."""

    default_priority = 800

    def apply(self) -> None:
        title = self.document.next_node(nodes.title)
        for term in (
            TERMS.get(self.env.docname, "").split(", ") if title is not None else ()
        ):
            if term:
                index = addnodes.index(
                    entries=[("single", term, title.parent["ids"][0], "main", None)]
                )
                title.parent.insert(1, index)


def setup(app) -> None:
    app.add_transform(Terms)
    app.connect("doctree-read", describe_pictures)
    app.connect("doctree-resolved", fold)
    app.connect("html-page-context", describe_page)


def describe_pictures(app, doctree) -> None:
    """Give pictures that say nothing the title of their section, as those that notebooks draw."""
    for image in doctree.findall(nodes.image):
        if image.get("alt", "") in ("", image["uri"]) or image["alt"].startswith(
            "../_images"
        ):
            section = image.parent
            while section is not None and not isinstance(section, nodes.section):
                section = section.parent
            title = (
                section.next_node(nodes.title).astext() if section is not None else ""
            )
            image["alt"] = f"Figure: {title}" if title else "Figure"


def fold(app, doctree, name: str) -> None:
    """Fold what follows the first paragraph of each function and class of a package, and sections of long pages."""
    for section in (
        list(doctree.findall(nodes.section)) if name in FOLDED_SECTIONS else ()
    ):
        if _depth(section) == FOLDED_SECTIONS[name] and len(section) > 1:
            section.insert(
                1, nodes.raw("", "<details><summary>Show</summary>", format="html")
            )
            section.append(nodes.raw("", "</details>", format="html"))
    if not FOLDED.match(name):
        return
    for content in list(doctree.findall(addnodes.desc_content)):
        outer = isinstance(content.parent.parent, nodes.section | nodes.document)
        signature = _shortened(content.parent) if outer else []
        if outer and (len(content) > 1 or signature):
            begin = "<details><summary>Arguments and more</summary>"
            content[1:1] = [nodes.raw("", begin, format="html"), *signature]
            content.append(nodes.raw("", "</details>", format="html"))


def _shortened(entry) -> list:
    """Cut a long list of arguments; what is returned shows all of them, an argument in a line."""
    arguments = entry.next_node(addnodes.desc_parameterlist)
    if arguments is None or len(arguments.astext()) <= LONG_SIGNATURE:
        return []
    whole = _joined([argument.astext() for argument in arguments])
    name = entry.next_node(addnodes.desc_name).astext()
    listed = "".join(f"    {', '.join(parts)},\n" for parts in whole).replace(
        ", )", ",)"
    )
    shown, length = 0, 0
    for parts in whole:
        length += len(", ".join(parts)) + 2
        if length > SHOWN_OF_IT:
            break
        shown += len(parts)
    del arguments[shown:]
    arguments.append(addnodes.desc_parameter("", "", addnodes.desc_sig_name("", "…")))
    text = f"{name}(\n{listed})"
    return [nodes.literal_block(text, text, language="text")]


def _joined(parts: list[str]) -> list[list[str]]:
    """Sphinx cuts arguments at each comma where a default is not Python, also within parentheses."""
    arguments: list[list[str]] = []
    depth = 0
    for part in parts:
        if depth == 0:
            arguments.append([])
        arguments[-1].append(part)
        depth += sum(part.count(sign) for sign in "([{")
        depth -= sum(part.count(sign) for sign in ")]}")
    return arguments


def _depth(node) -> int:
    return 0 if node is None else isinstance(node, nodes.section) + _depth(node.parent)


def describe_page(app, name: str, template: str, context: dict, doctree) -> None:
    """Describe a page by its first paragraph, for search engines and previews of links."""
    if name == "search":
        app.add_js_file("find.js")
    if doctree is None:
        return
    paragraphs = (paragraph.astext() for paragraph in doctree.findall(nodes.paragraph))
    text = " ".join(
        next(
            (text for text in paragraphs if len(text) > 30), context.get("title", "")
        ).split()
    )
    if len(text) > MOST_OF_A_DESCRIPTION:
        text = text[:MOST_OF_A_DESCRIPTION].rpartition(" ")[0] + " …"
    text = text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    title = re.sub("<.*?>", "", context.get("title", ""))
    tags = f'<meta name="description" content="{text}"><meta property="og:title" content="{title}">'
    tags += f'<meta property="og:description" content="{text}"><meta property="og:type" content="website">'
    context["metatags"] = context.get("metatags", "") + tags
