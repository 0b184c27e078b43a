"""What is done to all pages at the end: long entries fold, pictures and pages are described, search finds sections."""

import re

from docutils import nodes
from sphinx import addnodes

# Pages of packages, whose entries fold after their first paragraph, and the changelog, whose sections do.
FOLDED = re.compile(r"reference/api/")
MOST_OF_A_DESCRIPTION = 160


def setup(app) -> None:
    app.connect("doctree-read", describe_pictures)
    app.connect("doctree-resolved", fold)
    app.connect("html-page-context", describe_page)


def describe_pictures(app, doctree) -> None:
    """Give pictures that say nothing the title of their section, as those that notebooks draw."""
    for image in doctree.findall(nodes.image):
        if image.get("alt", "") in ("", image["uri"]) or image["alt"].startswith("../_images"):
            section = image.parent
            while section is not None and not isinstance(section, nodes.section):
                section = section.parent
            title = section.next_node(nodes.title).astext() if section is not None else ""
            image["alt"] = f"Figure: {title}" if title else "Figure"


def fold(app, doctree, name: str) -> None:
    """Fold what follows the first paragraph of each function and class of a package."""
    if not FOLDED.match(name):
        return
    for content in list(doctree.findall(addnodes.desc_content)):
        outer = isinstance(content.parent.parent, nodes.section | nodes.document)
        if outer and len(content) > 1:
            content.insert(1, nodes.raw("", "<details><summary>Arguments and more</summary>", format="html"))
            content.append(nodes.raw("", "</details>", format="html"))


def describe_page(app, name: str, template: str, context: dict, doctree) -> None:
    """Describe a page by its first paragraph, for search engines and previews of links."""
    if name == "search":
        app.add_js_file("find.js")
    if doctree is None:
        return
    paragraphs = (paragraph.astext() for paragraph in doctree.findall(nodes.paragraph))
    text = " ".join(next((text for text in paragraphs if len(text) > 30), context.get("title", "")).split())
    if len(text) > MOST_OF_A_DESCRIPTION:
        text = text[:MOST_OF_A_DESCRIPTION].rpartition(" ")[0] + " …"
    text = text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    title = re.sub("<.*?>", "", context.get("title", ""))
    tags = f'<meta name="description" content="{text}"><meta property="og:title" content="{title}">'
    tags += f'<meta property="og:description" content="{text}"><meta property="og:type" content="website">'
    context["metatags"] = context.get("metatags", "") + tags
