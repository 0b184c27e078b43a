"""Build the documentation: ``pip install ".[docs,plots]" && sphinx-build -W notebooks build/site``, open index.html.

Pages of metrics, relations, scores, methods, data sets, papers and packages, and the gallery, are written from the
library itself by ``pages.py``, into ``notebooks/reference``, which is not kept. Notebooks are shown with the outputs
that they hold. ``finish.py`` folds long entries and describes pages and pictures.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import finish  # noqa: E402
import jaxdis  # noqa: E402
import pages  # noqa: E402

project, author, version = "jaxdis", "the jaxdis authors", jaxdis.__version__
project_copyright = author
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"jaxdis {version}"
html_show_sourcelink = False
html_use_index = False  # the search has its entries
html_static_path = ["_static"]
html_css_files = ["site.css"]
exclude_patterns = ["**.ipynb_checkpoints", "_static"]
nb_execution_mode = "off"
# Nothing is loaded from elsewhere: widgets would be.
nb_ipywidgets_js = {}
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_custom_sections = list(pages.SECTIONS)
napoleon_use_ivar = True
napoleon_use_rtype = False
# Roles name private modules too, which have no page; links lead to files of the repository, too.
suppress_warnings = [
    "myst.header",
    "myst.xref_missing",
    "ref.python",
    "mystnb.unknown_mime_type",
]


def setup(app):
    pages.write(HERE / "reference")
    app.connect("autodoc-process-docstring", pages.escape)
    app.connect("autodoc-process-signature", pages.shorten)
    finish.setup(app)
