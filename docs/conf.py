"""Settings of Sphinx: sphinx-build -E -n -W --keep-going -c docs . build/html.

The source is the whole repository, so that links work here as they do on a repository host. Neither
the build nor the pages load anything from the network. Examples of the gallery run unless you give
-D plot_gallery=0.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import PyXRefRole
from sphinx.errors import SphinxError

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from docs import other_hosts, outline  # noqa: E402
from scstream import __version__  # noqa: E402

TITLES = {"README.md": "Start", outline.GALLERY: "Examples"}  # instead of long titles of pages

project = "scstream"
author = "The scstream contributors"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "benchmarks/results/*.md"]
exclude_patterns = ["docs/_*", "docs/decisions/0000-template.md", "benchmarks/.cache", ".venv*"]
nitpicky = True
smartquotes = False
templates_path = [str(ROOT / "docs/_templates")]

html_theme = "pydata_sphinx_theme"
html_title = f"scstream {version}"
html_static_path = ["_static"]
html_css_files = ["scstream.css"]
html_additional_pages = {"index": "front.html"}
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"docs/index": [], "README": [], "CHANGELOG": [], "CONTRIBUTING": []}
html_theme_options = {
    "collapse_navigation": True,
    "footer_end": [],
    "footer_start": ["copyright"],
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "pygments_dark_style": "github-dark-colorblind",
    "pygments_light_style": "github-light-colorblind",
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
}

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block"]

autosummary_generate = True
autosummary_imported_members = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
maximum_signature_line_length = 88
autodoc_inherit_docstrings = False  # a method of a family is described where `Family` declares it
autodoc_type_aliases = {name: name for name in ("Array", "Labels", "Rows", "Position", "Positions")}
default_role = "known"

numpydoc_show_class_members = False
# Checks of every docstring. Not used: SA01 and ES01 (sections that are not always needed), PR03 and
# PR04 (arguments are keywords, and types may be in the signature only), PR08, RT02 and SS05
# (wording).
numpydoc_validation_checks = {
    *("GL01", "GL02", "GL03", "GL05", "GL06", "GL07", "GL09", "GL10"),
    *("SS01", "SS02", "SS03", "SS04", "SS06"),
    *("PR02", "PR05", "PR06", "PR07", "PR09", "PR10"),
    *("RT03", "RT04", "RT05", "SA02", "SA03", "SA04"),
}
numpydoc_validation_exclude = {r"\.__init__$"}
# Further checks of the names in reference/api (tests/docs/test_api.py): every argument and the
# result are described, and there is an example.
NAMES_HAVE = {"PR01", "RT01", "YD01", "EX01"}


if any((ROOT / "examples").glob("*.py")):
    extensions.append("sphinx_gallery.gen_gallery")
sphinx_gallery_conf = {
    "abort_on_example_error": True,
    "backreferences_dir": None,
    "download_all_examples": False,
    "examples_dirs": [str(ROOT / "examples")],
    "filename_pattern": r"\.py",
    "gallery_dirs": ["docs/auto_examples"],
    "image_scrapers": ("docs.gallery.scrape",),
    "show_memory": False,
    "show_signature": False,
    "within_subsection_order": "FileNameSortKey",
    "write_computation_times": False,
}


class KnownNames(PyXRefRole):
    """Role of single backticks: a link if the name is documented, otherwise code."""

    def result_nodes(
        self, document: nodes.document, env: Any, node: nodes.Element, is_ref: bool
    ) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Make a reference to any Python name, which may be missing."""
        node.attributes |= {"refdomain": "py", "reftype": "obj", "may_be_missing": True}
        return [node], []


def missing_reference(app: Any, env: Any, node: pending_xref, content: nodes.TextElement) -> Any:
    """Leave names in single backticks as they are, and types in signatures, often inner ones.

    Other projects are not linked: the build needs no network.
    """
    is_type = node.get("refdomain") == "py" and "refwarn" not in node
    return content if is_type or node.get("may_be_missing") else None


def add_contents(app: Any, docname: str, source: list[str]) -> None:
    """Add tables of contents to the pages of the outline."""
    paths = {name: os.path.relpath(app.env.doc2path(name), ROOT) for name in app.env.found_docs}
    found = outline.children(paths[docname], sorted(paths.values()))
    if found:
        entries = "\n".join(map(entry, found))
        source[0] += f"\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"
    if docname == root_doc:
        source[0] = source[0].replace("\n- ", "\n{.outline}\n- ", 1)
        if outline.GALLERY in paths.values():
            source[0] = source[0].replace("../examples/README.rst", "auto_examples/index.rst")


def entry(page: str) -> str:
    """Return one line of a table of contents."""
    name = "/" + re.sub(r"\.(md|rst)$", "", page)
    return f"{TITLES[page]} <{name}>" if page in TITLES else name


def skip_member(
    app: Any, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Skip methods that scikit-learn adds to every estimator."""
    function = getattr(member, "fget", member)
    is_sklearn = str(getattr(function, "__module__", "")).startswith("sklearn.")
    return True if is_sklearn or re.fullmatch(r"set_\w+_request", name) else None


def check_hosts(app: Sphinx, failed: Exception | None) -> None:
    """Fail if a page loads something from another host."""
    found = [] if failed else list(other_hosts.strangers(Path(app.outdir)))
    if found:
        raise SphinxError("; ".join(found))


def setup(app: Sphinx) -> None:
    """Connect the functions above to Sphinx."""
    shutil.rmtree(ROOT / outline.GENERATED, ignore_errors=True)  # remove pages of deleted names
    outline.write_sections()
    app.add_lexer("screen", TextLexer)
    app.add_role("known", KnownNames())
    app.connect("missing-reference", missing_reference)
    app.connect("source-read", add_contents)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("build-finished", check_hosts)
