"""Extension of Sphinx: formulas as MathML, records as plain files, images on cards, and blocks that show output."""

from __future__ import annotations

import posixpath
import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from pygments.lexers.special import TextLexer
from sphinx import addnodes
from sphinx.application import Sphinx

_THIN = '<mspace width="0.17em"></mspace>'


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what Sphinx asks for."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.add_lexer("output", TextLexer)
    app.connect("doctree-read", _plain_files, priority=100)  # before Sphinx notes what to download
    app.connect("doctree-read", _cards)
    app.connect("build-finished", _copy_files)
    app.connect("env-purge-doc", lambda app, env, page: _files(env).pop(page, None))
    app.connect("env-merge-info", lambda app, env, pages, other: _files(env).update(_files(other)))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node.astext(), block=False))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def mathml(formula: str, *, block: bool) -> str:
    """Return a formula in LaTeX as MathML, with thin spaces around the names of functions: ``2 sin a``."""
    text = tex2mathml(formula, as_block=block)
    text = re.sub(r"(<mo>&ApplyFunction;</mo>)(?!\s*<m(?:row|o)\b)", rf"\1{_THIN}", text)
    return re.sub(r"(</\w+>)(\s*<mi>\w+</mi>\s*<mo>&ApplyFunction;)", rf"\1{_THIN}\2", text)


def _files(env: Any) -> dict[str, set[str]]:
    """Return the files that pages link to, by page."""
    if not hasattr(env, "locant_files"):
        env.locant_files = {}
    return env.locant_files


def _plain_files(app: Sphinx, tree: nodes.document) -> None:
    """Turn links to files into plain links: they open in the browser, under the name they have."""
    page = app.env.current_document.docname
    for link in list(tree.findall(addnodes.download_reference)):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link["reftarget"]))
        _files(app.env).setdefault(page, set()).add(target)
        plain = nodes.reference("", "", *link.children, refuri=link["reftarget"], internal=True)
        link.replace_self(plain)


def _cards(app: Sphinx, tree: nodes.document) -> None:
    """Put every image that stands alone on a card, which scrolls where the page is narrow."""
    for paragraph in list(tree.findall(nodes.paragraph)):
        if len(paragraph) == 1 and isinstance(paragraph[0], nodes.image):
            paragraph.replace_self(nodes.container("", paragraph[0], classes=["figure-card"]))


def _copy_files(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        for file in sorted(set().union(*_files(app.env).values())):
            target = Path(app.outdir, file)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path(app.srcdir, file), target)
