"""Sphinx configuration: MyST pages, numpydoc docstrings, API pages made by autosummary."""

from datetime import UTC, datetime
from pathlib import Path

from sphinx.ext import autosummary

import gpclass

# The first sentence of a docstring goes on after these.
autosummary.WELL_KNOWN_ABBREVIATIONS = (*autosummary.WELL_KNOWN_ABBREVIATIONS, "eq.")

project = "gpclass"
author = "The gpclass developers"
copyright = f"{datetime.now(UTC).year}, {author}"
version = release = gpclass.__version__

# No intersphinx: the build must not need the network; nor the pages, for their formulas.
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_gallery.gen_gallery",
    "numpydoc",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = [
    "_build",
    "_templates",
    "**/.DS_Store",
    "sg_execution_times.rst",
    "**/sg_execution_times.rst",
]
# Quotes and dashes are those of code: "--inference mcmc" is typed as it stands.
smartquotes = False
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]

# The exercises are on a page of their own, docs/exercises.md.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py",
    "ignore_pattern": r"rw06_",
    "min_reported_time": 1e9,
    "show_signature": False,
    "download_all_examples": False,
    "abort_on_example_error": True,
}

autosummary_generate = True
# Beside a class's page are the names of its methods, without that of the class.
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# The class template lists the members itself.
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

REPRODUCTION = Path(__file__).parent / "reproduction"
html_theme = "pydata_sphinx_theme"
html_title = f"gpclass {version}"
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "footer_end": [],
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    # No table of contents beside wide tables.
    "secondary_sidebar_items": {"**": ["page-toc"]}
    | {
        page: []
        for page in (
            "index", "research", "methods", "truth", "quality", "benchmarks", "multiclass",
            "learning-objectives", "notation", "gallery/index",
            *(f"reproduction/{path.stem}" for path in REPRODUCTION.glob("*.md")),
        )
    },
}  # fmt: skip
# Pages without pages below them have no navigation of their section.
html_sidebars = {page: [] for page in ("index", "tutorial", "search", "genindex")}
html_show_sourcelink = False
