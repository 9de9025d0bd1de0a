"""Sphinx configuration: Markdown pages, the API from the docstrings, no network when the pages are read."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

from iclab import __version__

project = "ICLab"
author = "The ICLab authors"
project_copyright = "2026, the ICLab authors"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
# A page of theory may start a section two levels down.
suppress_warnings = ["myst.header"]
# Docstrings put names in single backquotes.
default_role = "code"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"ICLab {release}"
html_copy_source = False
html_math_renderer = "mathml"


def setup(app: Sphinx) -> None:
    """Formulas as MathML, which browsers draw by themselves: MathJax would be fetched from the network."""

    def inline(writer, node: nodes.math) -> None:
        writer.body.append(convert(node.astext()))
        raise nodes.SkipNode

    def block(writer, node: nodes.math_block) -> None:
        formula = convert(node.astext(), display="block")
        writer.body.append(f'<div style="margin: 1em 0; padding: 0.3em 0; overflow: auto hidden">{formula}</div>')
        raise nodes.SkipNode

    app.add_html_math_renderer("mathml", (inline, None), (block, None))
