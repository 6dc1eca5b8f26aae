"""Sphinx configuration: MyST pages, numpydoc docstrings, API pages made by autosummary."""

from datetime import UTC, datetime

import gpclass

project = "gpclass"
author = "The gpclass developers"
copyright = f"{datetime.now(UTC).year}, {author}"
version = release = gpclass.__version__

# No intersphinx: the build must not need the network.
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_templates", "**/.DS_Store"]
templates_path = ["_templates"]

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# The class template lists the members itself.
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = f"gpclass {version}"
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_show_sourcelink = False
