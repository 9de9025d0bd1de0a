"""Sphinx configuration: Markdown pages, the API from the docstrings, no network when the pages are read."""

from iclab import __version__

project = "ICLab"
author = "The ICLab authors"
project_copyright = "2026, the ICLab authors"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
# A page of theory may start a section two levels down; `console` has no lexer for prompts with comments.
suppress_warnings = ["myst.header"]
# Docstrings put names in single backquotes.
default_role = "code"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"ICLab {release}"
html_copy_source = False
