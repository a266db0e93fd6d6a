"""What Sphinx needs to know about the site; ``make_site.py`` writes its pages and runs it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from locant.version import __version__

project = "Locant"
author = "The Locant developers"
project_copyright = author
version = release = __version__
language = "en"

extensions = ["myst_parser", "sphinx_copybutton", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "site_extension"]
highlight_language = "text"  # of a block that names none: mostly what was typed in a shell

# Markdown as GitHub reads it.
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_space = False
myst_dmath_allow_digits = False
myst_fence_as_directive = {"math"}
myst_heading_anchors = 6
html_math_renderer = "mathml"

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
maximum_signature_line_length = 88
add_module_names = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_preprocess_types = False

html_theme = "furo"
html_title = f"Locant {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_show_search_summary = False  # which a browser could not fetch from a folder
html_show_sphinx = False
html_theme_options = {
    # The palette of the figures, which people with any colour vision can tell apart.
    "light_css_variables": {"color-brand-primary": "#0072B2", "color-brand-content": "#005f94"},
    "dark_css_variables": {"color-brand-primary": "#56B4E9", "color-brand-content": "#6fc0ee"},
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div.highlight:not(.highlight-output *) pre"
pygments_style = "default"
pygments_dark_style = "github-dark"
