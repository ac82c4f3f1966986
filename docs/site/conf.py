"""Sphinx configuration of the documentation site (`make docs`)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import fmpair

project = "fmpair"
author = "the authors of fmpair"
copyright = "the authors of fmpair, MIT licence"
release = version = fmpair.__version__

extensions = ["sphinx.ext.autodoc", "myst_nb", "sphinx_design", "pages", "docstrings", "names"]
exclude_patterns = ["site"]
root_doc = "index"
nitpicky = True
suppress_warnings = ["config.cache"]  # these settings contain functions

# Pages are plain Markdown that is readable without Sphinx too.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
highlight_language = "none"  # for code without a language, such as commands
pygments_style = "a11y-high-contrast-light"

# Notebooks run when the site is built; a failing cell fails the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # seconds of a cell, on busy machines where nothing is compiled yet
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "separated"
python_use_unqualified_type_names = True
default_role = "code"
add_module_names = False  # pages show where to import from
# Types of other libraries have no link: the site is built without a network.
nitpick_ignore_regex = [
    (r"py:.*", r"(np|numpy|pl|polars|typing|collections|pathlib|datetime|numba|os)\..*"),
    (r"py:.*", r"(Any|Callable|Iterable|Iterator|Mapping|Sequence|Path|NDArray|TypeVar|Self)"),
    (r"py:.*", r"Packed"),  # arrays of compiled ranking, which users never hold
]

html_theme = "pydata_sphinx_theme"
html_title = "fmpair"
html_static_path = ["static"]
html_favicon = "../../src/fmpair/serve/page/icon.svg"  # shared with the web page of a service
templates_path = ["templates"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).parent / "static" / "scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "fmpair"},
    "navbar_end": ["theme-switcher"],
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
html_sidebars = {"index": [], "search": []}
